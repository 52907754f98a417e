#!/usr/bin/env python3
"""Writes tests/data/families: for each model family a tokenizer with the family's own steps over a small vocabulary, and what
Hugging Face `tokenizers` makes of a list of texts. The steps come from transformers' classes and converters where it has them,
otherwise from the regexes that the family's tokenizer.json states. All text is made here.

    pip install tokenizers transformers
    tools/make_family_tokenizers.py                                       write the fixtures
    tools/make_family_tokenizers.py --check build/tessera --texts 2000    compare random texts and random added tokens instead
"""
import argparse
import array
import base64
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests")
OUT = os.path.join(TESTS, "data", "families")
SEEDS = ["cohere2_aya", "deepseek_v3", "exaone_moe", "gemma3", "gpt_oss", "granite4", "mistral_v3", "olmo2_superbpe", "phi3"]  # steps unlike the others'

# ---- Regexes, as the files of the families state them ----
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
WORDS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|"
TEKKEN = WORDS % ("", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = WORDS % (SUFFIX, SUFFIX) + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
EXAONE_MOE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
DEEPSEEK_WORDS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""


def cased_letters():
    """The letters with a case, as ranges of a character class: DeepSeek LLM's file lists them one by one."""
    ranges, open_ = [], None
    for code in range(0x20000):
        if unicodedata.category(chr(code)) in ("Lu", "Ll", "Lt"):
            open_ = open_ or [code, code]
            open_[1] = code
        elif open_:
            ranges.append(open_)
            open_ = None
    return "".join(chr(a) if a == b else chr(a) + "-" + chr(b) for a, b in ranges)


DEEPSEEK_LLM = r"\s?[" + cased_letters() + "]+"


# ---- Text ----
WORDS_OF = {
    "latin": ["the", "of", "tower", "Stone", "STOP", "x", "HTMLParser", "camelCase", "snake_case", "naïve", "Ünder", "don't", "we'LL",
              "it's", "they'Ve", "I'M", "'tis", "o'clock", "ﬁne", "ſ", "'ſ", "Ⅷ", "ª", "ʰa", "Ǆu", "ǅa", "ß", "éa", "e\u0301t", "a\u0328\u0301", "İi"],
    "digits": ["0", "7", "42", "365", "1999", "31415", "1234567890", "3.14", "1,000,000", "½", "²³", "٣٤٥", "१२", "𝟘𝟙", "Ⅳ", "㊿", "0x1F", "1e-9"],
    "marks": ["!", "...", "?!", "--", "=>", "{}", "();", "/*", "*/", "//", "://", "\\n", "«»", "“”", "’s", "…", "—", "$", "€", "+=", "`", "~", "^", "|",
              "@", "#", "\"", "_", "[", "]]", "¿", "·", "©", "™"],
    "space": [" ", " ", " ", "  ", "   ", "     ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\u00a0", "\u3000", "\u2003", "\u2028", "\u2029",
              "\u0085", "\v", "\f", "\u200b", "\ufeff", "\u202f"],
    "cjk": ["日本語", "中文", "漢字", "かな", "カタカナ", "ﾊﾝ", "、", "。", "！", "，", "한국어", "각", "가\u11a8", "ㄱ", "か\u3099", "龥", "龦", "㐀", "𠮷",
            "豈", "ー", "々", "〇", "ーン", "퟿", "ࠀ"],
    "other": ["Привет", "мир", "Ελλάδα", "Ἀθῆναι", "ΐ", "שלום", "עִבְרִ", "العربية", "مَرْ", "‏", "‮", "नमस्ते", "क्षि", "தமிழ்", "ไทย", "မြန်", "ខ្មែរ", "བོད", "አማ", "Ꮳ", "ꭰ",
              "ა", "Ა", "ⴀ", "𐐀", "𐐨", "𞤀", "𝔘", "ﬀ", "ա", "ⅎ", "Ↄ"],
    "emoji": ["🙂", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇫🇷🇯", "❤️‍🔥", "1️⃣", "☺", "☺️", "🧑🏿‍🚀", "🫠", "🀄", "🏴\U000e0067\U000e0062\U000e007f"],
    "control": ["\0", "\x01", "\x07", "\x1b[0m", "\x7f", "\x80", "\x9f", "\u00ad", "\u061c", "\u2060", "\u2066", "\u2581", "\u2581\u2581", "Ġ", "Ċ", "\u0300", "\u20dd",
                "\ufffd", "\ufffe", "\uffff", "\ud7ff", "\ue000", "\U0010ffff", "\U0001fffe", "\U000e0100", "\u0378", "<0x0A>", "<0xE2>", "<unk>"],
}
TAGS = ["<|a|>", "<|a|><|b|>", "<|a", "<s>", "</s>", "<|endoftext|>", "<tool", "<tool_call>", "<think>", "<left>", "<right>", "<both>", "<word>", "Café",
        "Cafe\u0301", "<n l>", "   ", "\n\n", "\t", "▁▁", "<unk>", "<pad>", "ab", "日"]


def random_text(rng, size):
    parts = []
    kinds = rng.sample(list(WORDS_OF), rng.randint(2, 5)) + ["space", "latin"]
    for _ in range(rng.randint(1, size)):
        chance = rng.random()
        if chance < 0.06:
            parts.append(rng.choice(TAGS))
        elif chance < 0.10:
            code = rng.choice([rng.randint(0, 0x2ff), rng.randint(0x300, 0x2fff), rng.randint(0x3000, 0xd7ff), rng.randint(0xe000, 0xffff),
                               rng.randint(0x10000, 0x1ffff), rng.randint(0x20000, 0x10ffff)])
            parts.append(chr(code))
        else:
            word = rng.choice(WORDS_OF[rng.choice(kinds)])
            parts.append(word * (rng.randint(2, 40) if rng.random() < 0.03 else 1))
            if rng.random() < 0.35:
                parts.append(" ")
    return "".join(parts)


def texts():
    """The texts whose ids are recorded."""
    rng = random.Random(11)
    made = [
        "", " ", "  ", "\n", "a", "Hello, world!", " leading", "trailing ", "  two leading", "trailing two  ", "a  b   c    d     e",
        "".join(" " * n + "x" for n in (1, 2, 3, 4, 7, 8, 15, 16, 17, 33)), "\t\tif (x) {\n\t\t    return 0;\n\t}\n",
        "\n\n\n a\n \n  b\r\n\r\nc\r\r d\u0085e\u2028f\u2029g\vh\fi", " \u00a0\u1680\u2003\u200a\u200b\u202f\u205f\u2060\u3000\ufeff a\u00a0b\u3000c",
        "It's we've I'LL HE'S they'd 'tis can'T don't ſ'ſ 'ſ y'all'd've o'clock ’s",
        "0 12 123 1234 12345 123456 1234567 3.14159 1,000,000 x86_64 ½²³ Ⅷ ٣٤٥ १२३ 𝟘𝟙 ㊿ ①",
        "1234567890" * 7, "12a34b567c8910", "a" * 300, "ab" * 120 + "." * 90 + "é" * 60, "UPPERlowerUPPERlower mIxEd ÀÉÎ àéî ǅ ʰ ª ΑΒΓ αβγ",
        "word" * 40 + " " + "日本" * 40, "!!!??...,,,---___===+++***///\\\\\\|||@@@###$$$%%%^^^&&&(((){}[]<>\"\"''``~~",
        "http://example.com/a_b?c=d&e=f#g user@host.org C:\\dir\\file.txt __init__ snake_case camelCase HTMLParser /*a*/ //b\n/c",
        "e\u0301 é n\u0303 ñ a\u0328\u0301 q\u0307\u0323 q\u0323\u0307 \u212b \u2126 \u1e9b\u0323 ﬁ ﬀ Å A\u030a =\u0338",
        "Z\u0351\u036b\u0343\u036a\u0302\u0356\u0326a\u0334\u0335\u031b\u0321l\u0328\u030ag\u0315\u0300\u0301\u0345o \u0301\u0302 \u20dd\u20e3",
        "각 가\u11a8 한국어 ᄀ\u1161 중국\u302e", "क्षि नमस्ते दुनिया ক্ষ தமிழ் తెలుగు ไทยภาษา ລາວ မြန်မာ ខ្មែរ བོད་ አማርኛ",
        "العربية مَرْحَبًا עִבְרִית שלום فارسی ۱۲۳ \u200fא\u200eb\u202ec\u202c \u061c\u2066x\u2069", "Ελληνικά Ἀθῆναι ᾳ ΐ Привет, МИР! Ёё Ꮳꭰ აᲐ ⴀ 𐐀𐐨",
        "日本語のテキスト。カタカナ ﾊﾝｶｸ が か\u3099 漢字漢字 中文，标点！「引用」 龥龦㐀豈 々〇ー", "𠀀𠮷野家 葛\U000e0100 ㄅㄆ ㄱㅏ ퟿ ࠀ 한글abc漢字123かな",
        "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷🇯 👍🏽 ☺️ ☺ 🙂🙂🙂 ❤️‍🔥 1️⃣#️⃣ 🧑🏿‍🚀 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f🫠",
        "𝔘𝔫𝔦 𐍈𐌰 𒀀𒁀 𓀀 🀄 \U0010fffd \ue000 \uf8ff", "\ufffd \ufffe \uffff \ud7ff \ue000 \U0001fffe \U0010ffff \u07ff\u0800 \U00010000 \u0378 \ufdd0",
        "".join(chr(c) for c in range(1, 32)) + "\x7f", "a\0b\0\0 \0c", "".join(chr(c) for c in range(0x80, 0xa1)) + "\u00ad\u200c\u200d",
        "".join(chr(c) for c in range(32, 127)), "".join(chr(c) for c in range(0xa1, 0x180)),
        "▁ ▁▁ a▁b ▁a Ġ Ċ <0x0A> <0xE2><0x82><0xAC> <0x> <unk> <0xZZ> <0xe2>", "€ 中 \u20ac\u0800 ࠀ 𐀀",
        "<s>a</s> b <s> </s><s></s>\n</s>  c <|endoftext|><|endoftext|> <|endoftext|>d",
        "<|a|><|b|><|a|> <|a|x <|a <|a|><|b| <tool <tool_call> <tool_call x<tool_call>y <think>z</think>",
        "a <left> b<left>  <left>\n<left>c", "a <right> b<right>  <right>\n \t<right> c", "x <both> y<both><both>  <both> <left> <right> <both>",
        "<word> a<word> <word>b (<word>) é<word> <word>日 _<word> -<word>- <word>", "Café Cafe\u0301 CAFÉ xCafé <n l> <n  l> <N L> <n l>",
        "  <s>  <left>  <|a|>  </s>  ", "\n<s>\n\n<|a|>\n\n\n<left>\n",
    ]
    return made + [random_text(rng, 30) for _ in range(6)]


# ---- Vocabularies ----
def training_text():
    rng = random.Random(5)
    return [random_text(rng, 60) for _ in range(500)]


def trained(corpus, size, pre, first=(), alphabet=()):
    """Trains merges over stretches of seven characters: they cross every border that a pre-tokenizer may draw, so ids show it.
    The trainer would break ties between equally frequent characters at random, so it gets its alphabet."""
    t = Tokenizer(models.BPE())
    counts = collections.Counter("".join(corpus))
    alphabet = list(alphabet) or sorted(counts, key=lambda c: (counts[c], unicodedata.category(c), c))[-200:]
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"(?m:.{1,7})"), "isolated")] + pre)
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=list(first),
                                                      initial_alphabet=alphabet, limit_alphabet=len(alphabet)))
    model = json.loads(t.to_str())["model"]
    return list(model["vocab"]), [tuple(m) for m in model["merges"]]


def vocabularies():
    corpus = [t.replace("<", "").replace("\0", "") for t in training_text()]  # special tokens come from the families alone
    tokens, merges = trained(corpus, 800, [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)],
                             alphabet=pre_tokenizers.ByteLevel.alphabet())
    fallback = [f"<0x{i:02X}>" for i in range(256)]
    pieces, piece_merges = trained([t.replace(" ", "▁") for t in corpus], 900, [], first=fallback)
    ranks, rank_merges = tekken_merges(tokens)
    return {"bytes": (tokens, merges), "ranks": (ranks, rank_merges), "pieces": (pieces, piece_merges)}


def raw_bytes(token):
    from transformers.convert_slow_tokenizer import bytes_to_unicode
    back = {c: b for b, c in bytes_to_unicode().items()}
    return bytes(back[c] for c in token)


def tekken_merges(tokens):
    from transformers.integrations.mistral.tokenizer import MistralConverter
    vocab, merges = MistralConverter._extract_merges({raw_bytes(t): i for i, t in enumerate(tokens)})
    return sorted(vocab, key=vocab.get), merges


# ---- Families ----
def special(*contents, **flags):
    return [AddedToken(c, special=True, normalized=False, **flags) for c in contents]


def plain(*contents, **flags):
    return [AddedToken(c, **{"normalized": False, **flags}) for c in contents]


def odd():
    """Added tokens that prefix each other, and all flags."""
    return (special("<|a|>", "<|a|><|b|>") + plain("<tool", "<tool_call>", "<|a") + plain("<left>", lstrip=True) + plain("<right>", rstrip=True) +
            special("<both>", lstrip=True, rstrip=True) + plain("<word>", single_word=True) + plain("Café", normalized=True) +
            plain("<n l>", normalized=True))


def before(*tokens):
    return lambda t: processors.TemplateProcessing(single=" ".join(tokens) + " $A", pair=" ".join(tokens) + " $A $B:1",
                                                   special_tokens=[(x, t.token_to_id(x)) for x in dict.fromkeys(tokens)])


def split(*patterns):
    return [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]


class Made:
    """first: tokens whose ids come before the shared vocabulary; added: tokens after it, besides those of odd()."""

    def __init__(self, v, kind, first=(), **options):
        self.kind, self.first = kind, list(first)
        tokens, merges = v[kind]
        self.vocab = {t: i for i, t in enumerate(list(first) + [t for t in tokens])}
        assert len(self.vocab) == len(first) + len(tokens)
        self.merges = merges
        self.tokenizer = Tokenizer(models.BPE(vocab=self.vocab, merges=merges, **options))

    def steps(self, normalizer=None, pre=None, decoder=None, post=None, added=()):
        t = self.tokenizer
        if normalizer is not None:
            t.normalizer = normalizer
        if pre is not None:
            t.pre_tokenizer = pre
        t.decoder = decoder if decoder is not None else decoders.ByteLevel()
        t.add_tokens(list(added))
        t.add_tokens(odd())
        if post is not None:
            t.post_processor = post(t) if callable(post) and not isinstance(post, processors.PostProcessor) else post
        return self

    def of_class(self, backend, post=None, added=()):
        """Takes the steps of a transformers class."""
        self.tokenizer = Tokenizer.from_str(backend.to_str())
        return self.steps(None, None, self.tokenizer.decoder, post, added)


def byte_pre(*patterns):
    return pre_tokenizers.Sequence(split(*patterns) + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def families(v):
    from transformers import CohereTokenizer, GemmaTokenizer, GPT2Tokenizer, GPTNeoXTokenizer, LlamaTokenizer, Qwen2Tokenizer

    nothing = processors.ByteLevel(trim_offsets=False)
    spaces = normalizers.Replace(" ", "▁")
    legacy = normalizers.Sequence([normalizers.Prepend("▁"), spaces])
    unprefixed = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    prefixed = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    sentencepiece = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    s3 = ["<unk>", "<s>", "</s>"]
    digits = pre_tokenizers.Digits(individual_digits=True)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    f = {}

    def bytes_(name, pre, kind="bytes", first=(), normalizer=None, post=nothing, added=(), **options):
        f[name] = Made(v, kind, first, **options).steps(normalizer, pre, None, post, added)

    def of(name, cls, kind, first, post=None, added=(), **more):
        m = Made(v, kind, first)
        f[name] = m.of_class(cls(vocab=m.vocab, merges=m.merges, **more).backend_tokenizer, post, added)

    bos = "<|begin_of_text|>"
    bytes_("llama3", byte_pre(LLAMA3), "ranks", added=special(bos, "<|end_of_text|>", "<|eot_id|>"), ignore_merges=True,
           post=lambda t: processors.Sequence([nothing, before(bos)(t)]))
    bytes_("smollm3", byte_pre(LLAMA3), "ranks", added=special(bos, "<|im_start|>", "<|im_end|>") + plain("<think>", "</think>"), ignore_merges=True)
    bytes_("granite", pre_tokenizers.Sequence([digits, gpt2]), first=["<|endoftext|>", "<fim_prefix>"], added=special("<|endoftext|>", "<fim_prefix>"),
           unk_token="<|endoftext|>")
    bytes_("granite4", byte_pre(CL100K), added=special("<|endoftext|>", "<|start_of_role|>"))
    tekken = tekken_file(v["bytes"][0], [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(s3 + ["[INST]", "[/INST]"])])
    m = Made(v, "ranks", s3 + ["[INST]", "[/INST]"] + [f"<SPECIAL_{i}>" for i in range(5, 8)])
    f["ministral3"] = m.of_class(tekken, lambda t: before("<s>")(t))
    f["phi3"] = Made(v, "pieces", s3, **sentencepiece).steps(
        legacy, None, prefixed, before("<s>"), special("<unk>", "<s>") + plain("</s>", rstrip=True) +
        special("<|endoftext|>") + special("<|assistant|>", "<|user|>", rstrip=True))
    bytes_("phi4", byte_pre(CL100K), added=special("<|endoftext|>", "<|dummy_0|>") + special("<|im_start|>", "<|im_sep|>", rstrip=True, lstrip=True))
    bytes_("olmo2", byte_pre(LLAMA3), added=special("<|endoftext|>", "<|pad|>", "|||IP_ADDRESS|||"))
    bytes_("olmo2_superbpe", pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\p{N}+"), "isolated"),
                                                     pre_tokenizers.Split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated"),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), added=special("<|endoftext|>"))
    spaces_added = [AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)]
    of("gpt_neox", GPTNeoXTokenizer, "bytes", ["<|endoftext|>", "<|padding|>"], nothing, spaces_added)
    of("olmoe", GPTNeoXTokenizer, "bytes", ["<|endoftext|>", "<|padding|>"], nothing,
       [AddedToken(" " * n, normalized=False) for n in range(24, 1, -1)] + plain("|||EMAIL_ADDRESS|||"))
    g5 = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    f["gemma"] = Made(v, "pieces", g5, **sentencepiece).steps(spaces, None, unprefixed, before("<bos>"), special(*g5) + special("<start_of_turn>"))
    gemma_added = (special("<start_of_turn>", "<end_of_turn>") + plain(*["\n" * n for n in range(1, 8)]) + plain(*["▁" * n for n in range(2, 8)]) +
                   plain(*["\t" * n for n in range(2, 5)]) + plain("<table>", "</h1>"))
    of("gemma3", GemmaTokenizer, "pieces", g5, lambda t: before("<bos>")(t), gemma_added)
    bytes_("glm4", byte_pre(LLAMA3), "ranks", added=special("<|endoftext|>", "[MASK]", "[gMASK]", "<sop>", "<|user|>") + plain("<think>"),
           post=lambda t: before("[gMASK]", "<sop>")(t), ignore_merges=True)
    bytes_("starcoder2", pre_tokenizers.Sequence([digits, gpt2]), first=["<|endoftext|>"], added=special("<|endoftext|>"), post=None)
    bytes_("stablelm2", byte_pre(LLAMA3.replace("{1,3}", "")), normalizer=normalizers.NFC(), added=special("<|endoftext|>", "<|reg_extra|>"))
    of("cohere2", CohereTokenizer, "bytes", ["<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>"], lambda t: before("<BOS_TOKEN>")(t),
       special("<|END_OF_TURN_TOKEN|>", "<EOS_TOKEN>"))
    bytes_("cohere2_aya", byte_pre(r"\d{1,3}(?=(?:\d{3})*\b)", O200K), "ranks", normalizer=normalizers.NFC(), added=special("<BOS_TOKEN>"),
           post=before("<BOS_TOKEN>"))
    bytes_("exaone4", gpt2, normalizer=normalizers.NFC(), first=["[PAD]", "[BOS]", "[EOS]"], added=special("[PAD]", "[BOS]", "[|endofturn|]") + plain("<think>"))
    bytes_("exaone_moe", byte_pre(EXAONE_MOE), normalizer=normalizers.NFC(), added=special("[BOS]"))
    of("qwen2_5", Qwen2Tokenizer, "bytes", [], nothing, special("<|im_start|>", "<|im_end|>") + plain("<tool_call>"))
    of("qwen3_moe", Qwen2Tokenizer, "bytes", [], nothing, special("<|im_start|>", "<|im_end|>") + plain("<think>", "</think>"))
    llama = special(*s3)
    f["mistral_v1"] = Made(v, "pieces", s3, **sentencepiece).steps(legacy, None, prefixed, before("<s>"), llama)
    f["mistral_v3"] = Made(v, "pieces", s3 + ["[INST]"], **sentencepiece).steps(
        None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), prefixed, before("<s>"), llama + special("[INST]"))
    of("llama2", LlamaTokenizer, "pieces", s3, lambda t: before("<s>")(t), llama)
    of("llama2_legacy", LlamaTokenizer, "pieces", s3, lambda t: before("<s>")(t), llama, legacy=True)
    of("llama2_unprefixed", LlamaTokenizer, "pieces", s3, lambda t: before("<s>")(t), llama, add_prefix_space=False)
    of("starcoder2_class", GPT2Tokenizer, "bytes", ["<|endoftext|>"], nothing, special("<|endoftext|>"), add_prefix_space=True)
    bytes_("gpt_oss", byte_pre(O200K), "ranks", added=special("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|channel|>"), ignore_merges=True,
           post=None)
    dsk = "<｜begin▁of▁sentence｜>"
    bytes_("deepseek_llm", pre_tokenizers.Sequence(split(r"[\r\n]", DEEPSEEK_LLM, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", r"[一-龥ࠀ-一가-퟿]+") + [
        digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), normalizer=normalizers.Sequence([]), added=special(dsk))
    bytes_("deepseek_v2", pre_tokenizers.Sequence(split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+") + [
        digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), normalizer=normalizers.Sequence([]), added=special(dsk),
        post=before(dsk))
    bytes_("deepseek_v3", byte_pre(r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_WORDS), normalizer=normalizers.Sequence([]),
           added=special(dsk, "<｜end▁of▁sentence｜>") + plain("<｜User｜>"), post=before(dsk))
    return f


def tekken_file(tokens, specials):
    """What transformers makes of a tekken.json."""
    from transformers.integrations.mistral.tokenizer import MistralConverter
    config = {"pattern": TEKKEN, "default_num_special_tokens": 8}
    data = {"config": config, "special_tokens": specials,
            "vocab": [{"rank": i, "token_bytes": base64.b64encode(raw_bytes(t)).decode()} for i, t in enumerate(tokens)]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(data, file)
        file.flush()
        return MistralConverter(file.name).converted()


# ---- Fixtures ----
def write(name, data):
    path = os.path.join(OUT, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")
    assert os.path.getsize(path) < 100_000, name


def record(made, name, all_texts, v):
    t = made.tokenizer
    data = json.loads(t.to_str())
    vocab, merges = data["model"].pop("vocab"), data["model"].pop("merges")
    assert [tuple(m) for m in merges] == [tuple(m) for m in v[made.kind][1]], name
    assert sorted(vocab, key=vocab.get) == made.first + v[made.kind][0], name
    frame = t.encode("", add_special_tokens=True).ids
    cases = []
    for text in all_texts:
        bare = t.encode(text, add_special_tokens=False).ids
        ids = t.encode(text, add_special_tokens=True).ids
        assert ids == frame + bare, name  # every family puts its tokens before the text
        kept, skipped = t.decode(ids, skip_special_tokens=False), t.decode(ids, skip_special_tokens=True)
        cases.append({"ids": bare, **({"kept": kept} if kept != text else {}), **({"skipped": skipped} if skipped != text else {})})
    return {"vocabulary": made.kind, "first": made.first, "before": frame, "tokenizer": data, "cases": cases}


def seed(made, path):
    """Writes a seed for the fuzz target: the family's steps over a few tokens, a zero byte, and a text."""
    data = json.loads(made.tokenizer.to_str())
    few = ["a", "b", "1", "'", "Ġ", "▁", "<0xE2>", "<0x82>", "ab"]
    data["model"]["vocab"] = {t: i for i, t in enumerate(made.first + few)}
    data["model"]["merges"] = [["a", "b"]]
    data["added_tokens"] = [a for a in data["added_tokens"] if a["content"] in made.first or a["id"] >= len(made.vocab)]
    with open(path, "wb") as file:
        file.write(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\0" + "ab 12345 a's <left> <tool_call>日\u20acb\n ".encode())


# ---- Comparison with tessera ----
def random_added(rng, t):
    """Adds tokens with random flags. No special token is normalized: where the normalizer changes one, the reference shows it even
    with skip_special_tokens. A token of space that strips one side strips both: the reference panics where another token has
    consumed it."""
    for content in rng.sample([tag for tag in TAGS if tag != "Cafe\u0301"], rng.randint(3, 12)):  # NFC makes it a token that is there
        kind = rng.choice([{"normalized": False, "special": True}, {"normalized": False}, {"normalized": True}])
        left, right = rng.random() < 0.3, rng.random() < 0.3
        t.add_tokens([AddedToken(content, single_word=rng.random() < 0.2, lstrip=left, rstrip=left if content.isspace() else right, **kind)])


def describe_again(rng, path):
    """States ids with gaps, and some tokens twice with other flags, as files do that programs have changed."""
    with open(path) as file:
        data = json.load(file)
    listed = data["added_tokens"]
    for token in rng.sample(listed, len(listed) // 3):
        flags = {} if token["content"].isspace() else {flag: rng.random() < 0.3 for flag in ("single_word", "lstrip", "rstrip")}
        other = dict(token, **flags, special=not token["normalized"] and rng.random() < 0.5)
        listed.insert(rng.randint(0, len(listed)), other)
    for token in listed:
        token["id"] += rng.choice([0, 0, 1, 7, 100000])
    with open(path, "w") as file:
        json.dump(data, file)


def differs(tessera, path, t, text):
    """Returns what tessera gives in place of the reference's ids or text; None: they are equal."""
    for flags, with_special in [([], False), (["--special"], True)]:
        want = t.encode(text, add_special_tokens=with_special).ids
        done = subprocess.run([tessera, "tokenize", "encode", path, "-"] + flags, input=text.encode(), capture_output=True)
        if done.returncode != 0:
            return done.stderr.decode()
        ids = [int(x) for x in done.stdout.split()]
        if ids != want:
            return f"ids {ids}, expected {want}"
    for flags, skip in [([], True), (["--special"], False)]:
        done = subprocess.run([tessera, "tokenize", "decode", path, "-"] + flags, input=" ".join(map(str, want)).encode(), capture_output=True)
        back = t.decode(want, skip_special_tokens=skip)
        if done.stdout.decode(errors="replace") != back:
            return f"text {done.stdout!r}, expected {back.encode()!r} of {want}"
    return None


def all_equal(tessera, folder, path, t, some):
    """Whether all texts at once, as one shard, have the reference's ids, and these the reference's text."""
    lines, shard = os.path.join(folder, "texts.jsonl"), os.path.join(folder, "shard")
    some = [text for text in some if text != ""]
    with open(lines, "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in some)
    done = subprocess.run([tessera, "tokenize", "shard", path, lines, "--out", shard, "--format", "nanogpt", "--end-token", "<|a|>", "--threads", "1"],
                          capture_output=True)
    if done.returncode != 0:
        return False
    with open(shard, "rb") as file:
        ids = array.array("H", file.read()).tolist()
    os.unlink(shard)
    want = [i for e in t.encode_batch(some, add_special_tokens=False) for i in e.ids + [t.token_to_id("<|a|>")]]
    for flags, skip in [([], True), (["--special"], False)]:
        back = subprocess.run([tessera, "tokenize", "decode", path, "-"] + flags, input=" ".join(map(str, want)).encode(), capture_output=True)
        if back.stdout.decode(errors="replace") != t.decode(want, skip_special_tokens=skip):
            return False
    return ids == want


def check(tessera, n_texts, seed, only):
    wrong, made_families = 0, families(vocabularies())
    if only and not set(only) <= set(made_families):
        sys.exit(f"--only: unknown: {', '.join(sorted(set(only) - set(made_families)))}")
    with tempfile.TemporaryDirectory() as folder:
        for name, made in made_families.items():
            if only and name not in only:
                continue
            bad = []
            for variant in range(8):
                rng = random.Random(f"{seed} {name} {variant}")
                t = Tokenizer.from_str(made.tokenizer.to_str())
                if variant > 0:
                    random_added(rng, t)
                path = os.path.join(folder, f"{name}-{variant}.json")
                t.save(path)
                if variant > 3:
                    describe_again(rng, path)
                t = Tokenizer.from_file(path)  # tokens that were added twice are settled when the file is read
                some = texts() + [random_text(rng, rng.choice([3, 10, 40])) for _ in range(n_texts // 8)]
                if not all_equal(tessera, folder, path, t, some):
                    some = [(text, differs(tessera, path, t, text)) for text in some]
                    bad += [(variant, text, r) for text, r in some if r is not None] or [(variant, "", "a shard differs, no text alone")]
            print(f"{name}: {8 * (n_texts // 8 + len(texts()))} texts, {len(bad)} differ", flush=True)
            for variant, text, r in bad[:3]:
                print(f"   variant {variant}: {text!r}\n      {r[:600]}")
            wrong += len(bad)
    return 1 if wrong else 0


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--check", metavar="TESSERA")
    arguments.add_argument("--texts", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", nargs="*")
    a = arguments.parse_args()
    if a.check:
        sys.exit(check(a.check, a.texts, a.seed, a.only))
    os.makedirs(OUT, exist_ok=True)
    v, all_texts = vocabularies(), texts()
    assert len(all_texts) >= 44
    write("shared.json", {"texts": all_texts, "vocabularies": {k: {"tokens": t, "merges": m} for k, (t, m) in v.items()}})
    for name, made in families(v).items():
        write(f"{name}.json", record(made, name, all_texts, v))
        if name in SEEDS:
            seed(made, os.path.join(TESTS, "fuzz", "corpus", "tokenizer", name))


if __name__ == "__main__":
    main()
