tdp-run -m tiny -c cpu -p tiny-1f1b
