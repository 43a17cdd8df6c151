#!/bin/bash
# S=path/to/spillscan ./run.sh [NAME...]: prints each case that is answered wrongly, then 'N of M right'.
# Exit status 1 if any is wrong. NAME: run/xlinker-export, reports/nameless, or a part of one. JOBS=4: so many at once.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

finish() { # NAME GOT WANT OUTPUT: judges one case by its exit status, 'must' and 'must_not'
  local wrong=
  grep -qw -- "$2" <<<"$3" || wrong="exit status $2, expected ${3// / or }"
  [ -z "$must" ] || grep -qE -- "$must" "$4" || wrong="$wrong; '$must' is missing"
  [ -z "$must_not" ] || ! grep -qE -- "$must_not" "$4" || wrong="$wrong; '$must_not' must not appear"
  ! grep -q '^Traceback' "$4" || wrong="$wrong; traceback"
  if [ -z "$wrong" ]; then echo "right $1"; else echo "WRONG $1: ${wrong#; } | $shows"; fi
}

one() { # FILE: runs one case in an empty folder of its own
  local name=${1#"$here"/} work tool
  name=${name%.*}
  work=$(mktemp -d "${TMPDIR:-/tmp}/case-XXXXXX") && mkdir "$work/build" "$work/cache"
  export XDG_CACHE_HOME=$work/cache
  case $1 in
  *.sh)
    head() { sed -n "s/^# $1: //p" "$2"; }
    shows=$(head shows "$1") must=$(head must "$1") must_not=$(head must-not "$1")
    for tool in $(head needs "$1"); do
      command -v "$tool" >/dev/null || { echo "skip $name: no $tool"; rm -rf "$work"; return; }
    done
    (cd "$work/build" && timeout -k 5 "${LIMIT:-120}" bash -c '. "$0/lib.sh"; . "$1"' "$here" "$1" >"$work/out" 2>&1 </dev/null)
    finish "$name" $? "$(head exit "$1")" "$work/out" ;;
  *.log)
  esac
  rm -rf "$work"
}

if [ "$1" = --one ]; then one "$2"; exit; fi
S=$(command -v "${S:-spillscan}") || { echo "set S to the path of spillscan"; exit 2; }
S=$(cd "$(dirname "$S")" && pwd)/$(basename "$S")
export S LC_ALL=C.UTF-8 NO_COLOR=1
unset SPILLSCAN_CONFIG NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS
results=$(mktemp "${TMPDIR:-/tmp}/cases-XXXXXX")
for file in "$here"/run/*.sh "$here"/reports/*.log; do
  [ $# = 0 ] && echo "$file"
  for part in "$@"; do [[ $file == *"$part"* ]] && echo "$file"; done
done | xargs -P "${JOBS:-2}" -I{} bash "$here/run.sh" --one {} >"$results"
grep -v ^right "$results" | sort
right=$(grep -c ^right "$results"); wrong=$(grep -c ^WRONG "$results")
rm -f "$results"
echo "$right of $((right + wrong)) right"
[ "$wrong" = 0 ]
