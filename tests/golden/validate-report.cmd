tdp-validate --rows tests/data/tdp-run.json
