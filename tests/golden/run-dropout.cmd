tdp-run -m gpt2 -c cpu -p tiny-single
