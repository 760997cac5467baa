# Completion of the programs of tdp in fish: what tdp.bash offers in bash. fish looks for a file of the program's name:
# that of each reads this one, the first time.
functions -q __tdp_names; and return

function __tdp_names
    tdp-plan --list $argv[1] 2>/dev/null | awk 'NR > 1 { print $1 }'
end

function __tdp_lists
    tdp-plan --list none 2>&1 | string replace -rf '.*known are ' '' | string split ', '
end

function __tdp_exports
    __tdp_names exports | string replace -r '$' '='
end

function __tdp_words
    tdp-plan --model tiny --cluster cpu $argv[1] none 2>&1 | string replace -r '; did.*' '' | string replace -rf '.*expected (some of )?' '' | string replace -a ' or ' ', ' | string split ', '
end

# Objectives behind what stands before the comma.
function __tdp_pareto
    set -l head (commandline -ct | string replace -r '^--[a-z-]+=' '' | string match -r '^.*,')
    for word in (__tdp_words --objective)
        echo "$head$word"
    end
end

function __tdp_options
    set -l program (commandline -opc)[1]
    $program --help 2>/dev/null | grep -oE -- '(^| )--[a-z][a-z-]*' | string trim | sort -u
end

# Keys behind what stands before the last comma.
function __tdp_keys
    set -l head (commandline -ct | string replace -r '^--[a-z-]+=' '' | string match -r '^.*,')
    for key in (tdp-plan --model tiny --cluster cpu --fix none=1 2>&1 | string replace -rf '.*of the keys ' '' | string split ', ')
        echo "$head$key="
    end
end

for program in tdp-plan tdp-sim tdp-run tdp-validate tdp-calibrate tdp-fit
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -a '(__tdp_options)'
    complete -c $program -l model -s m -xa '(__tdp_names models)'
    complete -c $program -l cluster -s c -xa '(__tdp_names clusters; __tdp_names servers; __tdp_names gpus)'
end
for program in tdp-sim tdp-run
    complete -c $program -l plan -s p -xa '(__tdp_names plans)'
end
for program in tdp-run tdp-calibrate
    complete -c $program -l backend -xa 'cpu cuda'
end
for program in tdp-plan tdp-sim
    complete -c $program -l operations -xa '(__tdp_names operations)'
end
complete -c tdp-calibrate -l gpu -xa '(__tdp_names gpus)'
complete -c tdp-calibrate -l like -xa '(__tdp_names links)'
complete -c tdp-calibrate -l framework -xa '(__tdp_names frameworks)'
complete -c tdp-plan -l framework -xa '(__tdp_names frameworks)'
complete -c tdp-sim -l schedule -xa '(__tdp_names schedules)'
complete -c tdp-plan -l list -xa '(__tdp_lists)'
complete -c tdp-plan -l export -ra '(__tdp_exports)'
complete -c tdp-sim -l export -ra '(__tdp_exports)'
complete -c tdp-plan -l question -xa '(__tdp_words --question)'
complete -c tdp-plan -l objective -xa '(__tdp_words --objective)'
complete -c tdp-plan -l pareto -xa '(__tdp_pareto)'
complete -c tdp-plan -l adapter -xa 'lora:r= qlora:r='
complete -c tdp-sim -l adapter -xa 'lora:r= qlora:r='
complete -c tdp-plan -l precision -xa '(__tdp_words --precision)'
complete -c tdp-plan -l space -xa '(__tdp_words --space)'
complete -c tdp-plan -l fix -xa '(__tdp_keys)'
complete -c tdp-plan -l why-not -xa '(__tdp_keys)'
