#!/usr/bin/env bash
# Law 1 under any layout: pipelines by every schedule, with every strategy inside, on sizes that nothing divides, give the
# loss and grad_norm columns, the evaluations and the weights of one rank. `test_layouts.sh TESSERA PROJECT all` crosses
# all of them.
. "$(dirname "$0")/layouts.sh"
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 11/' model.json
make_config run.yaml
all=${3:-}

settings="training.threads=1 model.save_dtype=float32 training.steps=8 validation.interval=4 training.local_batch_size=1"

# staged NAME REFERENCE RANKS STAGES SCHEDULE OPTIONS...
staged() {
    local name="$1: $3 ranks, $4 stages, $5" reference=$2 ranks=$3 stages=$4 schedule=$5
    shift 5
    same "$name" "$reference" "$ranks" parallelism.pipeline_parallel_degree="$stages" \
        parallelism.pipeline_parallel_schedule="$schedule" "$@"
}

strategy=parallelism.shard_strategy replicas=parallelism.data_parallel_replicate_degree
recompute="activation_checkpoint.mode=full"
units="parallelism.fsdp_unit_mixed=true parallelism.fsdp_unit_blocks"
selective="activation_checkpoint.mode=selective activation_checkpoint.recompute=attention_inputs,attention"
half="training.mixed_precision_param=bfloat16" single="training.mixed_precision_param=float32"
reference bf16 $half
reference fp32 $single
if [ -n "$all" ]; then
    for dtype in bf16 fp32; do
        precision=$half
        [ $dtype = fp32 ] && precision=$single
        for schedule in gpipe 1f1b interleaved zb_h1 zbv dualpipev; do
            staged "$dtype" $dtype 4 4 $schedule $precision
            staged "$dtype, recompute" $dtype 4 4 $schedule $precision $recompute
            staged "$dtype, selective" $dtype 4 4 $schedule $precision $selective
            [ $schedule != interleaved ] && staged "$dtype" $dtype 5 5 $schedule $precision
            for s in none zero1 zero2 full; do
                staged "$dtype, $s" $dtype 4 2 $schedule $precision $strategy=$s
                staged "$dtype, $s, units of 2" $dtype 6 2 $schedule $precision $strategy=$s $units=2 \
                    parallelism.fsdp_prefetch=3
            done
            staged "$dtype, hybrid" $dtype 8 2 $schedule $precision $strategy=hybrid $replicas=2
        done
    done
    finish
fi

staged "bf16" bf16 3 3 gpipe $half
staged "bf16, recompute" bf16 2 2 1f1b $half $recompute
staged "bf16, zero1" bf16 6 2 1f1b $half $strategy=zero1 parallelism.fsdp_prefetch=3
staged "fp32, kept after forward, units of 2" fp32 4 2 1f1b $single $strategy=full $units=2 \
    parallelism.fsdp_reshard_after_forward=0
staged "bf16, hybrid, a unit a stage" bf16 8 2 interleaved $half $strategy=hybrid $replicas=2 $units=99
staged "fp32, none" fp32 4 4 interleaved $single $strategy=none
staged "bf16, selective" bf16 5 5 zb_h1 $half $selective
staged "fp32, zero2, units of 2" fp32 6 3 zb_h1 $single $strategy=zero2 $recompute $units=2
staged "bf16" bf16 8 4 zbv $half
staged "fp32, three stages a rank" fp32 2 2 interleaved $single parallelism.pipeline_parallel_layers_per_stage=2
staged "bf16" bf16 2 2 dualpipev $half
staged "fp32" fp32 6 2 dualpipev $single $strategy=zero2
staged "bf16, a layer a stage" bf16 11 11 1f1b $half
# Orders from a file: forwards in pairs, and one rank that splits its backward.
paired() { # MICRO_BATCHES
    for ((i = 0; i < $1; i += 2)); do printf '0F%d,0F%d,0B%d,0B%d,' $i $((i + 1)) $i $((i + 1)); done
    printf '\n'
    for ((i = 0; i < $1; i += 2)); do printf '1F%d,1I%d,1F%d,1I%d,1W%d,1W%d,' $i $i $((i + 1)) $((i + 1)) $i $((i + 1)); done
    printf '\n'
}
paired 16 >16.csv
paired 8 >8.csv
csv=parallelism.pipeline_parallel_schedule_csv
staged "bf16, 16.csv" bf16 2 2 1f1b $half $csv=16.csv
staged "fp32, 8.csv" fp32 4 2 gpipe $single $csv=8.csv $strategy=zero1
staged "bf16, 8.csv, whole layers again" bf16 4 2 1f1b $half $csv=8.csv $strategy=none $recompute
expect "a file for another number of micro-batches" 2 "8.csv: row 1: stage 0 has 8 of 16 micro-batches in F" \
    "$tessera" train run.yaml -n 2 job.dump_folder=out $settings parallelism.pipeline_parallel_degree=2 $csv=8.csv
expect "the file is checked and simulated" 0 "bubble " "$tessera" pipeline --schedule 1f1b --csv 8.csv --stages 2 --micro-batches 8

# Stages that begin at named layers, and ranks in an order of their own.
points=parallelism.pipeline_parallel_split_points order=parallelism.rank_order
staged "bf16, cut by names" bf16 3 3 1f1b $half $points=layers.1,layers.8
staged "fp32, cut by names, two stages a rank" fp32 2 2 zbv $single $points=layers.1,model.layers.2,layers.9
staged "bf16, cut by names, an order of ranks" bf16 4 2 zb_h1 $half $points=layers.7 $order=0,3,2,1 $strategy=zero1
staged "fp32, an order of ranks" fp32 6 2 interleaved $single $order=0-4:2,1-5:2
for n in 3 4 5; do
    same "bf16, an order of $n ranks" bf16 $n $half $order=0,$((n - 1)),1-$((n - 2))
done
grep -q "ranks 0 4 1 2 3" log && pass "the log has the order" || fail "no order in the log: $(grep mesh log)"
same "fp32, pairs of replicas in an order of ranks" fp32 4 $single $strategy=hybrid $replicas=2 $order=0-2:2,1-3:2
expect "an order that begins elsewhere" 2 "parallelism.rank_order: rank 1 is the first: begin with rank 0" \
    "$tessera" train run.yaml -n 2 job.dump_folder=out $settings $order=1,0
expect "a layer that the model lacks" 2 "'layers.11' is no layer after model.layers.0" \
    "$tessera" train run.yaml -n 2 job.dump_folder=out $settings parallelism.pipeline_parallel_degree=2 $points=layers.11
expect "verify in an order of ranks" 0 "the same bits: this layout gives what one rank gives" "$tessera" verify run.yaml -n 4 --steps 2 training.local_batch_size=1 \
    parallelism.pipeline_parallel_degree=2 $points=layers.3 $order=0-2:2,1-3:2

TESSERA_DEVICE=far TESSERA_FAR_DELAYS=3:100 staged "bf16 on a device apart" bf16 4 2 zb_h1 $half
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=5:100 staged "bf16 on a device apart" bf16 2 2 zbv $half
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=7:100 staged "fp32 on a device apart" fp32 2 2 interleaved $single

# Saved under one layout, killed, resumed under the next.
rm -rf out
for at in "4 2 2 zbv $order=0,3,1,2" "3 3 4 1f1b $points=layers.1,layers.6" "4 1 6 1f1b $order=0,2,3,1"; do
    set -- $at
    "$tessera" train run.yaml -n "$1" job.dump_folder=out $settings $half parallelism.pipeline_parallel_degree="$2" \
        parallelism.pipeline_parallel_schedule="$4" checkpoint.interval="$3" "$5" \
        fault.spec="rank=0 step=$(($3 + 1)) point=step kind=exit" >log 2>&1
    grep -q "checkpoint" log || fail "no checkpoint of $at: $(tail -n 3 log)"
done
"$tessera" train run.yaml -n 5 job.dump_folder=out $settings $half parallelism.pipeline_parallel_degree=5 >log 2>&1
equal out bf16 && pass "resumed under four layouts" || fail "resumed: $(tail -n 3 log; diff <(columns out) <(columns bf16) | head -n 4)"
finish
