echo "{\"zero_stag\": 1}" | tdp-sim --model tiny --cluster dgx --plan -
