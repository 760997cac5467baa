#!/bin/sh
# What each shell offers behind the first letters of options, names and keys: bash is asked for all of it, zsh and fish
# for one of each kind.
set -u

verdict() { # name, what must be offered, what was
  case " $(echo "$3" | tr '\n\t' '  ') " in
  *" $2 "*) echo "ok completion-$1" ;;
  *) echo "not ok completion-$1: $2 is not in: $3" ;;
  esac
}

offers_bash() { # the words of a line, the last of them unfinished; "=" is a word of its own as bash has it
  bash -c '
    . completions/tdp.bash
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _tdp "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s " "${COMPREPLY[@]}"' bash "$@" 2>&1
}

offers_zsh() { # the same; zsh's own part, which compares what is typed, stands in as three functions
  zsh -f -c '
    setopt extendedglob
    compset() { IPREFIX=${(M)PREFIX##${~2}} PREFIX=${PREFIX##${~2}} }
    compadd() {
      while [[ $1 == -S ]]; do shift 2; done
      shift
      for name; do [[ $name == $PREFIX* ]] && print -rn -- "$IPREFIX$name "; done
    }
    _files() { : }
    words=("$@") CURRENT=$# PREFIX=${@[-1]} IPREFIX=
    . completions/_tdp' zsh "$@" 2>&1
}

# shellcheck disable=SC2016 # fish expands it
offers_fish() {
  fish --no-config -c 'source completions/tdp.fish; complete -C"$argv"' "$@" 2>&1
}

if ! command -v bash >/dev/null; then
  echo "skip completion: no bash"
  exit
fi
offers() { # name, what must be offered, the line's words
  name=$1 wanted=$2
  shift 2
  verdict "$name" "$wanted" "$(offers_bash "$@")"
}

offers option --why-not tdp-plan --wh
offers sim-option --micro-batches tdp-sim --mic
offers model llama-3.1-8b tdp-plan --model llama-3.1-8
offers model-equals llama-3.1-8b tdp-plan --model=llama-3.1-8
offers cluster dgx-h100 tdp-sim --cluster dgx-h
offers framework megatron-core-2026 tdp-plan --framework megatron-core-2
offers schedule zb-v tdp-sim --schedule zb
offers question training tdp-plan --question tr
for tool in $(tdp-plan --list exports | awk 'NR > 1 { print $1 }'); do
  offers "export-$tool" "$tool=" tdp-sim --export "$tool"
done
for list in models exports keys; do
  offers "list-$list" "$list" tdp-plan --list "${list%??}"
done
offers key recompute= tdp-plan --fix rec
offers key-next 8,zero= tdp-plan --fix tp = 8,ze
for list in $(tdp-plan --question none 2>&1 | sed 's/.*expected //; s/ or /, /' | tr -d ','); do
  offers "question-$list" "$list" tdp-plan --question "$list"
done

for name in days cost carbon tokens-per-gpu; do
  offers "objective-$name" "$name" tdp-plan --objective "${name%?}"
done
offers pareto time,memory tdp-plan --pareto time,mem
offers precision tf32 tdp-plan --precision tf
offers space zero++ tdp-plan --space ze
offers gpu-as-cluster mi300x tdp-plan --cluster mi300
offers plan tiny-1f1b tdp-run --plan tiny-1
offers operations megascale tdp-plan --operations meg
offers gpu a10g tdp-calibrate --gpu a10
offers like nvlink3-switch tdp-calibrate --like nvlink3-s
offers backend cuda tdp-run --backend cu
for list in gpus links operations plans; do
  offers "list-$list" "$list" tdp-plan --list "${list%??}"
done

for shell in zsh fish; do
  if ! command -v $shell >/dev/null; then
    echo "skip completion-$shell: no $shell"
    continue
  fi
  verdict $shell-option --why-not "$(offers_$shell tdp-plan --wh)"
  verdict $shell-model llama-3.1-8b "$(offers_$shell tdp-plan --model llama-3.1-8)"
  verdict $shell-model-equals llama-3.1-8b "$(offers_$shell tdp-plan --model=llama-3.1-8 | sed 's/--model=//g')"
  verdict $shell-cluster dgx-h100 "$(offers_$shell tdp-sim --cluster dgx-h)"
  verdict $shell-schedule zb-v "$(offers_$shell tdp-sim --schedule zb)"
  verdict $shell-question training "$(offers_$shell tdp-plan --question tr)"
  verdict $shell-objective carbon "$(offers_$shell tdp-plan --objective ca)"
  verdict $shell-question lost-nodes "$(offers_$shell tdp-plan --question lo)"
  verdict $shell-pareto time,memory "$(offers_$shell tdp-plan --pareto time,me)"
  verdict $shell-plan tiny-1f1b "$(offers_$shell tdp-run --plan tiny-1)"
  verdict $shell-gpu a10g "$(offers_$shell tdp-calibrate --gpu a10)"
  verdict $shell-space states "$(offers_$shell tdp-plan --space st)"
  verdict $shell-list exports "$(offers_$shell tdp-plan --list exp)"
  verdict $shell-export megatron= "$(offers_$shell tdp-plan --export meg)"
  verdict $shell-key recompute= "$(offers_$shell tdp-plan --fix rec)"
  verdict $shell-key-next tp=8,zero= "$(offers_$shell tdp-plan --fix tp=8,ze)"
done
