tdp-run -m mixtral-8x7b -c cpu -p tiny-single
