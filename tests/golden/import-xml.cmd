tdp-calibrate --import tests/data/import/topo-a100.xml --gpu a100-sxm4-80gb
