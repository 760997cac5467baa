tdp-calibrate --import tests/data/import/kineto.json
