#!/usr/bin/env python3
"""compare_with_transformers.py MODEL_DIR TEXT_FILE [TESSERA]: token ids and log-probabilities of a text, ours and those of
`transformers`, both in float32. Exit code 1 when an id differs, or a log-probability by more than 1e-4. The text is of at
most 256 KiB (one document for both). Needs torch and transformers. TESSERA is the binary (build/tessera)."""
import json
import os
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

LIMIT = 1e-4

if len(sys.argv) not in (3, 4):
    sys.exit(__doc__)
folder, path = sys.argv[1:3]
tessera = sys.argv[3] if len(sys.argv) == 4 else "build/tessera"
if os.path.getsize(path) > 256 << 10:
    sys.exit(f"{path}: more than 256 KiB")

with open(os.path.join(folder, "config.json")) as file:
    config = json.load(file)
rows_of = min(config.get("max_position_embeddings", config.get("n_positions", 1024)), 1024)
command = [tessera, "eval", folder, "--data", path, "--per-token", "--dtype", "float32", "--seq-len", str(rows_of)]
lines = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
ours = [json.loads(line) for line in lines]

with open(path, newline="") as file:
    ids = AutoTokenizer.from_pretrained(folder)(file.read())["input_ids"]
if [one["token"] for one in ours] != ids[1:]:
    sys.exit(f"the ids differ: {len(ids) - 1} tokens to predict for transformers, {len(ours)} for us")

model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
worst, where, total = 0.0, 0, 0.0
with torch.no_grad():
    for begin in range(0, len(ids) - 1, rows_of):  # a row predicts rows_of tokens from those before them in the row
        row = torch.tensor(ids[begin : begin + rows_of + 1])
        logprobs = torch.log_softmax(model(row[None, :-1]).logits[0].float(), -1)
        theirs = logprobs.gather(1, row[1:, None])[:, 0].tolist()
        for k, value in enumerate(theirs):
            total += value
            difference = abs(value - ours[begin + k]["logprob"])
            if not difference <= worst:  # NaN counts
                worst, where = difference, begin + k + 1

mean = -sum(one["logprob"] for one in ours) / len(ours)
print(f"{len(ours)} tokens: loss {mean:.6f} here, {-total / len(ours):.6f} there; "
      f"largest difference of a log-probability {worst:.3g} (token {where})")
sys.exit(0 if worst <= LIMIT else 1)
