#!/usr/bin/env python3
"""Writes tests/data/fixtures: small tokenizers in the styles of GPT-2, Llama 3, Qwen 2 and Llama 2, a torture text, and what the
reference implementation (Hugging Face `tokenizers`) makes of it. Everything is generated here; run it again only to add cases.

    pip install tokenizers && tools/make_tokenizer_fixtures.py
"""
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "fixtures")

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def corpus(seed, n_words):
    """Sentences of made-up words, the frequent ones first, with numbers, contractions and a few letters of other scripts."""
    rng = random.Random(seed)
    onsets = ["b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "w", "th", "sh", "st", "tr", "br", "cl", ""]
    nuclei = ["a", "e", "i", "o", "u", "ea", "oo", "ai", "é", "ü"]
    codas = ["", "", "n", "t", "s", "r", "ll", "nd", "st", "ng"]
    words = ["".join(rng.choice(onsets) + rng.choice(nuclei) + rng.choice(codas) for _ in range(rng.choice([1, 1, 2, 2, 3])))
             for _ in range(700)]
    words += ["привет", "мир", "слово", "日本", "中文", "語", "안녕", "שלום", "سلام", "🙂", "aaaa", "aaaaaaa", "1999", "42", "3.14"]
    lines = []
    while n_words > 0:
        sentence = []
        for _ in range(rng.randint(3, 14)):
            word = words[min(int(rng.expovariate(1 / 90)), len(words) - 1)]
            if rng.random() < 0.05:
                word += rng.choice(["'s", "'t", "'re", "'ll", "'ve", "'d", "'m"])
            sentence.append(word)
        n_words -= len(sentence)
        text = " ".join(sentence)
        lines.append(text[0].upper() + text[1:] + rng.choice([".", ".", "!", "?", ",", ";\n", ":\t", "...\n\n", "  "]))
    return "\n".join(lines) + "\n"


def torture():
    rng = random.Random(7)
    parts = [
        "Hello, world! It's we've I'LL HE'S they'd 'tis can'T don't ſ'ſ 'ſ\n",
        "1234567890 12 123 1234 3.14159 1,000,000 ½ ²³ Ⅷ ٣٤٥ १२३ 𝟘𝟙\n",
        "".join(" " * n + "x" for n in (1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 64)) + "\n",
        "".join("\n" * n + "y" for n in (1, 2, 3, 4, 5, 9)) + "".join("\r\n" * n + "z" for n in (1, 2, 3)) + "\r\r q\n",
        "\t\tint main(void) { return 0; }\t \t\n \n  \n\t\n",
        " \u00a0\u1680\u180e\u2000\u2003\u2009\u200a\u200b\u200c\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\u0085 a\u00a0b\u3000c\n",
        "".join(chr(c) for c in range(1, 32)) + "\x7f" + "".join(chr(c) for c in range(0x80, 0xa0)) + "\n",
        "".join(chr(c) for c in range(32, 127)) + "\n",
        "".join(chr(c) for c in range(0xa1, 0x250)) + "\n",
        "e\u0301 é n\u0303 ñ a\u0328\u0301 q\u0307\u0323 q\u0323\u0307 \u212b \u2126 \u1e9b\u0323 ﬁ ﬀ Å A\u030a =\u0338 <\u0338\n",
        "Z\u0351\u036b\u0343\u036a\u0302\u0356\u0326a\u0334\u0335\u031b\u0321l\u0328\u030ag\u0315\u0300\u0301\u0345o\n",
        "각 각 가\u11a8 한국어 한국어 중국\n",
        "क्षि नमस्ते दुनिया ক্ষ தமிழ் తెలుగు ไทยภาษา ລາວ မြန်မာ ខ្មែរ བོད་\n",
        "العربية مَرْحَبًا עִבְרִית שלום فارسی ۱۲۳ Ελληνικά Ἀθῆναι ᾳ ΐ\n",
        "日本語のテキスト。カタカナ ﾊﾝｶｸ が か\u3099 漢字漢字 中文，标点！ 𠀀𠮷野家 葛\U000e0100\n",
        "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 👍🏽 ☺️ 🙂🙂🙂 ❤️‍🔥 1️⃣ 🧑🏿‍🚀\n",
        "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈𐌰 𒀀𒁀 𓀀 🀄 \U0010fffd \ue000 \ufffd\n",
        "<|endoftext|><|endoftext|> <|endoftext|>a<|endoftext|\n<s>[INST] x [/INST]</s> <mask>\t<mask>  <mask> left<left  right>right <both> <word>s <word> a<word> <word>-\n",
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<|reserved_1|><|reserved_10|> café<added> cafe\u0301\n",
        "http://example.com/a_b?c=d&e=f#g user@host.org C:\\dir\\file.txt __init__ snake_case camelCase HTMLParser\n",
        "!!!??...,,,---___===+++***///\\\\\\|||@@@###$$$%%%^^^&&&(((){}[]<>\"\"''``~~\n",
        "a" * 300 + " " + "ab" * 150 + " " + "the" * 60 + "." * 200 + "9" * 100 + "é" * 80 + "\n",
        "".join(chr(rng.choice([rng.randint(32, 126), rng.randint(0xa0, 0x2fff), rng.randint(0x3000, 0xd7ff),
                                rng.randint(0x10000, 0x1ffff), 32, 10])) for _ in range(1200)) + "\n",
        "end with spaces   ",
    ]
    return "".join(parts)


def specials(*contents):
    return [AddedToken(c, special=True, normalized=False) for c in contents]


def odd_tokens():
    return [AddedToken("<left", lstrip=True, normalized=False), AddedToken("right>", rstrip=True, normalized=False),
            AddedToken("<both>", lstrip=True, rstrip=True, normalized=False), AddedToken("<word>", single_word=True),
            AddedToken("<mask>", lstrip=True, special=True, normalized=False), AddedToken("café<added>", normalized=True)]


def byte_level(text, vocab_size, pre, special, normalizer=None, post=None, ignore_merges=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    if post:
        t.post_processor = post
    t.train_from_iterator([text], trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=special, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama2(text):
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    latin = "".join(c for c in text if c < "\u0250")
    t.train_from_iterator(latin.split("\n"), trainers.BpeTrainer(
        vocab_size=900, special_tokens=specials("<unk>", "<s>", "</s>") + [AddedToken(b) for b in bytes_], show_progress=False))
    data = json.loads(t.to_str())
    data["pre_tokenizer"] = None
    data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(data))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t


def legacy_merges(t):
    """The older spelling, "a b"."""
    data = json.loads(t.to_str())
    data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    return data


def small_cases():
    """Single features, over a vocabulary of characters: what each step does is seen in the ids."""
    chars = [chr(c) for c in range(32, 127)] + ["\n", "\t", "é", "è", "e\u0301", "▁", "Ġ", "日", "本", "²", "…", "ab", "cd", "▁a", "ca", "--"]
    vocab = {c: i for i, c in enumerate(dict.fromkeys(chars))}
    merges = [("a", "b"), ("c", "d"), ("▁", "a"), ("c", "a"), ("-", "-")]

    def bpe(**more):
        return Tokenizer(models.BPE(vocab=vocab, merges=merges, **more))

    cases = []

    def case(name, t, *texts):
        data = json.loads(t.to_str())
        for text in texts:
            ids = t.encode(text, add_special_tokens=True).ids
            cases.append({"name": name, "tokenizer": data, "text": text, "ids": ids,
                          "decoded": t.decode(ids, skip_special_tokens=True)})

    text = "the-final--countdown ab-cab 12²3,abcd…"
    for behavior in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
        for pattern in ["-", "-+", "[ab]"]:
            for invert in [False, True]:
                t = bpe()
                t.pre_tokenizer = pre_tokenizers.Split(pattern if pattern == "-" else Regex(pattern), behavior, invert)
                case(f"split {behavior} {pattern} {invert}", t, text)
    for pattern in [r"[1-9]{1,3}+", r"a{2}?b", r"-{,2}", r"\b", r"\Bb", r"(?=(\d{2})+(?!\d))", "x*"]:
        t = bpe()
        t.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
        case(f"regex {pattern}", t, "ab-cab--ca 12345 b12²3 aab ab", "")
    for name, pre in {"digits": pre_tokenizers.Digits(False), "single digits": pre_tokenizers.Digits(True),
                      "punctuation": pre_tokenizers.Punctuation(), "whitespace": pre_tokenizers.Whitespace(),
                      "whitespace split": pre_tokenizers.WhitespaceSplit(), "metaspace": pre_tokenizers.Metaspace(),
                      "metaspace first": pre_tokenizers.Metaspace(prepend_scheme="first"),
                      "metaspace never": pre_tokenizers.Metaspace(prepend_scheme="never", split=False),
                      "bytes with prefix": pre_tokenizers.ByteLevel(add_prefix_space=True)}.items():
        t = bpe()
        t.pre_tokenizer = pre
        if name.startswith("metaspace"):
            t.decoder = decoders.Metaspace(prepend_scheme="never" if "never" in name else "always")
        t.add_tokens([AddedToken("<x>", normalized=False)])
        case(name, t, text, " ab  ca<x>abc a_b 日本-cd\tab\n")
    for name, norm in {"nfc": normalizers.NFC(), "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(), "nfkd": normalizers.NFKD(),
                       "replace": normalizers.Replace(Regex("[cd]+"), "-"), "replace text": normalizers.Replace("ab", "é"),
                       "replace nothing": normalizers.Replace(Regex("(?=b)|c*"), "-"),
                       "prepend": normalizers.Prepend("ab")}.items():
        t = bpe(unk_token="?")
        t.normalizer = norm
        t.add_tokens([AddedToken("Ae\u0301", normalized=True), AddedToken("Bé", normalized=False)])
        case(name, t, "ae\u0301é … ² cdab Aé Ae\u0301 Bé Be\u0301 dcd", "")
    for fuse in [False, True]:
        t = bpe(unk_token="?", fuse_unk=fuse)
        case(f"unk fused {fuse}", t, "a漢字b漢c字")
    case("no unk", bpe(), "a漢字b漢c字")
    t = bpe(ignore_merges=True)
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    case("ignore merges", t, "e\u0301 --- abab ab")
    t = bpe()
    t.add_tokens(odd_tokens()[:5] + [AddedToken(" "), AddedToken("ab<"), AddedToken("ab<<")])
    case("added", t, "a<left  <left  right>  right>b <both>  <both> x<word> <word> <word>é <word>", "ab<<ab<ab<< <  <mask>")
    t = bpe()
    t.add_tokens([AddedToken("<r>", rstrip=True, normalized=False), AddedToken("\t", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("  ", normalized=False)])
    case("added space", t, "<r>\t\ta \t \t b<r>  \t<r>    c\t<r>")
    t = bpe()
    t.add_special_tokens(["<s>", "</s>"])
    for name, single in {"template": "<s> $A </s> </s>", "template before": "<s> $A", "template after": "$A </s>"}.items():
        t.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("<s>", t.token_to_id("<s>")), ("</s>", t.token_to_id("</s>"))])
        case(name, t, "ab</s>", "")
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    case("roberta", t, "ab")
    return cases


def write(name, text):
    path = os.path.join(OUT, name)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    assert os.path.getsize(path) < 100_000, name


def main():
    os.makedirs(OUT, exist_ok=True)
    text, hard = corpus(1, 6000), torture()
    write("corpus.txt", text)
    write("torture.txt", hard)
    bytes_post = processors.ByteLevel(trim_offsets=False)
    made = {}
    made["gpt2"] = byte_level(text, 800, pre_tokenizers.ByteLevel(add_prefix_space=False), specials("<|endoftext|>"), post=bytes_post)
    made["llama3"] = byte_level(text, 800, split_then_bytes(LLAMA3), [], ignore_merges=True)
    made["llama3"].add_special_tokens(specials("<|begin_of_text|>", "<|endoftext|>", *[f"<|reserved_{i}|>" for i in range(12)]))
    made["llama3"].post_processor = processors.Sequence([bytes_post, processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
        special_tokens=[("<|begin_of_text|>", made["llama3"].token_to_id("<|begin_of_text|>"))])])
    made["qwen2"] = byte_level(text, 800, split_then_bytes(QWEN2), [], normalizer=normalizers.NFC(), post=bytes_post)
    made["qwen2"].add_special_tokens(specials("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    made["llama2"] = llama2(text)
    for name, t in made.items():
        if name != "llama2":
            t.add_tokens(odd_tokens())
        data = legacy_merges(t) if name in ("gpt2", "llama2") else json.loads(t.to_str())
        write(f"{name}.json", json.dumps(data, ensure_ascii=False, separators=(",", ":")))
        t = Tokenizer.from_str(json.dumps(data))
        ids = t.encode(hard, add_special_tokens=True).ids
        write(f"{name}.ids", " ".join(map(str, ids)) + "\n")
        write(f"{name}.decoded", t.decode(ids, skip_special_tokens=False))
    trained = byte_level(text, 1000, pre_tokenizers.ByteLevel(add_prefix_space=False), specials("<|endoftext|>", "<pad>"), post=bytes_post)
    write("trained.json", trained.to_str())
    write("cases.json", json.dumps(shared(small_cases()), ensure_ascii=False, separators=(",", ":")))
    rng = random.Random(3)
    pieces = [b"ok", b"\xc3\xa9", b"\xc3", b"\xe2\x82", b"\xe2\x82\xac", b"\xf0\x9f\x99", b"\xf0\x9f\x99\x82", b"\xff", b"\xc0\xaf",
              b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\x80", b" ", b"\xf1\x80\x80\xe1\x80\xc2b"]
    bad = b"".join(rng.choice(pieces) for _ in range(400))
    write("invalid.bin", bad)
    write("invalid.txt", bad.decode("utf-8", errors="replace"))


def shared(cases):
    """Most cases have the same vocabulary: it is written once."""
    model = cases[0]["tokenizer"]["model"]
    for c in cases:
        tokenizer = c["tokenizer"] = json.loads(json.dumps(c["tokenizer"]))
        assert tokenizer["model"]["vocab"] == model["vocab"] and tokenizer["model"]["merges"] == model["merges"]
        del tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    return {"vocab": model["vocab"], "merges": model["merges"], "cases": cases}


if __name__ == "__main__":
    main()
