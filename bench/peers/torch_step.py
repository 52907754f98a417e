#!/usr/bin/env python3
"""One training step in PyTorch, of the model and on the tokens of `tessera bench step`.

    python3 bench/peers/torch_step.py --model gpt2-124m --batch 8 --seq 1024 --micro 4 --variant compiled
    python3 bench/peers/torch_step.py --model llama-1b --batch 1 --micro 1 --recompute full --variant fsdp2
    python3 bench/peers/torch_step.py --model llama-1b --batch 16 --micro 8 --variant compiled --device cuda
    python3 bench/peers/torch_step.py --model moe-8x2 --batch 4 --seq 512 --experts eager

Variants: eager and compiled run in one process with all threads, or on one GPU; fsdp2 and fsdp2-compiled run one process
a core with `fully_shard` over gloo (bf16 parameters, fp32 reduction). All have float32 master weights, fused AdamW (betas 0.9 0.95,
weight decay 0.1 but for norms and biases) and gradients clipped to 1.0.

Prints a line "step N: SECONDS s, LOSS" for every step and a last line of JSON. With --serve it makes its first steps,
prints "ready", and then runs one step for every line "go" on standard input: a script can take turns with it.
"""
import argparse
import json
import os
import statistics
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint
from transformers import (AutoConfig, AutoModelForCausalLM, GPT2Config, LlamaConfig, MixtralConfig,
                          Qwen3MoeConfig)

VARIANTS = ("eager", "compiled", "fsdp2", "fsdp2-compiled")


def named_config(name):
    """The configurations of src/bench/step/step_models.c, and two small mixtures of experts."""
    if name == "gpt2-124m":
        return GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    if name == "llama-1b":
        return LlamaConfig(
            vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, head_dim=64, max_position_embeddings=131072, rms_norm_eps=1e-5, rope_theta=500000.0,
            rope_scaling={"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192},
            tie_word_embeddings=True, use_cache=False)
    if name == "gpt2-1.5b":
        return GPT2Config(n_embd=1600, n_layer=48, n_head=25, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                          use_cache=False)
    if name == "llama-5m":
        return LlamaConfig(
            vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4,
            num_key_value_heads=4, head_dim=64, max_position_embeddings=1024, rms_norm_eps=1e-6, rope_theta=10000.0,
            tie_word_embeddings=True, use_cache=False)
    mixture = dict(vocab_size=8192, hidden_size=512, num_hidden_layers=6, num_attention_heads=8,
                   num_key_value_heads=4, head_dim=64, max_position_embeddings=1024)
    if name == "moe-8x2":
        return MixtralConfig(intermediate_size=1024, num_local_experts=8, num_experts_per_tok=2, use_cache=False,
                             **mixture)
    if name == "moe-32x4":
        return Qwen3MoeConfig(moe_intermediate_size=256, num_experts=32, num_experts_per_tok=4, norm_topk_prob=True,
                              use_cache=False, **mixture)
    config = AutoConfig.from_pretrained(name)
    config.use_cache = False
    for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    return config


def make_model(name, experts=None):
    torch.manual_seed(0)
    config = named_config(name)
    if os.path.isdir(name):
        model = AutoModelForCausalLM.from_pretrained(name, config=config, dtype=torch.float32,
                                                     attn_implementation="sdpa")
    else:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    if experts is not None:
        model.set_experts_implementation(experts)
    return model.train()


def tokens(first_row, n_rows, seq, vocab):
    """Rows of seq + 1 tokens: step_token of src/bench/step/step_tokens.h."""
    row = numpy.arange(first_row, first_row + n_rows, dtype=numpy.uint64)[:, None]
    t = numpy.arange(seq + 1, dtype=numpy.uint64)[None, :]
    h = ((row * 1000003 + t) * 2654435761 & 0xFFFFFFFF).astype(numpy.uint64)
    h = h ^ (h >> numpy.uint64(16))
    return torch.from_numpy((h * numpy.uint64(vocab) >> numpy.uint64(32)).astype(numpy.int64))


def layers_of(model):
    return model.transformer.h if hasattr(model, "transformer") else model.model.layers


def recompute_layers(model):
    for layer in layers_of(model):
        forward = layer.forward
        layer.forward = lambda *args, forward=forward, **kw: checkpoint(forward, *args, use_reentrant=False, **kw)


def make_optimizer(model):
    decay = [p for n, p in model.named_parameters() if p.ndim >= 2]
    other = [p for n, p in model.named_parameters() if p.ndim < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.sharded = args.variant.startswith("fsdp2")
        self.rank = dist.get_rank() if self.sharded else 0
        self.world = dist.get_world_size() if self.sharded else 1
        self.model = make_model(args.model, args.experts).to(args.device)
        self.vocab = self.model.config.vocab_size
        self.steps_done = 0
        if args.recompute == "full":
            recompute_layers(self.model)
        if self.sharded:
            self.shard()
        self.run = self.model
        if args.variant.endswith("compiled"):
            self.run = torch.compile(self.model)
        self.optimizer = make_optimizer(self.model)

    def shard(self):
        policy = MixedPrecisionPolicy()
        if self.args.precision == "bf16":
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in layers_of(self.model):
            fully_shard(layer, mp_policy=policy)
        fully_shard(self.model, mp_policy=policy)

    def micro_batch(self, index):
        """Loss summed over the target tokens of global micro-batch `index`."""
        rows = tokens(index * self.args.micro, self.args.micro, self.args.seq, self.vocab).to(self.args.device)
        autocast = self.args.precision == "bf16" and not self.sharded
        with torch.autocast(self.args.device, torch.bfloat16, enabled=autocast):
            logits = self.run(input_ids=rows[:, :-1]).logits
        return F.cross_entropy(logits.float().view(-1, self.vocab), rows[:, 1:].reshape(-1), reduction="sum")

    def step(self):
        args = self.args
        n_micro = args.batch // args.micro
        first = self.steps_done * n_micro
        n_tokens = args.batch * args.seq
        total = torch.zeros((), dtype=torch.float64, device=args.device)
        for s in range(n_micro // self.world):
            # fully_shard averages over ranks: the factor makes it the sum of all tokens, divided once.
            loss = self.micro_batch(first + s * self.world + self.rank)
            (loss * (self.world / n_tokens)).backward()
            total += loss.detach().double()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.sharded:
            dist.all_reduce(total)
        self.steps_done += 1
        return float(total) / n_tokens

    def timed_step(self):
        if self.sharded:
            dist.barrier()
        begin, cpu = time.perf_counter(), time.process_time()
        loss = self.step()
        self.cpu = time.process_time() - cpu
        return time.perf_counter() - begin, loss


def serve(trainer):
    """A step for every "go" that rank 0 reads; anything else, or the end of the input, ends the job."""
    if trainer.rank == 0:
        print("ready", flush=True)
    while True:
        go = torch.zeros((), dtype=torch.int64)
        if trainer.rank == 0:
            go += sys.stdin.readline().strip() == "go"
        if trainer.sharded:
            dist.broadcast(go, 0)
        if not go:
            return
        seconds, loss = trainer.timed_step()
        if trainer.rank == 0:
            print(json.dumps({"seconds": seconds, "cpu": trainer.cpu, "loss": loss}), flush=True)


def report(args, trainer, seconds, losses):
    median = statistics.median(seconds)
    print(json.dumps({"variant": args.variant, "model": args.model, "batch": args.batch, "seq": args.seq,
                      "micro": args.micro, "precision": args.precision, "recompute": args.recompute,
                      "ranks": trainer.world, "threads": torch.get_num_threads(), "torch": torch.__version__,
                      "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
                      "seconds": median, "tokens_per_s": args.batch * args.seq / median, "first_loss": losses[0],
                      "last_loss": losses[-1]}), flush=True)


def train(args):
    trainer = Trainer(args)
    seconds, losses = [], []
    for i in range(args.warm_up + (0 if args.serve else args.steps)):
        took, loss = trainer.timed_step()
        losses.append(loss)
        if trainer.rank == 0:
            print(f"step {i + 1}: {took:.4f} s, loss {loss:.8f}", flush=True)
        if i >= args.warm_up:
            seconds.append(took)
    if args.serve:
        serve(trainer)
    elif trainer.rank == 0:
        report(args, trainer, seconds, losses)


def run_rank(rank, args, stdin):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port), RANK=str(rank), WORLD_SIZE=str(args.ranks))
    if rank == 0:
        sys.stdin = os.fdopen(stdin)
    torch.set_num_threads(max(1, args.threads // args.ranks))
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


def start_ranks(args):
    # Forked, so that rank 0 may read this process's standard input.
    context = torch.multiprocessing.get_context("fork")
    ranks = [context.Process(target=run_rank, args=(r, args, os.dup(0))) for r in range(args.ranks)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return max(abs(rank.exitcode) for rank in ranks)


def parse():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt2-124m", help="gpt2-124m, gpt2-1.5b, llama-1b, llama-5m, moe-8x2, moe-32x4 or a Hugging Face folder")
    parser.add_argument("--variant", choices=VARIANTS, default="eager")
    parser.add_argument("--experts", help="how transformers computes experts: eager (a loop), grouped_mm (its default)")
    parser.add_argument("--batch", type=int, default=8, help="rows of a step over all ranks")
    parser.add_argument("--micro", type=int, default=0, help="rows of a micro-batch (default: as few as the ranks allow)")
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--recompute", choices=("none", "full"), default="none")
    parser.add_argument("--threads", type=int, default=cores, help="of all ranks together")
    parser.add_argument("--ranks", type=int, default=cores, help="of the fsdp2 variants")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--port", type=int, default=29571)
    parser.add_argument("--serve", action="store_true", help="a step for every line \"go\" on standard input")
    parser.add_argument("--save", metavar="FOLDER", help="write the initial weights there and end")
    args = parser.parse_args()
    ranks = args.ranks if args.variant.startswith("fsdp2") else 1
    if args.device == "cuda" and args.variant.startswith("fsdp2"):
        parser.error("--device cuda is one process on one GPU: --variant eager or compiled")
    args.micro = args.micro or max(1, args.batch // ranks)
    if args.batch % (args.micro * ranks) != 0:
        parser.error(f"--batch {args.batch} is not a multiple of {args.micro} rows on {ranks} ranks")
    return args


def main():
    args = parse()
    if args.save:
        make_model(args.model).save_pretrained(args.save)
        return 0
    if args.variant.startswith("fsdp2"):
        return start_ranks(args)
    torch.set_num_threads(args.threads)
    train(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
