#!/usr/bin/env python3
"""A training run that is stopped, killed or damaged and goes on gives the bits of one that was not; so do other numbers of
threads and of grains at once. Its checkpoints are models."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import tiny_run as t


def flip_byte(path):
    raw = bytearray(path.read_bytes())
    raw[-1000] ^= 1
    path.write_bytes(raw)


def same(a, b, what):
    assert t.losses(a) == t.losses(b), (what, t.losses(a), t.losses(b))
    assert t.hashes(a) == t.hashes(b), (what, t.hashes(a), t.hashes(b))


def check_metrics(out):
    for step, m in t.metrics(out).items():
        assert {"step", "loss", "grad_norm", "lr", "tokens", "tok_s", "batch_sha256"} <= set(m), m
        assert len(m["batch_sha256"]) == 64 and m["loss"] > 0 and m["grad_norm"] > 0, m
    hashes = [m["batch_sha256"] for m in t.metrics(out).values()]
    assert len(set(hashes)) == len(hashes), "two steps saw the same batch"
    first, last = t.metrics(out)[1]["loss"], t.metrics(out)[max(t.metrics(out))]["loss"]
    assert last < first, (first, last)
    svg = (out / "loss.svg").read_text()
    assert svg.startswith("<svg") and "<path" in svg, svg[:200]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        validation = t.make_text(folder / "validation.txt", 4, seed=2)
        recipe = t.recipe(folder / "r.toml", model, [text], data__validation=[str(validation)], train__eval_every=3, train__eval_grains=2)
        whole = folder / "whole"
        done = t.ok("train", recipe, "--out", whole, "--json")
        report = json.loads(done.stdout)
        assert report["step"] == 6 and report["finished"] and pathlib.Path(report["checkpoint"]).name == "step-000006", report
        assert [c.name for c in t.checkpoints(whole)] == ["step-000002", "step-000004", "step-000006"], t.checkpoints(whole)
        assert [step for step, m in t.metrics(whole).items() if "eval_loss" in m] == [3, 6]
        check_metrics(whole)
        print("a whole run", t.hashes(whole)[1][:16])

        again = t.ok("train", recipe, "--out", whole, "--quiet")
        assert again.stdout == again.stderr == "", "a finished run has nothing to do"

        for flips, environment in ((["--micro-grains", 1], {}), (["--micro-grains", 2], {}), ([], {"ISOTONE_THREADS": "1"}),
                                   ([], {"ISOTONE_THREADS": "2"}), ([], {"ISOTONE_ISA": "scalar"}), ([], {"ISOTONE_SKIP_PASSES": "simplify"})):
            out = folder / ("flip" + "".join(map(str, flips)) + "".join(environment.values()))
            t.ok("train", recipe, "--out", out, "--quiet", *flips, **environment)
            same(whole, out, (flips, environment))
        recomputed = t.recipe(folder / "recomputed.toml", model, [text], data__validation=[str(validation)], train__eval_every=3, train__eval_grains=2,
                              train__recompute="layer")
        t.ok("train", recomputed, "--out", folder / "recomputed", "--quiet")
        same(whole, folder / "recomputed", "recompute")
        print("micro-batches, threads, instruction sets, recompute, a pass left out: equal")

        tiles = folder / "tiles"
        bf16 = t.recipe(folder / "bf16.toml", model, [text], train__dtype="bf16")
        t.ok("train", bf16, "--out", tiles, "--quiet", "--numerics", "amx-1")
        for flips, environment in ((["--micro-grains", 1], {}), ([], {"ISOTONE_ISA": "scalar"})):
            out = folder / ("tiles" + "".join(map(str, flips)) + "".join(environment.values()))
            t.ok("train", bf16, "--out", out, "--quiet", "--stop-after", 2, "--numerics", "amx-1")
            refused = t.run("train", bf16, "--out", out, "--quiet", *flips, **environment)
            assert refused.returncode == 1 and "profile amx-1" in refused.stderr, refused
            t.ok("train", bf16, "--out", out, "--quiet", "--numerics", "amx-1", *flips, **environment)
            same(tiles, out, ("amx-1", flips, environment))
        print("the profile amx-1, by tile units or emulated: equal; not mixed with another")

        for stops in ([1], [4], [1, 2], [5]):
            out = folder / ("stop" + "-".join(map(str, stops)))
            for i, n in enumerate(stops):
                t.ok("train", recipe, "--out", out, "--quiet", "--stop-after", n)
                assert max(t.metrics(out)) == sum(stops[:i + 1]), t.metrics(out)
            t.ok("train", recipe, "--out", out, "--quiet", "--micro-grains", 1)
            same(whole, out, ("stopped after", stops))
        print("stopped and resumed: equal")

        check_signals(folder, model, text)
        check_damage(folder, recipe, whole)
        check_models(folder, whole, model)
        check_chat(folder, model)


def check_signals(folder, model, text):
    """SIGTERM and SIGINT save and stop; SIGKILL loses what was not saved, and nothing else."""
    recipe = t.recipe(folder / "long.toml", model, [text], train__steps=60, train__checkpoint_every=7, batch__grains=6)
    t.ok("train", recipe, "--out", folder / "long", "--quiet")
    for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        out = folder / f"long-{sent.name}"
        process = subprocess.Popen([t.PROGRAM, "train", str(recipe), "--out", str(out), "--quiet", "--micro-grains", "1"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        for _ in range(60000):
            if (out / "metrics.jsonl").exists() and len((out / "metrics.jsonl").read_text().splitlines()) >= 9:
                break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.002)
        process.send_signal(sent)
        error = process.communicate(timeout=300)[1]
        if sent == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
        else:
            assert process.returncode == 0, (sent, process.returncode, error)
            step = max(t.metrics(out))
            assert step < 60, "the run ended before the signal came: make it longer"
            assert t.checkpoints(out)[-1].name == f"step-{step:06d}", (step, t.checkpoints(out))
        t.ok("train", recipe, "--out", out, "--quiet")
        same(folder / "long", out, sent.name)
    print("SIGTERM, SIGINT, SIGKILL and going on: equal")


def check_damage(folder, recipe, whole):
    for what in ("byte", "cut", "no manifest", "half", "empty folder"):
        out = folder / ("damage-" + what.replace(" ", "-"))
        t.ok("train", recipe, "--out", out, "--quiet", "--stop-after", 4)
        newest = out / "step-000004"
        if what == "byte":
            flip_byte(newest / "optimiser.safetensors")
        elif what == "cut":
            raw = (newest / "model.safetensors").read_bytes()
            (newest / "model.safetensors").write_bytes(raw[:len(raw) // 2])
        elif what == "no manifest":
            (newest / "manifest.json").unlink()
        elif what == "half":
            (newest / "manifest.json").write_text((newest / "manifest.json").read_text()[:100])
        else:
            shutil.rmtree(newest)
            newest.mkdir()
        done = t.ok("train", recipe, "--out", out)
        assert "step-000004" in done.stderr and "damaged" in done.stderr, (what, done.stderr)
        assert "step-000002" in done.stderr, (what, done.stderr)
        same(whole, out, ("damaged", what))
        if what == "byte":
            # The fault names the tensor, and asked for by name the checkpoint is refused.
            assert "optimiser.safetensors" in done.stderr and "weight" in done.stderr, done.stderr
    out = folder / "damage-all"
    t.ok("train", recipe, "--out", out, "--quiet", "--stop-after", 1)
    flip_byte(out / "step-000001" / "model.safetensors")
    for arguments in ([], ["--resume", out / "step-000001"]):
        done = t.run("train", recipe, "--out", out, *arguments)
        assert done.returncode == 1 and "step-000001" in done.stderr and "damaged" in done.stderr, (done.returncode, done.stderr)
    print("damaged checkpoints: named, the last good one used, equal bits")


def check_models(folder, whole, model):
    """A checkpoint is a MODEL: text comes from it, and it differs from where it began."""
    newest = t.checkpoints(whole)[-1]
    answers = [json.loads(t.ok("generate", m, "-p", "the sea", "-n", "4", "--temperature", "0", "--json").stdout) for m in (newest, model)]
    assert len(answers[0]["tokens"]) >= 1 and answers[0]["logprobs"] != answers[1]["logprobs"]
    manifest = json.loads((newest / "manifest.json").read_text())
    assert manifest["step"] == 6 and manifest["numerics"] == 1 and len(manifest["sha256"]) == 3 * len(t.weights()), manifest.keys()
    fresh = t.recipe(folder / "fresh.toml", model, [folder / "text.txt"], model__path=None, model__config=str(model / "config.json"),
                     model__tokenizer=str(model), train__steps=2, train__dtype="bf16")
    for out in ("fresh-1", "fresh-2"):
        t.ok("train", fresh, "--out", folder / out, "--quiet", "--micro-grains", out[-1])
    same(folder / "fresh-1", folder / "fresh-2", "a fresh model in bf16")
    plan = json.loads(t.ok("train", fresh, "--plan", "--json").stdout)
    assert plan["tokens_a_step"] == 768 and plan["total_bytes"] > 3 * plan["parameters_bytes"] > 0, plan
    assert not (folder / "fresh.run").exists(), "--plan writes nothing"
    print("checkpoints are models; a fresh model in bf16; --plan")


def check_chat(folder, model):
    """Only answers are learned: their bytes, the end of turn and the line end after it."""
    chats = t.make_chats(folder / "chats.jsonl")
    recipe = t.recipe(folder / "chat.toml", model, [chats], data__kind="chat", batch__rounds=1, batch__grains=2, train__steps=2)
    t.ok("train", recipe, "--quiet")
    learned = sum(len(c.encode()) + 2 for chat in t.CHATS for role, c in chat if role == "assistant")
    assert t.metrics(folder / "chat.run")[1]["tokens"] == learned, (t.metrics(folder / "chat.run")[1], learned)
    t.ok("train", t.recipe(folder / "chat2.toml", model, [chats], data__kind="chat", batch__rounds=1, batch__grains=2, train__steps=2), "--quiet",
         "--micro-grains", 1)
    same(folder / "chat.run", folder / "chat2.run", "conversations")
    print("conversations: only answers are learned")


if __name__ == "__main__":
    os.chdir(t.ROOT)
    main()
