tdp-plan --model gpt3 --cluster dgx-h100 --tokens 1T --question training --vary "memory=80 speed=3"
