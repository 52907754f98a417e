#!/usr/bin/env python3
"""Writes tests/ckpt/fixtures/wrapped/: one small Llama as PyTorch's recipes and wrappers save it, and its config.json.
Needs PyTorch (gloo), nothing else. Values as in make_checkpoint_fixtures.py, by the model's own names."""
import json
import os
import shutil
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful

from make_checkpoint_fixtures import values

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 6,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16,
    "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "torch_dtype": "float32",
}


def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = linear(4, 4), linear(2, 4), linear(2, 4), linear(4, 4)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(6, 4), linear(6, 4), linear(4, 6)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), Mlp()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()


class Rotary(nn.Module):
    """As transformers' own: a buffer that is not saved, and a tensor that is a plain attribute."""

    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", torch.ones(1), persistent=False)
        self.original_inv_freq = self.inv_freq


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.layers, self.norm = nn.Embedding(8, 4), nn.ModuleList([Layer(), Layer()]), Norm()
        self.rotary_emb = Rotary()


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.model, self.lm_head = Base(), linear(8, 4)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(values(name, parameter.shape))


class AppState(Stateful):
    """PyTorch's recipe "Getting Started with Distributed Checkpoint"."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model_state, optimizer_state = get_state_dict(self.model, self.optimizer)
        return {"model": model_state, "optim": optimizer_state}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])


def step(model):
    """An optimizer with state; the weights stay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer


def wrap_layers(model):
    """The names that FSDP and activation checkpointing give below their state_dict hooks."""
    for i, layer in enumerate(model.model.layers):
        model.model.layers[i] = checkpoint_wrapper(layer)
    state = dict(model.named_parameters())
    return {name.replace("layers.0.", "layers.0._fsdp_wrapped_module.").replace("layers.1.", "layers.1._fpw_module."):
            parameter.detach() for name, parameter in state.items()}


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "ckpt", "fixtures", "wrapped")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "hf"))
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29531", rank=0, world_size=1)
    with open(os.path.join(folder, "hf", "config.json"), "w") as file:
        json.dump(CONFIG, file, indent=2)
        file.write("\n")

    def save(state, name):
        torch.save(state, os.path.join(folder, name))

    model = Llama()
    optimizer = step(model)
    dcp.save({"app": AppState(model, optimizer)}, checkpoint_id=os.path.join(folder, "app"))
    save(model.state_dict(), "plain.pt")
    save(model, "module.pt")
    save({"net": model.state_dict(), "opt": optimizer.state_dict()}, "net.pt")
    save({"student": {"teacher.model." + name: tensor for name, tensor in model.state_dict().items()}}, "student.pt")
    save(model.model.state_dict() | {"lm_head.weight": model.lm_head.weight.detach()}, "base.pt")
    save(nn.parallel.DistributedDataParallel(Llama()).state_dict(), "ddp.pt")
    save({"model": torch.compile(nn.parallel.DistributedDataParallel(Llama())).state_dict(), "optimizer": optimizer.state_dict()},
         "compiled.pt")
    save(wrap_layers(Llama()), "layers.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
