awk -F, -v OFS=, 'NR == 1 { print } NR == 2 { for (i = 1; i <= 5; i++) { $1 = "r" i; $33 = 0.7 + i / 100; print } }' tests/fuzz/seeds/cases/b200-1.csv | tdp-validate --json - | grep -A 5 '"sweeps"'
