#!/usr/bin/env python3
"""Makes tests/nn/fixtures/values.json: what value models of others compute, in float64, for tiny models.

Per case: config.json as transformers writes it, the names and shapes of its parameters, sequences of tokens and the value of
each token. Weights are not stored: both sides make them from the parameter's name (make_model_fixtures.weights here,
fixture_weight() in tests/nn/fixture.h).

  token     ...ForTokenClassification with num_labels=1, which verl's critic loads (score with a bias)
  sequence  ...ForSequenceClassification with num_labels=1: its score of every token, not of the last one alone
  trl       trl's AutoModelForCausalLMWithValueHead (v_head.summary), as its save_pretrained names it

Needs torch, transformers and trl (0.24 has the value head). Usage: make_value_fixtures.py OUT_FILE
"""
import json
import pathlib
import sys
import tempfile

import torch
import transformers
from trl.models.modeling_value_head import AutoModelForCausalLMWithValueHead

from make_model_fixtures import weights

SEQUENCES = [[17, 3, 88, 41, 5, 60, 2], [9], [70, 70, 12, 33]]


def llama(cls, **kw):
    base = dict(vocab_size=97, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                num_key_value_heads=1, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    base.update(kw)
    return getattr(transformers, cls + "Config")(**base)


def gpt2():
    return transformers.GPT2Config(vocab_size=97, n_embd=20, n_layer=2, n_head=5, n_positions=48, resid_pdrop=0.0,
                                   embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2, pad_token_id=0)


CASES = {
    "llama, token": ("token", llama("Llama")),
    "llama, sequence": ("sequence", llama("Llama")),
    "llama, trl": ("trl", llama("Llama")),
    "qwen2, token": ("token", llama("Qwen2", num_attention_heads=4, num_key_value_heads=2)),
    "qwen3, trl, tied": ("trl", llama("Qwen3", head_dim=10, num_attention_heads=4, num_key_value_heads=2,
                                      tie_word_embeddings=True)),
    "mistral, token": ("token", llama("Mistral", sliding_window=5, head_dim=12, num_attention_heads=4,
                                      num_key_value_heads=2)),
    "gemma3, sequence": ("sequence", llama("Gemma3Text", head_dim=10, num_attention_heads=4, num_key_value_heads=2,
                                           sliding_window=5, query_pre_attn_scalar=13,
                                           layer_types=["sliding_attention", "full_attention"])),
    "gpt2, token": ("token", gpt2()),
    "gpt2, trl": ("trl", gpt2()),
}


def fill(state, around=1.0):
    """around: the mean of norms"""
    filled = set()  # a tied head is the embedding, and is called so
    for name, tensor in state.items():
        if tensor.is_floating_point() and tensor.data_ptr() not in filled:
            filled.add(tensor.data_ptr())
            tensor.copy_(torch.from_numpy(weights(name, tuple(tensor.shape), around).copy()))


def of_head(kind, config):
    config.num_labels = 1
    factory = {"token": transformers.AutoModelForTokenClassification,
               "sequence": transformers.AutoModelForSequenceClassification}[kind]
    model = factory.from_config(config).double().eval()
    fill(model.state_dict(), 0.0 if config.model_type.startswith("gemma") else 1.0)
    if kind == "token":
        return model, lambda ids: model(input_ids=ids).logits[0, :, 0]
    return model, lambda ids: model.score(model.model(input_ids=ids).last_hidden_state)[0, :, 0]


def of_trl(config, folder):
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    model = AutoModelForCausalLMWithValueHead.from_pretrained(folder).double().eval()
    fill(model.state_dict())
    return model.pretrained_model, lambda ids: model(input_ids=ids)[2][0]


def case(kind, config):
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model, values = of_trl(config, folder) if kind == "trl" else of_head(kind, config)
        got = [v for ids in SEQUENCES for v in values(torch.tensor([ids])).tolist()]
        model.save_pretrained(folder)
        saved = json.loads(pathlib.Path(folder, "config.json").read_text())
    return {"kind": kind, "config": saved, "sequences": SEQUENCES, "values": got}


def main():
    cases = {name: case(*what) for name, what in CASES.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in cases.items())
    pathlib.Path(sys.argv[1]).write_text("{\n" + lines + "\n}\n")


main()
