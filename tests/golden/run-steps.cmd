tdp-run -m tiny -c cpu -p tiny-single --steps 0
