#!/usr/bin/env python3
"""Golden files of the text layer: token ids from the Python `tokenizers` library over strings of many kinds, and chats
rendered by `transformers`. Needs tokenizers, transformers, jinja2 and gguf. The reference tokenizer is put together here
from the GGUF's metadata by the Python library, independently of our own code.

encode.json and chats.json use a small vocabulary (the first merges of the model's), which is in the file and needs no
model; smollm2.json uses the whole one.

usage: make_text_goldens.py MODEL.gguf   (writes tests/text/goldens/{encode,chats,smollm2}.json)
"""

import json
import os
import random
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "text", "goldens")

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")


def words_of(name):
    """(normalizer, pre-tokenizer, ignore_merges) as the models' own tokenizer.json files have them."""
    p = pre_tokenizers
    byte = lambda regex: p.ByteLevel(add_prefix_space=False, use_regex=regex)
    if name == "smollm":
        return None, p.Sequence([p.Digits(individual_digits=True), byte(True)]), False
    if name == "gpt-2":
        return None, byte(True), False
    if name == "llama-bpe":
        return None, p.Sequence([p.Split(Regex(LLAMA3), "isolated"), byte(False)]), True
    if name == "qwen2":
        regex = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
        return normalizers.NFC(), p.Sequence([p.Split(Regex(regex), "isolated"), byte(False)]), False
    if name == "default":
        parts = [r"[\p{P}\$\+<=>\^~\|]+", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)", r"\p{N}+",
                 r"[0-9][0-9][0-9]"]
        return None, p.Sequence([p.Split(Regex(r), "isolated") for r in parts] + [byte(False)]), False
    raise ValueError(name)


def small(fields, merges=2500):
    """The special tokens, the byte alphabet and the first merges; ids renumbered."""
    kept = fields["merges"][:merges]
    specials = [t for t, k in zip(fields["tokens"], fields["token_type"]) if k == 3]
    tokens = specials + sorted(pre_tokenizers.ByteLevel.alphabet()) + [m.replace(" ", "") for m in kept]
    tokens = list(dict.fromkeys(tokens))
    return {"tokens": tokens, "merges": kept, "token_type": [3] * len(specials) + [1] * (len(tokens) - len(specials)),
            "chat_template": fields["chat_template"]}


def build(fields, name):
    tokens, merges, types = fields["tokens"], fields["merges"], fields["token_type"]
    normalizer, pre, ignore = words_of(name)
    t = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ", 1)) for m in merges],
                             ignore_merges=ignore))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(tokens[i], normalized=False) for i, k in enumerate(types) if k == 3])
    return t


def strings():
    s = [
        "", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\r", " \n ", "a", "A", "0", "é", "Hello, world!", "hello", " hello", "hello ",
        "  hello  world  ", "The quick brown fox jumps over the lazy dog.", "It's, I'm, you're, we've, he'll, she'd, can't",
        "IT'S I'M YOU'RE WE'VE", "don’t ‘quote’ “me”", "naïve café résumé", "cafe\u0301 vs caf\u00e9", "ﬁﬂ ligatures ﬃ", "ÀÉÎÕÜ",
        "Straße Größe", "İstanbul ığüşöç", "Příliš žluťoučký kůň", "Zażółć gęślą jaźń", "Привет, как дела?", "Съешь ещё этих мягких",
        "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم", "السَّلامُ عَلَيْكُمْ", "नमस्ते दुनिया", "বাংলা ভাষা", "தமிழ் மொழி", "తెలుగు", "ಕನ್ನಡ",
        "മലയാളം", "ગુજરાતી", "ਪੰਜਾਬੀ", "සිංහල", "ภาษาไทยไม่มีช่องว่าง", "ລາວ", "မြန်မာ", "ខ្មែរ", "ქართული", "Հայերեն", "አማርኛ", "བོད་ཡིག",
        "你好，世界！", "繁體中文測試", "日本語のテキスト、カタカナ。", "ｶﾀｶﾅ ﾊﾝｶｸ", "한국어 텍스트", "ᄒ\u1161ᆫ jamo", "Tiếng Việt có dấu", "ʻŌlelo Hawaiʻi",
        "ᏣᎳᎩ", "ᐃᓄᒃᑎᑐᑦ", "𐍈𐌿𐍄 gothic", "𒀀𒀁 cuneiform", "𓀀𓀁", "𝕳𝖊𝖑𝖑𝖔 𝓜𝓪𝓽𝓱", "①②③ Ⅷ ½ ¾ ²³", "٠١٢٣٤٥٦٧٨٩", "०१२३", "一二三",
        "😀", "😀😃😄", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️", "☺", "1️⃣", "🤦🏼‍♂️ ok", "a😀b", "👩🏿‍🚀👩‍🚀",
        "1", "12", "123", "1234", "12345", "1234567890", "3.14159", "-1.5e-10", "1,000,000", "0x1F", "2024-12-01T12:34:56Z", "v1.2.3",
        "192.168.0.1", "$19.99", "50%", "a1b2c3", "1 2 3", "x=1", "٣٫١٤",
        "def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}", "#include <stdio.h>", "a->b.c::d", "x!=y&&z||!w",
        "SELECT * FROM t WHERE a='b';", "<html><body class=\"x\">&amp;</body></html>", "{\"a\": [1, 2.5, null, true]}", "fn main() { println!(\"{}\", 1); }",
        "import numpy as np", "if __name__ == '__main__':", "\\frac{a}{b} $x^2$", "https://example.org/a?b=c&d=e#f", "user@example.com",
        "C:\\Users\\x", "/usr/local/bin", "snake_case camelCase PascalCase SCREAMING_CASE", "a_b__c", "--flag=value", "TODO: fix ```code``` here",
        "| a | b |\n|---|---|\n| 1 | 2 |", "- item\n- item\n  - nested", "# Title\n\nText **bold** _it_", "~~~", "...", "…", "!!!", "???", "!?!?", "----",
        "====", "****", "(((())))", "[]{}<>", "«guillemets»", "„deutsch“", "–—―", "a–b—c", "•·∙", "←→↑↓⇒", "∀x∈ℝ: x²≥0", "∑∏∫√∞≈≠≤≥", "€£¥₹₿", "©®™", "°C",
        "   leading", "trailing   ", "a  b", "a   b", "a    b", "\ttab\ttab", "line\nline", "line\n\nline", "line\n\n\nline", "line \n line", "line\r\nline",
        "\n    indented\n        more", "\u00a0nbsp\u00a0", "a\u00a0b", "\u2003em\u2003", "\u200bzero\u200bwidth", "\u3000全角\u3000", "a\u2028b\u2029c",
        "\ufeffbom", "a\u00adb", "\u202eRTL\u202c", "\u0085nel", "\u000b\u000c", "\u0000nul\u0000", "\u0001\u0002\u001f", "\u007f", "\u0080\u009f",
        "\ufffd", "\ufffe\uffff", "\ue000\uf8ff", "\U000f0000\U0010ffff", "\U000e0041", "a\u0300\u0301\u0302", "Z̷̛͙a̸l̶g̷o̴",
        "x" * 500, " " * 300, "\n" * 100, "ab" * 400, "1" * 300, "-" * 200, "é" * 200, "😀" * 60, "\t" * 50, "a b " * 200, "Aa" * 200, "日本" * 150,
        "word " * 100, "!" * 257, "aaaaaaaaaaaaaaab" * 30, ". . . . . .", "a\n" * 100, "  \n" * 60,
        "<|im_start|>", "<|im_end|>", "text <|endoftext|> text", "<|im_start|>user\nhi<|im_end|>\n", "<|im_start", "|im_start|>", "<repo_name>x",
        "<|im_start|><|im_start|>", "a<|im_end|>b", "<|IM_END|>", " <|im_end|> ", "</s>", "<s>", "<think>no</think>", "[INST]", "<unk>", "<pad>",
        "Once upon a time, in a land far away, there lived a small robot who dreamed of the sea.", "ALL CAPS SHOUTING TEXT", "mIxEd CaSe",
        "antidisestablishmentarianism", "Donaudampfschifffahrtsgesellschaft", "supercalifragilisticexpialidocious", "pneumonoultramicroscopicsilicovolcanoconiosis",
        "The year 2024, chapter 12, page 345.", "é", "i̇", "ß", "ǅ ǆ", "a\u200db", "क्ष", "\U0001f468\u200d", "\u200d", "\u0301",
    ]
    assert len(s) > 200
    return s


def ids_of(t, texts, special):
    t.encode_special_tokens = not special
    return [t.encode(x, add_special_tokens=False).ids for x in texts]


def encode_goldens(fields):
    texts = strings()
    out = {"vocab": {k: fields[k] for k in ("tokens", "merges", "token_type")}, "texts": texts, "pre": {}}
    for name in ["smollm", "gpt-2", "llama-bpe", "qwen2", "default"]:
        t = build(fields, name)
        out["pre"][name] = {"parsed": ids_of(t, texts, True), "plain": ids_of(t, texts, False)}
    # Text of id sequences that are no encoding of anything: cut characters, special tokens.
    t = build(fields, "smollm")
    rng = random.Random(1)
    raw = [[rng.randrange(len(fields["tokens"]) if i % 2 else 273) for _ in range(i)] for i in range(40)]
    out["decode"] = [{"ids": ids, "text": t.decode(ids, skip_special_tokens=False),
                      "skipped": t.decode(ids, skip_special_tokens=True)} for ids in raw]
    return out


def smollm2_goldens(fields):
    texts = strings()
    t = build(fields, "smollm")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<|im_start|>", eos_token="<|im_end|>")
    chats = []
    for messages in (PLAIN, TURNS):
        for generate in (False, True):
            t.encode_special_tokens = False
            text = tokenizer.apply_chat_template(messages, chat_template=fields["chat_template"], tokenize=False,
                                                 add_generation_prompt=generate)
            ids = tokenizer.encode(text, add_special_tokens=False)
            chats.append({"messages": messages, "generate": generate, "text": text, "ids": ids})
    return {"texts": texts, "plain": ids_of(t, texts, False), "parsed": ids_of(t, texts, True), "chats": chats}


TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather <now> & \"here\" in ünïcode 天气",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "東京"]},
                       "days": {"type": "integer", "default": 3}, "exact": {"type": "boolean", "default": False},
                       "t": {"type": "number", "minimum": 1.0, "maximum": 1e20, "step": 1e-7}}, "required": ["city"]}}}

PLAIN = [{"role": "user", "content": "Hello!"}]
TURNS = [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": "What is 2+2?\n"},
         {"role": "assistant", "content": "<think>easy</think>\n\n4"}, {"role": "user", "content": " Und auf Deutsch? Grüße 👋 "}]
CALLS = [{"role": "user", "content": "Weather in Paris?"},
         {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
             "name": "get_weather", "arguments": {"city": "Paris", "days": 2, "exact": True, "t": 0.5, "none": None}}}]},
         {"role": "tool", "content": "{\"temp\": 21}"}, {"role": "assistant", "content": "21 degrees."}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}]}]

# Short templates of our own, each after the manner of a public family.
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "blocks": """{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system = '' %}
    {%- set rest = messages %}
{%- endif %}
{{- bos_token }}
{% if system %}
[SYS]{{ system }}[/SYS]
{% endif %}
    {% for message in rest %}
  {{ loop.index }}/{{ loop.length }} {{ message.role | upper }}: {{ message.content.strip() }}{% if not loop.last %},{% endif %}

    {% endfor %}
{# a comment #}
tail
""",
    "strict": "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
              "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
              "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}",
    "tools": """{%- if tools is not none and tools %}
{{- '# Tools\\n\\n<tools>' }}
{%- for tool in tools %}
{{- '\\n' }}{{ tool | tojson }}
{%- endfor %}
{{- '\\n</tools>\\n' }}
{%- endif %}
{%- for m in messages %}
{{- '<|im_start|>' ~ m.role ~ '\\n' }}
{%- if m.tool_calls is defined and m.tool_calls %}
{%- for call in m.tool_calls %}
{%- set f = call.function %}
{{- '<tool_call>{"name": "' ~ f.name ~ '", "arguments": ' ~ (f.arguments | tojson) ~ '}</tool_call>' }}
{%- endfor %}
{%- else %}
{{- m.content }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}""",
    "indent": "{% for tool in tools or [] %}{{ tool | tojson(indent=4) }}\n{{ tool.function | tojson(indent=2, sort_keys=true) }}\n"
              "{{ tool | tojson(separators=(',', ':')) }}\n{{ tool | tojson(ensure_ascii=true) }}\n{% endfor %}{{ [] | tojson(indent=2) }}{{ {} | tojson }}",
    "macros": """{%- macro kind(p) -%}
{%- if p.type == 'object' -%}{
{%- for name, q in p.properties.items() -%}
{{ name }}{% if name not in (p.required or []) %}?{% endif %}: {{ kind(q) }}{% if not loop.last %}, {% endif %}
{%- endfor -%}}
{%- elif p.enum is defined -%}{{ p.enum | join(' | ') }}
{%- elif p.type in ['integer', 'number'] -%}number{% if p.default is defined %} = {{ p.default }}{% endif %}
{%- else -%}{{ p.type }}{%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
type {{ tool.function.name }} = (_: {{ kind(tool.function.parameters) }}) => any;
{%- endfor %}
{% macro say(m, end='.') %}{{ m.role }}>{{ m.content }}{{ end }}{% endmacro %}
{% for m in messages %}{{ say(m, end='!' if loop.last else ';') }}
{% endfor %}""",
    "namespace": """{%- set ns = namespace(last=-1, n=0, found=false) %}
{%- for m in messages[::-1] %}
{%- set index = (messages | length - 1) - loop.index0 %}
{%- if not ns.found and m.role == 'user' and not (m.content.startswith('<tool') and m.content.endswith('>')) %}
{%- set ns.found = true %}{%- set ns.last = index %}
{%- endif %}
{%- set ns.n = ns.n + m.content | length %}
{%- endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' and '</think>' in m.content %}
{%- set reasoning = m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set content = m.content.split('</think>')[-1].lstrip('\\n') %}
{{- 'A(' + reasoning + '|' + content + ')' }}
{%- else %}
{{- '\\n' + m.role[:1] + m.role[-2:] + ':' + m.content[2:8] + '~' + (m.content or '-')[::-1] }}
{%- endif %}
{%- if loop.index0 > ns.last %}{{- ' after' }}{%- endif %}
{%- endfor %}
{{ ns.n }} {{ ns.last }} {{ ns.found }}""",
    "content_parts": """{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}
{%- if part.type == 'text' %}{{ part['text'] }}{% elif part.type == 'image' %}<image>{% endif %}{% endfor %}{% endif %}
{{ m.content is string }} {{ m.content is sequence }} {{ m.content is iterable }} {{ m is mapping }} {{ m.nothing is defined }} {{ m.nothing is none }}
{% endfor %}""",
    "methods": """{% for m in messages %}{% set c = m.content if m.content is string else '' %}
{{ c.upper() }}|{{ c.lower() }}|{{ c.title() }}|{{ c.capitalize() }}|{{ c.replace('l', 'L') }}|{{ c.split() }}|{{ c.split('?') | length }}
{{ c.strip(' \\n') }}|{{ c.find('a') }}|{{ c.count('e') }}|{{ c.splitlines() }}|{{ c.rsplit(' ', 1)[-1] }}|{{ ','.join(['x', 'y']) }}
{{ m.get('content', 'no') is string }} {{ m.get('zz', 'dflt') }} {{ m.get('zz') }} {{ m.keys() | list | length }} {{ m.values() | list | length }}
{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in m | items %}{{ k }},{% endfor %}
{% endfor %}{{ 'a' in 'abc' }} {{ 'x'.removeprefix('x') }}{{ 'ab'.removesuffix('b') }} {{ 'a-b-c'.partition('-') | list }} {{ '%s' | format('z') }} {{ '{}'.format(3) }}""",
    "values": "{{ true }} {{ false }} {{ none }} {{ 1 }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 7 % 3 }} {{ 2 ** 10 }} {{ -7 // 2 }} "
              "{{ [1, 'a', \"it's\", none, true, 1.5] }} {{ {'k': [1, {'z': 'q\\n'}]} }} {{ missing }} {{ missing | default('d') }} {{ '' or 'e' }} "
              "{{ [3, 1, 2] | sort }} {{ [1, 2, 3] | map('string') | join('-') }} {{ ['a', 'b'] | first }}{{ ['a', 'b'] | last }} {{ 'abc' | reverse }} {{ (1, 2) | length }} "
              "{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | map(attribute='role') | join(',') }} {{ [true, none, 1.0] | join(' ') }} "
              "{{ 'x' ~ 1 ~ 'y' }} {{ 'abc'[1] }} {{ 'é' | length }} {{ range(3) | list }} {{ 5 is even }} {{ 'A' is upper }} {{ [1] + [2] }} {{ 'ab' * 2 }} {{ not true }}",
    "control": """{% for m in messages if m.role != 'system' %}
    {% if loop.index > 2 %}{% break %}{% endif %}
    {%- if m.role == 'assistant' %}{% continue %}{% endif +%}
    {{- loop.index0 }}:{{ loop.first }}:{{ loop.last }}:{{ loop.revindex }}
    {% set inner %}<{{ m.role }}>{% endset %}
{{ inner }}{% filter upper %}f{{ m.role }}{% endfilter %}
{% else %}
none
{% endfor %}
{% raw %}{{ raw }}{% endraw %}
{%- set x = 1 if messages else 2 -%} {{ x }} {{- ' y ' -}} z
  {%+ if true %}kept{% endif %}
""",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}\n{% endgeneration %}{% else %}"
                  "{{ m.role }}:{{ m.content }}\n{%- endif %}\n{% endfor %}",
    "variables": "{%- if enable_thinking is defined and enable_thinking is false -%}off{%- else -%}on{%- endif -%}{{ date_string | default('no date') }}"
                 "{{ bos_token }}{{ eos_token }}{% if tools %}T{% endif %}{% if documents %}{{ documents | length }}{% endif %}{% if not add_generation_prompt %}N{% endif %}",
    "crlf": "{% if true %}\r\nline one\r\n{% endif %}\r\n{{ messages[0].content }}\r\nend\r\n",
    "reasoning": "{% for m in messages %}{{ m.reasoning_content | default('-') }}/{{ m.thinking | default('-') }}/{{ m | tojson }}\n{% endfor %}",
    "items_key": "{% for k, v in schema.items() %}{{ k }}{% endfor %}{{ schema.get('items') }}",
}


def chat_goldens(fields):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=build(fields, "smollm"), bos_token="<|im_start|>", eos_token="<|im_end|>")
    templates = {"smollm2": fields["chat_template"], **TEMPLATES}
    conversations = {"plain": PLAIN, "turns": TURNS, "calls": CALLS, "parts": PARTS, "empty": []}
    conversations["reasoning"] = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning": "because"}]
    variables = {"enable_thinking": False, "schema": {"items": 1, "type": "array"}}
    cases = []
    for name, template in templates.items():
        for conversation, messages in conversations.items():
            for generate in (False, True):
                if conversation in ("empty", "reasoning", "parts") and generate:
                    continue
                for tools in (None, [TOOL]) if name in ("tools", "indent", "macros", "variables") else (None,):
                    case = {"template": name, "messages": conversation, "generate": generate, "tools": tools is not None,
                            "variables": name in ("variables", "items_key") and not generate}
                    extra = variables if case["variables"] else {}
                    try:
                        case["text"] = tokenizer.apply_chat_template([dict(m) for m in messages], chat_template=template,
                                                                     tools=tools, tokenize=False,
                                                                     add_generation_prompt=generate, **extra)
                        case["ids"] = tokenizer.encode(case["text"], add_special_tokens=False)
                    except Exception as e:  # a template that refuses, or that needs what a conversation lacks
                        case["error"] = str(e)
                    cases.append(case)
    return {"templates": templates, "conversations": conversations, "tools": [TOOL], "variables": variables,
            "bos": "<|im_start|>", "eos": "<|im_end|>", "cases": cases}


def main():
    fields = {k[len("tokenizer.ggml."):] if k.startswith("tokenizer.ggml.") else k[len("tokenizer."):]: f.contents()
              for k, f in GGUFReader(sys.argv[1]).fields.items() if k.startswith("tokenizer.")}
    os.makedirs(OUT, exist_ok=True)
    less = small(fields)
    for name, data in [("encode", encode_goldens(less)), ("chats", chat_goldens(less)), ("smollm2", smollm2_goldens(fields))]:
        with open(os.path.join(OUT, name + ".json"), "w") as f:
            json.dump(data, f, ensure_ascii=True, separators=(",", ":"))
            f.write("\n")


if __name__ == "__main__":
    main()
