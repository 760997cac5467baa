# Completion of the programs of tdp in bash: options come from --help, names from tdp-plan --list, the keys of --fix and
# the words of an option from what is said of a wrong one, so that these do not grow stale. _tdp does so in zsh, tdp.fish
# in fish.

_tdp_names() {
  tdp-plan --list "$1" 2>/dev/null | awk 'NR > 1 { print $1 }'
}

_tdp_lists() {
  tdp-plan --list none 2>&1 | sed -n 's/.*known are //p' | tr -d ' ' | tr ',' '\n'
}

_tdp_exports() {
  _tdp_names exports | sed 's/$/=/'
}

_tdp_keys() {
  tdp-plan --model tiny --cluster cpu --fix none=1 2>&1 | sed -n 's/.*of the keys //p' | tr -d ' ' | tr ',' '\n' | sed 's/$/=/'
}

# What an option takes: "expected a or b, c", as the line of a wrong word says.
_tdp_words() {
  tdp-plan --model tiny --cluster cpu "$1" none 2>&1 | sed -n '/expected /{s/; did.*//; s/.*expected //; s/some of //; s/ or /, /g; p;}' | tr -d ' ' | tr ',' '\n'
}

# The word of the last option before the cursor, which --fix tp=8,pp leaves further away as "=" divides words.
_tdp_option() {
  local i=$((COMP_CWORD - 1))
  while [ "$i" -gt 1 ] && [ "${COMP_WORDS[i]#--}" = "${COMP_WORDS[i]}" ]; do i=$((i - 1)); done
  printf '%s' "${COMP_WORDS[i]}"
}

_tdp() {
  local program=$1 word=$2 before=$3 words head=
  case $word in
  --*=*) before=${word%%=*} word=${word#*=} ;;
  esac
  [ "$before" = "=" ] && before=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$word" = "=" ] && word=
  case $(_tdp_option) in
  --fix | --why-not) [ "${word#-}" = "$word" ] && before=--fix ;;
  esac
  case $before in
  --fix | --why-not)
    head=${word%"${word##*,}"}
    words=$(_tdp_keys) word=${word##*,}
    compopt -o nospace 2>/dev/null
    ;;
  --model | -m) words=$(_tdp_names models) ;;
  --cluster | -c) words="$(_tdp_names clusters) $(_tdp_names servers) $(_tdp_names gpus)" ;;
  --plan | -p) words=$(_tdp_names plans) ;;
  --operations) words=$(_tdp_names operations) ;;
  --gpu) words=$(_tdp_names gpus) ;;
  --like) words=$(_tdp_names links) ;;
  --backend) words="cpu cuda" ;;
  --framework) words=$(_tdp_names frameworks) ;;
  --schedule) words=$(_tdp_names schedules) ;;
  --list) words=$(_tdp_lists) ;;
  --export) words=$(_tdp_exports) && compopt -o nospace 2>/dev/null ;;
  --question | --objective | --precision | --space) words=$(_tdp_words "$before") ;;
  --pareto)
    head=${word%"${word##*,}"}
    words=$(_tdp_words --objective) word=${word##*,}
    ;;
  --adapter) words="lora:r= qlora:r=" && compopt -o nospace 2>/dev/null ;;
  *)
    [ "${word#-}" = "$word" ] && return
    words=$("$program" --help 2>/dev/null | grep -oE -- '(^| )--[a-z][a-z-]*' | sort -u)
    ;;
  esac
  mapfile -t COMPREPLY < <(compgen -P "$head" -W "$words" -- "$word")
}

complete -o default -F _tdp tdp-plan tdp-sim tdp-run tdp-validate tdp-calibrate tdp-fit
