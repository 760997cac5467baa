tdp-plan --model gpt3 --cluster dgx-h100 --power-limit 300; tdp-plan --model gpt3 --cluster dgx-h100 --question training --tokens 1T --spares -2; tdp-plan --model gpt3 --cluster dgx-h100 --spares 2
