#!/usr/bin/env python3
"""Tessera against transformers and CTranslate2: generation from the same random weights, taking turns on the same cores.

    python3 bench/peers/compare_generate.py --tessera build/tessera --model gpt2-124m --batch 1,8,64
    python3 bench/peers/compare_generate.py --model llama-5m --batch 64 --dtype bfloat16 --peers hf

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


def make_model(name, dtype, folder):
    """Random weights, and a tokenizer with a token a byte."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    if name == "gpt2-124m":
        model = GPT2LMHeadModel(GPT2Config())
    else:
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4,
            num_key_value_heads=4, max_position_embeddings=1024, tie_word_embeddings=True))
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
            f"{name} {batch * args.new / statistics.median(t):.1f} tokens/s" +
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
    parser.add_argument("--peers", default="hf,ct2")
    parser.add_argument("--shared", type=int, default=0, help="compare reading a prompt N times and once")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return {"hf": serve_hf, "ct2": serve_ct2}[args.serve](args, args.folder)
    with tempfile.TemporaryDirectory() as folder:
        make_model(args.model, args.dtype, folder)
        if args.shared:
            compare_shared(args, folder)
        else:
            compare(args, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
