tdp-sim --model /dev/zero --cluster dgx --plan gpt3-128
mkfifo "$TMP/nobody"; tdp-sim --model "$TMP/nobody" --cluster dgx --plan gpt3-128
tdp-sim --model "$TMP" --cluster dgx --plan gpt3-128
sed 's/"name": "[^"]*"/"name": "\\u001b[31m"/' models/gpt3.json | tdp-sim --model - --cluster dgx --plan gpt3-128
sed 's/"name": "[^"]*"/"name": "x \\u009b"/' models/gpt3.json | tdp-sim --model - --cluster dgx --plan gpt3-128
for option in --help --version; do for program in tdp-plan tdp-sim tdp-validate tdp-fit tdp-calibrate; do
  $program $option >/dev/full; echo $?
done; done
for file in /dev/zero "$TMP/nobody"; do tdp-plan --model tiny --cluster cpu --gpus 2 --state $file; echo $?; done
