tdp-run -m tiny -c cpu -p tiny-single --check 0
