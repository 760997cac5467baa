tdp-plan --model gpt3 --cluster dgx --gpus 8
echo "exit $?" >&2
tdp-plan --model gpt-oss-20b --cluster hgx-b200 --gpus 1 --global-batch 1 --framework torchtitan --fix offload=none --seq 8192
