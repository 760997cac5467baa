tdp-calibrate --import tests/data/import/torchtitan.log
