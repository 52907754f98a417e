#!/usr/bin/env bash
# Data at scale: a shard trains to the weights of its text, mixtures go on where they were, and bad files are named before
# anything is written.
. "$(dirname "$0")/support.sh"
make_text 900 >text.txt
make_text 500 | awk '{ printf "{\"text\": \"%s\"}\n{\"prompt\": \"%s\", \"completion\": \"%s\"}\n", $0, $1, $2 }' >lines.jsonl
make_text 40 >held.txt
make_model plain.json
sed 's/"model_type"/"eos_token_id": 0, "model_type"/' plain.json >model.json
make_config run.yaml
"$tessera" tokenize train text.txt --vocab-size 301 --out tok.json >log 2>&1 || { cat log; exit 1; }
"$tessera" tokenize train held.txt --vocab-size 290 --out other.json >log 2>&1 || { cat log; exit 1; }

base="training.steps=8 training.local_batch_size=1 training.global_batch_size=12 lr_scheduler.warmup_steps=0
      lr_scheduler.decay_type=constant validation.files=[held.txt] validation.interval=4 checkpoint.interval=1000
      model.save_dtype=float32 tokenizer.path=tok.json"
columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
go() { # FOLDER ARGUMENTS...
    local folder=$1
    shift
    "$tessera" train run.yaml $base job.dump_folder="$folder" "$@" >log 2>&1 || { fail "$folder: $(tail -n 3 log)"; finish; }
}
same() { # NAME FOLDER REFERENCE
    if ! cmp -s <(columns "$2") <(columns "$3"); then
        fail "$1: the columns differ, first at"
        diff <(columns "$2") <(columns "$3") | head -n 3 | sed 's/^/    /'
    elif ! cmp -s "$2/model/model.safetensors" "$3/model/model.safetensors"; then
        fail "$1: the weights differ"
    else
        pass "$1"
    fi
}

# ---- A shard is its text
expect "shard tells what it made" 0 "tokens of" "$tessera" tokenize shard tok.json text.txt lines.jsonl --out data.shard
expect "a shard that is there is not written over" 2 "it is there already" "$tessera" tokenize shard tok.json text.txt --out data.shard
go text -n 2 data.files=[text.txt,lines.jsonl]
for n in 1 3 4; do
    go "shard$n" -n $n data.files=data.shard
    same "$n ranks on the shard: as 2 on its text" "shard$n" text
done

# ---- A file is told by its content, whatever its name
sed '1s/^/[\n/; $!s/$/,/; $s/$/\n]/' lines.jsonl >lines.json
cp lines.jsonl lines.txt
gzip -k lines.json
go array -n 2 data.files=[text.txt,lines.json]
same "an array of records: as its lines" array text
go unnamed data.files=[text.txt,lines.txt]
same "lines of JSON in a file called .txt: as in .jsonl" unnamed text
expect "a shard of an array" 0 "tokens of" "$tessera" tokenize shard tok.json text.txt lines.json.gz --out array.shard
go arrayshard data.files=array.shard
same "a shard of a compressed array: as its lines" arrayshard text
"$tessera" tokenize train text.txt lines.jsonl --vocab-size 301 --out a.json >log 2>&1
"$tessera" tokenize train text.txt lines.json --vocab-size 301 --out b.json >log 2>&1
cmp -s a.json b.json && pass "a tokenizer is trained on the texts of an array" || fail "tokenizers of lines and of an array: $(cat log)"
refused() { # NAME FILE TEXT: by training, eval and tokenize, before anything is written
    local ways=0 output
    for way in "train run.yaml $base data.files=$2 job.dump_folder=none" "train run.yaml data.files=$2 job.dump_folder=none" \
        "eval text/model --data $2" "tokenize shard tok.json $2 --out none" "tokenize train $2 --out none"; do
        output=$("$tessera" $way 2>&1)
        [ $? = 2 ] && grep -qF -- "$2" <<<"$output" && grep -qF -- "$3" <<<"$output" && [ ! -e none ] && ways=$((ways + 1)) ||
            fail "$1: tessera $way: $output"
    done
    [ $ways = 5 ] && pass "$1"
}
printf 'PAR1\025\004\025\000' >d.parquet
refused "parquet" d.parquet "datasets.Dataset.from_parquet('d.parquet').to_json('data.jsonl')"
{ printf '\100\000\000\000\000\000\000\000'; printf '{"a":{"dtype":"F32"}}'; } >d.safetensors
refused "safetensors" d.safetensors "tessera ckpt inspect d.safetensors"
tail -c 2000 text/model/model.safetensors >d.bytes
refused "binary data" d.bytes "is not UTF-8 text"
printf 'un caf\351 au lait\nune ligne\n' >latin.txt
refused "text in Latin-1" latin.txt "iconv -f ENCODING -t UTF-8"
{ cat text.txt text.txt && printf 'un caf\351 au lait\n'; } >late.txt
expect "a byte far into a text" 2 "late.txt: line 1801: byte 0xe9 is not UTF-8 text" "$tessera" eval text/model --data late.txt
printf '{\n  "data": [\n    {"text": "a"}\n  ]\n}\n' >d.json
refused "an object over several lines" d.json "jq -c . d.json"
printf '[{"text": "the ship"},\n{"text": "sailed"}' >open.json
refused "an array that is cut off" open.json "is not closed"
printf '[{"text": "the ship"},\n{"text": "sailed"},\n' >comma.json
refused "an array that is cut off after a comma" comma.json "is not closed"
expect "JSON as plain text" 0 "bits per byte" "$tessera" eval text/model --data lines.txt --format text --seq-len 19

expect "eval takes a shard" 0 "bits per byte" "$tessera" eval text/model --data data.shard --seq-len 19

# ---- Files of other programs hold the same documents
cat >make.py <<'PY'
import struct
rng, docs = 12345, []
for d in range(400):
    rng = (rng * 1103515245 + 12345) % 2**31
    docs.append([1 + (rng >> 8 + i % 16) % 290 for i in range(rng % 90)] + [0])
ids = [t for d in docs for t in d]
open("llmc.bin", "wb").write(struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + struct.pack(f"<{len(ids)}H", *ids))
open("nano.bin", "wb").write(struct.pack(f"<{len(ids)}H", *ids))
open("mega.bin", "wb").write(struct.pack(f"<{len(ids)}i", *ids))
at, pointers = 0, []
for d in docs:
    pointers.append(4 * at)
    at += len(d)
n = len(docs)
open("mega.idx", "wb").write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, n, n + 1) + struct.pack(f"<{n}i", *map(len, docs)) +
                             struct.pack(f"<{n}q", *pointers) + struct.pack(f"<{n + 1}q", *range(n + 1)))
PY
python3 make.py
go llmc -n 2 data.files=llmc.bin
go nano -n 1 data.files=nano.bin data.format=uint16
go mega -n 3 data.files=mega.idx
same "nanoGPT's file: as llm.c's" nano llmc
same "Megatron's files: as llm.c's" mega llmc

# ---- Written for other programs: read back by an independent reader, and by ours
cat >plain.jsonl <<'JSONL'
{"text": "the ship sailed over a calm dark sea"}
{"text": ""}
{"text": "stars wrote slow letters"}
JSONL
for format in llmc nanogpt megatron; do
    expect "a file for $format" 0 "tokens of" "$tessera" tokenize shard tok.json text.txt plain.jsonl --format $format --out for_$format.bin
done
cat >read.py <<'PY'
import json, struct, subprocess, sys
def encode(text):
    return list(map(int, subprocess.run([sys.argv[1], "tokenize", "encode", "tok.json", "--text", text], capture_output=True, check=True).stdout.split()))
documents = [encode(open("text.txt").read())] + [encode(t) for line in open("plain.jsonl") if (t := json.loads(line)["text"])]
words = lambda code, data: list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
read = lambda name: open(name, "rb").read()
llmc = read("for_llmc.bin")
assert words("i", llmc[:1024])[:4] == [20240520, 1, sum(map(len, documents)) + 3, 0]
assert words("H", llmc[1024:]) == [t for d in documents for t in [0] + d]
assert words("H", read("for_nanogpt.bin")) == [t for d in documents for t in d + [0]]
index, ids = read("for_megatron.idx"), words("H", read("for_megatron.bin"))
assert index[:9] == b"MMIDIDX\0\0" and struct.unpack("<QBQQ", index[9:34]) == (1, 8, 3, 4) and len(index) == 34 + 3 * 12 + 4 * 8
sizes, pointers, starts = words("i", index[34:46]), words("q", index[46:70]), words("q", index[70:])
assert starts == [0, 1, 2, 3] and [ids[p // 2 : p // 2 + n] for p, n in zip(pointers, sizes)] == [d + [0] for d in documents]
print("equal")
PY
expect "its bytes are those of its format" 0 "equal" python3 read.py "$tessera"
loss() { "$tessera" eval text/model --seq-len 19 --json "$@" 2>log | grep -o '"loss".*"n_tokens": [0-9]*'; }
loss --data for_megatron.idx >want
for format in llmc nanogpt; do
    loss --data for_$format.bin $([ $format = llmc ] || echo --format uint16) >got_$format
done
[ -s want ] && cmp -s want got_nanogpt && pass "eval: nanoGPT's as Megatron's" || fail "eval: $(cat want got_nanogpt log)"
[ -s got_llmc ] && pass "eval of llm.c's" || fail "eval of llm.c's: $(cat log)"
expect "eval of ids that do not say what they are" 2 "data.format" "$tessera" eval text/model --data for_nanogpt.bin
expect "prompts for other programs" 2 "lines.jsonl: prompts and conversations say which tokens are trained on" \
    "$tessera" tokenize shard tok.json lines.jsonl --format megatron --out never.bin
expect "a format that is none" 2 "'arrow' is neither" "$tessera" tokenize shard tok.json text.txt --format arrow --out never.bin
expect "an end token that is none" 2 "the tokenizer has no '</s>'" "$tessera" tokenize shard tok.json text.txt --format llmc --end-token '</s>' --out never.bin
ls never* >/dev/null 2>&1 && fail "something was written: $(ls never*)"

# ---- A mixture
mix="data.files=[te*.txt,data.shard,llmc.bin] data.weights=[0.5,0.3,0.2]"
go mixed -n 2 $mix
go parts -n 3 $mix training.steps=3
go parts -n 4 $mix
same "a mixture stopped with 3 ranks and resumed with 4: as 2 that never stopped" parts mixed
go moved -n 2 $mix training.steps=4
rm -rf moved/model
go moved -n 2 data.files=[llmc.bin,held.txt,te*.txt] data.weights=[1,1,2] training.steps=5
grep -q "the mixture has changed: 2 sources go on where they were, 1 begins" log && pass "a changed mixture is told" ||
    fail "a changed mixture: $(cat log)"
# 48 rows are 24, 14.4 and 9.6 of each; the 12 that follow are 3, 3 and 6 of them in another order, from where they were.
cat >check.py <<'PY'
import re, sys
def cursors(step):
    text = open(f"moved/checkpoint/step-0000000{step}/manifest.json").read()
    return [list(map(int, c.split(","))) for c in re.findall(r"\[(\d+,\d+,\d+,\d+)\]", text.replace(" ", ""))]
old, new = cursors(4), cursors(5)
taken = [c[3] for c in old]
assert taken in ([24, 14, 10], [24, 15, 9]), taken
assert [c[3] for c in new] == [3, 3, 6], new
assert new[0][:3] == [0, 0, old[2][2] + 3] and new[1][:3] == [0, 0, 3] and new[2][:3] == [0, 0, old[0][2] + 6], (old, new)
print("exact")
PY
expect "its shares are exact, and each source goes on from its row" 0 "exact" python3 check.py

# ---- Killed while it writes
for i in $(seq 60); do cat text.txt; done >long.txt
expect "a longer shard" 0 "tokens of" "$tessera" tokenize shard tok.json long.txt lines.jsonl --out whole.shard --threads 2
has_bytes() { [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -gt "$2" ]; }
"$tessera" tokenize shard tok.json long.txt lines.jsonl --out killed.shard --threads 1 >log 2>&1 &
pid=$!
await $pid has_bytes killed.shard.partial 300000
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
[ -e killed.shard ] && fail "it was not killed in time"
expect "a killed shard goes on" 0 "after what was there" "$tessera" tokenize shard tok.json long.txt lines.jsonl --out killed.shard
cmp -s killed.shard whole.shard && pass "to the same bytes" || fail "the bytes differ"

# ---- Bad files
refused() { # NAME TEXT ARGUMENTS...
    expect "$1" 2 "$2" "$tessera" train run.yaml $base job.dump_folder=never -n 2 "${@:3}"
    [ ! -e never ] || { fail "$1: something was written"; rm -rf never; }
}
head -c 3000 data.shard >half.shard
head -c 3000 llmc.bin >half.bin
head -c 400 mega.idx >cut.idx
cp mega.bin cut.bin
gzip -k lines.jsonl
refused "a half-written shard" "half.shard: half-written" data.files=half.shard
refused "another tokenizer" "data.shard: it was written with another tokenizer" data.files=data.shard tokenizer.path=other.json
refused "a half-written .bin" "half.bin: half-written" data.files=half.bin
refused "an index cut off" "is cut off" data.files=cut.idx
refused "a .bin that does not say what it holds" "data.format to uint16" data.files=nano.bin
refused "ids beyond the vocabulary" "but the tokenizer has 290" data.files=llmc.bin tokenizer.path=other.json
refused "compressed text" "tessera tokenize shard" data.files=lines.jsonl.gz
refused "a pattern without files" "no file matches nothing" data.files=nothing*.bin
refused "a weight too few" "2 weights for the 3 entries" data.files=[text.txt,held.txt,llmc.bin] data.weights=[1,2]
refused "no weight" "'0' is no number" data.files=[text.txt,held.txt] data.weights=[1,0]
refused "no tokenizer for ids" "name the tokenizer" data.files=data.shard tokenizer.path=
finish
