#!/usr/bin/env python3
"""`tessera tokenize shard` against Hugging Face tokenizers, taking turns on the same text and cores.

    python3 bench/peers/compare_tokenize.py --tessera build/tessera --tokenizer gpt2/tokenizer.json --folder /data/tmp \\
        --megabytes 1000 --peer-megabytes 100 --threads 2 /usr/share/doc/**/*.txt

Makes a .jsonl of so many megabytes of the files given: their text again and again, each time with other numbers and with a
word in 20 changed, so that no cache of words has seen all of it. In the first turn the shard is written twice: once as it
is, once killed (SIGKILL) when a third of it is there and begun again; both must have the same bytes. The peer reads the
first --peer-megabytes (encode_batch_fast of 512 documents, ids to a file), whose ids are compared with those of the
shard. Needs tokenizers.
"""
import argparse
import filecmp
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time

BATCH = 512


def documents(paths):
    for path in paths:
        try:
            with open(path, encoding="utf-8") as text:
                content = text.read()
        except (OSError, UnicodeDecodeError):
            continue
        for at in range(0, len(content), 4000):
            yield content[at : at + 4000]


def vary(text, turn):
    if turn == 0:
        return text
    draw = random.Random(turn)
    text = re.sub(r"[0-9]+", lambda m: str(int(m.group()[:9]) + turn), text)
    return re.sub(r"[A-Za-z]{4,}", lambda m: m.group()[::-1] if draw.random() < 0.05 else m.group(), text)


def make_text(args, path):
    written, turn = 0, 0
    with open(path, "w", encoding="utf-8") as out:
        while written < args.megabytes * 1e6:
            before = written
            for document in documents(args.files):
                line = json.dumps({"text": vary(document, turn)}, ensure_ascii=False) + "\n"
                written += len(line.encode())
                out.write(line)
                if written >= args.megabytes * 1e6:
                    break
            turn += 1
            if written == before:
                sys.exit("the files hold no text")


def command(args, text, shard):
    return [args.tessera, "tokenize", "shard", args.tokenizer, text, "--out", shard, "--threads", str(args.threads)]


def ours(args, text, shard):
    begin = time.monotonic()
    subprocess.run(command(args, text, shard), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def killed(args, text, shard, size):
    """Writes it in two lives. Seconds of the second."""
    life = subprocess.Popen(command(args, text, shard), stdout=subprocess.DEVNULL)
    partial = shard + ".partial"
    while life.poll() is None and not (os.path.exists(partial) and os.path.getsize(partial) > size / 3):
        time.sleep(0.01)
    life.send_signal(signal.SIGKILL)
    if life.wait() != -signal.SIGKILL:
        sys.exit("it was not killed in time")
    return ours(args, text, shard)


def peer(args, text, out):
    """(seconds, megabytes of text, ids)"""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(args.tokenizer)
    limit, read, n_ids = args.peer_megabytes * 1e6, 0, 0
    begin = time.monotonic()
    with open(text, encoding="utf-8") as lines, open(out, "wb") as ids:
        batch = []
        for line in lines:
            if read + len(line.encode()) > limit:
                break
            read += len(line.encode())
            batch.append(json.loads(line)["text"])
            if len(batch) == BATCH:
                n_ids += write(tokenizer, batch, ids)
                batch = []
        n_ids += write(tokenizer, batch, ids)
    return time.monotonic() - begin, read / 1e6, n_ids


def write(tokenizer, batch, out):
    n = 0
    for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
        out.write(struct.pack(f"<{len(encoding.ids)}I", *encoding.ids))
        n += len(encoding.ids)
    return n


def same_ids(shard, out, n):
    """Whether the shard's first n ids are those of `out`: src/data/shards/shard_layout.h."""
    with open(shard, "rb") as ours, open(out, "rb") as theirs:
        width = struct.unpack_from("<I", ours.read(48), 12)[0]
        code = "H" if width == 2 else "I"
        while n > 0:
            _, _, n_tokens, n_documents, _, has_loss = struct.unpack_from("<QIIIII", ours.read(40))
            ours.seek(4 * n_documents, 1)
            ids = struct.unpack(f"<{n_tokens}{code}", ours.read(width * n_tokens))
            bytes_read = 40 + 4 * n_documents + n_tokens * (width + has_loss)
            ours.seek(n_tokens * has_loss + -bytes_read % 8, 1)
            some = min(n, n_tokens)
            if ids[:some] != struct.unpack(f"<{some}I", theirs.read(4 * some)):
                return False
            n -= some
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/tessera")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--peer-megabytes", type=float, default=100)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    text, shard, out = (os.path.join(args.folder, name) for name in ("text.jsonl", "shard", "peer.ids"))
    make_text(args, text)
    megabytes = os.path.getsize(text) / 1e6
    try:
        for turn in range(args.rounds):
            seconds = ours(args, text, shard)
            line = f"turn {turn}: tessera {megabytes / seconds:.1f} MB/s ({megabytes:.0f} MB in {seconds:.1f} s)"
            if turn == 0:
                resumed = shard + ".resumed"
                again = killed(args, text, resumed, os.path.getsize(shard))
                same = filecmp.cmp(shard, resumed, shallow=False)
                os.remove(resumed)
                print(f"killed and begun again, {again:.1f} s: {'the same bytes' if same else 'OTHER BYTES'}", flush=True)
            seconds, read, n = peer(args, text, out)
            same = same_ids(shard, out, n)
            print(f"{line}; tokenizers {read / seconds:.1f} MB/s ({read:.0f} MB in {seconds:.1f} s), {n} ids {'equal' if same else 'NOT EQUAL'}", flush=True)
            os.remove(shard)
    finally:
        for path in (text, shard, shard + ".partial", shard + ".resumed", shard + ".resumed.partial", out):
            if os.path.exists(path):
                os.remove(path)


main()
