#!/usr/bin/env python3
"""compare_with_transformers.py MODEL_DIR TEXT_FILE [TESSERA]: token ids, log-probabilities and entropies of a text, ours and
those of `transformers`, both in float32. Exit code 1 when an id differs, or one of the others by more than 1e-4. The text is of at
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

# The default of experts is a kernel that needs aligned rows.
eager = {"experts_implementation": "eager"} if any("experts" in key for key in config) else {}
model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, **eager).eval()
worst, total = {"logprob": (0.0, 0), "entropy": (0.0, 0)}, 0.0
with torch.no_grad():
    for begin in range(0, len(ids) - 1, rows_of):  # a row predicts rows_of tokens from those before them in the row
        row = torch.tensor(ids[begin : begin + rows_of + 1])
        logprobs = torch.log_softmax(model(row[None, :-1]).logits[0].float(), -1)
        theirs = {"logprob": logprobs.gather(1, row[1:, None])[:, 0].tolist(),
                  "entropy": torch.special.entr(logprobs.exp()).sum(-1).tolist()}
        total += sum(theirs["logprob"])
        for what, values in theirs.items():
            for k, value in enumerate(values):
                difference = abs(value - ours[begin + k][what])
                if not difference <= worst[what][0]:
                    worst[what] = difference if difference == difference else float("inf"), begin + k + 1  # NaN counts

mean = -sum(one["logprob"] for one in ours) / len(ours)
print(f"{len(ours)} tokens: loss {mean:.6f} here, {-total / len(ours):.6f} there; "
      f"largest difference of a log-probability {worst['logprob'][0]:.3g} (token {worst['logprob'][1]}), "
      f"of an entropy {worst['entropy'][0]:.3g} (token {worst['entropy'][1]})")
sys.exit(0 if all(difference <= LIMIT for difference, _ in worst.values()) else 1)
