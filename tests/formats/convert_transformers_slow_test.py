#!/usr/bin/env python3
"""`transformers` itself loads the folder that `isotone convert` writes, in f32, bf16 and f16: in f32 its greedy text equals
ours, its ids and rendered chats equal the goldens. Uses the environment of the bench (bench/setup_peers.sh) where it is,
else makes .cache/venv-transformers; says so and exits 0 where that cannot be."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import convert_transformers_test as ours  # noqa: E402

PACKAGES = ["torch", "transformers", "safetensors"]


def python_with_transformers():
    for name in ("bench", "transformers"):
        python = ours.ROOT / f".cache/venv-{name}/bin/python"
        if python.exists() and subprocess.run([python, "-c", "import torch, transformers"], capture_output=True).returncode == 0:
            return python
    done = subprocess.run(["bash", ours.ROOT / "tools/venv.sh", "transformers", *PACKAGES])
    if done.returncode != 0:
        print("skipped: torch and transformers cannot be installed here")
        sys.exit(0)
    return ours.ROOT / ".cache/venv-transformers/bin/python"


def inside(work):
    import torch
    import transformers

    torch.set_num_threads(2)
    for dtype in ("f32", "bf16", "f16"):
        folder = ours.convert(work, dtype)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        wanted = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
        assert model.dtype == wanted, (dtype, model.dtype)
        for prompt in ours.GOLDEN:
            text = tokenizer.apply_chat_template(prompt["messages"], tokenize=False, add_generation_prompt=True)
            assert text == prompt["text"], (text, prompt["text"])
            assert tokenizer(text)["input_ids"] == prompt["ids"], prompt["text"]
            if dtype != "f32":
                continue  # other roundings, other text; loading is what is shown
            ids = torch.tensor([prompt["ids"]])
            with torch.no_grad():
                theirs = model.generate(ids, max_new_tokens=32, min_new_tokens=32, do_sample=False, eos_token_id=None,
                                        attention_mask=torch.ones_like(ids), pad_token_id=tokenizer.eos_token_id)
            found = ours.generate(folder, "--tokens", ",".join(map(str, prompt["ids"])), "-n", 32, "--ignore-eos", "--dtype", "f32")
            assert found["tokens"] == theirs[0, ids.shape[1]:].tolist(), (prompt["text"], found["tokens"], theirs)
        print(f"{dtype}: loaded by transformers {transformers.__version__}, {len(ours.GOLDEN)} chats")


def main():
    if not ours.MODEL.exists():
        print("skipped: no", ours.MODEL, "(make setup)")
    elif sys.argv[1:] == ["inside"]:
        with tempfile.TemporaryDirectory(dir=os.environ.get("ISOTONE_BUILD")) as work:
            inside(work)
    else:
        python = str(python_with_transformers())
        os.execv(python, [python, __file__, "inside"])


if __name__ == "__main__":
    main()
