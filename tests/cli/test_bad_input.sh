#!/usr/bin/env bash
# Every mistake gets a message that names it, exit code 2, and leaves nothing behind.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
sed 's/"vocab_size": [0-9]*/"vocab_size": 100000/' model.json >large.json
bad() { # NAME TEXT OVERRIDES...
    local name=$1 text=$2
    shift 2
    expect "$name" 2 "$text" "$tessera" train run.yaml job.dump_folder=out "$@"
    [ ! -e out ] || fail "$name: wrote $(find out | head -n 3)"
    rm -rf out
}

expect "no command" 2 "tessera train" "$tessera"
expect "a command misspelt" 2 "did you mean 'train'" "$tessera" trian
expect "help" 0 "tessera generate" "$tessera" --help
expect "no configuration" 2 "name a configuration file" "$tessera" train
expect "configuration missing" 2 "nowhere.yaml" "$tessera" train nowhere.yaml
bad "unknown key" "did you mean 'training.steps'" training.stepps=3
bad "key of another section" "did you mean 'training.seq_len'" data.seq_len=3
bad "no override" "section.key=value" training
bad "value out of range" "outside" training.steps=0
bad "value of the wrong type" "not an integer" training.steps=3.5
bad "unknown choice" "none|zero1|zero2|full|hybrid" parallelism.shard_strategy=zero4
bad "no ranks" "outside 1" -n 0
bad "degrees that do not multiply" "set data_parallel_shard_degree=2" -n 4 parallelism.data_parallel_replicate_degree=2 \
    parallelism.data_parallel_shard_degree=4
bad "batch no multiple" "not a multiple" training.global_batch_size=15
bad "data file missing" "gone.txt" data.files=gone.txt
bad "rows longer than the model allows" "max_position_embeddings" training.seq_len=65
bad "model missing" "gone.json" model.config=gone.json
: >empty.txt
bad "empty data file" "empty.txt" data.files=empty.txt
printf x >byte.txt
bad "data file of one byte" "byte" data.files=byte.txt
# Lines of jsonl, as a tokenizer is trained on them: what is wrong is said, with file, line and member.
line() { # NAME LINE TEXT...: in the second line of bad.jsonl
    local name=$1 text
    printf '{"text": "the ship sailed"}\n%s\n' "$2" >bad.jsonl
    shift 2
    for text; do bad "$name: $text" "$text" data.files=bad.jsonl; done
}
line "a text that is a number" '{"text": 5}' "bad.jsonl: line 2: " "'text' is an integer: expected a string"
echo '{"text": 5}' >bad.jsonl
{ echo '{"messages": [{"role": "user", "content": "a"}]}' && echo '{"text": "the ship sailed"}'; } >talk.jsonl
bad "a conversation to train a tokenizer on" "talk.jsonl: line 1: a conversation: there is no tokenizer" data.files=talk.jsonl
bad "a number alone" "bad.jsonl: line 1: document: 'text' is an integer" data.files=bad.jsonl
line "another member" '{"body": "a b"}' "bad.jsonl: line 2: it has no 'text', but 'body'" "data.text_key"
line "no JSON" '{"text": "a b}' "bad.jsonl: line 2: document: not valid JSON"
line "a conversation" '{"messages": [{"role": "user", "content": "a"}]}' "line 2: a conversation, but there is no chat template" \
    "data.chat_template"
line "a conversation of ShareGPT" '{"conversations": [{"from": "human", "value": "a"}]}' "'conversations' are not supported"
line "a pair without a completion" '{"prompt": "a", "response": "b"}' "but 'prompt', 'response'" "data.completion_key"
line "a pair of lists" '{"prompt": [], "completion": "b"}' "line 2: one of 'prompt' and 'completion' is a list of messages and the other is not"
line "a loss_mask" '{"text": "a b", "loss_mask": [0, 1]}' "line 2: 'loss_mask' is not supported"
long() { { printf '{"text": "'; head -c "$1" /dev/zero | tr '\0' 'a'; printf '"}\n'; } >long.jsonl; } # BYTES
long 50000000
bad "one line, that goes beyond the trained part" "long.jsonl: line 1 has 50000012 bytes and goes beyond the 95%" \
    data.files=long.jsonl
long 70000000
bad "a line that is too long" "long.jsonl: line 1: a document of 70000012 bytes, at most 64 MiB" data.files=long.jsonl
bad "a line that is too long, for the loader" "long.jsonl: line 1 has more than the 64 MiB" data.files=long.jsonl \
    tokenizer.path="$project/tests/data/fixtures/trained.json" model.config=large.json
rm long.jsonl
echo '{"text": ""}' >bad.jsonl
bad "no text" "bad.jsonl: 1 bytes of text are too few to train a tokenizer on: is every document empty?" data.files=bad.jsonl
echo '{"model_type": "llama", "vocab_size": "many"}' >bad.json
bad "bad config.json" "vocab_size" model.config=bad.json
echo '{"model_type": "mamba"}' >other.json
bad "unknown architecture" "mamba" model.config=other.json
echo '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}' >tok.json
bad "corrupt tokenizer" "tok.json" tokenizer.path=tok.json
echo 'not json' >tok2.json
bad "tokenizer that is no JSON" "tok2.json" tokenizer.path=tok2.json
printf 'training:\n  steps: 3\n  nested:\n    deeper: 1\n' >nested.yaml
expect "YAML too deep" 2 "nested.yaml:4" "$tessera" train nested.yaml
printf 'training: [1\n' >broken.yaml
expect "broken YAML" 2 "broken.yaml:" "$tessera" train broken.yaml
printf 'training:\n\tsteps: 3\n' >tab.yaml
expect "a tab in YAML" 2 "tab.yaml:2: the line is indented with a tab, which YAML forbids: indent it with spaces" \
    "$tessera" train tab.yaml
printf 'training:\n  steps: 3\n  \tseq_len: 4\n' >tab.yaml
expect "a tab after spaces" 2 "tab.yaml:3: the line is indented with a tab" "$tessera" train tab.yaml
bad "a bound is written as short as it is" "optimizer.beta1: 1.5 is outside 0 .. 0.999999" optimizer.beta1=1.5
grep -q "0.999999$" output || fail "the bound: $(cat output)"
bad "bytes with another unit" "'1GB' is no number of bytes, KiB, MiB, GiB or TiB: write it as 500 or 1.5GiB" rollout.cache_bytes=1GB
# The budget that the message names is enough, and one byte less is not.
selective=(activation_checkpoint.mode=selective training.steps=1)
bad "a budget that is too small" "raise it to what they take, or lower training.local_batch_size: 1.00 KiB for activations" \
    "${selective[@]}" activation_checkpoint.budget=1KiB
bytes=$(sed -n 's/.* (\([0-9]*\) bytes)$/\1/p' output)
bad "a byte less than the need" "($bytes bytes)" "${selective[@]}" activation_checkpoint.budget=$((bytes - 1))
expect "the budget that is named" 0 "step:     1" "$tessera" train run.yaml "${selective[@]}" job.dump_folder=fits \
    activation_checkpoint.budget="$bytes"
rm -rf fits
expect "every option is listed" 0 "local_batch_size=" "$tessera" info
expect "generate without a prompt" 2 "either --prompt or --prompts" "$tessera" generate .
expect "generate from nowhere" 2 "no such folder" "$tessera" generate gone --prompt x
expect "option misspelt" 2 "did you mean '--prompt" "$tessera" generate . --promt x
# A flag that means bytes takes a size with a unit.
commands() { "$@" --help | sed -nE 's/^ *(usage: )?tessera ([a-z]+( [a-z-]+)?)  .*/\2/p' | sort -u; }
n_commands=0
while read -r words; do
    read -ra words <<<"$words"
    "$tessera" "${words[@]}" --help | grep -E '^  -[^ ]+ (BYTES|[KMGkmg][iI]?[bB]) ' >fixed && fail "${words[*]}: a flag has a fixed unit: $(cat fixed)"
    n_commands=$((n_commands + 1))
done < <(echo plan advise; commands "$tessera"; for group in bench ckpt doctor; do commands "$tessera" $group; done)
[ "$n_commands" -gt 35 ] && pass "the help of $n_commands commands is read" || fail "only $n_commands commands have been found"
expect "a size without its unit" 2 "--shard-size: '4k' is no number of bytes, KiB" "$tessera" convert a b --shard-size 4k
expect "a size beyond the range" 2 "--shard-size: 4KiB is outside 1000000 .. " "$tessera" convert a b --shard-size 4KiB
expect "bench comm: no number of ranks" 2 "--ranks 2x: name numbers from 2 on" "$tessera" bench comm --ranks 2x
expect "bench comm: ranks named twice" 2 "2 stands there twice; name it once" "$tessera" bench comm --ranks 2,4,2
expect "bench comm: nothing between the sizes" 2 "--min-bytes 4096 is above --max-bytes 1024: lower it" \
    "$tessera" bench comm --min-bytes 4096 --max-bytes 1024

# The shape of Llama 3 70B takes more than any machine of a test has. It is refused before anything
# is allocated, once, and not tried again.
cat >70b.json <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "hidden_size": 8192,
 "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
 "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
 "tie_word_embeddings": false}
JSON
bad "a model that is too large" "2 ranks of this host would need 1.31 TiB of memory, but it has " -n 2 model.config=70b.json \
    recovery.enable=true
# A job has at most 128 hosts; whether these are enough depends on the memory of this one.
grep -Eq "\(a rank: params 131 GiB, grads 263 GiB, optimizer 263 GiB, activations .*\)\. It would fit (with .*|on no number of) hosts like this one" output &&
    pass "with its figures and what would fit" || fail "its figures: $(cat output)"
[ "$(wc -l <output)" = 1 ] && pass "and is not tried again" || fail "more than a refusal: $(cat output)"
bad "on one rank" "1 rank of this host would need 1.67 TiB" model.config=70b.json
expect "verify refuses it, too" 2 "of this host would need" "$tessera" verify run.yaml model.config=70b.json
"$tessera" doctor preflight -n 2 --only memory run.yaml model.config=70b.json >output 2>&1
grep -q "the ranks here need about 1.31 TiB (estimate)" output && pass "preflight has the same figure" ||
    fail "preflight: $(cat output)"

# A link that leads to itself is no disk that fails: it is named, and not tried again.
ln -s loop loop
for where in data.files model.config tokenizer.path job.dump_folder; do
    bad "$where in a circle of links" "loop: Too many levels of symbolic links: one of them leads back to itself; remove it" \
        -n 2 recovery.enable=true $where=loop
    [ "$(wc -l <output)" = 1 ] && pass "and is not tried again" || fail "more than a refusal: $(cat output)"
done
expect "a configuration in a circle of links" 2 "loop: Too many levels" "$tessera" train loop

limited() { (ulimit -v 2097152 && exec "$@"); }
expect "little address space" 1 "of address space: map shared memory: Cannot allocate memory; RLIMIT_AS allows this process 2.00 GiB of address space" \
    limited "$tessera" train run.yaml job.dump_folder=out -n 2
grep -qF 'lift it by `ulimit -v unlimited`' output && pass "and what lifts it" || fail "the fix: $(cat output)"
rm -rf out

# Limits of the shell.
small_stack() { (ulimit -s 384 && exec "$@"); }
small_stack "$tessera" train run.yaml job.dump_folder=out training.steps=6 lr_scheduler.warmup_steps=2 -n 2 >output 2>&1
code=$?
if [ $code = 0 ] || { [ $code = 2 ] && grep -q "raise the limit (ulimit -s 8192)" output; }; then
    pass "a small stack is raised, or named" # only root may raise it
else
    fail "a small stack is raised, or named: exit code $code, $(tail -n 2 output)"
fi
rm -rf out
small_files() { (ulimit -f 40 && exec "$@"); }
expect "a limit of file sizes is named" 2 "may not write a larger file here (ulimit -f" \
    small_files "$tessera" train run.yaml job.dump_folder=out debug.trace=false
rm -rf out

# A user who may write to the folder of a run must not choose which other file alerts are added to.
mkdir out
echo mine >victim
ln -s ../victim out/alerts.jsonl
"$tessera" train run.yaml job.dump_folder=out -n 2 recovery.enable=true recovery.hot=false \
    fault.spec="rank=1 step=3 point=step kind=sigkill" >output 2>&1
[ "$(cat victim)" = mine ] && pass "alerts follow no link" || fail "alerts follow no link: $(head -c 200 victim)"
rm -rf out

# Another user may have taken the name of the folder that keeps a run's memory.
if [ "$(id -u)" = 0 ]; then
    keep() {
        "$tessera" train run.yaml job.dump_folder=out -n 2 checkpoint.memory_copies=true recovery.enable=false \
            fault.spec="rank=1 step=$1 point=step kind=sigkill" >output 2>&1
        grep -o '/dev/shm/tessera-[0-9a-f-]*' output | head -n 1
    }
    first=$(keep 3)
    chown nobody "$first" && rm -rf out
    second=$(keep 3)
    [ -n "$first" ] && [ "$second" = "$first-1" ] && pass "a taken name in /dev/shm is passed over" ||
        fail "a taken name in /dev/shm is passed over: '$first', '$second', $(tail -n 2 output)"
    rm -rf out ${first:+"$first" "$first-1"}
fi
finish
