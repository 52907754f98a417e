#!/usr/bin/env bash
# `tessera top`: its page and JSON; it does not disturb jobs, and nothing that they do breaks it.
. "$(dirname "$0")/support.sh"
n_jobs=${TESS_TOP_JOBS:-5}
n_pollers=${TESS_TOP_POLLERS:-1} # on a busy machine one may not reach a hundred snapshots a second
make_text 600 >text.txt
make_model model.json
sed 's/llama"/mixtral", "num_local_experts": 4, "num_experts_per_tok": 2/; s/Llama/Mixtral/' model.json >experts.json
make_config run.yaml
long="training.steps=1000000 validation.enable=false checkpoint.interval=1000000"
short="training.steps=40 validation.enable=false checkpoint.enable=false"

# widest FILE: characters of its longest line, in any locale: bytes that begin one.
widest() { LC_ALL=C tr -d '\200-\277' <"$1" | LC_ALL=C awk '{ if (length($0) > n) n = length($0) } END { print n + 0 }'; }

await_steps() { # FOLDER: waits until the run there has done some
    await $launcher has_lines "$1/metrics.jsonl" 3 || fail "the run in $1 starts: $(tail -n 3 "$1.log")"
}

expect "no job" 3 "writes to" "$tessera" top . --once
expect "no process" 3 "there is no process" "$tessera" top 4194304 --once
expect "neither" 3 "neither a process nor a folder" "$tessera" top nowhere
expect "a bad interval" 2 "--interval" "$tessera" top --interval 0
expect "memory is text" 2 "--memory prints text: leave out --json" "$tessera" top . --memory --json
expect "exit codes are told" 0 "3 no such job" "$tessera" top --help

# ---- A job of two ranks, one of them stopped.
"$tessera" train run.yaml -n 2 job.dump_folder=live model.config=experts.json $long health.disk_bytes=1e18 >live.log 2>&1 &
launcher=$!
await_steps live
expect "the launcher names it" 0 "process $launcher, 2 ranks" "$tessera" top "$launcher" --once
expect "so does its folder" 0 "process $launcher, 2 ranks" "$tessera" top live
stopped=$("$tessera" top "$launcher" --json | sed 's/.*"rank":1,"pid":\([0-9]*\).*/\1/')
expect "so does a rank" 0 "tokens/s" "$tessera" top "$stopped" --once
expect "with its host's health" 0 "; degraded: " "$tessera" top "$launcher" --once
expect "with the loads of experts" 0 ", expert_load " "$tessera" top "$launcher" --once
expect "rates between two looks" 0 "a step" "$tessera" top "$launcher" --once --interval 0.1
expect "in a given width" 0 "rank state" "$tessera" top "$launcher" --once --width 60
[ "$(widest output)" -le 60 ] && pass "which it keeps" ||
    fail "the width: $(cat output)"
expect "as JSON" 0 '"version":1,"pid":'"$launcher" "$tessera" top "$launcher" --json
expect_metrics "as metrics" 0 "$tessera" top "$launcher"
"$tessera" train run.yaml job.dump_folder=second $long >second.log 2>&1 &
second=$!
await $second has_lines second/metrics.jsonl 1
expect "a page has one job" 2 "--html: " "$tessera" top --html
expect "and so have metrics" 2 " jobs run: name one by its process or its folder" "$tessera" top --prometheus
kill -INT $second
wait $second
kill -STOP "$stopped"
shows() { "$tessera" top "$launcher" --once 2>&1 | tr '\n' ' ' | grep -qE -- "$1"; }
await $launcher shows "rank 1 keeps 1 rank waiting for .* $stopped stopped "
expect "a stopped rank is named" 0 "rank 1 keeps 1 rank waiting for" "$tessera" top "$launcher" --once
expect "with its state" 0 " stopped " "$tessera" top "$launcher" --once
expect "and in JSON" 0 '"waited_for":{"rank":1,"n_waiting":1' "$tessera" top "$launcher" --json
kill -CONT "$stopped"

# The live view on terminals of several sizes, with and without colours; q ends it.
view() { # ROWS COLUMNS TERM
    : >screen
    (await $launcher test -s screen; printf jq) |
        timeout 600 script -qec "stty rows $1 cols $2; TERM=$3 '$tessera' top $launcher --interval 0.1" /dev/null | tee screen
    return "${PIPESTATUS[1]}"
}
for size in "24 80 xterm-256color" "50 220 linux" "3 12 vt100" "1 1 xterm"; do
    # shellcheck disable=SC2086
    expect "live view: $size" 0 "" view $size
done
expect "live view: ranks are there" 0 "rank" view 24 80 vt100
expect "a terminal without a name" 2 "use --once" view 24 80 no-such-terminal

# It reports the end of the job that it shows.
(await $launcher has_text end.txt rank; kill -INT "$launcher"; await $$ has_text end.txt "ended in good order"; printf q) |
    timeout 600 script -qec "stty rows 24 cols 100; TERM=vt100 '$tessera' top $launcher --interval 300" /dev/null >end.txt
wait "$launcher"
[ $? = 130 ] && pass "the watched job ended as asked" || fail "the watched job: $(tail -n 2 live.log)"
grep -qF "ended in good order" end.txt && pass "its end is told at once" || fail "its end: $(tail -n 5 end.txt)"

# ---- Jobs watched a hundred times a second from before their start until after their end.
poll() {
    while [ ! -e stop ] && kill -0 $$; do
        "$tessera" top --once >"page$1" 2>"complaint$1"
        code=$?
        case $code in
        0 | 3) ;;
        2) grep -q "another version" "complaint$1" || echo "code 2: $(cat "complaint$1")" >>trouble ;;
        *) echo "code $code: $(cat "complaint$1")" >>trouble ;;
        esac
        echo >>polls
        read -r -t 0.005 <>nothing # a pause without a process
    done
}
mkfifo nothing
losses() { sed 's/.*"loss": *\([^,}]*\).*/\1/' "$1/metrics.jsonl"; }

"$tessera" train run.yaml -n 2 job.dump_folder=alone $short >alone.log 2>&1 || fail "alone: $(tail -n 2 alone.log)"
losses alone >alone.losses
pollers=
for i in $(seq "$n_pollers"); do
    poll "$i" &
    pollers="$pollers $!"
done
begin=$(date +%s)
n_good=0
n_killed=0
for i in $(seq "$n_jobs"); do
    n=$((1 << i % 3)) # 2, 4, 1 ...: all with the same losses
    if [ $((i % 4)) = 0 ]; then # loses a rank during the run
        "$tessera" train run.yaml -n 2 job.dump_folder="watched$i" $long >"watched$i.log" 2>&1 &
        launcher=$!
        await_steps "watched$i"
        kill -KILL "$(rank "$launcher" 1)"
        wait "$launcher"
        code=$?
        [ "$code" = 137 ] && n_killed=$((n_killed + 1)) || fail "watched job $i: exit code $code, expected 137"
        continue
    fi
    "$tessera" train run.yaml -n "$n" job.dump_folder="watched$i" $short >"watched$i.log" 2>&1
    code=$?
    losses "watched$i" >"watched$i.losses"
    if [ "$code" = 0 ] && cmp -s alone.losses "watched$i.losses"; then
        n_good=$((n_good + 1))
    else
        fail "watched job $i: exit code $code, $(diff alone.losses "watched$i.losses" | head -n 3)"
    fi
    rm -rf "watched$i"
done
touch stop
# shellcheck disable=SC2086
wait $pollers
seconds=$(($(date +%s) - begin + 1))
[ -s alone.losses ] && [ $((n_good + n_killed)) = "$n_jobs" ] &&
    pass "$n_good watched jobs gave the same losses, $n_killed lost a rank as without ($(wc -l <polls) looks in $seconds s)"
[ -e trouble ] && fail "while watching: $(head -n 3 trouble)" || pass "no look went wrong"
finish
