tdp-run -m qwen1.5-moe-a2.7b -c cpu -p tiny-single
