#!/usr/bin/env bash
# The first hour of a user: a run without a file, few steps, folders that lack something.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
sed -i '1s/{/{"our_own": {"key": [1, 2.5, null]}, "dtype": "float64", /' model.json
small=(training.seq_len=32 training.local_batch_size=2 training.threads=1 validation.enable=false)

expect "nothing to train" 2 "name a configuration file, or set what has no default: model.path=FOLDER data.files=FILE" \
    "$tessera" train
expect "a run without a file, shorter than the usual warm-up" 0 "20 steps" "$tessera" train model.config=model.json \
    data.files=text.txt "${small[@]}" training.steps=20 job.dump_folder=run
expect "on two ranks" 0 "20 steps" "$tessera" train -n 2 model.config=model.json data.files=text.txt "${small[@]}" \
    training.steps=20 training.global_batch_size=2 job.dump_folder=run2
cmp -s run/model/model.safetensors run2/model/model.safetensors && pass "gives the same bits" || fail "other weights"
expect "a warm-up longer than a run that is shortened" 0 "lr_scheduler.warmup_steps: 21 is more than the 20 steps of the schedule: warming up in all of them" \
    "$tessera" train model.config=model.json data.files=text.txt "${small[@]}" training.steps=20 lr_scheduler.warmup_steps=21 job.dump_folder=short
cmp -s run/model/model.safetensors short/model/model.safetensors && pass "gives the bits of a warm-up of all steps" || fail "other weights"
HOME=$work expect "~ is the home folder" 0 "20 steps" "$tessera" train 'model.config=~/model.json' 'data.files=[~/text.txt]' "${small[@]}" \
    training.steps=20 job.dump_folder='~/home'
cp text.txt 'te,xt.txt'
cat >comma.yaml <<'YAML'
model: {config: ~/model.json}
data: {files: ["te,xt.txt"]}
job: {dump_folder: ~/comma}
YAML
HOME=$work expect "a comma in a name, in YAML" 0 "20 steps" "$tessera" train comma.yaml "${small[@]}" training.steps=20
expect "and in quotes" 0 "files=\"te,xt.txt\",text.txt" "$tessera" info 'data.files="te,xt.txt",text.txt'
cmp -s run/model/model.safetensors comma/model/model.safetensors && pass "gives the same bits" || fail "other weights"
expect "a quote that is not closed" 2 "data.files: the quote before te,xt.txt is not closed" "$tessera" info 'data.files="te,xt.txt'
mkdir other
HOME=$work/other expect "~ behind an option's =" 2 "$work/other/none.txt" "$tessera" eval run/model --data='~/none.txt'
HOME=$work/other expect "~ in other paths and in words of commands" 0 "command=grade,$work/other/g" "$tessera" info \
    'reward.command=grade,~/g' 'reward.header_file=~/h' 'reward.readable=~/r'
grep -qF "header_file=$work/other/h" output && grep -qF "readable=$work/other/r" output && pass "all of them" ||
    fail "paths: $(grep -F '=~' output)"
[ -d home/model ] && [ ! -e '~' ] && pass "and not a folder called ~" || fail "folders: $(ls)"
expect "the data is missing" 2 "data.files: name at least one file" "$tessera" train model.config=model.json
expect "its options" 0 "steps=20 " "$tessera" info training.steps=20
expect "its layout" 0 "the same bits" "$tessera" verify -n 2 model.config=model.json data.files=text.txt "${small[@]}" \
    training.steps=20
expect "its places" 0 "model" "$tessera" doctor preflight --only model model.config=model.json data.files=text.txt "${small[@]}"

# ---- A model's configuration
expect "unknown keys of config.json survive" 0 "2.5" grep -A 6 '"our_own"' run/model/config.json
grep -q float64 run/model/config.json && fail "so does a dtype that the weights do not have" || pass "but not another dtype"
sed 's/"num_attention_heads": [0-9]*/"num_attention_heads": 0/' model.json >zero.json
expect "no heads" 2 "'num_attention_heads' is 0; it must be at least 1" "$tessera" train model.config=zero.json \
    data.files=text.txt
sed 's/"num_attention_heads": [0-9]*,//' model.json >none.json
expect "heads missing" 2 "'num_attention_heads' is missing" "$tessera" train model.config=none.json data.files=text.txt

# ---- A model's folder
tune() { # NAME TEXT
    expect "$1" 2 "$2" "$tessera" train model.path="${3:-folder}" data.files=text.txt "${small[@]}" training.steps=1 \
        job.dump_folder=out
    [ ! -e out ] || fail "$1: wrote $(find out | head -n 3)"
    expect "$1, generate" 2 "$2" "$tessera" generate "${3:-folder}" --prompt x
}
cp -r run/model folder
rm folder/tokenizer.json
tune "no tokenizer" "folder/tokenizer.json: no such file"
touch folder/tokenizer.model
tune "SentencePiece's" "of the folder's tokenizer.model transformers makes it: python3 -c \"from transformers import AutoTokenizer as A; A.from_pretrained('folder').save_pretrained('folder')\""
rm folder/tokenizer.model
json=run/model/tokenizer.json
{ echo '{' && sed -n '/"vocab":{/,/^    },/{/vocab/d; /^    },/d; p}' $json && echo '}'; } >folder/vocab.json
{ echo '#version: 0.2' && sed -nE '/"merges":\[/,$ s/^ *\["(.*)","(.*)"\],?$/\1 \2/p' $json | sed -E 's/\\(["\\])/\1/g'; } \
    >folder/merges.txt
tune "vocab.json and merges.txt of another class" "tokenizer_class is PreTrainedTokenizerFast; without a tokenizer.json Tessera reads GPT2Tokenizer"
echo '{"tokenizer_class": "GPT2Tokenizer"}' >folder/tokenizer_config.json
"$tessera" tokenize encode run/model text.txt >want
expect "vocab.json and merges.txt of GPT-2's class" 0 "$(head -n 1 want)" "$tessera" tokenize encode folder text.txt
cmp -s want output && pass "give the same ids" || fail "other ids: $(cmp want output)"
for path in run/model folder; do
    "$tessera" train -n 2 model.path=$path data.files=text.txt "${small[@]}" training.steps=2 training.global_batch_size=2 \
        job.dump_folder=from_${path%%/*} >log 2>&1 || fail "train from $path: $(tail -n 1 log)"
done
cmp -s from_run/model/model.safetensors from_folder/model/model.safetensors && pass "and the same training" || fail "train"
cmp -s folder/merges.txt from_folder/model/merges.txt && "$tessera" tokenize encode from_folder/model/tokenizer.json text.txt |
    cmp -s want && pass "whose model has a tokenizer.json as well" || fail "its model: $(ls from_folder/model)"
expect "its generate" 0 "the" "$tessera" generate from_folder/model --prompt the --max-new-tokens 2
tune "a model of the hub" "org/name: no such folder; if it is a model of the Hugging Face hub, download it: \`hf download org/name --local-dir name\`" \
    org/name

# ---- Keys given twice
printf 'training:\n  steps: 3\n  seq_len: 8\n  steps: 4\n' >twice.yaml
expect "a key twice" 2 "twice.yaml:4: 'training.steps' is given again: it is on line 2 already; keep one" \
    "$tessera" train twice.yaml
printf 'training:\n  steps: 3\nmodel:\n  path: x\ntraining:\n  seq_len: 8\n' >twice.yaml
expect "a section twice" 2 "twice.yaml:5: 'training' is given again: it is on line 1 already; keep one" \
    "$tessera" train twice.yaml
finish
