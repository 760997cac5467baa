p() { tdp-plan -m llama-3.1-8b -c "$1" -g 8 -b 64 --framework nemo-2026-08 --top 1 --precision "$2" 2>&1 | grep -E '^(software|plan |tdp-plan)'; }
p hgx-b200 fp8:mxfp8
p dgx-h100 fp8:mxfp8
p dgx-h100 fp8:current
p dgx-h100 fp8
p dgx-h100 fp8:rowwise
p dgx-h100 fp8:nvfp4
p dgx-h100 bf16:current
tdp-plan -m llama-3.1-8b -c hgx-b200 -g 8 -b 64 --precision fp8:mxfp8 --json | grep -m 3 -E '"(precision|fp8_recipe)"'
