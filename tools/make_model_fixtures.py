#!/usr/bin/env python3
"""Makes tests/nn/fixtures: tiny random models of every family with what transformers computes for them.

Per model: config.json as transformers saves it, case.json (a packed batch, loss, greedy tokens, where values lie) and
expected.bin (float32: logits of all rows, then the gradient of every parameter, of the SUM of -log p over the targets).
Weights are not stored: both sides make them from the parameter's name (weights() here, fixture_weight() in tests/nn/fixture.h).

Values come from a float64 run (norms and softmax without their float32 casts); the plain float32 run is checked against it.
Needs torch and transformers. Usage: make_model_fixtures.py OUT_FOLDER [NAME ...]
"""
import contextlib
import json
import pathlib
import sys

import numpy as np
import torch
import transformers

MASK = (1 << 64) - 1


def weights(name, shape, around=1.0):
    """`around` is the mean of norms."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(h) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    u = (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)
    if len(shape) >= 2:
        return u.reshape(shape)
    u = u * np.float32(0.5)
    return u + np.float32(around) if name.endswith(".weight") else u


def llama(cls="Llama", model=None, **kw):
    base = dict(vocab_size=97, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                num_key_value_heads=1, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
    base.update(kw)
    config = getattr(transformers, cls + "Config")(**base)
    return config, getattr(transformers, (model or cls) + "ForCausalLM")


def rope(kind, **kw):
    return dict(rope_type=kind, rope_theta=kw.pop("theta", 10000.0), **kw)


def gpt2(**kw):
    config = transformers.GPT2Config(vocab_size=97, n_embd=20, n_layer=2, n_head=5, n_positions=48, resid_pdrop=0.0,
                                     embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2, **kw)
    return config, transformers.GPT2LMHeadModel


PACKED = [13, 1, 22]
CASES = {
    "llama": (*llama(), PACKED),
    "llama_biases": (*llama(num_attention_heads=4, num_key_value_heads=2, head_dim=10, attention_bias=True, mlp_bias=True,
                            tie_word_embeddings=True, rope_parameters=rope("linear", factor=2.5)), PACKED),
    "llama3": (*llama(hidden_size=28, num_attention_heads=2, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True,
                      num_hidden_layers=3, intermediate_size=29,
                      rope_parameters=rope("llama3", theta=5000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                           original_max_position_embeddings=32)), PACKED),
    "llama_dynamic": (*llama(max_position_embeddings=16, rope_parameters=rope("dynamic", factor=2.0)), [29]),
    "llama_dynamic_within": (*llama(max_position_embeddings=16, rope_parameters=rope("dynamic", factor=2.0)), [16]),
    "mistral": (*llama("Mistral", sliding_window=5, head_dim=12, num_attention_heads=4, num_key_value_heads=2), PACKED),
    "qwen2": (*llama("Qwen2", num_hidden_layers=3, use_sliding_window=True, sliding_window=4, max_window_layers=1,
                     tie_word_embeddings=True, num_attention_heads=4, num_key_value_heads=2, intermediate_size=31,
                     rope_parameters=rope("yarn", theta=1000.0, factor=4.0, original_max_position_embeddings=16)), PACKED),
    "qwen2_layers": (*llama("Qwen2", num_hidden_layers=3, use_sliding_window=True, sliding_window=6, max_window_layers=2,
                            num_attention_heads=4, num_key_value_heads=2,
                            layer_types=["sliding_attention", "full_attention", "sliding_attention"]), PACKED),
    "qwen3_layers": (*llama("Qwen3", head_dim=10, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                            use_sliding_window=True, sliding_window=6, tie_word_embeddings=True,
                            layer_types=["full_attention", "sliding_attention"] * 2), PACKED),
    "ministral": (*llama("Ministral", sliding_window=5, head_dim=12, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2,
                         layer_types=["sliding_attention", "full_attention", "sliding_attention"]), PACKED),
    "qwen3": (*llama("Qwen3", head_dim=14, num_attention_heads=4, num_key_value_heads=2,
                     rope_parameters=rope("yarn", factor=2.0, original_max_position_embeddings=32, beta_fast=16.0,
                                          beta_slow=2.0, truncate=False, mscale=1.2, mscale_all_dim=0.7)), PACKED),
    "gpt2": (*gpt2(), PACKED),
    "gpt2_erf": (*gpt2(activation_function="gelu"), PACKED),
    "mixtral": (*llama("Mixtral", hidden_size=18, intermediate_size=13, num_local_experts=5, num_experts_per_tok=2,
                       sliding_window=6, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                       output_router_logits=True, router_aux_loss_coef=0.3), PACKED),
    "qwen3_moe": (*llama("Qwen3Moe", num_hidden_layers=3, intermediate_size=11, moe_intermediate_size=9, num_experts=7,
                         num_experts_per_tok=3, norm_topk_prob=False, mlp_only_layers=[1], num_attention_heads=4,
                         num_key_value_heads=2, head_dim=8, tie_word_embeddings=True), PACKED),
    "qwen2_moe": (*llama("Qwen2Moe", intermediate_size=11, moe_intermediate_size=9, shared_expert_intermediate_size=7,
                         num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[0],
                         num_attention_heads=4, num_key_value_heads=2, use_sliding_window=True, sliding_window=6,
                         output_router_logits=True, router_aux_loss_coef=0.3), PACKED),
    "gpt_oss": (*llama("GptOss", intermediate_size=9, num_local_experts=6, num_experts_per_tok=2, head_dim=6,
                       num_attention_heads=4, num_key_value_heads=2, sliding_window=6, swiglu_limit=0.4,
                       output_router_logits=False,
                       rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16, truncate=False,
                                            beta_fast=32.0, beta_slow=1.0)), PACKED),
    "deepseek_v2": (*llama("DeepseekV2", moe_intermediate_size=11, n_routed_experts=6, n_group=2, topk_group=1,
                           topk_method="group_limited_greedy", num_experts_per_tok=2, n_shared_experts=2,
                           routed_scaling_factor=1.7, first_k_dense_replace=1, num_key_value_heads=3, kv_lora_rank=8,
                           q_lora_rank=None, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=7, attention_bias=True,
                           rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7,
                                                mscale_all_dim=0.5, beta_fast=32, beta_slow=1)), PACKED),
    "deepseek_v3": (*llama("DeepseekV3", moe_intermediate_size=7, n_routed_experts=6, n_group=2, topk_group=1,
                           num_experts_per_tok=2, n_shared_experts=1, routed_scaling_factor=1.3,
                           first_k_dense_replace=1, num_key_value_heads=3, kv_lora_rank=7, q_lora_rank=20,
                           qk_nope_head_dim=5, qk_rope_head_dim=6, v_head_dim=5), PACKED),
    "smollm3": (*llama("SmolLM3", num_hidden_layers=3, no_rope_layer_interval=2, num_attention_heads=4,
                       num_key_value_heads=2, tie_word_embeddings=True, pad_token_id=None), PACKED),
    "ministral3": (*llama("Ministral3", head_dim=10, num_attention_heads=4, num_key_value_heads=2, pad_token_id=None,
                          rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=8, beta_fast=8.0,
                                               beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                                               llama_4_scaling_beta=0.3)), PACKED),
    "phi3": (*llama("Phi3", hidden_size=32, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                    original_max_position_embeddings=4, sliding_window=9, pad_token_id=None, intermediate_size=37,
                    rope_parameters=rope("longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.2, 1.5],
                                         long_factor=[1.1, 3.0, 7.5])), PACKED),
    "phi4": (*llama("Phi3", num_attention_heads=4, num_key_value_heads=2, pad_token_id=None, intermediate_size=29,
                    original_max_position_embeddings=64, tie_word_embeddings=True,
                    rope_parameters=rope("longrope", short_factor=[1.0, 1.2, 1.5], long_factor=[1.1, 3.0, 7.5])), PACKED),
    "olmo2": (*llama("Olmo2", num_attention_heads=4, num_key_value_heads=2, pad_token_id=None), PACKED),
    "olmo3": (*llama("Olmo3", num_attention_heads=4, num_key_value_heads=2, pad_token_id=None, num_hidden_layers=4,
                     sliding_window=5, intermediate_size=31,
                     rope_parameters={"sliding_attention": rope("default", theta=2e4),
                                      "full_attention": rope("yarn", theta=2e4, factor=2.0, beta_fast=8.0, beta_slow=1.0,
                                                             original_max_position_embeddings=32,
                                                             attention_factor=1.1)}), PACKED),
    "starcoder2": (*llama("Starcoder2", num_attention_heads=4, num_key_value_heads=2, sliding_window=6,
                          tie_word_embeddings=True), PACKED),
    "stablelm": (*llama("StableLm", hidden_size=32, num_attention_heads=4, num_key_value_heads=2, use_qkv_bias=True,
                        rope_parameters=rope("default", partial_rotary_factor=0.25)), PACKED),
    "gpt_neox": (*llama("GPTNeoX", hidden_size=40, num_attention_heads=5, hidden_act="gelu",
                        rope_parameters=rope("default", partial_rotary_factor=0.5)), PACKED),
    "granite": (*llama("Granite", num_attention_heads=4, num_key_value_heads=2, attention_bias=True,
                       embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.22,
                       logits_scaling=1.7), PACKED),
    "gemma": (*llama("Gemma", head_dim=10, num_attention_heads=4, num_key_value_heads=2, pad_token_id=None), PACKED),
    "gemma3": (*llama("Gemma3Text", "Gemma3", head_dim=10, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3,
                      pad_token_id=None, sliding_window=5, query_pre_attn_scalar=13, final_logit_softcapping=2.5,
                      layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                      rope_parameters={"sliding_attention": rope("default", theta=1e3),
                                       "full_attention": rope("linear", theta=1e5, factor=4.0)}), PACKED),
    "glm": (*llama("Glm", head_dim=12, num_attention_heads=4, num_key_value_heads=2, pad_token_id=None,
                   intermediate_size=29), PACKED),
    "glm4": (*llama("Glm4", head_dim=12, num_attention_heads=4, num_key_value_heads=2, pad_token_id=None,
                    intermediate_size=29), PACKED),
    "gemma2": (*llama("Gemma2", head_dim=10, num_attention_heads=4, num_key_value_heads=2, pad_token_id=None,
                      sliding_window=5, query_pre_attn_scalar=13, attn_logit_softcapping=1.5,
                      final_logit_softcapping=2.5), PACKED),
    "cohere2": (*llama("Cohere2", num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3, sliding_window=6,
                       logit_scale=0.4, pad_token_id=None,
                       layer_types=["sliding_attention", "full_attention", "sliding_attention"]), PACKED),
    "stablelm_parallel": (*llama("StableLm", hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
                                 use_parallel_residual=True), PACKED),
    "stablelm_norms": (*llama("StableLm", hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
                              use_parallel_residual=True, qk_layernorm=True), PACKED),
    "exaone4": (*llama("Exaone4", num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=4, sliding_window=6),
                PACKED),
    "olmoe": (*llama("Olmoe", intermediate_size=10, num_experts=6, num_experts_per_tok=3, num_attention_heads=4,
                     num_key_value_heads=2, norm_topk_prob=True, pad_token_id=None), PACKED),
    "olmoe_clipped": (*llama("Olmoe", intermediate_size=6, num_experts=2, num_experts_per_tok=2, num_attention_heads=4,
                             num_key_value_heads=2, clip_qkv=0.7, pad_token_id=None), PACKED),
}


def exact_norms(model):
    """RMSNorm without the cast to float32. Gemma's is by 1 + w, and calls its epsilon eps."""
    def forward(self, x):
        weight = 1 + self.weight if hasattr(self, "eps") else self.weight
        epsilon = self.eps if hasattr(self, "eps") else self.variance_epsilon
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon))
    def layer_norm(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, None, self.variance_epsilon)
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = forward.__get__(module)
        if type(module).__name__ == "Cohere2LayerNorm":
            module.forward = layer_norm.__get__(module)


@contextlib.contextmanager
def exact_softmax():
    """Softmax without the cast to float32."""
    softmax = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda x, dim=-1, dtype=None: softmax(x, dim=dim)
    yield
    torch.nn.functional.softmax = softmax


def exact_routers(model):
    """Routers without the cast to float32."""
    def forward(self, x):
        logits = torch.nn.functional.linear(x.reshape(-1, self.hidden_dim), self.weight, getattr(self, "bias", None))
        value, index = torch.topk(logits.softmax(-1), self.top_k, dim=-1)
        if getattr(self, "norm_topk_prob", True):
            value = value / value.sum(-1, keepdim=True)
        return logits, value, index
    for module in model.modules():
        if type(module).__name__.endswith("TopKRouter"):
            module.forward = forward.__get__(module)


def stored(config, name, tensor):
    """The parameters of a model's files, and the parts of a tensor of transformers that they are: it stacks experts."""
    mixtral = config.model_type == "mixtral"
    name = name.replace(".mlp.", ".block_sparse_moe.") if mixtral else name
    name = name.replace("lm_head", "embed_out") if config.model_type == "gpt_neox" else name
    stem, _, last = name.rpartition(".")
    if not stem.endswith(".experts") or config.model_type == "gpt_oss":
        return [(name, tensor)]
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    maps = (down,) if last == "down_proj" else (gate, up)
    return [(f"{stem}.{e}.{maps[i]}.weight", part)
            for e, matrix in enumerate(tensor) for i, part in enumerate(matrix.chunk(len(maps)))]


def build(config, cls, dtype, attention):
    config = type(config).from_dict(config.to_dict())
    config._attn_implementation = attention
    config._experts_implementation = "eager"
    model = cls(config).eval()
    for name, p in model.named_parameters():
        for file, part in stored(config, name, p.data):
            part.copy_(torch.from_numpy(weights(file, tuple(part.shape), 0.0 if cls.__name__.startswith("Gemma") else 1.0)))
    for name, p in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            p.copy_(torch.from_numpy(weights(name, tuple(p.shape))))
    model.tie_weights()
    if dtype == torch.float64:
        exact_norms(model)
        exact_routers(model)
    return model.to(dtype)


def balance(config, logits):
    """The auxiliary loss of one layer for all tokens of a batch, in the type of its router's logits."""
    k, E = config.num_experts_per_tok, logits.shape[1]
    p = logits.softmax(-1)
    best = p.sort(descending=True).values
    assert k == E or (best[:, k - 1] - best[:, k]).min() > 1e-4, "a choice of experts is too close"
    counts = torch.bincount(p.topk(k).indices.flatten(), minlength=E)
    loss = E * (counts.to(p.dtype) / len(p) * p.mean(0)).sum()
    theirs = transformers.models.mixtral.modeling_mixtral.load_balancing_loss_func((logits.float(),), E, k)
    assert abs(loss - theirs) < 1e-5
    return loss


def run(model, sequences, targets):
    model.zero_grad()
    logits, routers, loss = [], [], torch.zeros((), dtype=torch.float64)
    for ids, target in zip(sequences, targets):
        result = model(torch.tensor([ids]), use_cache=False)
        out = result.logits[0]
        loss = loss + torch.nn.functional.cross_entropy(out, torch.tensor(target), ignore_index=-1, reduction="sum")
        logits.append(out.detach().double().numpy())
        routers.append(getattr(result, "router_logits", None) or ())
    balances = [balance(model.config, torch.cat(layer)) for layer in zip(*routers)]
    n_targets = sum(t >= 0 for target in targets for t in target)
    (loss + n_targets * getattr(model.config, "router_aux_loss_coef", 0) * sum(balances)).backward()
    grads = {file: part.double().numpy() for name, p in model.named_parameters()
             for file, part in stored(model.config, name, p.grad)}
    return np.concatenate(logits), loss.item(), grads


def far(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def greedy(model, prompt, n, penalty=1.0):
    ids = list(prompt)
    penalize = transformers.RepetitionPenaltyLogitsProcessor(penalty)
    for _ in range(n):
        with torch.no_grad():
            text = torch.tensor([ids])
            ids.append(int(penalize(text, model(text, use_cache=False).logits[:, -1])[0].argmax()))
    return ids[len(prompt):]


def make(folder, name, config, cls, lengths):
    rng = np.random.default_rng(7)
    sequences = [rng.integers(0, config.vocab_size, n).tolist() for n in lengths]
    targets = [s[1:] + [int(rng.integers(0, config.vocab_size))] for s in sequences]
    targets[0][2] = targets[-1][0] = targets[-1][9] = -1
    # sdpa leaves out soft caps, and GPT-OSS does not have it
    eager = getattr(config, "attn_logit_softcapping", None) is not None or config.model_type == "gpt_oss"
    with exact_softmax() if eager else contextlib.nullcontext():
        logits, loss, grads = run(build(config, cls, torch.float64, "eager" if eager else "sdpa"), sequences, targets)
    model = build(config, cls, torch.float32, "eager")
    logits32, loss32, grads32 = run(model, sequences, targets)
    worst = max(far(logits32, logits), abs(loss32 - loss) / loss, max(far(grads32[n], grads[n]) for n in grads))
    assert worst < 2e-5, f"{name}: float32 is {worst:.2g} from float64"

    out = folder / name
    out.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(out)
    case = {
        "ids": sum(sequences, []), "targets": sum(targets, []),
        "cu_seqlens": np.cumsum([0] + lengths).tolist(), "max_position": max(lengths + [40 if len(lengths) > 1 else 0]),
        "loss": loss,
        "prompt": 5, "greedy": greedy(model, sequences[0][:5], 12) if len(lengths) > 1 else [],
        "penalty": 1.3, "penalized": greedy(model, sequences[0][:5], 11, 1.3) if max(lengths) <= 22 else [],
        "grads": [{"name": n, "shape": list(g.shape)} for n, g in grads.items()],
    }
    (out / "case.json").write_text(json.dumps(case) + "\n")
    blob = np.concatenate([logits.ravel()] + [g.ravel() for g in grads.values()]).astype("<f4").tobytes()
    (out / "expected.bin").write_bytes(blob)
    print(f"{name}: {len(blob)} bytes, float32 within {worst:.2g}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    torch.manual_seed(0)
    for name in sys.argv[2:] or CASES:
        config, cls, lengths = CASES[name]
        make(pathlib.Path(sys.argv[1]), name, config, cls, lengths)
