#!/usr/bin/env python3
"""compare_families.py [--tessera BINARY] [--keep FOLDER] [FAMILY | FAMILY/VARIANT ...]: every family against transformers.

Makes tiny random models with transformers, runs them through our command line, and compares with transformers in float64:

  logprob   log-probability of every token of a text (`eval`), 2e-5 of the largest
  loss      the loss of a training step, 2e-5 relative
  grads     the gradient of every tensor, 1e-4 of its largest element. A step of SGD without momentum and with a large
            learning rate saves weights that differ from the old ones by the gradient alone
  greedy    20 tokens (`generate --temperature 0`)
  saved     the model that a step with learning rate 0 saves opens in transformers: all tensors, and the same loss
  adapter   of ADAPTED: a LoRA that PEFT made has its log-probabilities here, and the one that we train
            from it has ours in PEFT
  heads     we open the classifiers that transformers has for the family; tests/nn compares their values
  bf16      log-probabilities and gradients in bfloat16 are not much further from float64 than transformers' own

Prints a table of the largest differences, then what differs; "refused" is followed by our message. Exit code 1 when a check
fails, when a command fails otherwise than by a refusal in REFUSED, or when a name is unknown. --keep leaves the models and their files. Needs torch, transformers and peft."""
import argparse
import contextlib
import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

LENGTH, N_NEW, END = 45, 20, 256  # predicted tokens of the text, tokens to generate, id of the only special token
RATE = 65536.0  # weights are lost in the rounding of rate * gradient


# ---- Families and their variants ----
def rope(kind, theta=1000.0, **kw):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **kw}}


LINEAR = rope("linear", factor=2.5)
LLAMA3 = rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=32)
YARN_ALL = rope("yarn", factor=2.0, original_max_position_embeddings=64, beta_fast=16.0, beta_slow=2.0, truncate=False,
                mscale=1.2, mscale_all_dim=0.7)
DYNAMIC = dict(rope("dynamic", factor=2.0), max_position_embeddings=20, max_length=LENGTH)
WITHIN = rope("dynamic", factor=2.0)
BOTH = {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}
TIED, UNTIED, BIASED = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}, {"attention_bias": True}
ODD = {"hidden_size": 30, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 29,
       "num_hidden_layers": 2}
EPS = {"rms_norm_eps": 1e-2}
ALTERNATE = {"sliding_window": 6, "num_hidden_layers": 4,
             "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]}


def longrope(pairs, **kw):
    """Factors of both kinds; texts are longer than the original length, so transformers takes the long ones."""
    short, long = [1.0 + 0.1 * i for i in range(pairs)], [1.5 + 0.7 * i for i in range(pairs)]
    return dict(rope("longrope", short_factor=short, long_factor=long, original_max_position_embeddings=16, **kw),
                original_max_position_embeddings=16, max_position_embeddings=64)


def partial(share, **kw):
    parameters = rope("default", partial_rotary_factor=share)["rope_parameters"]
    return {"rope_parameters": parameters, **kw}


def by_type(full, sliding):
    return {"rope_parameters": {"full_attention": full["rope_parameters"],
                                "sliding_attention": sliding["rope_parameters"]}}


MLA = dict(q_lora_rank=None, kv_lora_rank=20, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, num_attention_heads=3,
           num_key_value_heads=3, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=22,
           first_k_dense_replace=1)
BALANCED = {"output_router_logits": True, "router_aux_loss_coef": 0.7}  # for one layer: transformers joins layers, we do not
GROUPS = dict(n_group=4, topk_group=2)
EXPERTS = dict(num_experts=7, num_experts_per_tok=3, moe_intermediate_size=22)

# name: (prefix of transformers' config class, what all variants share, {variant: what is its own})
FAMILIES = {
    "llama": ("Llama", {}, {"plain": {}, "biases, tied": BOTH, "odd": ODD, "eps": EPS, "linear": LINEAR, "llama3": LLAMA3,
                            "yarn": YARN, "yarn, all": YARN_ALL, "dynamic": DYNAMIC, "within": WITHIN,
                            "exact gelu": {"hidden_act": "gelu"}, "v4": dict(LLAMA3, v4=True)}),
    "mistral": ("Mistral", {}, {"plain": {"sliding_window": None}, "window": {"sliding_window": 6}, "tied": TIED,
                                "odd": dict(ODD, head_dim=14), "v4": dict(YARN, v4=True)}),
    "ministral": ("Ministral", {"head_dim": 12}, {"plain": {"sliding_window": 6}, "full": {"layer_types": ["full_attention"] * 3},
                                             "layers": ALTERNATE, "tied": dict(TIED, **ALTERNATE)}),
    "qwen2": ("Qwen2", {}, {"plain": {}, "tied": TIED, "odd": ODD, "yarn": YARN,
                            "window": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
                            "layers": dict(ALTERNATE, use_sliding_window=True), "v4": dict(YARN, v4=True)}),
    "qwen3": ("Qwen3", {"head_dim": 14}, {"plain": {}, "biases, tied": dict(TIED, **BIASED), "odd": ODD, "yarn": YARN,
                                          "layers": dict(ALTERNATE, use_sliding_window=True)}),
    "gpt2": ("GPT2", {}, {"plain": {}, "exact gelu": {"activation_function": "gelu"}, "silu": {"activation_function": "silu"},
                          "odd": {"n_embd": 35, "n_head": 5}, "inner": {"n_inner": 61}}),
    "smollm3": ("SmolLM3", {}, {"plain": {"num_hidden_layers": 4}, "untied": dict(UNTIED, no_rope_layers=[0, 1, 1]),
                                "biases": dict(BOTH, no_rope_layer_interval=2), "yarn": YARN, "odd": ODD,
                                "windows": {"use_sliding_window": True, "sliding_window": 6, "no_rope_layer_interval": 2}}),
    "granite": ("Granite", {"embedding_multiplier": 1.7, "logits_scaling": 3.0, "residual_multiplier": 0.4,
                            "attention_multiplier": 0.11},
                {"plain": {}, "biases, tied": BOTH, "odd": ODD, "gelu": {"hidden_act": "gelu_new"},
                 "ones": {"embedding_multiplier": 1.0, "logits_scaling": 1.0,
                 "residual_multiplier": 1.0, "attention_multiplier": 1.0}, "yarn": YARN, "v4": dict(v4=True)}),
    "ministral3": ("Ministral3", {"head_dim": 12},
                   {"scaled": dict(rope("yarn", factor=4.0, original_max_position_embeddings=16, llama_4_scaling_beta=0.1,
                                        mscale=1.0, mscale_all_dim=1.0)),
                    "window": dict(rope("yarn", factor=4.0, original_max_position_embeddings=8, llama_4_scaling_beta=0.3),
                                   sliding_window=6), "assumed": {"drop": "rope_parameters"}, "tied, odd": dict(ODD, **TIED, head_dim=14)}),
    "phi3": ("Phi3", {}, {"plain": {}, "heads": {"head_dim": 14}, "window": {"sliding_window": 6}, "longrope": longrope(6), "odd": ODD, "tied": TIED,
                          "partial": partial(0.5), "partial longrope": longrope(3, partial_rotary_factor=0.5),
                          "v4": dict(longrope(6), v4=True)}),
    "olmo2": ("Olmo2", {}, {"plain": {}, "heads": {"head_dim": 14}, "biases, tied": dict(TIED, **BIASED), "odd": ODD, "eps": EPS, "yarn": YARN}),
    "olmo3": ("Olmo3", {}, {"plain": {"num_hidden_layers": 4, "sliding_window": 6}, "tied": dict(TIED, **ALTERNATE),
                            "ropes": dict(ALTERNATE, **by_type(YARN, rope("default", theta=500.0))), "odd": ODD}),
    "gemma": ("Gemma", {"head_dim": 12}, {"plain": {}, "untied": UNTIED, "odd": dict(ODD, head_dim=14), "biases": BIASED}),
    "gemma2": ("Gemma2", {"head_dim": 12, "query_pre_attn_scalar": 19, "attn_logit_softcapping": 3.0,
                          "final_logit_softcapping": 5.0, "sliding_window": 6},
               {"plain": {}, "untied": UNTIED, "odd": dict(ODD, head_dim=14), "layers": ALTERNATE, "biases": BIASED,
                "no caps": {"attn_logit_softcapping": None, "final_logit_softcapping": None}}),
    "gemma3": ("Gemma3Text", {"head_dim": 12, "query_pre_attn_scalar": 19, "sliding_window": 6},
               {"plain": {}, "layers": ALTERNATE, "odd": dict(ODD, head_dim=14), "untied": UNTIED,
                "linear": dict(ALTERNATE, **by_type(LINEAR, rope("default", theta=500.0))),
                "capped": {"final_logit_softcapping": 5.0}, "v4": dict(ALTERNATE, **by_type(LINEAR, rope("default", theta=500.0)),
                                                                       v4=True)}),
    "glm4": ("Glm4", {"head_dim": 12}, {"plain": partial(0.5), "no biases": partial(0.5, attention_bias=False),
                                        "v4": partial(0.84, v4=True), "tied": partial(0.5, tie_word_embeddings=True), "odd": dict(ODD, head_dim=20)}),
    "glm": ("Glm", {"head_dim": 12}, {"plain": partial(0.5), "no biases": partial(0.5, attention_bias=False)}),
    "starcoder2": ("Starcoder2", {}, {"plain": {}, "heads": {"head_dim": 14}, "untied": UNTIED, "no biases": {"use_bias": False}, "odd": ODD,
                                      "window": {"sliding_window": 6}, "exact gelu": {"hidden_act": "gelu"}}),
    "stablelm": ("StableLm", {}, {"plain": partial(0.5), "biases": partial(0.5, use_qkv_bias=True), "odd": partial(0.4, **ODD),
                                  "norms": partial(0.5, qk_layernorm=True), "tied": partial(0.5, **TIED),
                                  "parallel": partial(0.5, use_parallel_residual=True)}),
    "gpt_neox": ("GPTNeoX", {"hidden_size": 64}, {"plain": {}, "serial": {"use_parallel_residual": False}, "no biases": {"attention_bias": False},
                                 "half": partial(0.5), "tied": TIED, "whole": partial(1.0),
                                 "odd": partial(0.4, **ODD), "gelu_new": {"hidden_act": "gelu_new"}, "v4": partial(0.5, v4=True)}),
    "cohere2": ("Cohere2", {"sliding_window": 6, "logit_scale": 0.3}, {"plain": {"num_hidden_layers": 4}, "layers": ALTERNATE,
                                                                       "biases": BIASED, "untied": UNTIED, "odd": ODD}),
    "exaone4": ("Exaone4", {"sliding_window": 6}, {"plain": {"num_hidden_layers": 4}, "layers": ALTERNATE, "tied": TIED, "odd": ODD,
                                                   "full": {"sliding_window": None, "layer_types": ["full_attention"] * 3},
                                                   "llama3": LLAMA3}),
    "mixtral": ("Mixtral", {"num_local_experts": 5, "num_experts_per_tok": 2},
                {"plain": {}, "window": {"sliding_window": 6}, "odd": dict(ODD, num_experts_per_tok=3), "one": {"num_experts_per_tok": 1},
                 "tied": TIED, "exact gelu": {"hidden_act": "gelu"}, "balanced": dict(BALANCED, num_hidden_layers=1)}),
    "qwen3_moe": ("Qwen3Moe", dict(EXPERTS, head_dim=14),
                  {"plain": {}, "normalised": {"norm_topk_prob": True}, "dense": {"mlp_only_layers": [1]}, "odd": ODD,
                   "step": {"decoder_sparse_step": 2}, "window": {"use_sliding_window": True, "sliding_window": 6},
                   "balanced": dict(BALANCED, mlp_only_layers=[0, 2]), "tied, biases": dict(TIED, **BIASED)}),
    "qwen2_moe": ("Qwen2Moe", dict(EXPERTS, shared_expert_intermediate_size=31),
                  {"plain": {}, "normalised": {"norm_topk_prob": True}, "dense": {"mlp_only_layers": [1]}, "odd": ODD,
                   "no biases": {"qkv_bias": False}, "tied": TIED,
                   "balanced": dict(BALANCED, num_hidden_layers=1)}),
    "olmoe": ("Olmoe", dict(num_experts=7, num_experts_per_tok=3),
              {"plain": {}, "normalised": {"norm_topk_prob": True}, "clipped": {"clip_qkv": 0.8}, "odd": ODD,
               "balanced": dict(BALANCED, num_hidden_layers=1),
               "tied, biases": dict(TIED, **BIASED)}),
    "gpt_oss": ("GptOss", {"num_local_experts": 6, "num_experts_per_tok": 2, "head_dim": 12, "sliding_window": 6},
                {"plain": rope("default"), "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=16, truncate=False,
                                                        beta_fast=32.0, beta_slow=1.0),
                 "mxfp4": dict(rope("default"), hidden_size=64, intermediate_size=32, mxfp4=True),
                 "no biases": dict(rope("default"), attention_bias=False), "clamped": dict(rope("default"), swiglu_limit=0.7),
                 "odd": dict(ODD, **rope("default"))}),
    "deepseek_v2": ("DeepseekV2", dict(MLA, topk_method="greedy"),
                    {"plain": {}, "low rank q": {"q_lora_rank": 17}, "scaled": {"routed_scaling_factor": 1.7},
                     "groups": dict(GROUPS, topk_method="group_limited_greedy"), "yarn": YARN_ALL}),
    "deepseek_v3": ("DeepseekV3", dict(MLA, **GROUPS, num_nextn_predict_layers=0),
                    {"plain": {}, "low rank q": {"q_lora_rank": 17}, "raw": {"norm_topk_prob": False}, "yarn": YARN_ALL,
                     "not interleaved": {"rope_interleave": False}}),
}
VISION = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8, "patch_size": 4}
QWEN_VISION = {"depth": 1, "embed_dim": 16, "hidden_size": 48, "num_heads": 2, "patch_size": 4}
MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 2, 2]}}
# Models of images and text, of which we have the text model: (prefix, vision_config, text model's type, own keys of text_config)
PICTURED = {
    "llava": ("Llava", dict(VISION, model_type="clip_vision_model", projection_dim=16), "llama", {}),
    "mistral3": ("Mistral3", dict(VISION, model_type="pixtral", head_dim=8), "mistral", {"sliding_window": None}),
    "gemma3_pictured": ("Gemma3", dict(VISION, model_type="siglip_vision_model"), "gemma3_text",
                        {"head_dim": 12, "query_pre_attn_scalar": 19, "sliding_window": 6}),
    "qwen2_vl": ("Qwen2VL", QWEN_VISION, None, MROPE),
    "qwen2_5_vl": ("Qwen2_5_VL", {"depth": 1, "hidden_size": 16, "out_hidden_size": 48, "num_heads": 2, "patch_size": 4,
                                  "intermediate_size": 24, "fullatt_block_indexes": [0]}, None, MROPE),
}
FAMILIES.update({name: (prefix, own, {"plain": {}, "tied": TIED, "new names": {"new": True}})
                 for name, (prefix, _, _, own) in PICTURED.items()})
SIZES = {"vocab_size": 261, "hidden_size": 48, "intermediate_size": 37, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128}
GPT2_SIZES = {"vocab_size": 261, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 128, "resid_pdrop": 0.0,
              "embd_pdrop": 0.0, "attn_pdrop": 0.0}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": END}


# ---- transformers ----
class Float64(TorchFunctionMode):
    """Casts to float32 become casts to float64, but those of rotary angles, which are part of a model's definition."""

    def __torch_function__(self, function, types, arguments=(), named=None):
        def widen(value):
            return torch.float64 if value is torch.float32 else value

        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(widen, arguments), **{key: widen(value) for key, value in (named or {}).items()})


@contextlib.contextmanager
def rotary_in_float32(model):
    """Runs the modules of rotary positions without the mode."""
    changed = [module for module in model.modules() if type(module).__name__.endswith("RotaryEmbedding")]
    for module in changed:
        def forward(*arguments, own=module.forward, **named):
            with torch._C.DisableTorchFunction():
                return own(*arguments, **named)
        module.forward = forward
    yield
    for module in changed:
        del module.forward


def fill(model):
    """Adds values to norms and biases, and replaces matrices, so that no term of a layer hides."""
    generator = torch.Generator().manual_seed(7)
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(p, torch.nn.Parameter) or name.endswith("e_score_correction_bias"):
            noise = torch.rand(p.shape, generator=generator) - 0.5
            p.data = noise if p.dim() > 1 else p.data + noise / 2
    return model.eval()


def config_of(family, own):
    prefix, shared, _ = FAMILIES[family]
    kw = dict(GPT2_SIZES if family == "gpt2" else SIZES, **TOKENS)
    kw.update(shared)
    kw.update(own)
    if family in PICTURED:
        tied = kw.pop("tie_word_embeddings", False)
        text = dict(kw, tie_word_embeddings=tied, **({"model_type": PICTURED[family][2]} if PICTURED[family][2] else {}))
        kw = {"text_config": text, "vision_config": PICTURED[family][1], "tie_word_embeddings": tied}
    config = getattr(transformers, prefix + "Config")(**kw)
    config._experts_implementation = "eager"
    return config


def create(family, own):
    kind = transformers.AutoModelForImageTextToText if family in PICTURED else transformers.AutoModelForCausalLM
    model = fill(kind.from_config(config_of(family, own), attn_implementation="eager"))
    model.tie_weights()
    return model


def pack(model):
    """Gives experts weights that MXFP4 has. Returns them as files of gpt-oss have them."""
    generator, packed = torch.Generator().manual_seed(11), {}
    for name, p in model.named_parameters():
        if re.search("experts.(gate_up|down)_proj$", name):
            n, columns, rows = p.shape
            blocks = torch.randint(256, (n, rows, columns // 32, 16), generator=generator, dtype=torch.uint8)
            scales = torch.randint(122, 126, (n, rows, columns // 32), generator=generator, dtype=torch.uint8)
            p.data = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
            packed.update({name + "_blocks": blocks, name + "_scales": scales})
    return packed


def save_packed(folder, packed):
    """Replaces weights by packed ones, in two shards that part blocks from scales."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    shards = {"model-00001-of-00002.safetensors": {name: x for name, x in tensors.items() if name + "_blocks" not in packed},
              "model-00002-of-00002.safetensors": {}}
    for name, x in packed.items():
        shards[f"model-0000{1 + name.endswith('_scales')}-of-00002.safetensors"][name] = x
    for file, x in shards.items():
        save_file(x, folder / file, {"format": "pt"})
    weights = {name: file for file, x in shards.items() for name in x}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config))


def save(model, folder, v4):
    model.save_pretrained(folder)
    end = "<|end|>"
    alphabet = bytes_to_unicode()
    tokenizer = {"version": "1.0", "added_tokens": [{"id": END, "content": end, "special": True, "single_word": False,
                                                     "lstrip": False, "rstrip": False, "normalized": False}],
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                 "decoder": {"type": "ByteLevel"},
                 "model": {"type": "BPE", "vocab": dict({alphabet[byte]: byte for byte in range(256)}, **{end: END}), "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    if v4:
        respell(folder / "config.json")


def respell(path):
    """Writes config.json as transformers 4 did."""
    config = json.loads(path.read_text())
    parameters = config.pop("rope_parameters")
    if "full_attention" in parameters:
        config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
        parameters = parameters["full_attention"]
    theta, part = ("rotary_emb_base", "rotary_pct") if config["model_type"] == "gpt_neox" else ("rope_theta", "partial_rotary_factor")
    config[theta] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        config[part] = parameters.pop("partial_rotary_factor")
    config["rope_scaling"] = parameters if parameters["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config))


def run(model, ids):
    """Returns log-probabilities of ids[1:], and the gradients of the loss in a copy of the model."""
    model.zero_grad()
    out = model(ids[None, :-1], use_cache=False)
    logprob = torch.log_softmax(out.logits[0].to(torch.float64), -1).gather(1, ids[1:, None])[:, 0]
    loss = -logprob.mean()
    if getattr(model.config, "output_router_logits", False):
        loss = loss + model.config.router_aux_loss_coef * out.aux_loss
    loss.backward()
    grads = copy.deepcopy(model)
    for p, own in zip(grads.parameters(), model.parameters()):
        p.data = torch.zeros_like(own) if own.grad is None else own.grad
    for buffer in grads.buffers():  # what is stored but not trained, such as the routers' biases of DeepSeek-V3
        buffer.zero_()
    return logprob.detach().numpy(), grads.float()


def stored(model, folder):
    """The tensors of a model, or of its gradients, under the names and in the shapes of files."""
    model.save_pretrained(folder)
    return text_names(load_file(folder / "model.safetensors"))


def text_names(tensors):
    """The names of a model's tensors in its text model alone."""
    out = {}
    for name, tensor in tensors.items():
        if not re.search("vision|visual|projector", name):
            name = name.replace("model.language_model.", "model.").replace("language_model.", "")
            out[name] = tensor
    return out


def new_names(folder):
    """Writes the names that modules have in transformers. save_pretrained writes those of older versions."""
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        text = next(iter(text_names({name: tensor})), None)
        tensors["model." + name if text is None else text.replace("model.", "model.language_model.")] = tensor
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def greedy(model, ids):
    text = ids.tolist()
    margin = float("inf")
    with torch.no_grad():
        while len(text) < len(ids) + N_NEW and text[-1] != END:
            best = model(torch.tensor([text]), use_cache=False).logits[0, -1].double().topk(2)
            margin = min(margin, float(best.values[0] - best.values[1]))
            text.append(int(best.indices[0]))
    return text[len(ids):], margin


# ---- Tessera ----
UNSUPPORTED = 2  # exit code of a refusal
# family, or family/variant: part of the message with which we refuse it
REFUSED = {
}


# family: the maps that have an adapter
ADAPTED = {**dict.fromkeys(["llama", "phi3", "glm", "glm4", "gpt2"], "all-linear"),
           "deepseek_v2": ["q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]}


class Failed(Exception):
    """A command's failure; `refused` is true if it is a refusal."""

    def __init__(self, message, refused):
        super().__init__(message)
        self.refused = refused


def tessera(*words):
    done = subprocess.run([arguments.tessera, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line]
        raise Failed(f"{words[0]}: exit code {done.returncode}: {lines[-1] if lines else ''}", done.returncode == UNSUPPORTED)
    return done.stdout


def score(folder, text, dtype, limit):
    out = tessera("eval", folder, "--data", text, "--per-token", "--dtype", dtype, "--seq-len", LENGTH, "--threads", 1,
                  "--add-bos", "false", *limit)
    return [json.loads(line) for line in out.splitlines()]


def train(folder, text, out, rate, dtype, limit):
    """One step; returns its loss, and the folder of the model that it saves."""
    tessera("train", f"model.path={folder}", f"data.files={text}", "data.add_bos=false", "data.shuffle=false",
            f"job.dump_folder={out}", "model.save_dtype=float32", *limit, f"training.seq_len={LENGTH}", "training.steps=1",
            "training.local_batch_size=1", "training.max_norm=0", "training.threads=1", f"training.mixed_precision_param={dtype}",
            "optimizer.name=sgd", "optimizer.momentum=0", f"optimizer.lr={rate}", "optimizer.weight_decay=0",
            "lr_scheduler.warmup_steps=0", "lr_scheduler.decay_type=constant", "validation.enable=false",
            "checkpoint.enable=false", "metrics.log_freq=1", "metrics.enable_tensorboard=false", "recovery.enable=false")
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return next(step["loss"] for step in steps if "loss" in step), out / "model"


# ---- Comparison ----
def largest(x):
    return np.abs(x).max() if x.size else 0.0


def norm_without_two(x):
    """The norm without the two largest numbers. Rounding to bfloat16 sends a token to another expert if two experts are
    nearly equal: in "olmoe/tied, biases" the third and fourth differ by 0.002 at token 19, whose log-probability then
    differs by 3.9. Over three other texts ours are 0.008, 0.021 and 0.008 from float64, transformers' 0.009, 0.014, 0.009."""
    return np.linalg.norm(np.sort(np.abs(x))[:-2])


def apart(a, b, size, floor=0.0):
    """The size of the difference, over that of b. Infinite if a number is not finite: max would drop NaN."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    return float(size(a - b) / max(size(b), floor, 1e-300))


def worst(ours, theirs, size):
    """The largest difference of a tensor, and its name. A gradient that is 0 but for rounding is measured by the others."""
    names = sorted(set(ours) ^ set(theirs))
    if names:
        return float("inf"), f"on one side only: {', '.join(names)}"
    floor = 1e-3 * max(size(g.numpy()) for g in theirs.values())
    return max((apart(ours[name], theirs[name], size, floor), name) for name in theirs)


class Row:
    """What was found for a model."""

    def __init__(self, name):
        self.name, self.cells, self.wrong, self.refused = name, {}, [], None

    def expect(self, check, value, limit, where=""):
        value = value if value == value else float("inf")  # max would drop NaN
        self.cells[check] = max(value, self.cells.get(check, 0.0))
        if not value <= limit:
            self.wrong.append(f"{self.name}: {check}: {value:.3g}, allowed {limit:.3g}" + (f" ({where})" if where else ""))


def by_kind(tensors):
    """Joins the tensors whose names differ in numbers alone. In bfloat16 a token may go to another expert, by rounding."""
    kinds = {}
    for name in sorted(tensors):
        kinds.setdefault(re.sub(r"[0-9]+", "N", name), []).append(tensors[name].double().flatten())
    return {kind: torch.cat(parts) for kind, parts in kinds.items()}


def step_gradients(before, after):
    return {name: (before[name].double() - after[name].double()) / RATE for name in after if name in before}


def compare_float32(row, folder, work, model, ids, text, limits):
    wide = copy.deepcopy(model).double()
    with rotary_in_float32(wide), Float64():
        logprob, grads = run(wide, ids)
    grads = stored(grads, work / "gradients")
    lines = score(folder, text, "float32", limits[0])
    row.expect("ids", float([line["token"] for line in lines] != ids[1:].tolist()), 0)
    row.expect("logprob", apart([line["logprob"] for line in lines], logprob, largest), 2e-5)
    loss, stepped = train(folder, text, work / "step", RATE, "float32", limits[1])
    row.expect("loss", abs(loss + logprob.mean()) / -logprob.mean(), 2e-5)
    before = stored(model, work / "weights")
    ours = step_gradients(before, load_file(stepped / "model.safetensors"))
    value, name = worst(ours, grads, largest)
    row.expect("grads", value, 1e-4, name)
    return logprob, grads, before


def compare_bf16(row, folder, work, model, ids, text, limits, exact):
    logprob, grads, before = exact
    theirs, their_grads = run(copy.deepcopy(model).bfloat16(), ids)
    lines = score(folder, text, "bfloat16", limits[0])
    norm = np.linalg.norm
    size = norm_without_two if hasattr(model.config, "num_experts_per_tok") else norm
    row.expect("bf16", apart([line["logprob"] for line in lines], logprob, size), 2 * apart(theirs, logprob, size) + 0.03,
               "log-probabilities")
    _, stepped = train(folder, text, work / "step16", RATE, "bfloat16", limits[1])
    ours = by_kind(step_gradients(before, load_file(stepped / "model.safetensors")))
    grads, their_grads = by_kind(grads), by_kind(stored(their_grads, work / "gradients16"))
    allowed = 3 * worst(their_grads, grads, norm)[0] + 0.1
    value, name = worst(ours, grads, norm)
    row.expect("bf16", value, allowed, name)


def compare_greedy(row, folder, model, ids, limits):
    prompt = ids[:24]
    expected, margin = greedy(model, prompt)
    out = tessera("generate", folder, "--prompt", bytes(prompt.tolist()).decode(), "--max-new-tokens", N_NEW, "--temperature", 0,
                  "--dtype", "float32", "--jsonl", "--threads", 1, "--add-bos", "false", "--repetition-penalty", 1, *limits[0])
    got = json.loads(out)["ids"]
    expected, got = [[token for token in tokens if token != END] for tokens in (expected, got)]
    row.expect("greedy", float(sum(a != b for a, b in zip(expected, got)) + abs(len(expected) - len(got))), 0,
               f"{expected} expected, smallest margin {margin:.3g}; {got}")


def compare_saved(row, folder, work, model, ids, text, limits):
    _, saved = train(folder, text, work / "saved", 0, "float32", limits[1])
    opened, report = transformers.AutoModelForCausalLM.from_pretrained(
        saved, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    wrong = {key: value for key, value in report.items() if value}
    row.expect("saved", float(len(wrong)), 0, str(wrong))
    row.expect("saved", apart(run(opened.eval(), ids)[0], run(model, ids)[0], largest), 1e-6, "log-probabilities")


def compare_converted(row, folder, work, model):
    """The converted model has the weights that transformers makes of blocks and scales, in every bit."""
    tessera("convert", folder, work / "converted", "--to", "hf")
    ours, theirs = load_file(work / "converted" / "model.safetensors"), stored(model, work / "weights")
    wrong = [name for name in theirs if name not in ours or not torch.equal(ours[name].float(), theirs[name])]
    config = json.loads((work / "converted" / "config.json").read_text())
    row.expect("saved", float(len(wrong) + len(ours) - len(theirs) + ("quantization_config" in config)), 0, str(wrong))
    # Every code with every scale but 255, which is NaN: a row for each scale
    blocks = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).repeat(1, 255, 1, 1)
    scales = torch.arange(255, dtype=torch.uint8).reshape(1, 255, 1).repeat(1, 1, 16)
    save_file({"x_blocks": blocks, "x_scales": scales}, work / "codes.safetensors")
    tessera("convert", work / "codes.safetensors", work / "wide.safetensors")
    ours, theirs = load_file(work / "wide.safetensors")["x"], convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)
    row.expect("saved", float(not torch.equal(ours.view(torch.int16), theirs.view(torch.int16))), 0, "codes of MXFP4")


def compare_adapter(row, folder, work, ids, text, limits, targets):
    def adapted(make, *options):
        base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                                 experts_implementation="eager")
        return make(base, *options)

    def compare(model, adapter):
        with torch.no_grad():
            out = model.eval()(input_ids=ids[None, :-1]).logits[0].double()
        theirs = torch.log_softmax(out, -1).gather(1, ids[1:, None])[:, 0].numpy()
        lines = score(folder, text, "float32", [*limits[0], "--adapter", adapter])
        row.expect("adapter", apart([line["logprob"] for line in lines], theirs, largest), 2e-5)

    theirs = adapted(peft.get_peft_model, peft.LoraConfig(task_type="CAUSAL_LM", r=3, lora_alpha=7, target_modules=targets))
    generator = torch.Generator().manual_seed(5)
    for name, p in theirs.named_parameters():
        if ".lora_" in name:
            p.data = torch.rand(p.shape, generator=generator) - 0.5
    theirs.save_pretrained(work / "adapter")
    compare(theirs, work / "adapter")
    train(folder, text, work / "adapted", 0.05, "float32", [*limits[1], f"lora.path={work / 'adapter'}"])
    ours = work / "adapted" / "adapter"
    before, after = (load_file(f / "adapter_model.safetensors") for f in (work / "adapter", ours))
    row.expect("adapter", float(before.keys() != after.keys() or all(torch.equal(before[n], after[n]) for n in before)), 0, "names")
    compare(adapted(peft.PeftModel.from_pretrained, ours), ours)


def open_heads(row, family, own, work):
    """Evaluation opens a classifier, and then says that its outputs are no probabilities."""
    opened, all_heads = 0, 0
    for kind in ("SequenceClassification", "TokenClassification") if family not in PICTURED else ():
        with contextlib.suppress(ValueError):
            model = fill(getattr(transformers, "AutoModelFor" + kind).from_config(config_of(family, dict(own, num_labels=1))))
            save(model, work / kind, False)
            all_heads += 1
            try:
                score(work / kind, work / "text.txt", "float32", [])
            except Failed as failure:
                opened += failure.refused and "a score of 1 outputs" in str(failure)
    row.expect("heads", float(all_heads - opened), 0, f"{opened} of {all_heads} open")
    row.cells["heads"] = f"{opened}/{all_heads}"


def compare(family, variant, own, work):
    row = Row(f"{family}/{variant}")
    expected = REFUSED.get(row.name, REFUSED.get(family))
    own = dict(own)
    v4, length, drop = own.pop("v4", False), own.pop("max_length", 0), own.pop("drop", None)
    renamed, widened = own.pop("new", False), own.pop("mxfp4", False)
    limits = (["--max-length", length], [f"model.max_length={length}"]) if length else ([], [])
    torch.manual_seed(0)
    model = create(family, own)
    folder, text = work / "model", work / "text.txt"
    packed = pack(model) if widened else {}
    save(model, folder, v4)
    if packed:
        save_packed(folder, packed)
    if renamed:
        new_names(folder)
    if drop:
        config = json.loads((folder / "config.json").read_text())
        del config[drop]
        (folder / "config.json").write_text(json.dumps(config))
    ids = torch.from_numpy(np.random.default_rng(7).integers(32, 127, LENGTH + 1))
    text.write_bytes(bytes(ids.tolist()))
    try:
        exact = compare_float32(row, folder, work, model, ids, text, limits)
        if not length:  # transformers scales by the text so far, we by the limit
            compare_greedy(row, folder, model, ids, limits)
        compare_saved(row, folder, work, model, ids, text, limits)
        if packed:
            compare_converted(row, folder, work, model)
        compare_bf16(row, folder, work, model, ids, text, limits, exact)
        if variant == next(iter(FAMILIES[family][2])):
            if family in ADAPTED:
                compare_adapter(row, folder, work, ids, text, limits, ADAPTED[family])
            open_heads(row, family, own, work)
        if expected is not None:
            row.wrong.append(f"{row.name}: not refused")
    except Failed as failure:
        row.refused = str(failure)
        if not (failure.refused and expected is not None and expected in row.refused):
            row.wrong.append(f"{row.name}: {failure}")
    return row


def chosen(names):
    known = {*FAMILIES, *(f"{family}/{variant}" for family, (_, _, variants) in FAMILIES.items() for variant in variants)}
    if not known.issuperset(names):
        sys.exit(f"unknown: {', '.join(sorted(set(names) - known))}")
    for family, (_, _, variants) in FAMILIES.items():
        for variant, own in variants.items():
            if not names or family in names or f"{family}/{variant}" in names:
                yield family, variant, own


CHECKS = ("logprob", "loss", "grads", "greedy", "saved", "bf16", "adapter", "heads")


def show(row):
    cells = [row.cells.get(check, "-") for check in CHECKS]
    cells = [cell if isinstance(cell, str) else f"{cell:.1e}" for cell in cells]
    state = ("FAILED: " if row.wrong else "refused: ") + row.refused if row.refused else "DIFFERS" if row.wrong else "ok"
    print(f"{row.name:28}" + "".join(f"{cell:>10}" for cell in cells) + f"  {state}", flush=True)


def main():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    rows = []
    print(f"{'':28}" + "".join(f"{check:>10}" for check in CHECKS), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for family, variant, own in chosen(arguments.names):
            work = pathlib.Path(arguments.keep or scratch) / f"{family}-{variant.replace(', ', '-').replace(' ', '-')}"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            rows.append(compare(family, variant, own, work))
            show(rows[-1])
            if not arguments.keep:
                shutil.rmtree(work)
    wrong = [line for row in rows for line in row.wrong]
    print("\n".join(["", *wrong]) if wrong else "")
    sys.exit(1 if wrong or not rows else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/tessera")
    parser.add_argument("--keep", help="folder in which the models stay")
    parser.add_argument("names", nargs="*", metavar="FAMILY[/VARIANT]")
    arguments = parser.parse_args()
    main()
