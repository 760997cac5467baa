tdp-run -m tiny -c cpu -p tiny-single --initial-loss-scale 1024
