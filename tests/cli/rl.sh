# Tests of reinforcement learning source this: problems of signs, a small model that has learned the form of an answer, and the
# comparison of two runs.
awk -v folder=. -f "$project/examples/signs.awk"
head -n 4000 sft.jsonl >few.jsonl
head -n 40 rl.jsonl >prompts.jsonl
head -n 7 held_out.jsonl >questions.jsonl
make_model model.json
timeout 600 "$tessera" train model.config=model.json data.files=few.jsonl tokenizer.vocab_size=301 job.dump_folder=sft \
    training.steps=120 training.local_batch_size=8 training.seq_len=64 optimizer.lr=5e-3 lr_scheduler.warmup_steps=10 \
    model.save_dtype=float32 training.mixed_precision_param=float32 validation.enable=false checkpoint.enable=false \
    recovery.enable=false debug.trace=false metrics.enable_tensorboard=false >sft.out 2>&1 </dev/null || cat sft.out

cat >rl.yaml <<YAML
model:
  path: sft/model
  save_dtype: float32
data:
  files: [prompts.jsonl]
training:
  steps: 6
  local_batch_size: 4
  seq_len: 24
  mixed_precision_param: float32
optimizer:
  lr: 1e-3
lr_scheduler:
  warmup_steps: 2
  decay_type: constant
rollout:
  prompts: 6
  n: 4
  max_new_tokens: 9
  max_sequences: 16
reward:
  kind: signs:1,length:0.1
validation:
  files: [questions.jsonl]
  interval: 3
evaluation:
  n: 3
checkpoint:
  interval: 2
metrics:
  log_freq: 1
  enable_tensorboard: false
recovery:
  enable: false
debug:
  trace: false
YAML

# rl FOLDER ARGUMENTS...
rl() {
    local folder=$1
    shift
    timeout 600 "$tessera" rl rl.yaml job.dump_folder="$folder" "$@" >"$folder.out" 2>&1 </dev/null
}

# metrics.jsonl without times and places.
numbers() { sed -E 's/, "tps".*"hidden": [^}]*\}//; s/, "perf[^,}]*//g; s/, "leaves": \{[^}]*\}//' "$1/metrics.jsonl"; }

# same NAME FOLDER PLAIN
same() {
    if ! cmp -s "$3/model/model.safetensors" "$2/model/model.safetensors"; then
        fail "$1: other weights"
        tail -n 5 "$2.out" | sed 's/^/    /'
    elif ! diff <(numbers "$3") <(numbers "$2") >difference; then
        fail "$1: other metrics"
        head -n 6 difference | cut -c1-400 | sed 's/^/    /'
    else
        pass "$1"
    fi
}

# memory FOLDER [less]: no pool of a rank took other bytes than foretold. less: or it took fewer, because steps of short
# samples sum fewer micro-batches, and an evaluation draws fewer samples than a rollout.
memory() {
    { [ "$2" = less ] && pools "$1" | awk '$2 > $3 { off = 1 } END { exit off || NR == 0 }'; } || foretold "$1" &&
        pass "$1: memory as foretold" || fail "$1: $(pools "$1")"
}
