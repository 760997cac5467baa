# Completion of the programs of tdp in bash, and in zsh behind `autoload bashcompinit && bashcompinit`: options come from
# --help, names from tdp-plan --list, so that nothing here grows stale.

_tdp_names() {
  tdp-plan --list "$1" 2>/dev/null | awk 'NR > 1 { print $1 }'
}

_tdp() {
  local program=$1 word=$2 before=$3 words
  case $word in
  --*=*) before=${word%%=*} word=${word#*=} ;;
  esac
  [ "$before" = "=" ] && before=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$word" = "=" ] && word=
  case $before in
  --model | -m) words=$(_tdp_names models) ;;
  --cluster | -c) words="$(_tdp_names clusters) $(_tdp_names servers)" ;;
  --framework) words=$(_tdp_names frameworks) ;;
  --schedule) words=$(_tdp_names schedules) ;;
  --list) words="models clusters servers frameworks schedules keys" ;;
  --question) words="fewest-gpus largest-model largest-batch largest-context sensitivity scaling jitter lost-nodes training" ;;
  --objective) words="time tokens-per-gpu memory gpu-hours money energy" ;;
  --precision) words="bf16 fp16 fp32 tf32 fp8 fp4" ;;
  --space) words="offload zero++ states order" ;;
  *)
    [ "${word#-}" = "$word" ] && return
    words=$("$program" --help 2>/dev/null | grep -oE -- '(^| )--[a-z][a-z-]*' | sort -u)
    ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _tdp tdp-plan tdp-sim tdp-run tdp-validate tdp-calibrate tdp-fit
