#!/usr/bin/env python3
"""Writes what the peers read from the one Q4_1 GGUF file: a bf16 and a q8_0 GGUF for llama.cpp and a Hugging Face
folder in f32 for PyTorch. Deliberately shares nothing with the C++ readers: it is also the oracle of `isotone convert`.

usage: make_peer_models.py [SOURCE.gguf] [FOLDER]   (default: .cache/models/smollm2-135m-instruct.gguf and its folder)
"""
import json
import os
import sys

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

HF_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def field(reader, key, default=None):
    found = reader.fields.get(key)
    return default if found is None else found.contents()


def hf_name(name):
    """GGUF tensor name to the name in a Hugging Face Llama checkpoint."""
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    if name == "output.weight":
        return "lm_head.weight"
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{HF_NAMES[part]}.weight"


def unpermute(rows, heads):
    """GGUF keeps the rows of q and k with the two halves of each head interleaved; Hugging Face rotates halves."""
    out, features = rows.shape
    return rows.reshape(heads, out // heads // 2, 2, features).swapaxes(1, 2).reshape(out, features)


def write_gguf(reader, values, path, kind):
    """A copy of the file with every 2-D tensor as `kind`; metadata is carried over, norms stay f32."""
    writer = gguf.GGUFWriter(path + ".part", field(reader, "general.architecture"))
    file_type = {gguf.GGMLQuantizationType.BF16: gguf.LlamaFileType.MOSTLY_BF16, gguf.GGMLQuantizationType.Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0}[kind]
    for key, item in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = int(file_type) if key == "general.file_type" else item.contents()
        sub = item.types[1] if item.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, item.types[0], sub)
    for tensor in reader.tensors:
        array = values[tensor.name]
        if array.ndim < 2:
            writer.add_tensor(tensor.name, array)
        elif tensor.tensor_type == kind:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)


def tokenizer_json(reader):
    """A byte-level BPE tokenizer.json from the GGUF's tokens, merges and pre-tokenizer name."""
    if field(reader, "tokenizer.ggml.model") != "gpt2" or field(reader, "tokenizer.ggml.pre") != "smollm":
        raise SystemExit("make_peer_models: only byte-level BPE with the smollm pre-tokenizer is known here")
    tokens = field(reader, "tokenizer.ggml.tokens")
    kinds = field(reader, "tokenizer.ggml.token_type")
    added = [
        {"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind == 3
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {t: i for i, t in enumerate(tokens)},
            "merges": [list(m.split(" ", 1)) for m in field(reader, "tokenizer.ggml.merges")],
        },
    }


def write_hf(reader, values, folder):
    """config.json, model.safetensors (f32) and the tokenizer's files."""
    from safetensors.numpy import save_file

    os.makedirs(folder, exist_ok=True)
    heads = field(reader, "llama.attention.head_count")
    kv_heads = field(reader, "llama.attention.head_count_kv")
    tokens = field(reader, "tokenizer.ggml.tokens")
    tensors = {}
    for name, array in values.items():
        if ".attn_q." in name:
            array = unpermute(array, heads)
        elif ".attn_k." in name:
            array = unpermute(array, kv_heads)
        tensors[hf_name(name)] = np.ascontiguousarray(array, dtype=np.float32)
    bos, eos, pad, unk = (field(reader, f"tokenizer.ggml.{k}_token_id") for k in ("bos", "eos", "padding", "unknown"))
    # The float stored in the file is the f32 nearest to a short decimal; config.json holds the decimal.
    short = lambda x: float(f"{x:.7g}")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field(reader, "llama.embedding_length"),
        "intermediate_size": field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": field(reader, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": field(reader, "llama.embedding_length") // heads,
        "vocab_size": len(tokens),
        "max_position_embeddings": field(reader, "llama.context_length"),
        "rms_norm_eps": short(field(reader, "llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": short(field(reader, "llama.rope.freq_base")),
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in values,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "pad_token_id": pad,
        "torch_dtype": "float32",
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[bos],
        "eos_token": tokens[eos],
        "pad_token": tokens[pad],
        "unk_token": tokens[unk],
        "model_max_length": field(reader, "llama.context_length"),
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        "chat_template": field(reader, "tokenizer.chat_template"),
    }
    for name, content in (("config.json", config), ("tokenizer.json", tokenizer_json(reader)), ("tokenizer_config.json", tokenizer_config),
                          ("generation_config.json", {"bos_token_id": bos, "eos_token_id": eos, "pad_token_id": pad})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            json.dump(content, out, ensure_ascii=False, indent=None if name == "tokenizer.json" else 2)
    # Last, so that its presence says that the folder is whole.
    save_file(tensors, os.path.join(folder, "model.safetensors.part"), metadata={"format": "pt"})
    os.replace(os.path.join(folder, "model.safetensors.part"), os.path.join(folder, "model.safetensors"))


def main():
    source = sys.argv[1] if len(sys.argv) > 1 else ".cache/models/smollm2-135m-instruct.gguf"
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(source)
    if not os.path.exists(source):
        raise SystemExit(f"make_peer_models: {source} is not there; run `make setup` first")
    stem = os.path.join(folder, os.path.basename(source)[: -len(".gguf")])
    wanted = [(stem + "-bf16.gguf", gguf.GGMLQuantizationType.BF16), (stem + "-q8_0.gguf", gguf.GGMLQuantizationType.Q8_0)]
    wanted = [w for w in wanted if not os.path.exists(w[0])]
    hf = os.path.join(folder, "smollm2-hf")
    need_hf = not os.path.exists(os.path.join(hf, "model.safetensors"))
    if not wanted and not need_hf:
        return
    reader = gguf.GGUFReader(source)
    values = {t.name: np.asarray(dequantize(t.data, t.tensor_type), dtype=np.float32).reshape(tuple(reversed(t.shape.tolist()))) for t in reader.tensors}
    for path, kind in wanted:
        write_gguf(reader, values, path, kind)
        print("wrote", path)
    if need_hf:
        write_hf(reader, values, hf)
        print("wrote", hf)


if __name__ == "__main__":
    main()
