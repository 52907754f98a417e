#!/usr/bin/env bash
# A pipe where a file is expected, and what git leaves in place of a file that git-lfs has not downloaded, are named.
. "$(dirname "$0")/support.sh"
make_text 40 >text.txt
make_model model.json && sed -i "s/301/400/" model.json
cat >run.yaml <<YAML
model: {config: model.json}
data: {files: [text.txt]}
training: {seq_len: 19}
job: {dump_folder: out}
YAML
tokenizer="$project/tests/data/fixtures/trained.json"
pointer="a pointer of git-lfs, not the file itself: install git-lfs and run \`git lfs pull\`"
cat >pointer <<TEXT
version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345
TEXT
mkfifo pipe

refuses() { # NAME PATH TEXT COMMAND...: a command that waits is ended
    local name=$1 path=$2 text=$3
    shift 3
    expect "$name" 2 "$path: $text" timeout -k 1 60 "$tessera" "$@"
}
pipe() { refuses "a pipe: $1" "open pipe" "a pipe, not a regular file" "${@:2}"; }  # NAME COMMAND...
lfs() { refuses "git-lfs: $1" "$2" "$pointer" "${@:3}"; }                           # NAME PATH COMMAND...

pipe "a configuration" train pipe
pipe "data" train run.yaml data.files=pipe
pipe "data, with a tokenizer" train run.yaml data.files=pipe tokenizer.path="$tokenizer"
pipe "a model's configuration" train run.yaml model.config=pipe
pipe "a tokenizer" train run.yaml tokenizer.path=pipe
pipe "a checkpoint" ckpt inspect pipe
pipe "text of a shard" tokenize shard "$tokenizer" pipe --out out.shard
pipe "an environment" doctor env --file pipe
expect "a pipe that nobody writes to is an empty log" 3 "1 file, 0 lines" timeout -k 1 60 "$tessera" doctor log pipe
zcat_log() { "$tessera" doctor log <(echo "a line"); }
expect "a pipe of the shell is read as a log" 3 "1 file, 1 lines" zcat_log

lfs "data" pointer train run.yaml data.files=pointer
lfs "a model's configuration" pointer train run.yaml model.config=pointer
lfs "a tokenizer" pointer train run.yaml tokenizer.path=pointer
lfs "a checkpoint" pointer ckpt inspect pointer
for part in config.json tokenizer.json model.safetensors model.safetensors.index.json pytorch_model.bin; do
    rm -rf folder && mkdir folder
    cp model.json folder/config.json
    cp "$tokenizer" folder/tokenizer.json
    cp pointer folder/$part
    lfs "$part" folder/$part eval folder --data text.txt
done
finish
