#!/usr/bin/env python3
"""Prints the rows of src/data/tokenizer/unicode_added.c: code points whose general category is new since Unicode 14,
then those of them that belong to a script.

    pip install unicodedata2==16.0.0 regex    # 16.0.0 is the version of the tables in Hugging Face's tokenizers
    python3.11 tools/make_unicode_added.py
"""
import sys
import unicodedata

import regex
import unicodedata2

SCRIPTS = "Han Hiragana Katakana Hangul Latin Greek Thai Cyrillic Arabic Hebrew Devanagari".split()  # those of oniguruma.c

if unicodedata.unidata_version != "14.0.0":
    sys.exit(f"this Python's unicodedata is {unicodedata.unidata_version}; Python 3.11 has 14.0.0")


def script_of(c):
    return next((name for name in SCRIPTS if regex.match(rf"\p{{Script={name}}}", chr(c))), None)


def show(property_of):
    """Prints the ranges of added characters with the same property."""
    rows = []
    for c in range(0x110000):
        if unicodedata.category(chr(c)) != "Cn" or unicodedata2.category(chr(c)) == "Cn" or property_of(c) is None:
            continue
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == property_of(c):
            rows[-1][1] = c
        else:
            rows.append([c, c, property_of(c)])
    for first, last, value in rows:
        print(f'    {{0x{first:x}, 0x{last:x}, "{value}"}},')


show(lambda c: unicodedata2.category(chr(c)))
show(script_of)
