tdp-sim --model tiny-moe --cluster cpu --plan tiny-ep2 --ops --collectives --json
