# A machine is measured by a backend that there is, in a format that it computes.
tdp-calibrate --backend tpu --points "$TMP/points.csv" || echo $?
tdp-calibrate --backend cpu --precision bf16 --points "$TMP/points.csv" || echo $?
ls "$TMP"
