#!/usr/bin/env bash
# Output of ranks: files in torchrun's layout, lines on the terminal, rotation, and endings.
. "$(dirname "$0")/support.sh"
cat >talk.sh <<'S'
echo "out of $TESSERA_RANK"
echo "err of $TESSERA_RANK" >&2
printf 'half a line of %s' "$TESSERA_RANK"
S
show() { cat "$@" 2>/dev/null; }
run() { "$tessera" run -n 3 "$@" -- bash talk.sh >out.txt 2>err.txt; }

# ---- torchrun's flags
run --log-dir a --tee 3
expect "a file a stream" 0 "out of 2" show a/attempt_0/2/stdout.log
expect "and the other" 0 "err of 2" show a/attempt_0/2/stderr.log
[ "$(tail -c 4 a/attempt_0/1/stdout.log)" = "of 1" ] && pass "bytes are the rank's" || fail "bytes are not the rank's"
expect "shown with the rank" 0 "[rank1]: out of 1" cat out.txt
expect "the other stream, too" 0 "[rank0]: err of 0" cat err.txt
expect "half a line ends" 0 "[rank2]: half a line of 2" cat out.txt
[ "$(wc -l <out.txt)" = 6 ] && pass "whole lines" || fail "lines: $(cat out.txt)"
run --log-dir b -r 3
[ -s out.txt ] || [ -s err.txt ] && fail "-r 3 shows something" || pass "-r keeps, and does not show"
expect "and keeps" 0 "out of 0" show b/attempt_0/0/stdout.log
run --log-dir c -r 0:1,1:2 --tee 2:1
expect "by local rank" 0 "out of 0" show c/attempt_0/0/stdout.log
[ -e c/attempt_0/0/stderr.log ] && fail "0:1 keeps both streams" || pass "one stream only"
expect "what is not kept goes to the terminal" 0 "err of 0" cat err.txt
expect "one is shown" 0 "[rank2]: out of 2" cat out.txt
grep -q "out of 0" out.txt && fail "0:1 is shown" || pass "one is not"
run --log-dir d --tee 3 --local-ranks-filter 1
[ "$(cut -d: -f1 out.txt | sort -u)" = "[rank1]" ] && pass "a filter" || fail "a filter: $(cat out.txt)"
expect "hides only" 0 "out of 2" show d/attempt_0/2/stdout.log
run --log-dir a
[ "$(grep -c "out of 0" a/attempt_0/0/stdout.log)" = 2 ] && pass "a second run appends" || fail "$(cat a/attempt_0/0/stdout.log)"
for bad in 4 x 0:4 0:1, 0: :1 0:1,,1:1 " 1" 0:1:2; do
    expect "'$bad' is refused" 2 "-t (job.log_tee): '$bad'" "$tessera" run -n 2 --log-dir e "--tee=$bad" -- true
done 2>/dev/null
expect "a filter of words" 2 "--local-ranks-filter" "$tessera" run -n 2 --log-dir e --local-ranks-filter=a -- true
expect "flags without a folder" 2 "give --log-dir DIR, too" "$tessera" run -n 2 --tee 3 -- true
touch file
expect "a folder that is a file" 2 "--log-dir (job.log_dir): the folder file/attempt_0/0 cannot be made" "$tessera" run -n 2 --log-dir file -- true

# ---- What comes: bytes, long lines, a rank that never stops
cat >bytes.sh <<'S'
head -c 300000 /dev/zero | tr '\0' "$TESSERA_RANK"
echo
head -c 70000 /dev/urandom | tee "bytes.$TESSERA_RANK"
S
"$tessera" run -n 2 --log-dir f -t 3 -- bash bytes.sh >out.bin 2>&1
for r in 0 1; do
    { head -c 300000 /dev/zero | tr '\0' $r; echo; cat bytes.$r; } | cmp - f/attempt_0/$r/stdout.log &&
        pass "bytes and long lines of rank $r are kept as they are" || fail "bytes of rank $r"
done
LC_ALL=C awk '/^\[rank0\]: 0/ && /1111/ { bad = 1 } /^\[rank1\]: 1/ && /0000/ { bad = 1 } length($0) > 4096 { bad = 1 }
    END { exit bad }' out.bin && pass "lines of two ranks never mix" || fail "lines of two ranks mix"
cat >lines.sh <<'S'
for ((i = 0; i < 5000; i++)); do echo "rank $TESSERA_RANK line $i ............................................."; done
S
"$tessera" run -n 4 --log-dir g -t 1 -- bash lines.sh >out.txt
[ "$(grep -cE '^\[rank([0-3])\]: rank \1 line [0-9]+ \.+$' out.txt)" = 20000 ] && pass "20,000 lines of four ranks" ||
    fail "lines: $(grep -vE '^\[rank([0-3])\]: rank \1 line [0-9]+ \.+$' out.txt | head -n 3)"

# ---- Rotation
make_model model.json
make_text 60 >text.txt
make_config run.yaml
"$tessera" train run.yaml -n 2 training.steps=3 job.log_tee=3 >log 2>&1 || fail "$(tail -n 1 log)"
expect "a run keeps its ranks' output" 0 "step: " show out/logs/attempt_0/0/stdout.log
expect "and shows it" 0 "[rank0]: step: " cat log
cp -r out before
"$tessera" train run.yaml -n 2 training.steps=400 job.dump_folder=rot metrics.log_freq=1 job.log_redirects=3 \
    job.log_max_size=4096 job.log_kept=2 >log 2>&1 || fail "$(tail -n 1 log)"
n=$(ls rot/logs/attempt_0/0/stdout.log* | wc -l)
most=$(stat -c %s rot/logs/attempt_0/0/stdout.log* | sort -n | tail -n 1)
[ "$n" = 3 ] && [ "$most" -le 4096 ] && pass "files are rotated, and old ones go" || fail "$n files, the largest of $most"
expect "the newest lines stay" 0 "400" tail -n 40 rot/logs/attempt_0/0/stdout.log
# A slow machine adds lines of other kinds, so any line may be the first of a file.
for i in 1 2; do
    [ -z "$(tail -c 1 rot/logs/attempt_0/0/stdout.log.$i)" ] && pass "file $i ends with a line" ||
        fail "file $i ends within a line: $(tail -n 1 rot/logs/attempt_0/0/stdout.log.$i)"
done

# ---- A run without flags
rm -rf out
"$tessera" train run.yaml -n 2 training.steps=3 >log 2>&1 || fail "$(tail -n 1 log)"
[ -e out/logs ] && fail "a run whose ranks print nothing has files" || pass "no file without a byte"
grep -q rank0 log && fail "rank 0 has a prefix" || pass "rank 0 has the terminal"
"$tessera" train run.yaml -n 1 training.steps=3 job.dump_folder=alone --log-dir one >log 2>&1 || fail "$(tail -n 1 log)"
expect "one rank" 0 "step: " show one/attempt_0/0/stdout.log

# ---- A disk that is full, a terminal that is gone
if mkdir full && mount -t tmpfs -o size=32k none full 2>/dev/null; then
    "$tessera" run -n 2 --log-dir full/logs -t 1 -- bash lines.sh >out.txt 2>err.txt
    got=$?
    umount full
    [ $got = 0 ] && [ "$(grep -c "line 4999 " out.txt)" = 2 ] && pass "a full disk ends nothing" || fail "a full disk: $got"
    expect "and is told once" 0 1 grep -c "No space left on device: the run goes on" err.txt
fi
"$tessera" run -n 2 --log-dir h -t 3 -- bash lines.sh 2>err.txt | head -n 1 >/dev/null
[ "${PIPESTATUS[0]}" = 0 ] && pass "a terminal that is gone ends nothing" || fail "a terminal that is gone"
expect "and is told" 0 "nobody reads standard output: the run goes on" cat err.txt
expect "the files have all" 0 "line 4999 " tail -n 1 h/attempt_0/1/stdout.log
"$tessera" run -n 2 --log-dir i -- bash -c 'echo before; kill -SEGV $$' >log 2>&1
expect "the last line before a crash" 0 "before" show i/attempt_0/0/stdout.log
begin=$SECONDS
"$tessera" run -n 2 --log-dir j -- bash -c 'sleep 60 & echo done' >log 2>&1 # a child holds the pipe
[ $((SECONDS - begin)) -lt 15 ] && pass "a child that lives on delays nothing" || fail "a child delays the end: $((SECONDS - begin)) s"
expect "and its rank's lines are kept" 0 "done" show j/attempt_0/1/stdout.log

# ---- A terminal that takes nothing, and goes on later: files have all, the terminal has a note
mkfifo pager
{ sleep 3; cat; } <pager >seen &
begin=$SECONDS
"$tessera" run -n 2 --log-dir k -t 3 -- bash lines.sh >pager 2>err.txt
[ $? = 0 ] && [ $((SECONDS - begin)) -lt 15 ] && pass "a terminal that stops blocks nothing" || fail "$((SECONDS - begin)) s: $(cat err.txt)"
wait $!
[ "$(cat k/attempt_0/?/stdout.log | wc -l)" = 10000 ] && pass "files have all lines" || fail "$(wc -l k/attempt_0/?/stdout.log)"
left=$(sed -n 's/^--- tessera: \([0-9]*\) lines are left out here: this output was not read; k has them ---$/\1/p' seen)
[ $((left + $(grep -c '^\[rank' seen))) = 10000 ] && [ "$left" -gt 0 ] && pass "it says how many are left out" || fail "$left: $(wc -l seen)"
"$tessera" run -n 2 --log-dir l -- bash -c 'head -c 4007 /dev/zero | tr "\0" x; sleep 0.2; echo' >out.txt
[ "$(wc -l <out.txt)" = 2 ] && pass "a line that fills the buffer is one line" || fail "$(cut -c 1-20 out.txt)"
finish
