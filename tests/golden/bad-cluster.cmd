tdp-plan --model gpt3 --cluster dxg
