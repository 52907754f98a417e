#!/usr/bin/env bash
# Where `tessera generate` stops: the position limit, which dynamic rope scaling depends on.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_text 40 | tail -n 15 >held.txt
make_model model.json
make_config run.yaml
"$tessera" train run.yaml validation.enable=false model.save_dtype=float32 training.mixed_precision_param=float32 \
    >log 2>&1 && mv out/model m || { cat log; exit 1; }
rm -rf out

same() { if cmp -s "$2" "$3"; then pass "$1"; else fail "$1: $(diff "$2" "$3" | head -n 4)"; fi; }
differs() { if [ -s "$2" ] && [ -s "$3" ] && ! cmp -s "$2" "$3"; then pass "$1"; else fail "$1"; fi; }

# ---- The position limit
expect "more new tokens than there is room for" 2 "--max-new-tokens: 90 after a prompt of 1 tokens; the model takes 64 together" \
    "$tessera" generate m --prompt e --max-new-tokens 90
expect "by default as many as there are" 0 '"position": 63' "$tessera" generate m --prompt e --logprobs
expect "a limit that the model does not have" 2 "--max-length: 65 positions; this model takes 2 to 64" \
    "$tessera" generate m --prompt e --max-length 65
expect "a smaller one" 2 "the model takes 8 together" "$tessera" generate m --prompt e --max-length 8 --max-new-tokens 8

# Dynamic rope scaling: the frequencies are of the limit, not of the request.
sed 's/"max_position_embeddings": 64/"max_position_embeddings": 32, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}/' \
    model.json >dynamic.json
train=("$tessera" train run.yaml model.config=dynamic.json validation.files=held.txt model.save_dtype=float32 training.mixed_precision_param=float32)
expect "rows beyond the limit" 2 "training.seq_len: 40 is more than the 32 positions of dynamic.json" \
    "${train[@]}" training.seq_len=40
expect "and the key that raises it" 2 "model.max_length" "${train[@]}" training.seq_len=40
expect "preflight says it too" 4 "training.seq_len: 40 is more than" \
    "$tessera" doctor preflight -n 1 --only model run.yaml model.config=dynamic.json training.seq_len=40
for limit in 0 100; do
    rm -rf out
    expect "train with dynamic scaling, limit $limit" 0 "30 steps" "${train[@]}" model.max_length=$limit
    rm -rf dynamic_$limit
    mv out dynamic_$limit
done
differs "the limit changes what is computed" dynamic_0/model/model.safetensors dynamic_100/model/model.safetensors
expect "the trained folder keeps its limit" 0 '"tessera_max_length": 100' cat dynamic_100/model/config.json
loss() { grep -o "\"$1\": [^,}]*" | tail -n 1; }
for limit in 0 100; do
    "$tessera" eval dynamic_$limit/model --data held.txt --seq-len 19 --json 2>log | loss loss | cut -d ' ' -f 2 >got
    loss validation_loss <dynamic_$limit/metrics.jsonl | cut -d ' ' -f 2 >want
    same "limit $limit: eval gives the digits of validation" got want
done
d=dynamic_0/model
first() { "$tessera" generate $d --prompt "the ship sailed over" --logprobs --temperature 0 "$@" 2>log | head -n 8; }
first --max-new-tokens 4 >few
first --max-new-tokens 12 >many
[ -s few ] && same "the request decides nothing" few many
expect "a request beyond the model" 2 "--max-length N lets it take N" "$tessera" generate $d --prompt the --max-new-tokens 60
first --max-new-tokens 4 --max-length 90 >few
first --max-new-tokens 70 --max-length 90 >many
[ -s few ] && same "nor under a stated limit" few many
first --max-new-tokens 4 --max-length 91 >other
differs "which decides" few other
"$tessera" eval $d --data held.txt --seq-len 12 --max-length 90 --json >short 2>log
"$tessera" eval $d --data held.txt --seq-len 12 --json >unstated 2>log
differs "eval under a stated limit" short unstated
expect "eval beyond the model" 2 "the model takes 2 to 32" "$tessera" eval $d --data held.txt --seq-len 50
expect "eval beyond, with a limit" 0 "loss" "$tessera" eval $d --data held.txt --seq-len 50 --max-length 50
finish
