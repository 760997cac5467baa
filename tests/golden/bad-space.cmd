tdp-plan --model tiny --cluster cpu --space nvme
