#!/usr/bin/env bash
# `tessera plan advise`: rules of thumb with the figures of their texts.
source "$(dirname "$0")/support.sh"
advise() { expect "$1" "$2" "$3" "$tessera" plan advise "${@:4}"; }

advise "the rules" 0 "two engines: should they pay"
advise "an unknown rule" 2 "did you mean 'memory'" memroy
advise "two rules" 2 "one rule at a time" memory axes

advise "16 bytes a parameter" 0 "112.00    38.50    26.25    14.00" memory --ranks 8
advise "12 bytes a parameter" 0 "84.00    35.00    22.75    10.50" memory --ranks 8
advise "6 bytes a parameter, and the gathered weights" 0 "42.00    29.75    17.50    19.25" memory --ranks 8
advise "one GPU, by the text's formula" 0 "= 144.3" memory --batch 8
advise "65 billion parameters on 16 GPUs" 0 "85.0  does not fit" memory --params 65 --ranks 16 --activations 20
advise "as JSON" 0 '"sum": 144.3' memory --batch 8 --json
advise "sharding" 0 "it saves 71.25% of all" saving --ranks 4
for case in "4 75.00 71.25" "8 87.50 83.12" "16 93.75 89.06"; do
    read -r ranks saved all <<<"$case"
    advise "sharding over $ranks" 0 "saves $saved% of what is sharded" saving --ranks "$ranks"
    grep -qF "it saves $all% of all" output && pass "and with 5% of activations" || fail "$(cat output)"
done
advise "accumulation" 0 "16.0 GiB; of one of 8 micro-batches: 2.0 GiB, 87.5% less" accumulation --batch 32
advise "offload, with its figures" 0 "saves 40.00 GB of the device; 30 to 50% slower" \
    offload --model 20 --memory 40 --host 60 --batch 4
advise "and with units" 0 "saves 21.47 GB of the device; 30 to 50% slower" \
    offload --model 10GiB --memory 20GiB --host 60GiB --batch 4

advise "strategies" 0 "56 GB of state, 7 a rank if sharded; 60% of the memory are 48 GB" strategy
advise "14 GB on 8 GPUs of 80 GB" 0 "  memory     FSDP2  " strategy --model 14 --memory 80 --ranks 8
# axes MEMORY PARAMS RANKS: tp, pp, dp and GB of the text's rule.
axes() { "$tessera" plan advise axes --params "$2" --ranks "$3" --memory "$1" | awk '/^as the text has it/ { print $6, $7, $8, $9 }'; }
for case in "40 175 512 8 32 2 11.4" "80 175 512 8 16 4 12.7" "40 70 64 8 8 1 12.2"; do
    read -r memory params ranks want <<<"$case"
    [ "$(axes "$memory" "$params" "$ranks")" = "$want" ] && pass "axes of $params billion on $ranks GPUs of $memory GB" ||
        fail "axes of $params billion on $ranks GPUs of $memory GB: $(axes "$memory" "$params" "$ranks"), not $want"
done
advise "too few GPUs" 2 "--ranks" axes --params 175 --ranks 8 --memory 20
advise "context" 0 "48.00   24.00  144.00" context --sequence 32768 --batch 4
for case in "4 1 128.00 0.00 0.00 0.00" "4 4 32.00 48.00 24.00 144.00" "1 1 32.00 0.00 0.00 0.00" "1 4 8.00 12.00 6.00 36.00"; do
    read -r batch cp want <<<"$case"
    "$tessera" plan advise context --sequence 32768 --batch "$batch" | awk -v cp="$cp" '$1 == cp && NF == 6 { print $3, $4, $5, $6 }' >got
    [ "$(cat got)" = "$want" ] && pass "context: $batch texts over $cp ranks" || fail "context: $batch texts over $cp ranks: $(cat got)"
done
advise "precision" 0 "with loss scaling" precision --device V100
advise "an unknown GPU" 2 "did you mean 'V100'" precision --device V10

advise "volume" 0 "reaches 21.00 GB/s, 84.0% of the bandwidth" volume --model 60 --seconds 5
grep -qF "gathers 52.50 GB and scatters 52.50 GB: 105.00 GB" output && grep -qF "4.200 s at full bandwidth" output &&
    pass "60 GB over 8 ranks" || fail "$(cat output)"
advise "layers" 0 "forward 13.12 GiB, backward 15.00 GiB, sum 28.12 GiB" layers --layers 40 --sequence 8192 --batch 4
advise "all-reduce" 0 "2 (N-1)/N D/B" all-reduce
advise "moves" 0 "reduce-scatter" moves
advise "overlap" 0 "1800 ms one after the other, 1300 ms overlapped, 1.38x, 27.8% less" overlap --layers 12
advise "buckets" 0 "19.73 MiB in buckets of 10 MiB are 2 messages, 0.10 ms" buckets --bucket 10
advise "larger buckets" 0 "are 1 message, 0.05 ms" buckets --bucket 25
advise "scaling" 0 "7.36" scaling

advise "the example of a cluster" 0 "exact on-policy training: yes (confidence high)" \
    on-policy --algorithm grpo --size medium --budget medium --slowdown 30 --measured 45.23,58.91
grep -qF "the price: +30.2%, large (20 to 40%)" output && pass "and its price" || fail "the price: $(cat output)"
advise "not for DPO" 0 "instead: standard training" on-policy --algorithm dpo
advise "as JSON" 0 '"use_true_on_policy": true' on-policy --algorithm ppo --json
advise "an unknown algorithm" 2 "did you mean 'grpo'" on-policy --algorithm gpro
advise "no algorithm" 2 "--algorithm says what is trained" on-policy
advise "no times" 2 "STANDARD,EXACT" on-policy --algorithm grpo --measured 45
advise "settings that the command line takes" 0 \
    "rl.clip_high=0.1 rl.kl_beta=0.05 rl.entropy_coef=0.005 optimizer.lr=5e-06 rl.correction=tis" settings --task llm_grpo
advise "an unknown task" 2 "known are llm_rlhf, llm_grpo, game_ai, default" settings --task chess
advise "a reference of 30 GB in 40" 0 "swapping saves 21.0 GB" reference --model 30 --memory 40 --steps 5
advise "5 GB in 40, often, to be precise" 0 '"independent": 3' \
    reference --model 5 --memory 40 --steps 20 --critical-kl --json
finish
