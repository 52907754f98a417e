#!/usr/bin/env bash
# tessera pipeline: schedules drawn, measured against their formulas and compared; what cannot be built is refused with the
# numbers that would do.
set -uo pipefail
source "$(dirname "$0")/support.sh"

f1b="--schedule 1f1b --stages 4 --micro-batches 8"
expect "a timeline with numbers" 0 "rank 3  .  .  .  F0 B0--- F1 B1--- F2 B2---" "$tessera" pipeline $f1b
expect "22 slots where forward and backward take one" 0 "length 22, bubble 27.3%; by the formula (p-1)/(m+p-1): 27.3%" \
    "$tessera" pipeline $f1b --costs 1,1,0
expect "1F1B holds p - r micro-batches" 0 "   1     24  27.3%          3  1: 3" "$tessera" pipeline $f1b
expect "advice" 0 "28 micro-batches or more make it smaller than 10%" "$tessera" pipeline $f1b
expect "uneven times" 0 "bubble 13.0%; by the formula (p-1)(F+I-W) idle: 13.0%" \
    "$tessera" pipeline --schedule zb_h1 --stages 4 --micro-batches 8 --costs 1,1.1,0.9
expect "a narrow picture" 0 "rank 3  ...FBBFBBFBBFBBFBBFBBFBBFBB......" "$tessera" pipeline $f1b --columns 40
expect "the second chunk of a V" 0 "   0     48   5.9%          8  0: 8 7: 1" \
    "$tessera" pipeline --schedule zbv --stages 4 --micro-batches 8
expect "torchtitan's names" 0 "interleaved: 2 ranks, 3 chunks a rank, 4 micro-batches" \
    "$tessera" pipeline --schedule Interleaved1F1B --stages 2 --chunks 3 --micro-batches 4
expect "layers in stages" 0 "3: 1 (layers 6 .. 6)" \
    "$tessera" pipeline --schedule 1f1b --stages 4 --micro-batches 8 --layers 7 --embedding 0.2 --head 1
expect "uneven stages" 0 "no number of micro-batches that can be simulated makes it smaller than 10%" \
    "$tessera" pipeline --schedule 1f1b --stages 2 --micro-batches 8 --layers 3
expect "all schedules side by side" 0 "zb_h1             1        27   11.1%          4" \
    "$tessera" pipeline --stages 4 --micro-batches 8
expect "and why one cannot be" 0 "dualpipev    dualpipev with 4 ranks needs 8 or more micro-batches, not 4" \
    "$tessera" pipeline --stages 4 --micro-batches 4

"$tessera" pipeline $f1b --json --trace trace.json >pipeline.json
"$tessera" pipeline --stages 4 --micro-batches 4 --json >all.json
for text in '"version": 1' '"length": 33.0' '"bubble": 0.2727' '"formula": "(p-1)/(m+p-1)"' '"order": "FFFBFBFBFBFBFBBB"' '"slots": 3' \
    '"in_flight": 2' '"micro_batches_for_10_percent": 28' '"message_buffers": 1' '"op": "SEND_F"' '"last": true'; do
    expect "JSON has $text" 0 "$text" cat pipeline.json
done
expect "JSON of all has a version" 0 '"version": 1' cat all.json
expect "JSON of all" 0 '"refused": "dualpipev with 4 ranks needs 8' cat all.json
expect_metrics "metrics of actions" 0 "$tessera" pipeline $f1b
expect "which have an index" 0 'tessera_ranks_actions_end{rank="0",actions_op="F",actions_index="2"} 2' cat page
expect_metrics "metrics of all schedules" 0 "$tessera" pipeline --stages 4 --micro-batches 4
expect "a trace" 0 '{"ph":"X","pid":3,"tid":1,"name":"F 0","ts":3000.000,"dur":1000.000' cat trace.json

expect "an unknown schedule" 2 "--schedule: unknown pipeline schedule '1f1': did you mean '1f1b'?" \
    "$tessera" pipeline --schedule 1f1 --stages 4 --micro-batches 8
expect "too few micro-batches" 2 "interleaved with 4 ranks needs a multiple of 4 micro-batches: 8 or 12, not 10" \
    "$tessera" pipeline --schedule interleaved --stages 4 --micro-batches 10
expect "too many chunks" 2 "1f1b needs 1 chunk a rank, not 2: interleaved takes several" "$tessera" pipeline $f1b --chunks 2
expect "too few layers" 2 "3 layers cannot be cut into 4 stages of a layer or more; take 3 stages or fewer" \
    "$tessera" pipeline $f1b --layers 3
expect "too few layers for every schedule" 2 "3 layers cannot be cut into 4 stages" \
    "$tessera" pipeline --stages 4 --micro-batches 8 --layers 3
[ "$(wc -l <output)" = 1 ] && pass "which is said once" || fail "said again: $(cat output)"
expect "enough layers for some" 0 "8 stages of a layer or more" "$tessera" pipeline --stages 4 --micro-batches 8 --layers 4
printf '\xef\xbb\xbf"0F0","0B0","0F1","0B1"\r\n\r\n1F0,1F1,1B0,1B1\r\n' >order.csv
expect "a deadlock is told by row and cell" 2 \
    "order.csv: deadlock: row 1, cell 2 ('0B0') waits for rank 1; row 2, cell 2 ('1F1') waits for rank 0" \
    "$tessera" pipeline --schedule 1f1b --stages 2 --micro-batches 2 --csv order.csv
expect "no costs" 2 "--costs: 'x': write up to four times from 0 to 1e6, F,B,W,SEND" "$tessera" pipeline $f1b --costs 1,x
expect "too many costs" 2 "--costs: '0,7'" "$tessera" pipeline $f1b --costs 1,1,1,0,7
expect "costs below 0" 2 "--costs: '-1'" "$tessera" pipeline $f1b --costs=1,-1
expect "costs that are no numbers" 2 "--costs: 'nan'" "$tessera" pipeline $f1b --costs nan
expect "costs beyond all bounds" 2 "--costs: '1e300" "$tessera" pipeline $f1b --costs 1e300
expect "a forward for nothing" 2 "a forward takes more than 0" "$tessera" pipeline $f1b --costs 0
expect "no size" 2 "--stages and --micro-batches say how large the pipeline is" "$tessera" pipeline --stages 4
expect "a trace of what" 2 "choose it with --schedule" "$tessera" pipeline --stages 4 --micro-batches 8 --trace t.json
expect "a trace nowhere" 2 "none/t.json" "$tessera" pipeline $f1b --trace none/t.json
expect "a pipeline beyond all bounds" 2 "the product may be 4194304" \
    "$tessera" pipeline --schedule gpipe --stages 16384 --micro-batches 1048576
expect "the list of commands has it" 0 "schedules of a pipeline: timeline" "$tessera" help
finish
