#!/usr/bin/env bash
# Law 1 at any number of ranks: none of the runs below can share its micro-batches evenly, and all give the loss and
# grad_norm columns and the weights of one rank. `test_any_ranks.sh TESSERA PROJECT all` tries every number of ranks with
# every strategy.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
all=${3:-}

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
equal() { cmp -s <(columns "$1") <(columns "$2") && cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors"; }

reference() { # NAME OPTIONS...
    local name=$1
    shift
    "$tessera" train run.yaml job.dump_folder="$name" training.threads=1 model.save_dtype=float32 "$@" >log 2>&1 ||
        { cat log; exit 1; }
}

# same NAME REFERENCE ARGUMENTS...: equal in every digit to the run in folder REFERENCE.
same() {
    local name=$1 reference=$2
    shift 2
    rm -rf out
    if ! "$tessera" train run.yaml job.dump_folder=out training.threads=1 model.save_dtype=float32 "$@" >log 2>&1; then
        fail "$name: $(tail -n 3 log)"
    elif equal out "$reference"; then
        pass "$name"
    else
        fail "$name: other bits, first at $(diff <(columns out) <(columns "$reference") | head -n 2 | tail -n 1)"
    fi
}

hybrid=parallelism.shard_strategy=hybrid
replicas=parallelism.data_parallel_replicate_degree
for dtype in bfloat16 float32; do
    precision="training.mixed_precision_param=$dtype"
    reference "ref_$dtype" $precision
    for n in 3 7; do
        same "$dtype: $n ranks, full" "ref_$dtype" -n $n $precision
    done
    same "$dtype: 5 ranks, zero1, everything recomputed" "ref_$dtype" -n 5 $precision \
        parallelism.shard_strategy=zero1 activation_checkpoint.mode=full
    same "$dtype: 3 ranks, none" "ref_$dtype" -n 3 $precision parallelism.shard_strategy=none
    same "$dtype: 2 x 3 ranks" "ref_$dtype" -n 6 $precision $hybrid $replicas=2
    same "$dtype: 3 x 2 ranks" "ref_$dtype" -n 6 $precision $hybrid $replicas=3
done
same "more ranks than micro-batches" ref_bfloat16 -n 12
reference ref_5 training.global_batch_size=10
same "5 micro-batches on 2 x 2 ranks" ref_5 -n 4 training.global_batch_size=10 $hybrid $replicas=2
same "5 micro-batches on 4 ranks" ref_5 -n 4 training.global_batch_size=10
reference ref_reduced training.mixed_precision_reduce=bfloat16
same "gradients in bfloat16 on their way, 3 ranks" ref_reduced -n 3 training.mixed_precision_reduce=bfloat16
same "gradients in bfloat16 on their way, 2 x 3 ranks" ref_reduced -n 6 training.mixed_precision_reduce=bfloat16 $hybrid \
    $replicas=2
"$tessera" train run.yaml -n 3 training.steps=1 lr_scheduler.warmup_steps=1 job.dump_folder=out >log 2>&1
grep -q "8 micro-batches over 3 ranks: 1 rank is without one" log && pass "the log says that ranks are idle" ||
    fail "the log says nothing of it: $(head -n 8 log)"

# A micro-batch in passes: the bits follow from their number, and from nothing else. Five rows make passes of 3 and 2 rows,
# or of 2, 2, 1 and 0.
activations() { grep -o 'activations [^,]*' "$1"; } # LOG: bytes of the peak
sizes="training.local_batch_size=5 training.global_batch_size=25"
for p in 1 2 4; do
    reference "ref_p$p" $sizes training.passes=$p
    activations log >"peak_p$p"
done
cmp -s <(columns ref_p1) <(columns ref_p2) && fail "2 passes change nothing" || pass "2 passes are other sums than 1"
cmp -s peak_p1 peak_p2 || cmp -s peak_p2 peak_p4 && fail "passes change no memory: $(cat peak_p?)" ||
    pass "each number of passes has its own peak of activations"
for p in 2 4; do
    same "$p passes: 2 ranks, full" "ref_p$p" -n 2 $sizes training.passes=$p
    same "$p passes: 3 ranks, zero1" "ref_p$p" -n 3 $sizes training.passes=$p parallelism.shard_strategy=zero1
    same "$p passes: 2 x 2 ranks, everything recomputed" "ref_p$p" -n 4 $sizes training.passes=$p $hybrid $replicas=2 \
        activation_checkpoint.mode=full
    same "$p passes: 8 ranks, none" "ref_p$p" -n 8 $sizes training.passes=$p parallelism.shard_strategy=none
done
same "2 passes: 1 rank, zero2" ref_p2 $sizes training.passes=2 parallelism.shard_strategy=zero2
same "2 passes: a rank is killed in backward and replaced" ref_p2 -n 3 $sizes training.passes=2 \
    recovery.enable=true \
    fault.spec="rank=1 step=9 point=phase:backward kind=sigkill"
grep -q 'going on from step 8, kept in memory by 3 ranks' log && pass "it went on from memory" ||
    fail "it did not go on from memory: $(grep -m 3 'rank 1' log)"
expect "a pass for each row at the most" 2 "3 passes for the 2 rows of a micro-batch: set training.passes=2 or less" \
    "$tessera" train run.yaml job.dump_folder=out training.passes=3

if [ "$all" = all ]; then
    for n in 2 3 4 5 6 7 8; do
        for dtype in bfloat16 float32; do
            for strategy in none zero1 zero2 full hybrid; do
                for recompute in none full "selective activation_checkpoint.recompute=feed_forward,attention"; do
                    degrees=1
                    [ $strategy = hybrid ] && case $n in 4 | 6 | 8) degrees="2 $((n / 2))" ;; *) degrees=$n ;; esac
                    for degree in $degrees; do
                        same "$n ranks, $strategy, $degree replicas, $dtype, recompute $recompute" "ref_$dtype" -n $n \
                            training.mixed_precision_param=$dtype parallelism.shard_strategy=$strategy \
                            activation_checkpoint.mode=$recompute $replicas=$degree \
                            parallelism.fsdp_unit_blocks=$((n % 3 + 1))
                    done
                done
            done
        done
    done
fi

if [ "$all" = all ]; then
    for n in 1 2 3 4 8; do
        for p in 2 4; do
            for strategy in none zero1 zero2 full hybrid; do
                degree=1
                [ $strategy = hybrid ] && [ $((n % 2)) = 0 ] && degree=2
                same "$p passes: $n ranks, $strategy, $degree replicas" "ref_p$p" -n $n $sizes training.passes=$p \
                    parallelism.shard_strategy=$strategy $replicas=$degree
            done
        done
    done
fi

# Ended after steps 8, 14 and 21, and resumed each time on another number of ranks.
rm -rf out
resumed=(job.dump_folder=out training.threads=1 model.save_dtype=float32)
for at in "6 8" "5 14" "1 21"; do
    read -r n step <<<"$at"
    "$tessera" train run.yaml -n "$n" "${resumed[@]}" checkpoint.interval="$step" \
        fault.spec="rank=0 step=$((step + 1)) point=step kind=exit" >log 2>&1
done
"$tessera" train run.yaml -n 7 "${resumed[@]}" >log 2>&1
equal out ref_bfloat16 && pass "resumed on 6, 5, 1 and 7 ranks" || fail "resumed on 6, 5, 1, 7 ranks: $(tail -n 4 log)"
finish
