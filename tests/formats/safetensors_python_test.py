#!/usr/bin/env python3
"""safetensors written by us is read by the Python package and the reverse; a converted GGUF equals what the Python
package `gguf` dequantises, with rows put in Hugging Face order by code of its own. Makes .cache/venv-formats."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / ".cache" / "venv-formats"
MODEL = ROOT / ".cache" / "models" / "smollm2-135m-instruct.gguf"
BUILD = pathlib.Path(os.environ.get("ISOTONE_BUILD", ROOT / "build" / "release"))


def enter_environment() -> None:
    """Runs this script again under the environment's Python, which is made first where it is missing."""
    python = VENV / "bin" / "python"
    probe = [str(python), "-c", "import gguf, numpy, safetensors"]
    if not python.exists() or subprocess.run(probe, capture_output=True).returncode != 0:
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        done = subprocess.run([str(python), "-m", "pip", "install", "-q", "gguf", "numpy", "safetensors"])
        if done.returncode != 0:
            print("skipped: the Python packages cannot be installed here")
            sys.exit(0)
    os.execv(python, [str(python), __file__, "inside"])


def run_ours(*arguments: str) -> None:
    done = subprocess.run([str(BUILD / "formats_interop"), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stdout + done.stderr)


SHAPES = {"f32": (3, 5), "f16": (7,), "bf16": (2, 2), "i8": (9,), "u8": (1, 1, 3), "i32": (4,), "i64": (2,),
          "bool": (5,), "scalar": (), "empty": (0, 4), "größe/名": (1,)}
NUMPY = {"f32": "float32", "f16": "float16", "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64",
         "bool": "bool", "scalar": "float32", "empty": "float32", "größe/名": "float32"}


def expected(name: str):
    import numpy as np

    shape = SHAPES[name]
    values = (np.arange(int(np.prod(shape))) * 7 + 3) % 100 - 50
    values = values & 1 if name == "bool" else values + 50 if name == "u8" else values
    return values.reshape(shape)


def check_ours_is_read(folder: str) -> None:
    import numpy as np
    from safetensors import safe_open

    run_ours("write", folder)
    with safe_open(folder + "/ours.safetensors", framework="np") as file:
        assert set(file.keys()) == set(SHAPES), file.keys()
        assert file.metadata() == {"format": "pt", "note": '"x"\n'}, file.metadata()
        for name, dtype in NUMPY.items():
            got = file.get_tensor(name)
            assert got.dtype == np.dtype(dtype) and got.shape == SHAPES[name], (name, got.dtype, got.shape)
            assert np.array_equal(got, expected(name).astype(dtype)), name
        assert file.get_slice("bf16").get_dtype() == "BF16"
        assert tuple(file.get_slice("bf16").get_shape()) == (2, 2)
    print("read by the Python package:", len(SHAPES), "tensors")


def check_theirs_is_read(folder: str) -> None:
    from safetensors.numpy import save_file

    save_file({name: expected(name).astype(dtype) for name, dtype in NUMPY.items()},
              folder + "/theirs.safetensors", metadata={"note": '"x"\n'})
    run_ours("read", folder)
    print("read from the Python package:", len(NUMPY), "tensors")


def check_conversion(folder: str) -> None:
    import gguf
    import numpy as np
    from safetensors import safe_open

    if not MODEL.exists():
        print("skipped: no", MODEL, "(make setup)")
        return
    run_ours("convert", folder, str(MODEL))
    out = pathlib.Path(folder) / "converted"
    config = json.loads((out / "config.json").read_text())
    index = json.loads((out / "model.safetensors.index.json").read_text())["weight_map"]
    files = {name: safe_open(str(out / name), framework="np") for name in set(index.values())}
    inner = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    compared = 0
    for tensor in gguf.GGUFReader(MODEL).tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        part = tensor.name.split(".")
        if part[0] == "blk":
            name = f"model.layers.{part[1]}.{inner[part[2]]}.{part[3]}"
        else:
            name = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}[part[0]] + ".weight"
        if part[0] == "blk" and part[2] in ("attn_q", "attn_k"):
            heads = config["num_attention_heads" if part[2] == "attn_q" else "num_key_value_heads"]
            rows, columns = values.shape
            values = values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
        got = files[index[name]].get_tensor(name)
        assert got.shape == values.shape and got.tobytes() == values.tobytes(), name
        compared += 1
    assert compared == len(index) == 272, (compared, len(index))
    print("converted:", compared, "tensors equal bit for bit, in", len(files), "shards")


def main() -> None:
    if sys.argv[1:] != ["inside"]:
        enter_environment()
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        check_ours_is_read(folder)
        check_theirs_is_read(folder)
        check_conversion(folder)


if __name__ == "__main__":
    main()
