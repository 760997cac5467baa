sed 's/"alltoall"/"flex"/' plans/experts-folded.json >"$TMP/p.json"; tdp-sim --model mixtral-8x7b --cluster dgx-a100-80gb --plan "$TMP/p.json"
