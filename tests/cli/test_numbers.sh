#!/usr/bin/env bash
# Wrong numbers in a run, and the messages about them.
. "$(dirname "$0")/support.sh"

make_text 400 >text.txt
make_model model.json
make_config config.yaml
train() { "$tessera" train config.yaml -n "$1" validation.enable=false checkpoint.enable=false training.steps=12 "${@:2}"; }
up_proj=model.layers.1.mlp.up_proj.weight

# A NaN that recurs each time the step is computed: the run ends and names the rank that made it.
expect nan_stops_the_run 2 "step 5: loss" \
    train 2 fault.spec="rank=1 step=5 point=gradient kind=nan tensor=$up_proj times=0"
expect nan_is_named 2 "first came rank 1, micro-batch 1 of 0..7: gradient '$up_proj' is nan at row" \
    train 2 fault.spec="rank=1 step=5 point=gradient kind=nan tensor=$up_proj times=0"
expect inf_is_named 2 "first came rank 0, micro-batch 0 of 0..7: gradient 'model.norm.weight' is inf at row" \
    train 2 fault.spec="rank=0 step=3 point=gradient kind=inf tensor=model.norm.weight times=0"
expect bad_weight_is_named 2 "weight '$up_proj' is nan at row" \
    train 2 fault.spec="rank=1 step=5 point=parameter kind=nan tensor=$up_proj"
expect skipped_updates_are_counted 0 "its update is skipped (1 so far)" \
    train 2 numbers.on_nonfinite=skip job.dump_folder=skipped \
    fault.spec="rank=1 step=5 point=gradient kind=nan tensor=$up_proj times=0"
expect skips_are_in_the_metrics 0 '"step": 5, "loss":' grep '"skipped": true' skipped/metrics.jsonl
expect losses_of_nan_have_no_point_in_the_curve 0 "12 steps in" \
    train 2 numbers.on_nonfinite=skip job.dump_folder=nan fault.spec="rank=1 step=9 point=parameter kind=nan tensor=$up_proj"

# A NaN that does not recur: the run goes on with the bits of an undisturbed one.
expect once_is_not_skipped 0 "the run goes on with the second result" \
    train 4 numbers.on_nonfinite=skip job.dump_folder=once fault.spec="rank=2 step=5 point=gradient kind=nan tensor=$up_proj"
expect clean_run 0 "12 steps" train 4 job.dump_folder=clean
losses() { grep -o '"step": [0-9]*, "loss": [^,]*' "$1/metrics.jsonl"; }
losses once >a
losses clean >b
expect once_leaves_no_trace 0 "same" bash -c "cmp a b && echo same"
expect once_stops_by_default 1 "computed again it is well; what was seen first: rank 2, micro-batch 2 of 0..7: gradient '$up_proj'" \
    train 4 fault.spec="rank=2 step=5 point=gradient kind=nan tensor=$up_proj"

# An injected fault that never happened.
expect unused_fault_is_told 0 "warning: fault 2 never happened on rank 1: rank=1 step=900 point=gradient kind=nan" \
    train 2 fault.spec="rank=1 step=3 point=phase:forward kind=sleep ms=1; rank=1 step=900 point=gradient kind=nan"
expect_not() { "${@:2}" 2>&1 | grep -q "$1" || echo none; }
expect used_fault_is_not_told 0 "none" \
    expect_not "never happened" train 2 fault.spec="rank=1 step=3 point=phase:forward kind=sleep ms=1"

# A flipped bit in one of four replicas.
expect flipped_bit_is_named 1 "step 8: replicas have diverged: rank 3: weight '$up_proj'" \
    train 4 parallelism.shard_strategy=none numbers.replica_check_interval=4 \
    fault.spec="rank=3 step=6 point=state kind=flip bit=20 tensor=$up_proj"
expect what_differs_is_not_saved 1 "step 10: replicas have diverged: rank 3: weight '$up_proj'" \
    train 4 parallelism.shard_strategy=none checkpoint.enable=true checkpoint.interval=10 job.dump_folder=differs \
    fault.spec="rank=3 step=9 point=state kind=flip bit=20 tensor=$up_proj"
expect flipped_moment_is_named 1 "rank 1: exp_avg_sq of '$up_proj'" \
    train 4 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=4 \
    numbers.replica_check_interval=1 fault.spec="rank=1 step=6 point=state kind=flip tensor=$up_proj.exp_avg_sq"
# A tied table is on the first stage of a pipeline and on the last one.
make_model tied.json true
tied=(model.config=tied.json parallelism.pipeline_parallel_degree=3 numbers.replica_check_interval=3)
table=model.embed_tokens.weight
for rank in 0 4; do
    expect "copies_of_a_tied_table_are_compared: rank $rank" 1 \
        "step 6: replicas have diverged: ranks $((rank % 2)) and $((rank % 2 + 4)) hold weight '$table' with different bits" \
        train 6 "${tied[@]}" fault.spec="rank=$rank step=6 point=state kind=flip bit=20 tensor=$table"
done
expect "copies_of_a_tied_table_are_the_same" 0 "12 steps" train 6 "${tied[@]}"

# A low limit makes many spikes; within 128 steps only higher ones are reported.
"$tessera" train config.yaml -n 1 job.dump_folder=spikes training.steps=400 validation.enable=false \
    checkpoint.enable=false training.global_batch_size=2 numbers.spike_z=1 optimizer.lr=0 lr_scheduler.warmup_steps=0 >spikes.out 2>&1
n=$(grep -c "spike at step" spikes.out)
if [ "$n" -ge 2 ] && [ "$n" -le 20 ]; then pass "few spikes are told"; else fail "few spikes are told: $n, $(tail -n 2 spikes.out)"; fi
finish
