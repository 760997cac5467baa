sed "s/\"interleaved\"/\"zb-h1\"/; /virtual/d" plans/gpt3-128.json >$TMP/p.json && tdp-sim --model gpt3 --cluster dgx --plan $TMP/p.json | grep ^plan
