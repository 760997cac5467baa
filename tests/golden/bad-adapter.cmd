p() { tdp-plan -m llama-3.1-8b -c dgx-h100 -g 8 --seq 4096 --adapter "$@"; echo $?; }
p lora
p lora:r=0
p lora:r=16,alpha=32
p lora:r=16,targets=query
p lora:r=16,targets=qkv,q_proj
p lora:r=16,targets=q_a_proj
p lora:r=16 --precision fp8
p lora:r=16 --layerwise
p lora:r=16 --framework galvatron
p qlora:r=16
p lora:r=16 --improve llama-70b-lora
tdp-plan -m mixtral-8x7b -c dgx-h100 -g 8 --seq 4096 --adapter lora:r=16; echo $?
tdp-sim -m vit-huge-14 -c dgx -p vit --adapter lora:r=16; echo $?
tdp-sim --schedule 1f1b --stages 2 --micro-batches 2 --adapter lora:r=16; echo $?
tdp-sim -m llama-3.1-70b -c dgx-h100 -p llama-70b-lora --export megatron=$TMP/x.sh >$TMP/out; echo $?
ls $TMP
echo '{"gpus":1,"framework":"megatron-core","global_batch_size":16,"micro_batch_size":2,"precision":"fp32","adapter":"lora:r=4"}' >$TMP/plan.json
tdp-run -m tiny -c cpu -p $TMP/plan.json; echo $?
echo '{"gpus":1,"global_batch_size":16,"adapter":{"r":4}}' >$TMP/plan.json
tdp-sim -m tiny -c cpu -p $TMP/plan.json; echo $?
