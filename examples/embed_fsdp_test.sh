#!/usr/bin/env bash
# embed_fsdp_test.sh TESSERA PROGRAM: it learns, and any number of ranks prints the same losses.
set -euo pipefail
tessera=$1 program=$2
one=$("$program")
for n in 2 3 4 8; do
    many=$("$tessera" run -n "$n" -- "$program")
    if [ "$one" != "$many" ]; then
        printf 'with %s ranks:\n%s\nalone:\n%s\n' "$n" "$many" "$one" >&2
        exit 1
    fi
done
# The message about a call names the program's own function and line.
fault='rank=1 point=before:reduce_scatter_pieces kind=skip'
said=$(TESSERA_FAULT=$fault "$tessera" run -n 2 -- "$program" 2>&1 >/dev/null) && exit 1
grep -q 'ranks disagree.*(called by tess_fsdp_[a-z_]* ([a-z_]*\.c:[0-9]*))' <<<"$said" || { echo "$said" >&2; exit 1; }
first=$(sed -n '1s/.*Loss: //p' <<<"$one")
last=$(sed -n '$s/.*Loss: //p' <<<"$one")
awk -v a="$first" -v b="$last" 'BEGIN { if (!(b < a / 2)) { print "loss went from " a " to " b; exit 1 } }' >&2
echo "ok: $first to $last"
