tdp-calibrate --fit tests/data/import/megatron.log
