#!/usr/bin/env python3
"""What can go wrong with `isotone train` ends in one clear message, exit code 1, and whole checkpoints."""
import pathlib
import resource
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bits"))
import tiny_run as t  # noqa: E402


def fails(arguments, *says, **more):
    done = t.run("train", *arguments, **more)
    assert done.returncode == 1, (arguments, done.returncode, done.stdout, done.stderr)
    assert "isotone: error: " in done.stderr and "terminate called" not in done.stderr, done.stderr
    for text in says:
        assert text in done.stderr, (says, done.stderr)
    return done.stderr


def check_recipes(folder, model, text):
    def bad(*says, **changes):
        path = t.recipe(folder / "bad.toml", model, [text], **changes)
        fails([path], "bad.toml", *says)

    bad("optimiser.lrr", "did you mean 'optimiser.lr'", optimiser__lrr=1.0)
    bad("trian.steps", "train.steps", trian__steps=3)
    bad("batch.grain'", "batch.grains", batch__grain=3)
    bad("optimiser.lr", "-1", optimiser__lr=-1.0)
    bad("optimiser.lr", "number", optimiser__lr="fast")
    bad("optimiser.beta2", "1", optimiser__beta2=1.0)
    bad("train.steps", "0", train__steps=0)
    bad("train.steps", "whole number", train__steps=2.5)
    bad("train.dtype", "fp8", "f32, bf16", train__dtype="fp8")
    bad("schedule.kind", "cosine", "wsd", schedule__kind="cosin")
    bad("data.grain_tokens", "100", "64", data__grain_tokens=100)
    bad("data.files", data__files=[])
    bad("schedule.warmup", "train.steps", schedule__warmup=6)
    bad("validation", train__eval_every=2)
    bad("model", model__path=None)
    bad("tokenizer", model__path=None, model__config=str(model / "config.json"))
    bad("train.recompute", "layer", train__recompute="some")
    broken = folder / "broken.toml"
    broken.write_text("[train]\nsteps = = 3\n")
    fails([broken], "broken.toml", "line 2")
    broken.write_text("steps = 3\n")
    fails([broken], "broken.toml", "steps", "section")
    broken.write_bytes(b"\xff\xfe\x00")
    fails([broken], "broken.toml")
    fails([folder / "nowhere.toml"], "nowhere.toml")
    fails([folder], str(folder))
    print("recipes: key, found, allowed, and the nearest name")


def check_data(folder, model, text):
    def bad(content, *says, kind="text", **changes):
        path = folder / "data.txt"
        path.write_bytes(content)
        fails([t.recipe(folder / "d.toml", model, [path], data__kind=kind, **changes)], "data.txt", *says)

    bad(b"", "no text")
    bad(b"ab\xffcd\n", "UTF-8")
    bad(b"", "no conversation", kind="chat")
    bad(b'{"messages": [{"role": "user", "content": "x"}]}\n', "line 1", "assistant", kind="chat")
    bad(b'{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}\n{"messages"\n', "line 2", kind="chat")
    bad(b'{"messages": [{"role": "assistant", "content": 3}]}\n', "line 1", "content", kind="chat")
    bad(b'[1, 2]\n', "line 1", kind="chat")
    fails([t.recipe(folder / "m.toml", model, [folder / "nowhere.txt"])], "nowhere.txt")
    fails([t.recipe(folder / "m.toml", folder / "no-model", [text])], "no-model")
    fails([t.recipe(folder / "m.toml", model, [text], data__grain_tokens=1024)], "1024", "512")
    print("data: file, line and rule")


def small_files():
    """Files of at most 100 kB, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def check_disk(folder, model, text):
    (folder / "file").write_text("not a folder")
    recipe = t.recipe(folder / "disk.toml", model, [text])
    fails([recipe, "--out", folder / "file"], str(folder / "file"))
    fails([recipe, "--out", folder / "file" / "below"], str(folder / "file"))
    fails([recipe, "--out", "/proc/isotone-run"], "/proc/isotone-run")
    out = folder / "full"
    fails([recipe, "--out", out], str(out), preexec=small_files)
    assert t.checkpoints(out) == [], "no half checkpoint may stay"
    assert all(p.name in ("metrics.jsonl", "loss.svg", "run.lock", "workers.jsonl") for p in out.iterdir()), list(out.iterdir())
    t.ok("train", recipe, "--out", out, "--quiet")
    whole = t.hashes(out)
    # A full disk in the middle: what was saved stays whole, and the run goes on to the same bits once there is room.
    out = folder / "full-later"
    t.ok("train", recipe, "--out", out, "--quiet", "--stop-after", 2)
    fails([recipe, "--out", out], str(out), preexec=small_files)
    assert [c.name for c in t.checkpoints(out)] == ["step-000002"], t.checkpoints(out)
    t.ok("train", recipe, "--out", out, "--quiet")
    assert t.hashes(out) == whole
    print("disk: full, not a folder, not writable")


def check_resume(folder, model, text):
    recipe = t.recipe(folder / "one.toml", model, [text], train__steps=2)
    t.ok("train", recipe, "--quiet")
    other = t.recipe(folder / "other.toml", model, [text], train__steps=2, optimiser__lr=1e-3)
    fails([other, "--out", folder / "one.run"], "another recipe", "step-000002")
    fails([recipe, "--resume", "never"], "one.run", "--out")
    fails([recipe, "--resume", folder / "nothing"], "nothing")
    print("resuming: another recipe, never, nothing there")


def check_faults(folder, text):
    nan = t.make_model(folder / "nan", {"model.layers.1.mlp.up_proj.weight": lambda v: [float("nan")] + v[1:]})
    said = fails([t.recipe(folder / "nan.toml", nan, [text])], "model.layers.1.mlp.up_proj.weight", "step 0")
    assert "NaN" in said, said
    assert t.checkpoints(folder / "nan.run") == [], "nothing that is not finite is saved"
    norm, table = "model.norm.weight", "model.embed_tokens.weight"
    for i, (poison, says) in enumerate((({norm: lambda v: [3e38] * len(v)}, "the last hidden state"),
                                        ({norm: lambda v: [1e36] * len(v), table: lambda v: [1e4 * x for x in v]}, "logits"),
                                        ({norm: lambda v: [1e30] * len(v)}, "overflows"))):
        huge = t.make_model(folder / f"huge{i}", poison)
        fails([t.recipe(folder / f"huge{i}.toml", huge, [text])], says, "step 0")
    print("not finite: the first tensor and the step are named")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        check_recipes(folder, model, text)
        check_data(folder, model, text)
        check_disk(folder, model, text)
        check_resume(folder, model, text)
        check_faults(folder, text)
    done = t.run("train")
    assert done.returncode == 2, done


if __name__ == "__main__":
    main()
