#!/usr/bin/env bash
# Trains a small model to find facts in texts of up to 4,096 tokens, and asks it for facts in texts of 4,096 and of 16,384
# tokens, with and without a scaling of its rotary positions (docs/howto/long-context.md).
#
#   examples/needle.sh build/tessera        # in the project's folder; writes to out/needle
set -euo pipefail
tessera=$1 out=out/needle
awk -v folder=$out -f examples/needle.awk
"$tessera" tokenize train $out/words.txt --vocab-size 513 --out $out/tokenizer.json
"$tessera" train examples/needle_short.yaml
"$tessera" train examples/needle.yaml
"$tessera" train examples/needle.yaml model.path=$out/mixed/model data.files=$out/far.jsonl job.dump_folder=$out/far \
    training.steps=170 optimizer.lr=4e-3

# variant NAME POSITIONS SCALING: the trained model with another limit of positions, and a scaling of rotary positions.
variant() {
    rm -rf "${out:?}/$1"
    cp -r $out/far/model "$out/$1"
    sed -i -e '/"rope_scaling"/d' -e "s/\"max_position_embeddings\": 4096/\"max_position_embeddings\": $2$3/" "$out/$1/config.json"
}
variant plain 16384 ""
variant dynamic 4096 ', "rope_scaling": {"rope_type": "dynamic", "factor": 1.0}'
variant yarn 16384 ', "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}'

# ask MODEL LENGTH OPTIONS...: the share of facts that are found, of all and of each quarter of the text.
ask() {
    "$tessera" generate "$out/$1" --prompts "$out/prompts_$2.jsonl" --temperature 0 --max-new-tokens 1 --batch 1 --jsonl \
        "${@:3}" 2>"$out/log" | sed -E 's/.*"text": "([^"]*)".*/\1/' | paste -d ' ' - "$out/answers_$2.txt" |
        awk -v what="$1, $2" '{ n[$3]++; found[$3] += $1 == $2 } END {
            for (q = 1; q <= 4; q++) { all += n[q]; right += found[q]; text = text sprintf("  %3d%%", n[q] ? 100 * found[q] / n[q] : 0) }
            printf "%-14s found %3d of %d; by quarter of the text:%s\n", what, right, all, text }'
}
ask far/model 4k
ask plain 16k
ask dynamic 16k --max-length 16384
ask yarn 16k
ask yarn 4k
