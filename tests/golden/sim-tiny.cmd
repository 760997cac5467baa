tdp-sim --model tiny.json --cluster dgx.json --plan tiny-1f1b.json --collectives
