tdp-calibrate --import tests/data/import/nccl-tests.json
