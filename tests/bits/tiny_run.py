"""What tests of `isotone train` share: a tiny model folder with a byte-level tokenizer, text, conversations, recipes, and
ways to run the program. Needs nothing but Python."""
import json
import os
import pathlib
import random
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ISOTONE", str(ROOT / "build/release/isotone"))
VOCAB, EMBED, MLP, LAYERS, HEADS, KV_HEADS, WIDTH = 260, 64, 96, 2, 4, 2, 16
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def byte_letters():
    """The letter that byte-level vocabularies write each byte as."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


# What config.json says of other families. Qwen3 is silent about the heads' width, so that it is 128; its second layer with
# experts has none.
FAMILIES = {
    "llama": {},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": None},
    "qwen3_moe": {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 5, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 24, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [1]},
}


def weights(seed=5, poison=None, family="llama"):
    """{name: (shape, floats)}; poison: {name: what becomes of its floats}."""
    generator = random.Random(seed)
    shapes = {"model.embed_tokens.weight": [VOCAB, EMBED], "model.norm.weight": [EMBED]}
    width = 128 if family == "qwen3" else WIDTH
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        shapes |= {p + "input_layernorm.weight": [EMBED], p + "post_attention_layernorm.weight": [EMBED],
                   p + "self_attn.q_proj.weight": [HEADS * width, EMBED], p + "self_attn.k_proj.weight": [KV_HEADS * width, EMBED],
                   p + "self_attn.v_proj.weight": [KV_HEADS * width, EMBED], p + "self_attn.o_proj.weight": [EMBED, HEADS * width],
                   p + "mlp.gate_proj.weight": [MLP, EMBED], p + "mlp.up_proj.weight": [MLP, EMBED], p + "mlp.down_proj.weight": [EMBED, MLP]}
        if family != "llama":
            shapes |= {p + f"self_attn.{x}_norm.weight": [width] for x in "qk"}
        if family == "qwen3_moe" and i not in FAMILIES[family]["mlp_only_layers"]:
            for part in ("gate", "up", "down"):
                rows, columns = shapes.pop(p + f"mlp.{part}_proj.weight")
                small = [24 if n == MLP else n for n in (rows, columns)]
                shapes |= {p + f"mlp.experts.{x}.{part}_proj.weight": small for x in range(5)}
            shapes[p + "mlp.gate.weight"] = [5, EMBED]
    out = {}
    for name, shape in shapes.items():
        n = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = [1.0] * n if len(shape) == 1 else [generator.gauss(0, 0.08) for _ in range(n)]
        if poison and name in poison:
            values = poison[name](values)
        out[name] = (shape, values)
    return out


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def make_model(folder, poison=None, family="llama"):
    folder.mkdir(parents=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": EMBED, "intermediate_size": MLP,
              "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": WIDTH, "rms_norm_eps": 1e-05,
              "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": True, "hidden_act": "silu", "bos_token_id": 256,
              "eos_token_id": 257}
    config = {key: value for key, value in (config | FAMILIES[family]).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    special = ["<|start|>", "<|end|>", "<|im_start|>", "<|im_end|>"]
    letters = byte_letters()
    added = [{"id": 256 + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, s in enumerate(special)]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, "post_processor": None,
                 "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                           "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                           "vocab": {letters[b]: b for b in range(256)} | {s: 256 + i for i, s in enumerate(special)}, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|start|>",
                                                              "eos_token": "<|end|>", "chat_template": TEMPLATE}))
    write_safetensors(folder / "model.safetensors", weights(poison=poison, family=family))
    return folder


def make_text(path, documents=30, seed=1):
    words = "the sea is deep and old a ship went out at night with lamps of green and red nobody saw it come home again".split()
    generator = random.Random(seed)
    texts = [" ".join(generator.choice(words) for _ in range(generator.randint(5, 120))) for _ in range(documents)]
    path.write_text("\n\f\n".join(texts) + "\n")
    return path


CHATS = [[("user", "Who sails?"), ("assistant", "The old ship sails."), ("user", "And <|im_end|> who?"), ("assistant", "Nobody.")],
         [("system", "Be brief."), ("user", "Colour of the sea?"), ("assistant", "Grün.")]]


def make_chats(path):
    lines = [json.dumps({"messages": [{"role": r, "content": c} for r, c in chat]}) for chat in CHATS]
    path.write_text("\n".join(lines) + "\n")
    return path


def recipe(path, model, files, **changes):
    """Writes a recipe; changes are section__key=value, None leaves a key out."""
    keys = {"model__path": str(model), "data__kind": "text", "data__files": [str(f) for f in files], "data__grain_tokens": 128, "batch__rounds": 2,
            "batch__grains": 3, "optimiser__lr": 3e-3, "schedule__kind": "cosine", "schedule__warmup": 1, "train__steps": 6, "train__dtype": "f32",
            "train__seed": 3, "train__checkpoint_every": 2, "train__keep": 3, "train__out": str(path.with_suffix(".run"))} | changes
    sections = {}
    for key, value in keys.items():
        if value is not None:
            section, name = key.split("__")
            sections.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
    path.write_text("".join(f"[{s}]\n" + "\n".join(lines) + "\n\n" for s, lines in sections.items()))
    return path


def run(*arguments, preexec=None, **environment):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=600, env={**os.environ, **environment},
                          stdin=subprocess.DEVNULL, preexec_fn=preexec)


def ok(*arguments, **environment):
    done = run(*arguments, **environment)
    assert done.returncode == 0, (arguments, environment, done.returncode, done.stdout, done.stderr)
    return done


def metrics(folder):
    """By step; when several lines are of one step, that is a fault."""
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    out = {line["step"]: line for line in lines}
    assert len(out) == len(lines) and list(out) == sorted(out), list(out)
    return out


def losses(folder):
    return [(m["step"], m["loss"], m["grad_norm"], m["lr"], m["tokens"], m["batch_sha256"], m.get("eval_loss")) for m in metrics(folder).values()]


def checkpoints(folder):
    return sorted(p for p in pathlib.Path(folder).iterdir() if p.name.startswith("step-"))


def hashes(folder):
    """Of the weights and of the optimiser's state in the newest checkpoint."""
    newest = checkpoints(folder)[-1]
    return [newest.name] + [ok("inspect", "--sha256", newest / f).stdout.split()[0] for f in ("model.safetensors", "optimiser.safetensors")]
