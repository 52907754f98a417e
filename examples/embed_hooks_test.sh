#!/usr/bin/env bash
# embed_hooks_test.sh TESSERA PROGRAM: any number of ranks prints the same losses; what is frozen stays; units are clipped.
set -euo pipefail
tessera=$1 program=$2
one=$("$program")
for n in 2 3 4 8; do
    many=$("$tessera" run -n "$n" -- "$program")
    [ "$one" = "$many" ] || { printf 'with %s ranks:\n%s\nalone:\n%s\n' "$n" "$many" "$one" >&2; exit 1; }
done
# The first unit is frozen for 10 steps of 20.
awk '/^Step/ { weight[$2 + 0] = $NF; loss[$2 + 0] = $4 + 0 }
    /^clipped/ { clipped = $2 }
    END {
        if (weight[5] != weight[10]) { print "a frozen weight moved"; exit 1 }
        if (weight[10] == weight[20]) { print "a weight stayed frozen"; exit 1 }
        if (!(loss[20] < loss[5])) { print "loss went from " loss[5] " to " loss[20]; exit 1 }
        if (!(clipped > 0 && clipped < 20 * 4 * 4)) { print clipped " gradients were clipped"; exit 1 }
    }' <<<"$one" >&2 || { echo "$one" >&2; exit 1; }
echo "ok: $(tail -n 1 <<<"$one")"
