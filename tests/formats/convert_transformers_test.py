#!/usr/bin/env python3
"""`isotone convert` of the real model: the folder answers as the .gguf file does, bit by bit, and both give the greedy text
that `transformers` gives (32 tokens of each chat prompt in tests/goldens/smollm2.json). Needs the program (ISOTONE) and the
model; says so and exits 0 without the model. convert_transformers_slow_test.py runs transformers itself on the folder."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ISOTONE", str(ROOT / "build/release/isotone"))
MODEL = pathlib.Path(os.environ.get("ISOTONE_MODEL", ROOT / ".cache/models/smollm2-135m-instruct.gguf"))
GOLDEN = json.loads((ROOT / "tests/goldens/smollm2.json").read_text())["prompts"]
TOLERANCE = 2e-3  # of a log-probability between two f32 programs that sum in different orders


def isotone(*arguments, status=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stdout if status == 0 else done.stderr


def generate(model, *arguments):
    return json.loads(isotone("generate", model, *arguments, "--temperature", 0, "--json"), parse_float=str)


def convert(folder, dtype="f32"):
    out = pathlib.Path(folder) / f"model-{dtype}"
    report = json.loads(isotone("convert", MODEL, out, "--dtype", dtype, "--json"))
    assert report["sha256"] == isotone("inspect", "--sha256", out).strip()
    assert report["parameters"] == 134515008 and report["tensors"] == 272, report
    return out


def check_greedy_text(folder):
    for prompt in GOLDEN:
        ids = ("--tokens", ",".join(map(str, prompt["ids"])), "-n", 32, "--ignore-eos", "--dtype", "f32")
        ours = generate(folder, *ids)
        assert ours["tokens"] == prompt["greedy"], (prompt["text"], ours["tokens"], prompt["greedy"])
        worst = max(abs(float(a) - b) for a, b in zip(ours["logprobs"], prompt["logprobs"]))
        assert worst < TOLERANCE, (prompt["text"], worst)
        gguf = generate(MODEL, *ids)
        assert (gguf["tokens"], gguf["logprobs"]) == (ours["tokens"], ours["logprobs"]), prompt["text"]
        print(f"{prompt['greedy'][:4]}...: 32 tokens equal, log-probabilities within {worst:.1e}")


def check_texts(folder):
    """The written tokenizer and chat template make the ids that transformers makes."""
    for prompt in GOLDEN:
        if len(prompt["messages"]) == 1:
            found = generate(folder, "--chat", "-p", prompt["messages"][0]["content"], "-n", 8, "--ignore-eos", "--dtype", "f32")
            assert found["prompt_tokens"] == len(prompt["ids"]) and found["tokens"] == prompt["greedy"][:8], (prompt["text"], found)


def check_nothing_is_overwritten(folder):
    before = isotone("inspect", "--sha256", folder)
    error = isotone("convert", MODEL, folder, status=1)
    assert "already there" in error, error
    assert isotone("inspect", "--sha256", folder) == before
    assert sorted(p.name for p in folder.parent.iterdir()) == [folder.name]


def main():
    if not MODEL.exists():
        print("skipped: no", MODEL, "(make setup)")
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("ISOTONE_BUILD")) as work:
        folder = convert(work)
        check_nothing_is_overwritten(folder)
        check_greedy_text(folder)
        check_texts(folder)


if __name__ == "__main__":
    sys.exit(main())
