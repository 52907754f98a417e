# The test of old files and the command that makes them share this: the files, and the commands that read them.
# Sourced after tests/cli/support.sh, in its folder $work.
export TESSERA_CPU=ref # the same on every machine; in float32 so are all other kernels
export LC_ALL=C.UTF-8 TZ=UTC
unset TESSERA_TRACE TESSERA_TUNING TESSERA_FAULT

write_run() { # run.yaml with model.json and text.txt
    make_text 60 >text.txt
    cat >model.json <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 259, "hidden_size": 6,
 "intermediate_size": 7, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 2,
 "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
 "tie_word_embeddings": true}
JSON
    cat >run.yaml <<YAML
model: {config: model.json, save_dtype: float32}
data: {files: [text.txt]}
training: {steps: 8, local_batch_size: 1, global_batch_size: 4, seq_len: 13, threads: 1, mixed_precision_param: float32}
optimizer: {lr: 3e-3}
lr_scheduler: {warmup_steps: 2}
metrics: {log_freq: 1, enable_tensorboard: false}
validation: {interval: 4}
checkpoint: {interval: 4}
recovery: {enable: false}
YAML
}

# Leaves out what place and time decide: ages, when files changed, speeds, memory, entries known to the doctor.
calm() {
    sed -E 's/, "tps".*//; s/, "validation_seconds.*//; s/"(changed|seconds|known|one_rank|largest|all)": [0-9.e+-]+/"\1": 0/
        s/ in [0-9.]+ s \([^()]*\/s\)$/ in 0 s/; s/ +[0-9.]+ [a-z]+( +tessera )/ AGE\1/'
}
keys() { grep -oE '"[A-Za-z0-9_.-]+":' | LC_ALL=C sort -u; } # of a JSON, where values are the machine's

# look NAME FILTER COMMAND...: its exit code and its filtered output go to actual/NAME.txt.
look() {
    local name=$1 filter=$2 code=0
    shift 2
    "$@" >output 2>errors </dev/null || code=$?
    {
        echo "\$ $*" | sed "s|$tessera|tessera|g"
        $filter <output
        sed "s|$tessera|tessera|g" errors | $filter | sed 's/^/stderr: /'
        echo "exit code $code"
    } >"actual/$name.txt"
}

traces=(finished killed miscounted late)

# Reads everything in the working folder, where the archives were unpacked; writes actual/*.txt.
look_at_all() {
    local trace ckpt=out/checkpoint
    mkdir actual
    for trace in "${traces[@]}"; do
        look "trace-$trace" calm "$tessera" trace "$trace"
        look "trace-$trace-json" calm "$tessera" trace "$trace" --json
        look "trace-$trace-last" calm "$tessera" trace "$trace" --last 8 --rank 1
        "$tessera" trace "$trace" --perfetto timeline.json --flight-recorder dumps >/dev/null 2>&1
        look "trace-$trace-written" calm cksum timeline.json dumps/*_0.json dumps/pickle/*_0
        look "trace-$trace-dumps" calm "$tessera" trace dumps
        rm -rf dumps timeline.json
    done
    look doctor-log-json calm "$tessera" doctor log killed.log --json
    look doctor-env-json calm env -i NCCL_DEBUG=INFO OMP_NUM_THREADS=x "$tessera" doctor env --json

    look ckpt-ls calm "$tessera" ckpt ls $ckpt
    look ckpt-ls-json calm "$tessera" ckpt ls $ckpt --json
    look ckpt-inspect-json calm "$tessera" ckpt inspect $ckpt "*embed_tokens*" --pieces --json
    look ckpt-inspect-packed calm "$tessera" ckpt inspect packed/checkpoint "*layers.1.*" --pieces
    look ckpt-verify calm "$tessera" ckpt verify $ckpt
    look ckpt-verify-packed calm "$tessera" ckpt verify packed/checkpoint
    look ckpt-diff-json calm "$tessera" ckpt diff $ckpt packed/checkpoint --json
    mkdir assets
    cp model.json assets/config.json
    cp out/tokenizer.json assets/
    "$tessera" ckpt merge $ckpt merged.safetensors >/dev/null 2>&1
    "$tessera" ckpt extract $ckpt model.pt >/dev/null 2>&1
    "$tessera" convert $ckpt converted --to hf --assets assets >/dev/null 2>&1
    "$tessera" convert $ckpt converted_dcp --to dcp >/dev/null 2>&1
    look ckpt-written calm cksum merged.safetensors model.pt converted/* converted_dcp/*.distcp converted_dcp/.metadata
    look damaged calm damaged
    look eval-json calm "$tessera" eval converted --data text.txt --dtype float32 --threads 1 --json
    look verify-json calm "$tessera" verify run.yaml -n 2 --steps 2 --json

    cp -r out again
    look resume calm resume again 2
    cp -r packed again-packed
    look resume-packed calm resume again-packed 4

    look preflight-json keys "$tessera" doctor preflight --only cpu --json
    look bench-json keys "$tessera" bench machine --quick --threads 1 --filter triad --json
    look top-json keys top
}

damaged() {
    local code=0
    cp -r out/checkpoint broken
    printf X | dd of=broken/step-00000004/rank-00001.data bs=1 seek=100 conv=notrunc status=none
    "$tessera" ckpt verify broken || code=$?
    rm -rf broken
    return $code
}

# resume FOLDER RANKS: from step 4 to step 8; all of its metrics, its weights, and the keys of a line old and new.
resume() {
    "$tessera" train run.yaml -n "$2" job.dump_folder="$1" >log 2>&1 || { cat log; return 1; }
    grep -o 'resumed from step.*' log
    cat "$1/metrics.jsonl"
    cksum "$1/model/model.safetensors" "$1/model/config.json" "$1/tokenizer.json"
    line_keys() { grep -oE '"[a-z_-]+":'; }
    ! sed -n 1p "$1/metrics.jsonl" | line_keys | grep -vxFf <(tail -n 2 "$1/metrics.jsonl" | head -n 1 | line_keys) &&
        echo "a line of metrics.jsonl has the keys that it had"
}

# top of a job that runs, when its rank 1 has stopped, rank 0 waits, and the launcher has said so: all keys are there.
told() { "$tessera" top live --json 2>/dev/null | grep -q '"waits_for":.*"situation":' && has_text live.log "has kept rank 0 waiting"; }
top() {
    local launcher victim code=0
    "$tessera" train run.yaml -n 2 job.dump_folder=live training.steps=1000000 validation.enable=false \
        checkpoint.enable=false comm.soft_timeout_s=0.2 >live.log 2>&1 &
    launcher=$!
    await $launcher has_lines live/metrics.jsonl 3 || cat live.log
    victim=$(rank $launcher 1)
    kill -STOP "$victim"
    await $launcher told || cat live.log
    "$tessera" top live --json || code=$?
    kill -CONT "$victim"
    kill -INT $launcher
    wait $launcher
    rm -rf live
    return $code
}
