echo "{\"name\":\"x\",}" | tdp-plan --model - --cluster dgx
