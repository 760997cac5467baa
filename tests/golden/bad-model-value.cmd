echo "{\"name\":\"x\",\"layers\":0,\"hidden\":64,\"heads\":4,\"vocab\":100,\"seq\":8}" | tdp-plan --model - --cluster dgx
