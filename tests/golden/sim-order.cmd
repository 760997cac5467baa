tdp-sim --model llama-2-13b --cluster aws-p3-16xlarge --plan llama-13b-near-stages --ranks all --straggler 5=1.5 | grep -E "^plan|^step|^time|^  *[0-3] .* s|data parallel|pipeline "
