#!/usr/bin/env python3
"""Tessera against transformers, CTranslate2 and llama.cpp: generation from the same random weights, taking turns on the
same cores.

    python3 bench/peers/compare_generate.py --tessera build/tessera --model gpt2-124m --batch 1,8,64
    python3 bench/peers/compare_generate.py --model llama-5m --batch 64 --dtype bfloat16 --peers hf
    python3 bench/peers/compare_generate.py --model gpt2-124m --batch 1 --prompt 2048 --new 1 --peers hf,llama

Needs torch, tokenizers and transformers, and for their peers ctranslate2 or llama-cpp-python and gguf. With --new 1 the
figures are tokens of prompts.

Every turn continues --batch prompts of --prompt random bytes by --new tokens, drawn at temperature 1 from the whole
vocabulary; no text ends early. The peers are loaded once and wait between turns; ours starts anew and reports the
seconds of its generation. What counts is the ratio of medians. --shared N instead reads a prompt of --prompt tokens N
times, alone and shared, and compares the two.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {"gpt2-124m": 50257, "llama-5m": 4096}


def make_model(name, dtype, folder, positions):
    """Random weights, and a tokenizer with a token a byte."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    if name == "gpt2-124m":
        model = GPT2LMHeadModel(GPT2Config(n_positions=positions))
    else:
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4,
            num_key_value_heads=4, max_position_embeddings=positions, tie_word_embeddings=True))
    for config in (model.config, model.generation_config):
        config.bos_token_id = config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for i in range(len(vocab), SIZES[name]):
        vocab[f"x{i:05d}"] = i
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(os.path.join(folder, "tokenizer.json"))


def serve_hf(args, folder):
    import torch
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(args.threads)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, args.dtype))
    print("ready", flush=True)
    for line in sys.stdin:
        ids = torch.randint(97, 107, (int(line), args.prompt))
        begin = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=args.new,
                                 min_new_tokens=args.new, do_sample=True, temperature=1.0, top_k=0, top_p=1.0)
        assert out.shape[1] == args.prompt + args.new
        print(time.perf_counter() - begin, flush=True)


def serve_ct2(args, folder):
    import ctranslate2
    from transformers import PreTrainedTokenizerFast
    PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), bos_token="x00300",
                            eos_token="x00301", unk_token="x00302").save_pretrained(folder)
    converted = os.path.join(folder, "ct2")
    ctranslate2.converters.TransformersConverter(folder).convert(converted, force=True)
    generator = ctranslate2.Generator(converted, compute_type=args.dtype, intra_threads=args.threads, inter_threads=1)
    print("ready", flush=True)
    for line in sys.stdin:
        prompts = [[random.choice("abcdefghij") for _ in range(args.prompt)] for _ in range(int(line))]
        begin = time.perf_counter()
        out = generator.generate_batch(prompts, max_length=args.new, min_length=args.new, sampling_topk=0,
                                       include_prompt_in_result=False, max_batch_size=0)
        assert all(len(o.sequences_ids[0]) == args.new for o in out)
        print(time.perf_counter() - begin, flush=True)


GGUF_NAMES = {
    "wte": "token_embd", "embed_tokens": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "norm": "output_norm",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def write_gguf(folder, dtype, path):
    """The folder's weights for llama.cpp: matrices of the dtype, vectors of float32, no vocabulary."""
    import gguf
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    config, is_gpt2 = model.config, model.config.model_type == "gpt2"
    writer = gguf.GGUFWriter(path, config.model_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(4 * config.hidden_size if is_gpt2 else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("none")
    if is_gpt2:
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    for name, value in model.named_parameters():
        parts = [p for p in name.split(".") if p not in ("transformer", "model", "h", "layers")]
        block = f"blk.{parts.pop(0)}." if parts[0].isdigit() else ""
        if is_gpt2 and value.dim() == 2 and block:
            value = value.T  # stored (in, out)
        heads = {"attn_q": config.num_attention_heads, "attn_k": getattr(config, "num_key_value_heads", 0)}
        short = GGUF_NAMES[".".join(parts[:-1])]
        if short in heads:  # llama.cpp rotates neighbouring channels
            value = value.reshape(heads[short], 2, -1, value.shape[1]).transpose(1, 2).reshape(value.shape)
        array = value.detach().contiguous().numpy()
        if dtype == "bfloat16" and value.dim() == 2 and short != "position_embd":
            bits = value.detach().contiguous().to(torch.bfloat16).view(torch.uint8).numpy()
            writer.add_tensor(f"{block}{short}.{parts[-1]}", bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(f"{block}{short}.{parts[-1]}", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve_llama(args, folder):
    import ctypes
    import llama_cpp as L
    path = os.path.join(folder, "model.gguf")
    write_gguf(folder, args.dtype, path)
    quiet = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    if not model:
        raise RuntimeError("llama.cpp cannot load the model")
    size = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    print("ready", flush=True)
    for line in sys.stdin:
        n = int(line)
        begin = time.perf_counter()
        params = L.llama_context_default_params()
        params.n_ctx, params.n_seq_max, params.kv_unified = n * (args.prompt + args.new), n, True
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = args.threads
        context = L.llama_init_from_model(model, params)
        batch = L.llama_batch_init(512, 0, 1)

        def decode(entries):
            """(token, position, text, wanted): runs them, and draws the next token of those wanted."""
            for first in range(0, len(entries), 512):
                part = entries[first:first + 512]
                batch.n_tokens = len(part)
                for i, (token, position, text, wanted) in enumerate(part):
                    batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, wanted
                    batch.seq_id[i][0] = text
                if L.llama_decode(context, batch) != 0:
                    raise RuntimeError("llama_decode failed")
                for i, (_, _, text, wanted) in enumerate(part):
                    if wanted:
                        drawn[text] = L.llama_sampler_sample(samplers[text], context, i)

        samplers, drawn = [L.llama_sampler_init_dist(i) for i in range(n)], [0] * n
        decode([(random.randrange(97, 107), p, t, p == args.prompt - 1) for t in range(n) for p in range(args.prompt)])
        for step in range(1, args.new):
            decode([(drawn[t], args.prompt + step - 1, t, True) for t in range(n)])
        assert all(0 <= token < size for token in drawn)
        print(time.perf_counter() - begin, flush=True)
        for sampler in samplers:
            L.llama_sampler_free(sampler)
        L.llama_batch_free(batch)
        L.llama_free(context)


class Peer:
    def __init__(self, args, name, folder):
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--serve", name, "--folder", folder, "--dtype", args.dtype,
             "--prompt", str(args.prompt), "--new", str(args.new), "--threads", str(args.threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        while line and line != "ready\n":
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name}: {self.process.stderr.read().strip().splitlines()[-1]}")

    def turn(self, batch):
        self.process.stdin.write(f"{batch}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def ours(args, folder, batch, each=1, new=None):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for _ in range(batch):
            file.write("".join(random.choice("abcdefghij") for _ in range(args.prompt)) + "\n")
        file.flush()
        done = subprocess.run(
            [args.tessera, "generate", folder, "--prompts", file.name, "--n", str(each), "--batch", str(batch * each),
             "--max-new-tokens", str(new or args.new), "--temperature", "1", "--top-p", "1", "--jsonl", "--stats",
             "--threads", str(args.threads)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    return json.loads(done.stderr.strip().splitlines()[-1])["seconds"]


def compare(args, folder):
    peers = []
    for name in args.peers.split(","):
        try:
            peers.append(Peer(args, name, folder))
        except RuntimeError as error:
            print(f"{error}: left out", file=sys.stderr)
    print(f"{args.model}, {args.dtype}, {args.prompt} + {args.new} tokens, {args.threads} threads, medians of "
          f"{args.turns} turns")
    counted = args.new if args.new > 1 else args.prompt
    for batch in (int(b) for b in args.batch.split(",")):
        times = {"tessera": []} | {p.name: [] for p in peers}
        for p in peers:
            p.turn(batch)  # warms up
        for _ in range(args.turns):
            times["tessera"].append(ours(args, folder, batch))
            for p in peers:
                times[p.name].append(p.turn(batch))
        mine = statistics.median(times["tessera"])
        print(f"batch {batch:3}: " + ", ".join(
            f"{name} {batch * counted / statistics.median(t):.1f} tokens/s" +
            (f" (ours {statistics.median(t) / mine:.2f}x)" if name != "tessera" else "") for name, t in times.items()),
            flush=True)
    for p in peers:
        p.stop()


def compare_shared(args, folder):
    alone, together = [], []
    for _ in range(args.turns):
        alone.append(ours(args, folder, args.shared, new=1))
        together.append(ours(args, folder, 1, each=args.shared, new=1))
    ratio = statistics.median(alone) / statistics.median(together)
    print(f"{args.model}, {args.dtype}: a prompt of {args.prompt} tokens read {args.shared} times takes {ratio:.2f} "
          f"times as long as read once and shared ({ratio / args.shared:.2f} n)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/tessera", help="the binary (build/tessera)")
    parser.add_argument("--model", choices=tuple(SIZES), default="gpt2-124m")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--batch", default="1,8,64", help="prompts at once, a comma between")
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--new", type=int, default=32, help="new tokens of each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--peers", default="hf,ct2,llama", help="of hf, ct2 and llama")
    parser.add_argument("--shared", type=int, default=0, help="compare reading a prompt N times and once")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return {"hf": serve_hf, "ct2": serve_ct2, "llama": serve_llama}[args.serve](args, args.folder)
    with tempfile.TemporaryDirectory() as folder:
        make_model(args.model, args.dtype, folder, max(1024, args.prompt + args.new))
        if args.shared:
            compare_shared(args, folder)
        else:
            compare(args, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
