tdp-run -m tiny -c cpu -p tiny-single --loss-scale 0
