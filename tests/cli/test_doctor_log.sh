#!/usr/bin/env bash
# `tessera doctor log`: exit codes, the culprit, a user's own entries.
. "$(dirname "$0")/support.sh"
export XDG_CONFIG_HOME=$work/config

timeout_of() { # RANK
    echo "[rank$1]:[E717 13:20:49.407638053 ProcessGroupNCCL.cpp:632] [Rank $1] Watchdog caught collective operation" \
        "timeout: WorkNCCL(SeqNum=56731, OpType=ALLREDUCE, NumelIn=467019003, NumelOut=467019003, Timeout(ms)=600000)" \
        "ran for 600053 milliseconds before timing out."
}

timeout_of 6 >one.log
expect "one rank's timeout: the others' logs are asked for" 0 "those of the others say which" \
    "$tessera" doctor log --json one.log
expect "size is held against time" 0 "5.4 MB/s. Size cannot be the cause" "$tessera" doctor log --json --world 8 one.log
expect "the advice in circulation is corrected" 0 "does not read that variable" "$tessera" doctor log one.log
for r in 0 1 2 4 5 6 7; do timeout_of $r >rank$r.log; done
expect "the rank that never joined" 0 "root cause: rank 3 never joined ALLREDUCE #56731" \
    "$tessera" doctor log --world 8 rank?.log
expect "said with its doubt while its log is not there" 0 "(unless its log was not given)" \
    "$tessera" doctor log --json --world 8 rank?.log
echo "2024-07-17 13:00:00 step 811" >rank3.log
expect "its log is there, without a timeout" 0 "rank 3: its log has no timeout" "$tessera" doctor log rank?.log
expect "as JSON" 0 '"kind": "missing"' "$tessera" doctor log --json --world 8 rank?.log
expect "version of the JSON" 0 '"version": 1' "$tessera" doctor log --json rank?.log
cat rank?.log >all.log
expect "standard input" 0 "root cause: rank 3 never joined" bash -c "'$tessera' doctor log --world 8 - <all.log"
expect "an absent rank is not blamed where the number of ranks is not known" 0 "no timeout of rank 3 is in these logs" \
    "$tessera" doctor log all.log
grep -q "root cause" output && fail "$(grep "root cause" output)" || pass "nobody is named"
{ echo "INFO: Training with world_size=8"; cat all.log; } >told.log
expect "the logs say how many there are" 0 "root cause: rank 3 never joined" "$tessera" doctor log told.log
echo "all is well" >good.log
expect "a log without anything known" 3 "no error found in 1 line" "$tessera" doctor log good.log
printf 'step 1 loss 2.5\nstep 2 loss 2.4\n' >steps.log
expect "how far it came" 3 'no error found in 2 lines; the last progress: "step 2 loss 2.4"' "$tessera" doctor log steps.log
{ echo "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)"; echo; echo "Training completed successfully."; } >ended.log
expect "an error before a good end" 0 'it ended well: "Training completed successfully."' "$tessera" doctor log ended.log
grep -q "root cause" output && fail "$(grep "root cause" output)" || pass "is no cause"
echo "2026-01-10 10:00:02 [error] the flux of the widget is out of phase" >odd.log
expect "an error line that no entry knows" 3 "the first error line:" \
    "$tessera" doctor log odd.log
: >empty.log
expect "an empty log" 3 "no error found in 0 lines" "$tessera" doctor log empty.log
head -c 300000 /dev/urandom >noise.log
expect "noise" 2 "noise.log: is not text" "$tessera" doctor log noise.log
head -c 5000 /dev/zero >zeros.log
expect "zeros" 2 "zeros.log: is not text" "$tessera" doctor log zeros.log
{ cat zeros.log; timeout_of 6; } >hole.log
expect "a log that begins with a hole" 0 "those of the others say which" \
    "$tessera" doctor log --json hole.log
expect "a log that is not there" 2 "gone.log" "$tessera" doctor log gone.log
mkdir -p tree/host-a/.hidden tree/host-b tree/empty
for r in 0 1 2 3 4; do timeout_of $r >tree/host-a/rank$r.log; done
for r in 5 6; do timeout_of $r >tree/host-b/rank$r.err; done
for peer in 7 8 9; do
    echo "n1:7:8 [0] transport/net_ib.cc:99 NCCL WARN NET/IB : Got completion from peer 192.0.2.$peer<4000> with" \
        "status=12 opcode=0 len=0 vendor err 129"
done >peers.log
"$tessera" doctor log --json peers.log | tr -d ' \n' >peers.json || true
expect "further peers as JSON" 0 '"peers":["192.0.2.7","192.0.2.8","192.0.2.9"]' cat peers.json
timeout_of 7 | tee tree/host-a/.hidden/rank7.log >tree/host-b/rank7.json
head -c 100 /dev/urandom >tree/host-b/state.bin
expect "a folder: every log below it" 0 "root cause: rank 7 never joined ALLREDUCE #56731" \
    "$tessera" doctor log --world 8 tree
expect "its files are counted" 0 "read: 7 files" "$tessera" doctor log --world 8 tree/
expect "a folder without a log" 2 "tree/empty: no text file is below it that may be a log" "$tessera" doctor log tree/empty
timeout_of 6 | gzip >old.log.gz
expect "a log that was rotated" 2 "old.log.gz: is compressed: zcat FILE | tessera doctor log -" \
    "$tessera" doctor log old.log.gz
expect "fewer ranks than the logs show" 0 "warning: --world 4: rank 7 is in these logs, so there are at least 8 ranks" \
    "$tessera" doctor log --world 4 rank?.log
expect "no log" 2 "name log files, or --search, or --list" "$tessera" doctor log
expect "a world that is none" 2 "--world" "$tessera" doctor log --world 0 one.log
expect "a symptom in words" 0 "hang-at-end-of-epoch" "$tessera" doctor log --search "hang at the end of an epoch"
expect "words that say nothing" 3 "nothing about 'zebra'" "$tessera" doctor log --search zebra
expect "all entries" 0 "cuda-out-of-memory" "$tessera" doctor log --list

cat >own.yaml <<'YAML'
flux:
  role: cause
  match: |
    flux capacitor \d+
  symptom: the flux capacitor broke
  cause: age
  check: look at it
  fix: a new one
YAML
echo "ERROR flux capacitor 12" >flux.log
expect "unknown without the file" 3 "no rule knows it" "$tessera" doctor log flux.log
expect "known with it" 0 "root cause: the flux capacitor broke" "$tessera" doctor log --knowledge own.yaml flux.log
mkdir -p config/tessera && cp own.yaml config/tessera/errors.yaml
expect "known from the user's folder" 0 "the flux capacitor broke" "$tessera" doctor log flux.log
printf 'flux:\n  role: cause\n  match: "(x"\n  symptom: s\n  cause: c\n  check: k\n  fix: f\n' >config/tessera/errors.yaml
expect "a broken file of the user's" 2 "errors.yaml:2: flux: the regex '(x' is invalid at byte 2" "$tessera" doctor log flux.log
rm config/tessera/errors.yaml

expect "one log of several cannot be read" 0 "root cause: rank 3 never joined" \
    "$tessera" doctor log --world 8 no.log all.log
expect "it is told" 0 "warning: open no.log" "$tessera" doctor log no.log all.log
expect "none can be read" 2 "no.log" "$tessera" doctor log no.log no2.log
expect "a doctor misspelt" 2 "did you mean 'doctor log'" "$tessera" doctor logg
finish
