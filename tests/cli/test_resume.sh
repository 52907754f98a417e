#!/usr/bin/env bash
# Resuming with other numbers of ranks, repeatedly: the losses are those of a run that never stopped.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
# A constant learning rate, so that a run may end earlier; 24 micro-batches a step, which 3 ranks can share, too.
base="training.local_batch_size=1 training.global_batch_size=24 lr_scheduler.decay_type=constant lr_scheduler.warmup_steps=0
      validation.enable=false checkpoint.interval=1000 model.save_dtype=float32"

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

# go FOLDER "RANKS STEPS [ARGUMENTS]"...: runs one launch after the other, each to its last step.
go() {
    local folder=$1 leg ranks steps more
    shift
    for leg in "$@"; do
        read -r ranks steps more <<<"$leg"
        "$tessera" train run.yaml -n "$ranks" training.steps="$steps" job.dump_folder="$folder" $base $more >log 2>&1 ||
            { fail "$folder: $leg: $(tail -n 3 log)"; finish; }
    done
}

# same NAME FOLDER REFERENCE
same() {
    if ! cmp -s <(columns "$2") <(columns "$3"); then
        fail "$1: the columns differ, first at"
        diff <(columns "$2") <(columns "$3") | head -n 3 | sed 's/^/    /'
    elif ! cmp -s "$2/model/model.safetensors" "$3/model/model.safetensors"; then
        fail "$1: the weights differ"
    else
        pass "$1"
    fi
}

go whole "2 12"
go powers "8 3" "1 6 parallelism.shard_strategy=none" "4 9 parallelism.shard_strategy=zero2" \
    "2 12 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2"
grep -q 'resumed from step 9' log && pass "goes on from step 9" || fail "does not go on: $(head -n 8 log)"
same "8, 1, 4 and 2 ranks of four strategies: as 2 ranks that never stopped" powers whole

# Not a power of two: another order of summation, but the same bits whenever the same ranks do the same steps.
go three "8 3" "3 6" "1 9" "4 12"
go again "8 2 parallelism.shard_strategy=zero1" "8 3" "3 4 parallelism.shard_strategy=none" "3 6" "1 7" "1 9" "4 10" "4 12"
same "8, 3, 1 and 4 ranks, stopped more often: as the same schedule of ranks" again three

# The run keeps its batch, although only the number of ranks had set it.
own="training.local_batch_size=2 training.global_batch_size=0 lr_scheduler.decay_type=constant lr_scheduler.warmup_steps=0 validation.enable=false
     checkpoint.interval=1000 model.save_dtype=float32"
base=$own
go steady "4 4"
go shrunk "4 2" "2 4"
same "4 ranks, then 2: the batch stays that of 4" shrunk steady
go shrunk "2 5 training.global_batch_size=4"
grep -q 'a step was 8 rows until here, now it is 4' log && pass "another batch is told" || fail "no word of the batch: $(cat log)"

base="training.local_batch_size=1 training.global_batch_size=24 validation.enable=false"
# other WORDS MESSAGE: settings that change the samples are refused.
other() {
    expect "other samples: $1" 2 "$2" "$tessera" train run.yaml job.dump_folder=whole $base training.steps=13 $1
}
sed 's/e/i/g' text.txt >same_size.txt
head -c 3000 text.txt >shorter.txt
other data.shuffle=false "made with data.shuffle=true"
other validation.enable=true "made with 0% of the text held out"
other data.files=same_size.txt "is not the text that the checkpoint was made with, file 0, then text.txt"
other data.files=shorter.txt "shorter.txt (3000 bytes) is not the text"
other data.files=text.txt,text.txt "2 files, but the checkpoint was made with 1"
"$tessera" train run.yaml job.dump_folder=alt $base training.steps=1 lr_scheduler.warmup_steps=0 data.files=same_size.txt \
    >log 2>&1 || fail "$(tail -n 3 log)"
other tokenizer.path=alt "made with another tokenizer"
rm -rf anew
"$tessera" train run.yaml job.dump_folder=anew $base training.steps=1 lr_scheduler.warmup_steps=0 >log 2>&1 || fail "$(tail -n 3 log)"
n=1
for text in same_size shorter; do
    n=$((n + 1))
    expect "data anew, and once more" 0 "resumed from step" "$tessera" train run.yaml job.dump_folder=anew $base \
        training.steps=$n lr_scheduler.warmup_steps=0 data.files=$text.txt checkpoint.exclude_from_loading=data \
        tokenizer.path=anew/tokenizer.json
done
cp text.txt moved.txt
"$tessera" train run.yaml job.dump_folder=whole $base training.steps=13 data.files=moved.txt >log 2>&1 &&
    pass "the same text elsewhere" || fail "the same text elsewhere: $(tail -n 3 log)"

expect "another row length" 2 "the checkpoint was made with training.seq_len=19, now it is 18" \
    "$tessera" train run.yaml job.dump_folder=whole $base training.steps=14 training.seq_len=18
finish
