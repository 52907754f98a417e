#!/usr/bin/env python3
"""Writes tests/data/fixtures/templates.json: small templates, what jinja2 makes of them as transformers sets it up, and
conversations as transformers tokenizes them: with small templates, in the formats of eleven model families, and with the
training templates of src/data/conversation/training. Needs jinja2, tokenizers and transformers."""
import json
import pathlib

import chat_templates
import tokenizers
import transformers

TRAINING = pathlib.Path(__file__).parent.parent / "src" / "data" / "conversation" / "training"
FIXTURES = pathlib.Path(__file__).parent.parent / "tests" / "data" / "fixtures"
MESSAGES = [
    {"role": "system", "content": "Be <kind> & \"brief\"."},
    {"role": "user", "content": " caf\u00e9 \u65e5\u672c \n"},
    {"role": "assistant", "content": "<think>a</think>\nb", "n": 3, "tool_calls": [{"name": "f", "arguments": {"x": [1, 2.5, None, True]}}]},
    {"role": "user", "content": "Ok, stra\u00dfe"},
]
CHAT = {"messages": MESSAGES, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}

TEMPLATES = [
    # Whitespace
    "a\n  {% if true %}\n  b\n  {%- endif %}\n c {{- 1 }} \n\n{{ 2 -}}  \n d\n",
    "x {%+ if true %} y {% endif +%}\n z {# note #}\n {#- note -#} w\n\n",
    "  {% set x = 1 %}  {{ x }}\n\t{% for i in [1, 2] %}\n\t{{ i }}\n\t{% endfor %}\nend",
    "{% raw %} {{ no }} {% if %} {% endraw %}|{%- raw -%}  a  {%- endraw -%}  b",
    "{{ \"}}\" }}{{ {'a': {'b': 1}}['a'] }}{{ '%}' ~ \"{{\" }}",
    # Literals and operators
    "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 1_000 }} {{ 5 / 2 }}",
    "{{ 1.5 }} {{ 1e20 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 2.0 ** 0.5 }} {{ 100.0 }} {{ -0.5 }}",
    "{{ 'a' 'b' \"c\" }} {{ 'tab\\tnl\\n\\x41\\u00e9\\'q' }} {{ 'back\\\\slash' }} {{ '\\d' }}",
    "{{ true }} {{ True }} {{ none }} {{ None }} {{ [1, 'a', none, (1,), {'k': 'v'}] }} {{ () }} {{ {} }} {{ ['it\\'s', \"q\\\"\"] }}",
    "{{ 'a' ~ 1 ~ none ~ true ~ missing ~ 1.0 }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }} {{ (1, 2) + (3,) }}",
    "{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != '1' }} {{ none == none }} {{ 2 >= 3 }}",
    "{{ 'a' in 'cat' }} {{ 'z' not in 'cat' }} {{ 1 in [1] }} {{ 'k' in {'k': 1} }} {{ 'a' in missing }} {{ not 1 in [2] }}",
    "{{ 1 and 'x' }} {{ 0 or '' or 'z' }} {{ not '' }} {{ 'y' if 0 else 'n' }} [{{ 'y' if 0 }}] {{ 1 if 2 else 3 if 4 else 5 }}",
    "{{ messages[0].role }} {{ messages[-1]['role'] }} {{ messages[9] }} {{ messages.x }} {{ messages[2].tool_calls[0].arguments.x[1] }}",
    "{{ 'caf\u00e9'[3] }} {{ 'hello'[1:3] }} {{ 'hello'[::-1] }} {{ [1, 2, 3, 4][1:] }} {{ [1, 2, 3, 4][:-1] }} {{ [1, 2, 3][5:] }} {{ messages[::-1][0].role }} {{ 'abc'[-2:] }} {{ [1, 2, 3, 4][::2] }} {{ (1, 2, 3)[3:0:-1] }}",
    "{% set d = {'items': 1, 'b': 2} %}{{ d['items'] }} {% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %} {{ d.get('z', 9) }} {{ d.get('z') }} {{ d.keys() | list }} {{ d.values() | list }}",
    # Numbers of text
    "{{ '0b101' | int(base=2) }} {{ '0o17' | int(0, 8) }} {{ '0x_1f' | int(0, 0) }} {{ '010' | int(7, 0) }} {{ '12' | int(0, 1) }} {{ '1_0' | int }} {{ '1__0' | int }}",
    "{{ '_1' | int(7) }} {{ '-_1' | int(7) }} {{ '1_' | int(7) }} {{ '0x__1' | int(7, 0) }} {{ '_1' | float(7) }} {{ '_' | int(7) }}",
    "{{ '1e3' | int }} {{ '1e400' | int }} {{ '1e400' | int(4) }} {{ 'inf' | int(5) }} {{ '\u0663.\u0665' | float }} {{ '\uff11\uff12' | int }} {{ '0x10' | float }} {{ ' +7\\n' | int }} {{ [] | int(3) }}",
    "{{ (-3) | abs }} {{ (-3.5) | abs }} {{ true | abs }} {{ 7 | round }} {{ 2.5 | round }} {{ 0 ** 0 }} {{ 2 ** -1 }} {{ (-2) ** -2 }} {{ 0.0 ** 0 }}",
    # Statements
    "{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.revindex0 }} {{ m.role }}{{ ', ' if not loop.last }}{% else %}none{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index0 }}{{ loop.length }}{{ loop.previtem.role if loop.previtem is defined }}{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }};{% endfor %}",
    "{% for x in [] %}a{% else %}empty{% endfor %}{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }} {% endfor %}{% for c in 'h\u00e9' %}[{{ c }}]{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}|{{ range(3) | list }}{{ range(1, 4)[-1] }}{{ range(5, 0, -2) | list }}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0, found=false) %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{% set ns.other %}t{{ i }}{% endset %}{% endfor %}{{ ns.n }} {{ ns.found }} {{ ns.other }} {{ ns.missing is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t %} block {{ a }} {% endset %}[{{ t }}]{% set u | upper | trim %} up {% endset %}[{{ u }}]",
    "{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f(b=4, a=5) }} [{{ f() }}] {{ f(1) | length }}",
    "{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * (fact(n - 1) | int) }}{% endif %}{% endmacro %}{{ fact(10) }}",
    "{% macro box(t) %}<{{ t }}>{{ caller(3) }}</{{ t }}>{% endmacro %}{% call(n) box('b') %}in {{ n }}{% endcall %}",
    "{% set late = 1 %}{% macro show() %}{{ late }}{% endmacro %}{% set late = 2 %}{{ show() }}{% filter upper %}shout {{ late }}{% endfilter %}{% with q = 3, r = 4 %}{{ q + r }}{% endwith %}{{ q is defined }}",
    "{% if messages | length > 3 and messages[0].role == 'system' %}A{% elif true %}B{% else %}C{% endif %}{% if missing %}D{% elif not missing %}E{% endif %}",
    # Filters
    "{{ messages[0] | tojson }} {{ messages[2].tool_calls | tojson(indent=2) }} {{ 'caf\u00e9\\n\\t\"\\\\/\\x7f\\x01' | tojson }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }} {{ '\u00e9\U0001f600' | tojson(ensure_ascii=true) }} {{ [] | tojson(indent=4) }} {{ {1: 2, none: 3, true: 4.5} | tojson }} {{ 1e300 * 1e10 }}",
    "[{{ '  x \\u00a0\\n' | trim }}] [{{ 'xxaxx' | trim('x') }}] {{ 'aBc d' | upper }} {{ 'ABC' | lower }} {{ 'hELLO wORLD' | capitalize }} {{ 'hello wORLD-foo (bar' | title }} {{ 'stra\u00dfe' | upper }}",
    "{{ [1, 2, 3] | join(', ') }} {{ messages | map(attribute='role') | join('|') }} {{ ['a', 'b'] | map('upper') | list }} {{ messages | join(',', attribute='role') }} {{ 'abc' | join('-') }} {{ [1, 'x', none] | join }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='n') | first }} {{ [0, 1, '', 'a', none] | select | list }} {{ [1, 2, 3, 4] | select('odd') | list }} {{ [1, none] | reject('none') | list }} {{ messages | selectattr('n', 'defined') | list | length }} {{ none | select | list }} {{ messages | selectattr('n') | list | length }}",
    "{{ missing | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ none | default('d', boolean=true) }} {{ missing | d }}",
    "{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [1, 2] | sort(reverse=true) }} {{ messages | sort(attribute='role') | map(attribute='role') | list }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}",
    "{{ [1, 2, 2, 1] | unique | list }} {{ [1, 2] | reverse | list }} {{ 'abc' | reverse }} {{ [1, 5, 3] | min }} {{ [1, 5, 3] | max }} {{ [1, 2.5] | sum }} {{ [[1], [2]] | sum(start=[]) }} {{ [1, 2] | first }} {{ 'xyz' | last }} {{ [] | first }} {{ 'caf\u00e9' | list }}",
    "{{ '12' | int }} {{ '1.9' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ 'ff' | int(base=16) }} {{ ' 4 ' | int }} {{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ true | int }} {{ -3 | abs }} {{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ 2.1 | round(method='ceil') }} {{ 5 | string }}",
    "{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent('> ', blank=true) }}|{{ 'a\\n' | indent(1) }}|{{ '' | indent }}",
    "{{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc' | replace('', '-') }} {{ 'a b  c' | wordcount }} {{ '<a href=\"x\">&\\'' | escape }} {{ '%s is %d' | format('x', 3) }} {{ 'x=%s' % 5 }} {{ {'a': 1} | items | list }} {{ 'abc' | length }} {{ {'a': 1} | length }} {{ 'x' | safe }}",
    "{{ '<b>' | safe + ' & ' + '</b>' | safe }} {{ '<' | e + '<' }} {{ '<' + '>' }} {{ '<' | e | e }} {{ '<b>' | safe ~ '<' }}",
    # Tests
    "{{ missing is defined }} {{ none is none }} {{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1.0 is float }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ {} is sequence }} {{ missing is sequence }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ 0 is false }}",
    "{{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 1 is in [1, 2] }} {{ 'a' is eq 'a' }} {{ 2 is gt 1 }} {{ 'ABC' is upper }} {{ 'abc' is lower }} {{ 1 is not none }} {{ 1 is sameas 1 }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ not missing is defined }} {{ messages is string or messages is iterable }}",
    # Methods
    "{{ 'a,b,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.split(None, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'x</think>y'.split('</think>')[-1] }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ ''.split(',') }} {{ ''.split() }}",
    "[{{ '  a '.strip() }}] [{{ '\\na\\n'.lstrip('\\n') }}] [{{ 'abc'.rstrip('bc') }}] {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'abab'.count('ab') }} {{ 'abab'.rfind('ab') }} {{ '\u00e9a'.index('a') }}",
    "{{ 'aB'.upper() }} {{ 'aB'.lower() }} {{ 'they\\'re bill'.title() }} {{ 'aBC'.capitalize() }} {{ 'aB'.swapcase() }} {{ 'x-y'.replace('-', '+') }} {{ 'aaa'.replace('a', 'b', 1) }} {{ '-'.join(['a', 'b']) }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'a'.isalpha() }} {{ ' '.isspace() }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'xay'.removeprefix('x').removesuffix('y') }} {{ '{} {1}{{'.format(1) if false else '{}-{}'.format('a', 2) }} {{ '{x}'.format(x=1) }}",
    "{{ [1, 2].index(2) }} {{ [1, 1].count(1) }} {{ strftime_now('%d %b %Y') }} {{ dict(a=1, b=2) }} {{ bos_token }}{{ eos_token }} {{ tools is none }} {{ add_generation_prompt }}",
    # Generation blocks
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}",
    "{% for m in messages %}\n{{- m.role }}\n{%- generation %}\n {{ m.content }}\n{%- endgeneration %}\n{% endfor %}",
    "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
    # Errors
    "{{ missing.attribute }}",
    "{{ missing() }}",
    "{{ missing + 1 }}",
    "{{ none.x is defined }}{{ none + 1 }}",
    "{{ 'a' + 1 }}",
    "{{ raise_exception('roles must alternate') }}",
    "{{ [1].append(2) }}",
    "{% for x in 5 %}{% endfor %}",
    "{{ missing | tojson }}",
    "{% set messages.x = 1 %}",
    "{{ 1 | nothing }}",
    "{{ 1 is nothing }}",
    "{% if %}{% endif %}",
    "{% for %}{% endfor %}",
    "{% unknown %}",
    "{% if true %}",
    "{{ 1 + }}",
    "{{ 'open }}",
    "{{ (1 }}",
    "{{ 1 ) }}",
    "{{ {'a' 1} }}",
    "{# open",
    "{{ 0 ** -1 }}",
    "{{ 10.0 ** 400 }}",
    "{{ missing | int }}",
    "{{ missing | float(1) }}",
    "{{ none | abs }}",
    "{% raw %} open",
    "{{ 1 < 'a' }}",
    "{{ 1 // 0 }}",
    "{{ 'a'.index('b') }}",
    "{{ range(1000000) }}",
    "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
    "{% endif %}",
]

GENERATION = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{{ eos_token }}{% endif %}\n{% endfor %}"
)
INSIDE = "{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
CHATS = [
    MESSAGES,
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "seven lights"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": ""}],
    [{"role": "assistant", "content": "\u65e5\u672c\u8a9e \U0001f600 caf\u00e9"}],
]

# ---- The formats of model families
# (special tokens, template): the family's turns in our words, with generation blocks around what the model writes.
FAMILIES = {
    "ChatML (SmolLM, Qwen2)": (
        ["<|im_start|>", "<|im_end|>"],
        "{% if messages[0].role != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
        "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    ),
    "Qwen3": (
        ["<|im_start|>", "<|im_end|>", "<think>", "</think>"],
        "{%- set ns = namespace(last=-1) %}\n{%- for m in messages if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endfor %}\n"
        "{%- set seen = namespace(users=-1) %}\n{%- for m in messages %}\n"
        "    {%- if m.role == 'user' %}{% set seen.users = seen.users + 1 %}{% endif %}\n"
        "    {%- if m.role == 'assistant' %}\n"
        "        {%- set parts = m.content.split('</think>') %}\n"
        "        {%- set thought = parts[0].split('<think>')[-1].strip('\\n') if parts | length > 1 else '' %}\n"
        "        {{- '<|im_start|>assistant\\n' }}\n        {%- generation %}\n"
        "        {%- if seen.users >= ns.last %}{{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}{% endif %}\n"
        "        {{- parts[-1].lstrip('\\n') + '<|im_end|>\\n' }}\n        {%- endgeneration %}\n"
        "    {%- else %}\n        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}\n    {%- endif %}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}",
    ),
    "Llama 3": (
        ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        "{{- '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|eot_id|>' }}{% endgeneration %}"
        "{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    ),
    "Mistral": (
        ["<s>", "</s>", "[INST]", "[/INST]"],
        "{%- set system = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}{{ '<s>' }}"
        "{%- for m in messages if m.role != 'system' %}"
        "{%- if m.role == 'user' %}{{ '[INST] ' + (system if loop.last else '') + m.content + '[/INST]' }}"
        "{%- else %}{{ ' ' }}{% generation %}{{ m.content }}</s>{% endgeneration %}{% endif %}{% endfor %}",
    ),
    "Gemma": (
        ["<bos>", "<start_of_turn>", "<end_of_turn>"],
        "{{ '<bos>' }}{% set first = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}"
        "{% for m in messages if m.role != 'system' %}"
        "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + (first if loop.first else '') }}"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}<end_of_turn>\n{% endgeneration %}"
        "{% else %}{{ m.content | trim + '<end_of_turn>\\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    ),
    "Phi-3": (
        ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>"],
        "{% for m in messages %}{{ '<|' + m.role + '|>\\n' }}"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}\n\n"
        "{% else %}{{ m.content + '<|end|>\\n' }}{% endif %}{% endfor %}"
        "{{ '<|assistant|>\\n' if add_generation_prompt else '<|endoftext|>' }}",
    ),
    "DeepSeek": (
        ["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>"],
        "{{ '<\uff5cbegin\u2581of\u2581sentence\uff5c>' }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
        "{% for m in messages %}{% if m.role == 'user' %}{{ '<\uff5cUser\uff5c>' + m.content }}{% elif m.role == 'assistant' %}"
        "{{ '<\uff5cAssistant\uff5c>' }}{% set answer = m.content.split('</think>')[-1] %}"
        "{% generation %}{{ answer }}<\uff5cend\u2581of\u2581sentence\uff5c>{% endgeneration %}{% endif %}{% endfor %}",
    ),
    "Zephyr": (
        ["</s>", "<|user|>", "<|system|>", "<|assistant|>"],
        "{% for m in messages %}\n{{ '<|' + m.role + '|>' }}\n"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '</s>' }}\n{% endgeneration %}"
        "{% else %}{{ m.content + '</s>' }}\n{% endif %}{% endfor %}",
    ),
    "OLMo": (
        ["<|endoftext|>", "<|user|>", "<|system|>", "<|assistant|>"],
        "{{ '<|endoftext|>' }}{% for m in messages %}{{ '<|' + m.role + '|>\\n' }}"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|endoftext|>' }}{% endgeneration %}{{ '\\n' if not loop.last }}"
        "{% else %}{{ m.content + '\\n' }}{% endif %}{% endfor %}",
    ),
    "Granite": (
        ["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"],
        "{% for m in messages %}{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' }}"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|end_of_text|>' }}{% endgeneration %}"
        "{% else %}{{ m.content + '<|end_of_text|>' }}{% endif %}{{ '\\n' }}{% endfor %}",
    ),
    "Command R": (
        ["<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|CHATBOT_TOKEN|>"],
        "{% set who = {'user': '<|USER_TOKEN|>', 'system': '<|SYSTEM_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'} %}{{ '<BOS_TOKEN>' }}"
        "{% for m in messages %}{{ '<|START_OF_TURN_TOKEN|>' + who[m.role] }}"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|END_OF_TURN_TOKEN|>' }}{% endgeneration %}"
        "{% else %}{{ m.content | trim + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}",
    ),
}
TURNS = [
    MESSAGES[:3] + [{"role": "user", "content": "Ok, stra\u00dfe"}, {"role": "assistant", "content": " the river\n"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nseven\n</think>\n\nlights"}, {"role": "user", "content": "b"},
     {"role": "assistant", "content": ""}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "\u65e5\u672c\u8a9e \U0001f600 caf\u00e9"}],
]


# ---- Training templates
# (special tokens, the first of them the bos_token or "", what the family's own template writes, in our words).
QWEN3 = (
    "{%- set asked = namespace(at=-1) %}{%- for m in messages %}{%- if m.role == 'user' %}{%- set asked.at = loop.index0 %}{%- endif %}{%- endfor %}"
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}{%- if m.role == 'assistant' %}"
    "{%- set parts = m.content.split('</think>') %}{%- set thought = m.reasoning_content or '' %}"
    "{%- if not thought and parts | length > 1 %}{%- set thought = parts[0].split('<think>')[-1] %}{%- endif %}"
    "{%- if loop.index0 > asked.at and (loop.last or thought) %}{{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' }}{%- endif %}"
    "{{- parts[-1].lstrip('\n') }}{%- else %}{{- m.content }}{%- endif %}{{- '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
DEEPSEEK_R1 = (
    "{{- bos_token }}{%- for m in messages if m.role == 'system' %}{{- m.content }}{%- endfor %}"
    "{%- for m in messages if m.role != 'system' %}{%- if m.role == 'user' %}{{- '<\uff5cUser\uff5c>' + m.content }}"
    "{%- else %}{{- '<\uff5cAssistant\uff5c>' + m.content.split('</think>')[-1] + '<\uff5cend\u2581of\u2581sentence\uff5c>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<\uff5cAssistant\uff5c><think>\n' }}{%- endif %}"
)
TRAINED = {
    "qwen3": ("", ["<|im_start|>", "<|im_end|>", "<think>", "</think>"], QWEN3),
    "deepseek_r1": (FAMILIES["DeepSeek"][0][0], FAMILIES["DeepSeek"][0] + ["<think>", "</think>"], DEEPSEEK_R1),
}
PLAIN = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "seven"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": " lights\n"}]
TALKS = [
    PLAIN,
    [MESSAGES[0]] + PLAIN[:2],
    [PLAIN[0], {"role": "assistant", "content": "<think>\nof stone\n</think>\n\nseven"}, PLAIN[2],
     {"role": "assistant", "content": "<think>\n\n</think>\n\ncaf\u00e9"}, PLAIN[0], {"role": "assistant", "content": "lights", "reasoning_content": "the river\n"}],
    [PLAIN[0], {"role": "assistant", "content": "lights", "reasoning": "the river"}, PLAIN[2], {"role": "assistant", "content": "seven", "thinking": "of stone"}],
]


def family(name, specials, template):
    """gpt2.json with the family's special tokens, behind its own: the test builds the same."""
    inner = tokenizers.Tokenizer.from_file(str(FIXTURES / "gpt2.json"))
    inner.add_special_tokens(specials)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="", eos_token="")
    cases = []
    for messages in TURNS:
        out = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        cases.append({"messages": messages, "ids": out["input_ids"], "mask": "".join(map(str, out["assistant_masks"]))})
    return {"family": name, "specials": [[s, inner.token_to_id(s)] for s in specials], "template": template, "cases": cases}


def trained(name, bos, specials, own):
    """What the training template of a family makes of conversations; `own` is the family's own, which it stands in for."""
    inner = tokenizers.Tokenizer.from_file(str(FIXTURES / "gpt2.json"))
    inner.add_special_tokens(specials)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=bos, eos_token="")
    template = (TRAINING / f"{name}.jinja").read_text()
    cases = []
    for messages in TALKS:
        out = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        shipped = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, as_shipped=True)
        assert shipped == tokenizer.apply_chat_template(messages, chat_template=own, tokenize=False), (name, messages)
        cases.append({"messages": messages, "ids": out["input_ids"], "mask": "".join(map(str, out["assistant_masks"]))})
    return {"family": name, "bos_token": bos, "specials": [[s, inner.token_to_id(s)] for s in specials], "own": own, "cases": cases}


def render(template):
    try:
        text, spans = chat_templates.render(template, CHAT)
    except Exception:  # whatever a template does wrong
        return {"template": template}
    return {"template": template, "text": text, "spans": spans}


def tokenize(name, template, messages):
    """With the tokenizers whose tokens are pieces of the text: transformers gets their places in it right."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(FIXTURES / f"{name}.json"), bos_token="", eos_token="")
    out = tokenizer.apply_chat_template(
        messages, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True,
        bos_token="<s>", eos_token="<|im_end|>",
    )
    return {"tokenizer": name, "template": template, "messages": messages, "ids": out["input_ids"], "mask": out["assistant_masks"]}


def member(name, value):
    """Of the file: a list has a line for each item."""
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    items = [json.dumps(item, **compact) for item in value] if isinstance(value, list) else None
    return json.dumps(name) + ":" + ("[\n" + ",\n".join(items) + "]" if items else json.dumps(value, **compact))


def main():
    tokens = [tokenize(name, template, messages) for name in ("gpt2", "qwen2", "llama3") for template in (GENERATION, INSIDE) for messages in CHATS]
    out = {"now": chat_templates.NOW, "chat": CHAT, "templates": [render(t) for t in TEMPLATES], "tokens": tokens}
    out["families"] = [family(name, *how) for name, how in FAMILIES.items()]
    out["trained"] = [trained(name, *how) for name, how in TRAINED.items()]
    (FIXTURES / "templates.json").write_text("{" + ",\n".join(member(*item) for item in out.items()) + "}\n")
    print(sum("text" in t for t in out["templates"]), "templates,", sum("text" not in t for t in out["templates"]), "errors")


main()
