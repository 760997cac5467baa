tdp-validate tests/validation/vocabpar.csv --timed-passes --rows
