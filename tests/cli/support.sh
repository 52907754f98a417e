# Golden tests of the command source this: $tessera is the binary, $work a folder that is removed when the test ends.
# A failed check prints what it expected, and the script exits with 1.
tessera=$(realpath "$1")
project=$2
work=$(mktemp -d)
export TEST_WORK=$work # marks the processes of this test
trap 'end_rest; rm -rf "$work"' EXIT
cd "$work"
n_failed=0
n_passed=0

# Ends what the test has left behind: stopped processes would hold its output open.
end_rest() {
    local pid
    for pid in $(grep -lsza "^TEST_WORK=$work\$" /proc/[0-9]*/environ | tr -dc '0-9\n'); do
        kill -KILL "$pid" 2>/dev/null
    done
}
pass() { n_passed=$((n_passed + 1)); echo "ok     $1"; }
fail() { n_failed=$((n_failed + 1)); echo "FAILED $1"; }
finish() { echo "$n_passed passed, $n_failed failed"; [ "$n_failed" = 0 ] && [ "$n_passed" -gt 0 ]; exit $?; }

# expect NAME EXIT_CODE TEXT COMMAND...: runs the command; checks its exit code, and that its output has the text.
expect() {
    local name=$1 code=$2 text=$3 got=0
    shift 3
    "$@" >output 2>&1 </dev/null || got=$?
    if [ "$got" != "$code" ]; then
        fail "$name: exit code $got, expected $code"
        sed 's/^/    /' output | tail -n 12
    elif ! grep -qF -- "$text" output; then
        fail "$name: expected \"$text\" in"
        sed 's/^/    /' output | tail -n 12
    else
        pass "$name"
    fi
}

# expect_metrics NAME EXIT_CODE COMMAND...: runs the command with --prometheus; checks that each line of its output is one
# of Prometheus' text format, below the type of its metric, and that no sample or label comes twice.
expect_metrics() {
    local name=$1 code=$2 got=0
    shift 2
    "$@" --prometheus >page 2>errors </dev/null || got=$?
    LC_ALL=C awk '
        BEGIN { label = "[a-zA-Z_][a-zA-Z0-9_]*=\"([^\"\\\\]|\\\\[\\\\\"n])*\""
                line = "^[a-zA-Z_][a-zA-Z0-9_]*([{]" label "(," label ")*[}])? [-+.0-9e]+$" }
        /^# TYPE [a-zA-Z_][a-zA-Z0-9_]* gauge$/ { metric = $3; if (typed[metric]++) print "again: " $0; next }
        $0 !~ line { print "no sample: " $0; next }
        { n++; sample = $0; sub(/ [^ ]*$/, "", sample); if (seen[sample]++) print "again: " $0
          own = $0; sub(/[ {].*/, "", own); if (own != metric) print "without its type: " $0
          rest = $0; split("", used); gsub(/"([^"\\]|\\[\\"n])*"/, "", rest); sub(/^[^{]*[{]/, "", rest)
          m = split(rest, names, /[=,}]+/)
          for (i = 1; i < m && rest ~ /}/; i++) if (used[names[i]]++ || names[i] ~ /^__/) print "bad label: " $0 }
        END { if (n == 0) print "no samples" }' page >wrong 2>&1
    if [ "$got" = "$code" ] && [ ! -s wrong ]; then
        pass "$name"
    else
        fail "$name: exit code $got, expected $code; $(head -n 5 wrong errors)"
    fi
}

# pools FOLDER: of each pool of a run that has ended its name, the bytes at the peak, those that were predicted, both over
# all ranks, and by how many bytes a rank was off at most.
pools() {
    tail -n 1 "$1/memory.jsonl" | awk -F '[{}]' '{
        n = split($3, peak, /[",: ]+/); split($5, predicted, /[",: ]+/); split($7, farthest, /[",: ]+/)
        for (i = 2; i < n && $5 != ""; i += 2) print peak[i], peak[i + 1], predicted[i + 1], farthest[i + 1] }'
}
# foretold FOLDER: each pool of each rank had exactly the predicted bytes at the peak.
foretold() { pools "$1" | awk '$4 != "0" { off = 1 } END { exit off || NR == 0 }'; }

# ---- Runs in the background
# The longest wait: generous, because a slow machine may take long.
patience_s=300

# await PID COMMAND...: waits until the command succeeds; fails when the process ends before, or after $patience_s.
await() {
    local pid=$1 end=$((SECONDS + patience_s)) runs
    shift
    while :; do
        runs=0
        kill -0 "$pid" 2>/dev/null && runs=1
        "$@" && return 0
        [ $runs = 1 ] && [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

has_lines() { [ "$(cat "$1" 2>/dev/null | wc -l)" -ge "$2" ]; } # FILE N
has_text() { grep -qsE -- "$2" "$1"; }                         # FILE PATTERN
has_ended() { ! pgrep -g "$1" >/dev/null; }                    # PROCESS_GROUP

# rank LAUNCHER R: prints the process of rank R, if there is one.
rank() {
    local pid
    for pid in $(pgrep -P "$1"); do
        tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "TESSERA_RANK=$2" && echo "$pid"
    done
}

# is_stopped LAUNCHER R: rank R was stopped by a fault with kind=sigstop.
is_stopped() {
    local pid
    pid=$(rank "$1" "$2")
    [ -n "$pid" ] && has_text "/proc/$pid/status" '^State:.T'
}

# A text of $1 lines, the same everywhere.
make_text() {
    awk -v n="$1" 'BEGIN {
        split("the ship sailed over a calm dark sea while stars wrote slow letters on its wake and nobody read them", w, " ")
        x = 12345
        for (i = 0; i < n; i++) {
            line = ""
            for (k = 0; k < 9; k++) { x = (x * 1103515245 + 12345) % 2147483648; line = line w[1 + int(x / 65536) % 19] " " }
            print line (i * 7919) % 1009 "."
        }
    }'
}

# The tokenizer.json that `tessera tokenize train` writes, with a template that puts its token 0 before a text.
add_template() {
    local template='{"type":"TemplateProcessing",
        "single":[{"SpecialToken":{"id":"<|endoftext|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
        "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
        "special_tokens":{"<|endoftext|>":{"id":"<|endoftext|>","ids":[0],"tokens":["<|endoftext|>"]}}}'
    sed "s/\"post_processor\":.*/\"post_processor\":$(tr -d '\n' <<<"$template"),/"
}

# A Llama with awkward sizes: 3 heads over 1 key/value head, rows that no world size divides.
make_model() {
    cat >"$1" <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 301, "hidden_size": 42,
 "intermediate_size": 53, "num_hidden_layers": 3, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 14,
 "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
 "tie_word_embeddings": ${2:-false}}
JSON
}

# $1: file. Recovery is off; tests of it turn it on.
make_config() {
    cat >"$1" <<YAML
model:
  config: model.json
data:
  files: [text.txt]
training:
  steps: 30
  local_batch_size: 2
  global_batch_size: 16
  seq_len: 19
optimizer:
  lr: 3e-3
lr_scheduler:
  warmup_steps: 5
metrics:
  log_freq: 10
  enable_tensorboard: false
validation:
  interval: 15
checkpoint:
  interval: 15
recovery:
  enable: false
YAML
}
