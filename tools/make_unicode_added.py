#!/usr/bin/env python3
"""Prints the rows of src/data/tokenizer/unicode_added.c: code points whose general category is new since Unicode 14.

    pip install unicodedata2==16.0.0     # the version of the tables in Hugging Face's tokenizers
    python3.11 tools/make_unicode_added.py
"""
import sys
import unicodedata
import unicodedata2

if unicodedata.unidata_version != "14.0.0":
    sys.exit(f"this Python's unicodedata is {unicodedata.unidata_version}; Python 3.11 has 14.0.0")
rows = []
for c in range(0x110000):
    category = unicodedata2.category(chr(c))
    if unicodedata.category(chr(c)) != "Cn" or category == "Cn":
        continue
    if rows and rows[-1][1] == c - 1 and rows[-1][2] == category:
        rows[-1][1] = c
    else:
        rows.append([c, c, category])
for first, last, category in rows:
    print(f'    {{0x{first:x}, 0x{last:x}, "{category}"}},')
