#!/bin/sh
# A compiler that does what its source says, a script: of test_account.py.
[ "$1" = --version ] && { echo "release 13.0, V13.0.88"; exit; }
out=a.out
for word; do
  case $last in -o) out=$word ;; esac
  case $word in *.cu) source=$word ;; esac
  last=$word
done
code() { printf '\120\355\125\272\1\0\020\0\4\0\0\0\0\0\0\0%.4s' "$1" >"${2:-$out}"; }
echo 'ptxas info    : Used 8 registers' >&2
. "./$source"
