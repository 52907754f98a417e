#!/usr/bin/env bash
# `tools/bench-gate` compares two binaries: what is slower fails, what is not does not, and noise is called noise.
. "$(dirname "$0")/support.sh"
gate() { "$project/tools/bench-gate" "$@"; }

expect "a binary and itself, every bench" 0 "0 of 15 rows are slower by more than 1e+06%" \
    gate --quick --turns 1 --limit 1e6 "$tessera" "$tessera"
for row in "step of 4 x 512 tokens" "step of 4 x 64 tokens" "decode float32, batch 64" "decode bfloat16, batch 1" "adamw 4096" \
    "all_reduce sum float32 1.00 KiB, 2 ranks" "start to end of \`info\`"; do
    grep -qE "^$row +[0-9.e-]+ +[0-9.e-]+ +[0-9.]+ +[0-9.]+-[0-9.]+ +1  (same|faster)$" output && pass "a row: $row" || fail "no row: $row"
done

# Six times as long as the binary on any machine.
cat >slow <<SH
#!/bin/sh
for i in 1 2 3 4 5; do "$tessera" info >/dev/null; done
exec "$tessera" "\$@"
SH
# The same in every second turn of five starts.
cat >unsteady <<SH
#!/bin/sh
echo >>starts
[ \$((\$(wc -l <starts) / 5 % 2)) = 0 ] || exec ./slow "\$@"
exec "$tessera" "\$@"
SH
chmod +x slow unsteady
expect "a slower binary fails" 1 "1 of 1 rows are slower by more than 50%" gate --only start --turns 2 --limit 50 "$tessera" slow
grep -q "      4  slower$" output && pass "a row that looks slower has as many turns again" || fail "turns: $(cat output)"
expect "a faster one passes" 0 "0 of 1 rows are slower by more than 50%" gate --only start --turns 2 --limit 50 slow "$tessera"
expect "turns that contradict each other" 3 "1 of 1 rows cannot be judged: their turns differ by more than 50%" \
    gate --only start --turns 2 --limit 50 unsteady unsteady
# rows FILE NAME=TIME...: makes a binary whose report of any bench has these rows.
rows() {
    cat >"$1" <<SH
#!/bin/sh
echo '{"tables": [{"rows": [$(shift; for row; do printf '{"name": "%s", "time": %s}, ' "${row%=*}" "${row#*=}"; done | sed 's/, $//')]}]}'
SH
    chmod +x "$1"
}
rows one "adamw 4096=1" "layernorm=2"
rows both_and_more "adamw 4096=1" "layernorm=2" "softmax=1"
rows no_time "adamw 4096=0" "layernorm=2"
kernels="--quick --only kernels --turns 2 --limit 50"
expect "a row that only the new binary has is named and passes" 0 "kernels: softmax: not compared: only NEW has this row" \
    gate $kernels one both_and_more
expect "a row that the new binary lost is named and fails" 2 "kernels: softmax: lost: only OLD has this row" \
    gate $kernels both_and_more one
grep -q "^0 of 2 rows are slower" output && pass "the other rows are judged" || fail "the other rows: $(cat output)"
expect "a time of 0 in the old binary cannot be judged" 3 "1 of 2 rows cannot be judged: a turn took 0 seconds" gate $kernels no_time one
expect "a time of 0 in the new binary cannot be judged" 3 "1 of 2 rows cannot be judged: a turn took 0 seconds" gate $kernels one no_time
expect "a new binary that fails" 2 "/false info: exit code 1" gate --only start "$tessera" /bin/false
expect "an old one that cannot" 2 "start: left out: /bin/false info: exit code 1" gate --only start /bin/false "$tessera"
expect "no such bench" 2 "--only names a bench" gate --only none "$tessera" "$tessera"
finish
