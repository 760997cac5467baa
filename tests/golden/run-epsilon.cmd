tdp-run -m tiny -c cpu -p tiny-single --epsilon 0
