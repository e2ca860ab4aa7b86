#!/usr/bin/env python3
"""The command line as scripts see it: exit codes (0 done, 1 failed, 2 wrong usage), --help, --json, errors on standard
error, the JSON of `isotone generate`, and that its answer is the same whatever runs it. What needs the model says so and is
left out without it."""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ISOTONE", str(ROOT / "build/release/isotone"))
MODEL = pathlib.Path(os.environ.get("ISOTONE_MODEL", ROOT / ".cache/models/smollm2-135m-instruct.gguf"))


def run(*arguments, stdin="", **environment):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=600,
                          env={**os.environ, **environment})


def ok(*arguments, **environment):
    done = run(*arguments, **environment)
    assert done.returncode == 0, (arguments, environment, done.returncode, done.stderr)
    return done.stdout


def fails(status, *arguments, says="", **environment):
    """Nothing but the message, on standard error, and the exit code."""
    done = run(*arguments, **environment)
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and says in done.stderr and done.stderr.strip(), (arguments, done.stdout, done.stderr)
    assert "terminate called" not in done.stderr, done.stderr
    return done.stderr


def commands():
    text = ok("--help").split("Subcommands:")[1] if "Subcommands:" in ok("--help") else ok("--help").split("SUBCOMMANDS:")[1]
    return re.findall(r"^  (\w[\w-]*) ", text, re.M)


def write_safetensors(path, tensors):
    """{name: (dtype, shape, bytes)}, by the format's page and nobody's library."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def check_usage(names):
    assert "isotone 0." in ok("--version")
    for name in names:
        text = ok(name, "--help")
        assert "Examples:" in text and "--help" in text, (name, text)
        fails(2, name, "--no-such-flag")
        assert name in ok("--help")
    for name in ("inspect", "convert", "generate", "score", "chat", "serve"):
        fails(2, name)  # what it needs is missing
    fails(2)
    fails(2, "no-such-command")
    fails(2, "devices", "one", "two")
    fails(2, "convert", "a.gguf", "b", "--dtype", "i8")
    fails(2, "generate", "m.gguf", "-p", "x", "--temperature", "-1")
    fails(2, "generate", "m.gguf", "-p", "x", "--tokens", "1")
    fails(2, "generate", "m.gguf", "-p", "x", "--threads", "0")
    fails(2, "generate", "m.gguf", "-p", "x", "-n", "many")
    fails(1, "--device", "abacus", "devices", says="abacus")
    fails(1, "devices", "--explain", "nowhere.gguf", says="nowhere.gguf")
    fails(1, "devices", says="ISOTONE_ISA", ISOTONE_ISA="mmx")


def check_missing_and_damaged(work):
    nowhere, text = work / "nowhere", work / "text.gguf"
    text.write_text("this is no model")
    empty = work / "empty"
    empty.mkdir()
    for path in (nowhere, text, empty):
        for arguments in (("inspect",), ("inspect", "--sha256"), ("inspect", "--json"), ("generate", "-p", "x"), ("chat",), ("serve", "--port", "0")):
            says = path.name
            fails(1, arguments[0], path, *arguments[1:], says=says)
        fails(1, "score", path, text, says=path.name)
        fails(1, "convert", path, work / "out", says=path.name)
        assert not (work / "out").exists()
    if MODEL.exists():
        (work / "cut.gguf").write_bytes(MODEL.read_bytes()[:5_000_000])
        for command in (("inspect",), ("generate", "-p", "x"), ("convert", work / "out")):
            fails(1, command[0], work / "cut.gguf", *command[1:], says="cut.gguf")


def check_inspect(work):
    file = work / "two.safetensors"
    b, a = struct.pack("<4f", 1, 2, 3, 4), bytes(range(6))
    write_safetensors(file, {"b": ("F32", [2, 2], b), "a": ("BF16", [3], a)})
    listing = json.loads(ok("inspect", file, "--json"))
    assert [t["name"] for t in listing["tensors"]] == ["a", "b"] and listing["parameters"] == 7, listing
    assert "BF16" in ok("inspect", file)
    # The hash is of contents: another order in the file and a folder of two shards have the same one, one bit another.
    hash_ = ok("inspect", "--sha256", file).strip()
    assert re.fullmatch("[0-9a-f]{64}", hash_)
    assert json.loads(ok("inspect", "--sha256", "--json", file)) == {"sha256": hash_}
    folder = work / "sharded"
    folder.mkdir()
    write_safetensors(folder / "model-00001-of-00002.safetensors", {"a": ("BF16", [3], a)})
    write_safetensors(folder / "model-00002-of-00002.safetensors", {"b": ("F32", [2, 2], b)})
    index = {"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert ok("inspect", "--sha256", folder).strip() == hash_
    write_safetensors(file, {"b": ("F32", [2, 2], b[:-1] + b"\x41"), "a": ("BF16", [3], a)})
    assert ok("inspect", "--sha256", file).strip() != hash_


def check_devices():
    found = json.loads(ok("devices", "--json", "--explain", ISOTONE_THREADS="1"))
    cpu = found["devices"][0]
    assert cpu["name"] == "cpu" and cpu["threads"] == 1 and cpu["instruction_set"] in cpu["instruction_sets"], cpu
    ops = {op["name"]: op for op in found["ops"]}
    assert ops["contract"]["kernel"] > 0 and ops["add"]["kernel"] > 0 and len(ops) > 60, ops
    for op in ops.values():
        counts = [op["kernel"], op["reference"], op["decomposed"]]
        assert all(isinstance(n, int) and n >= 0 for n in counts) and (sum(counts) or op["name"] == "paged_attention"), op
    for isa in cpu["instruction_sets"]:
        assert json.loads(ok("devices", "--json", ISOTONE_ISA=isa))["devices"][0]["instruction_set"] == isa
    return cpu["instruction_sets"]


def check_generate(instruction_sets):
    prompt = ("--tokens", "1,504,2260,282,4649,314", "--temperature", "0", "--json")
    raw = ok("generate", MODEL, *prompt, "-n", "12")
    answer = json.loads(raw)
    assert set(answer) >= {"text", "tokens", "logprobs", "prompt_tokens", "timings"}, answer
    assert set(answer["timings"]) == {"load_s", "first_token_s", "prefill_tok_s", "decode_tok_s"}
    assert answer["prompt_tokens"] == 6 and 1 <= len(answer["tokens"]) == len(answer["logprobs"]) <= 12
    assert all(isinstance(t, int) for t in answer["tokens"]) and all(x <= 0 for x in answer["logprobs"])
    written = re.search(r'"logprobs": \[([^]]*)\]', raw).group(1).split(", ")
    assert written == ["%.9g" % float(x) for x in written], written

    def bits(*arguments, **environment):
        found = json.loads(ok(*arguments, **environment), parse_float=str)
        return found["tokens"], found["logprobs"], found["text"]

    for dtype in ("native", "f32", "bf16"):
        line = ("generate", MODEL, *prompt, "-n", "12", "--dtype", dtype)
        one = bits(*line, ISOTONE_THREADS="1")
        assert one == bits(*line, ISOTONE_THREADS="2") == bits(*line, "--threads", "3"), dtype
        for isa in instruction_sets:
            assert one == bits(*line, ISOTONE_ISA=isa), (dtype, isa)
        print(f"generate --dtype {dtype}: the same bits on 1, 2, 3 threads and {', '.join(instruction_sets)}")
    # The definition itself, one element at a time.
    short = ("generate", MODEL, "--tokens", "1,504", "--temperature", "0", "--json", "-n", "2")
    assert bits("--device", "interpreter", *short) == bits(*short) == bits(*short, "--device", "cpu")
    # Chance is a function of the seed.
    warm = ("generate", MODEL, "-p", "Once", "-n", "12", "--temperature", "1", "--json", "--seed")
    assert bits(*warm, "5") == bits(*warm, "5") != bits(*warm, "6")
    fails(1, "generate", MODEL, "--tokens", "1,99999999", says="99999999")
    fails(1, "generate", MODEL, "--tokens", "1,x", says="x")


def check_convert(work):
    out = work / "converted"
    report = json.loads(ok("convert", MODEL, out, "--dtype", "bf16", "--json"))
    assert report["dtype"] == "bf16" and report["sha256"] == ok("inspect", "--sha256", out).strip()
    fails(1, "convert", MODEL, out, says="already there")
    fails(1, "convert", out, work / "again", says="is a folder")
    fails(1, "convert", MODEL, "/proc/no-such-place/out", says="/proc/no-such-place")


def check_score(work):
    file = work / "text.txt"
    file.write_text("The sea is blue.")
    found = json.loads(ok("score", MODEL, file, "--json"))
    assert found["logprobs"][0] is None and len(found["logprobs"]) == len(found["tokens"]) and found["perplexity"] > 1
    fails(1, "score", MODEL, work / "no-text.txt", says="no-text.txt")


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("ISOTONE_BUILD")) as folder:
        work = pathlib.Path(folder)
        names = commands()
        assert {"chat", "convert", "devices", "generate", "inspect", "score", "serve"} <= set(names), names
        check_usage(names)
        check_missing_and_damaged(work)
        check_inspect(work)
        instruction_sets = check_devices()
        print("usage, errors, inspect, devices:", ", ".join(names))
        if not MODEL.exists():
            print("skipped: no", MODEL, "(make setup); generate, convert and score are left out")
            return
        check_generate(instruction_sets)
        check_convert(work)
        check_score(work)


if __name__ == "__main__":
    sys.exit(main())
