tdp-calibrate --import README.md
