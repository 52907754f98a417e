#!/usr/bin/env bash
# embed_resume_test.sh TESSERA PROGRAM ...: the program takes FOLDER LAST_STEP, prints "step N, loss X" and saves every
# fifth step. It learns; two ranks that stop, one that goes on, and two again print what one rank alone prints, to the
# last bit.
set -euo pipefail
tessera=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$@" "$work/alone" 20 >"$work/want"
"$tessera" run -n 2 -- "$@" "$work/both" 8 >"$work/got" # the newest saved is step 5
"$@" "$work/both" 10 >>"$work/got"
"$tessera" run -n 2 -- "$@" "$work/both" 20 >>"$work/got"
{ sed -n 1,8p "$work/want"; sed -n 6,20p "$work/want"; } >"$work/expected"
diff "$work/expected" "$work/got" >&2 || { echo "2 ranks, 1, 2 (>) and 1 alone (<) differ" >&2; exit 1; }
"$tessera" ckpt verify "$work/both/step-00000020" >/dev/null
"$tessera" ckpt diff "$work/alone/step-00000020" "$work/both/step-00000020" >/dev/null
first=$(sed -n '1s/.*loss //p' "$work/want")
last=$(sed -n '$s/.*loss //p' "$work/want")
awk -v a="$first" -v b="$last" 'BEGIN { if (!(b < a / 2)) { print "loss went from " a " to " b; exit 1 } }' >&2
echo "ok: $first to $last"
