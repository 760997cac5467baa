tdp-calibrate --import tests/data/import/megatron.log
