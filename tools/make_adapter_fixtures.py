#!/usr/bin/env python3
"""Makes tests/nn/fixtures/lora_*: adapters (LoRA) on tiny models, with what PEFT computes for them; and compares.

make OUT_FOLDER       As make_model_fixtures.py, whose models and rule for weights these are: config.json, case.json,
                      expected.bin (float32: logits of all rows, then the gradient of every A and B, of the SUM of -log p
                      over the targets), and beside them the adapter as PEFT saves it.
compare MODEL ADAPTER MERGED TEXT_IDS
                      MODEL with ADAPTER, a folder that Tessera wrote, opened by PEFT; against MERGED, what
                      `tessera convert --adapter` made of the two: weights and log-probabilities of TEXT_IDS ("5 9 2 ...").

Values come from a float64 run; the plain float32 run is checked against it. Needs torch, transformers and peft.
"""
import json
import pathlib
import sys

import numpy as np
import peft
import torch
import transformers

from make_model_fixtures import CASES, exact_norms, far, run, weights

ADAPTERS = {
    "llama": dict(r=4, lora_alpha=8, target_modules="all-linear"),
    "qwen2": dict(r=3, lora_alpha=5, use_rslora=True, target_modules=["q_proj", "v_proj", "down_proj"]),
    "phi4": dict(r=3, lora_alpha=7, target_modules="all-linear"),
    "gpt2": dict(r=5, lora_alpha=16, fan_in_fan_out=True, target_modules=["c_attn", "c_proj", "c_fc"]),
}


def own_name(name):
    """The name that a parameter has without PEFT's words."""
    return name.removeprefix("base_model.model.").replace(".base_layer.", ".").replace(".default.", ".")


def build(config, cls, adapter, dtype, attention):
    config = type(config).from_dict(config.to_dict())
    config._attn_implementation = attention
    model = peft.get_peft_model(cls(config).eval(), peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **adapter))
    for name, p in model.named_parameters():
        p.data = torch.from_numpy(weights(own_name(name), tuple(p.shape)))
    model.base_model.model.tie_weights()
    if dtype == torch.float64:
        exact_norms(model)
    return model.to(dtype)


def gradients(model, sequences, targets):
    for p in model.parameters():
        p.grad = None
    frozen = [p for p in model.parameters() if not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)  # run() wants all gradients
    logits, loss, grads = run(model, sequences, targets)
    for p in frozen:
        p.requires_grad_(False)
    return logits, loss, {own_name(n): g for n, g in grads.items() if ".lora_" in n}


def make(folder, name):
    config, cls, lengths = CASES[name]
    rng = np.random.default_rng(11)
    sequences = [rng.integers(0, config.vocab_size, n).tolist() for n in lengths]
    targets = [s[1:] + [int(rng.integers(0, config.vocab_size))] for s in sequences]
    targets[0][2] = targets[-1][0] = -1
    logits, loss, grads = gradients(build(config, cls, ADAPTERS[name], torch.float64, "sdpa"), sequences, targets)
    model = build(config, cls, ADAPTERS[name], torch.float32, "eager")
    logits32, loss32, grads32 = gradients(model, sequences, targets)
    worst = max(far(logits32, logits), abs(loss32 - loss) / loss, max(far(grads32[n], grads[n]) for n in grads))
    assert worst < 2e-5, f"{name}: float32 is {worst:.2g} from float64"

    out = folder / f"lora_{name}"
    out.mkdir(parents=True, exist_ok=True)
    model.base_model.model.config.save_pretrained(out)
    model.save_pretrained(out)
    (out / "README.md").unlink()
    case = {"ids": sum(sequences, []), "targets": sum(targets, []), "cu_seqlens": np.cumsum([0] + lengths).tolist(),
            "max_position": 40, "loss": loss,
            "grads": [{"name": n, "shape": list(g.shape)} for n, g in grads.items()]}
    (out / "case.json").write_text(json.dumps(case) + "\n")
    blob = np.concatenate([logits.ravel()] + [g.ravel() for g in grads.values()]).astype("<f4").tobytes()
    (out / "expected.bin").write_bytes(blob)
    print(f"lora_{name}: {len(blob)} bytes, float32 within {worst:.2g}")


def compare(model, adapter, merged, ids):
    ids = torch.tensor([[int(i) for i in ids.split()]])
    load = transformers.AutoModelForCausalLM.from_pretrained
    with_adapter = peft.PeftModel.from_pretrained(load(model, dtype=torch.float32), adapter)
    unloaded = peft.PeftModel.from_pretrained(load(model, dtype=torch.float32), adapter).merge_and_unload().state_dict()
    other = load(merged, dtype=torch.float32)
    worst = max((far(t.numpy(), unloaded[n].numpy()), n) for n, t in other.state_dict().items())
    with torch.no_grad():
        print(f"merged weights: within {worst[0]:.3g} ({worst[1]})")
        print(f"logits: within {far(other(ids).logits.numpy(), with_adapter(ids).logits.numpy()):.3g}")
        logprob = torch.log_softmax(with_adapter(ids).logits[0, :-1].double(), -1).gather(1, ids[0, 1:, None])
        print(f"loss: {-logprob.mean().item():.9g}")


if __name__ == "__main__":
    torch.manual_seed(0)
    if len(sys.argv) == 3 and sys.argv[1] == "make":
        for name in ADAPTERS:
            make(pathlib.Path(sys.argv[2]), name)
    elif len(sys.argv) == 6 and sys.argv[1] == "compare":
        compare(*sys.argv[2:])
    else:
        sys.exit(__doc__)
