# Blocks in 16 bits that no plan of the format can have are bad input, before any search.
ask="tdp-plan --model llama-3.1-8b --cluster hgx-b200 --gpus 8"
for more in "--precision fp8 --fix bf16_end=5" "--precision fp8:current --fix bf16_end=33" "--precision bf16 --fix bf16_end=5" "--fix bf16_start=5" "--precision fp8:current --framework maxtext-2026 --fix bf16_start=1"; do
  $ask $more; echo $?
done
$ask --precision fp8:current --fix bf16_end=5,tp=1,pp=1,zero=1,mbs=1 | grep software
