#!/usr/bin/env python3
"""Qwen3 through the commands, dense (its heads 128 wide because config.json is silent) and with experts: training from a folder
and from nothing, stopped and resumed to the same bits, checkpoints under Hugging Face's names, scores and answers that do not
depend on threads and instruction set, and clear errors where an expert is missing."""
import json
import pathlib
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tiny_run as t  # noqa: E402


def shapes(path):
    return {x["name"]: x["shape"] for x in json.loads(t.ok("inspect", "--json", path).stdout)["tensors"]}


def check_training(work, family, model, text):
    whole = t.recipe(work / "whole.toml", model, [text])
    parts = t.recipe(work / "parts.toml", model, [text])
    t.ok("train", whole)
    t.ok("train", parts, "--stop-after", 3)
    t.ok("train", parts, ISOTONE_ISA="scalar")
    assert t.losses(work / "whole.run") == t.losses(work / "parts.run")
    assert t.hashes(work / "whole.run") == t.hashes(work / "parts.run")
    newest = t.checkpoints(work / "whole.run")[-1]
    assert shapes(newest / "model.safetensors") == {name: shape for name, (shape, _) in t.weights(family=family).items()}
    first, last = (t.metrics(work / "whole.run")[i]["loss"] for i in (1, 6))
    assert last < first, (first, last)
    told = json.loads((newest / "config.json").read_text())
    assert all(told[key] == value for key, value in t.FAMILIES[family].items() if value is not None), told
    # From nothing, by the checkpoint's config.json.
    fresh = t.recipe(work / "fresh.toml", model, [text], model__path=None, model__config=str(newest / "config.json"),
                     model__tokenizer=str(model), train__steps=2, train__dtype="bf16")
    t.ok("train", fresh)
    return newest


def check_answers(model):
    def generate(*more, **environment):
        return json.loads(t.ok("generate", model, "-p", "the sea is", "-n", 8, "--temperature", 0, "--ignore-eos", "--json", *more,
                               **environment).stdout)["tokens"]

    expected = generate()
    assert len(expected) == 8, expected
    assert generate("--threads", 1) == expected and generate(ISOTONE_ISA="scalar") == expected
    text = model / "scored.txt"
    text.write_text("the sea is deep and old\n")
    scores = [t.ok("score", model, text, "--json", "--per-token", **e).stdout for e in ({}, {"ISOTONE_ISA": "scalar"})]
    assert scores[0] == scores[1] and json.loads(scores[0])["perplexity"] > 1, scores
    assert "embedding" in t.ok("devices", "--explain", model).stdout


def check_balance_loss(work, model, text):
    plain, balanced = (t.recipe(work / f"{name}.toml", model, [text], train__steps=2, **more)
                       for name, more in (("plain", {}), ("balanced", {"train__balance_loss": 0.5})))
    t.ok("train", plain)
    t.ok("train", balanced)
    found = [t.metrics(work / f"{name}.run")[2] for name in ("plain", "balanced")]
    assert "balance_loss" not in found[0] and 1.9 < found[1]["balance_loss"] < 5, found
    assert found[0]["loss"] != found[1]["loss"], found
    config = json.loads((model / "config.json").read_text()) | {"output_router_logits": True, "router_aux_loss_coef": 0.5}
    (model / "config.json").write_text(json.dumps(config))
    t.ok("train", plain, "--out", work / "by_config")
    assert t.metrics(work / "by_config")[2]["balance_loss"] == found[1]["balance_loss"]


def check_errors(work):
    model = t.make_model(work / "broken", family="qwen3_moe")
    name = "model.layers.0.mlp.experts.3.up_proj.weight"
    for change, says in ((lambda w: w.pop(name), f"lack the tensor '{name}'"),
                         (lambda w: w.update({name: ([24, 32], w[name][1][: 24 * 32])}), f"tensor '{name}' is [24, 32]")):
        tensors = t.weights(family="qwen3_moe")
        change(tensors)
        t.write_safetensors(model / "model.safetensors", tensors)
        done = t.run("score", model, "-")
        assert done.returncode == 1 and says in done.stderr, (says, done)


def write_gguf(path, family):
    """The family's tiny model as llama.cpp writes it: its names, all experts of a layer in one tensor."""
    arch = family.replace("_", "")
    names = {"embed_tokens": "token_embd", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "o_proj": "attn_output"}
    names |= {f"{x}_proj": f"attn_{x}" for x in "qkv"} | {f"{x}_norm": f"attn_{x}_norm" for x in "qk"} | {"gate": "ffn_gate_inp"}
    names |= {f"{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")}
    tensors = {}
    for name, (shape, values) in t.weights(family=family).items():
        parts = name.split(".")
        own = names.get(parts[-2], "output_norm") + ("_exps" if "experts" in parts else "") + ".weight"
        own = f"blk.{parts[2]}.{own}" if "layers" in parts else own
        if "experts" in parts:
            shape, values = [5, *shape], tensors.get(own, (0, []))[1] + values
        tensors[own] = (shape, values)

    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    letters = t.byte_letters()
    tokens = [letters[b] for b in range(256)] + ["<|start|>", "<|end|>", "<|im_start|>", "<|im_end|>"]
    keys = {"block_count": t.LAYERS, "context_length": 512, "embedding_length": t.EMBED, "feed_forward_length": t.MLP,
            "attention.head_count": t.HEADS, "attention.head_count_kv": t.KV_HEADS, "attention.key_length": 128 if family == "qwen3" else t.WIDTH}
    if family == "qwen3_moe":
        keys |= {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 24}
    pairs = [text(f"{arch}.{key}") + struct.pack("<II", 4, value) for key, value in keys.items()]
    pairs += [text(f"{arch}.{key}") + struct.pack("<If", 6, value) for key, value in (("rope.freq_base", 1e4), ("attention.layer_norm_rms_epsilon", 1e-5))]
    pairs += [text(key) + struct.pack("<I", 8) + text(value) for key, value in
              (("general.architecture", arch), ("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "qwen2"))]
    pairs.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, len(tokens)) + b"".join(map(text, tokens)))
    pairs.append(text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, len(tokens)) + struct.pack("<260i", *[1] * 256, *[3] * 4))
    pairs.append(text("tokenizer.ggml.merges") + struct.pack("<IIQ", 9, 8, 0))
    infos, data = b"", b""
    for name, (shape, values) in tensors.items():
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), 0, len(data))
        data += struct.pack(f"<{len(values)}f", *values)
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def check_convert(work, family, model):
    """A GGUF file, the folder made of it, and a folder with the same weights answer alike."""
    path = write_gguf(work / "model.gguf", family)
    t.ok("convert", path, work / "converted", "--dtype", "f32")
    assert shapes(work / "converted") == {name: shape for name, (shape, _) in t.weights(family=family).items()}
    answers = [json.loads(t.ok("generate", m, "--tokens", "10,20,30", "-n", 6, "--temperature", 0, "--ignore-eos", "--json").stdout)["tokens"]
               for m in (path, work / "converted", model)]
    assert answers[0] == answers[1] == answers[2], answers
    if family == "qwen3_moe":
        raw = path.read_bytes()
        for old, new, says in ((struct.pack("<II", 4, 5), struct.pack("<II", 4, 4), "matrices of 4 experts were expected"),
                               (struct.pack("<II", 4, 2), struct.pack("<II", 4, 7), "num_experts_per_tok is 7, from 1 to 5 was expected")):
            key = b"expert_count" if new[-4] == 4 else b"expert_used_count"
            at = raw.index(key) + len(key)
            assert raw[at : at + 8] == old
            path.write_bytes(raw[:at] + new + raw[at + 8 :])
            done = t.run("score", path, "-")
            assert done.returncode == 1 and says in done.stderr, (says, done)


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        text = t.make_text(work / "text.txt")
        for family in ("qwen3", "qwen3_moe"):
            (work / family).mkdir()
            model = t.make_model(work / family / "model", family=family)
            check_answers(check_training(work / family, family, model, text))
            if family == "qwen3_moe":
                check_balance_loss(work / family, model, text)
            untouched = t.make_model(work / family / "untouched", family=family)
            check_convert(work / family, family, untouched)
            print(family, "trains, resumes, scores, answers and converts")
        check_errors(work)


if __name__ == "__main__":
    main()
