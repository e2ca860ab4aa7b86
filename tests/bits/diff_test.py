#!/usr/bin/env python3
"""`isotone diff`: runs that are equal are called equal; a wrong bit is traced to its step, grain, rank, tensor and element, and to the
run that cannot be reproduced; other recipes are told apart by key and by the first operation that differs."""
import hashlib
import json
import os
import pathlib
import shutil
import socket
import struct
import tempfile

import tiny_run as t

TENSOR = "model.layers.1.mlp.up_proj.weight"


def diff(a, b, *flags, differs=True):
    done = t.run("diff", a, b, "--json", *flags)
    assert done.returncode == (1 if differs else 0), (done.returncode, done.stdout, done.stderr)
    assert done.stderr == "", done.stderr
    report = json.loads(done.stdout)
    assert report["same"] is not differs, report
    return report


def change_bit(checkpoint, file, name, element, bit):
    """A wrong bit that the machine itself believed in: the manifest's checksum is of the wrong tensor."""
    path = checkpoint / file
    raw = bytearray(path.read_bytes())
    n = struct.unpack("<Q", raw[:8])[0]
    begin, end = json.loads(raw[8:8 + n])[name]["data_offsets"]
    raw[8 + n + begin + 4 * element + bit // 8] ^= 1 << bit % 8
    path.write_bytes(raw)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["sha256"][name] = hashlib.sha256(raw[8 + n + begin:8 + n + end]).hexdigest()
    del manifest["manifest_sha256"]
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def check_wrong_bit(folder, recipe, whole):
    bad = folder / "bad"
    t.ok("train", recipe, "--out", bad, "--quiet", "--stop-after", 3)
    change_bit(bad / "step-000003", "model.safetensors", TENSOR, 1234, 20)
    t.ok("train", recipe, "--out", bad, "--quiet")
    found = diff(whole, bad)
    assert found["recipes"] == "" and found["equal_at"] == 2 and found["steps"] == [1, 2, 3, 4, 5, 6], found
    tensor = found["tensor"]
    assert (tensor["step"], tensor["tensor"], tensor["element"], tensor["ulps"], tensor["elements"], tensor["tensors"]) == (3, TENSOR, 1234, 1 << 20, 1, 1), tensor
    # The line of metrics that shows it first is that of the next step.
    step = found["step"]
    assert step["step"] == 4 and step["fields"][0] == "grain_losses" and step["grain"] == 0, step
    assert step["a"]["worker"] == {"ranks": 1, "rank": 0, "host": socket.gethostname()} == step["b"]["worker"], step
    again = found["replay"]
    assert (again["from_step"], again["step"], again["judged_by"], again["like"], again["op"]) == (2, 3, "checkpoint", "a", None), again
    assert again["operations"] > 100, again
    assert diff(bad, whole)["replay"]["like"] == "b"
    text = t.run("diff", whole, bad)
    for part in (f"{bad} is not reproducible", f"'{TENSOR}'", "element 1234", "step 4 is the first", "rank 0 of 1", "same bits"):
        assert part in text.stdout, (part, text.stdout)
    # Without that checkpoint the metrics judge.
    for run in (whole, bad):
        shutil.copytree(run, folder / f"{run.name}-thin")
        shutil.rmtree(folder / f"{run.name}-thin" / "step-000003")
    found = diff(folder / "whole-thin", folder / "bad-thin")
    again = found["replay"]
    assert again is not None, found
    assert (again["from_step"], again["step"], again["judged_by"], again["like"]) == (2, 4, "metrics", "a"), again
    # A moment that is wrong shows in no loss of its own step.
    moment = folder / "moment"
    t.ok("train", recipe, "--out", moment, "--quiet", "--stop-after", 2)
    change_bit(moment / "step-000002", "optimiser.safetensors", "v.model.norm.weight", 5, 3)
    t.ok("train", recipe, "--out", moment, "--quiet")
    found = diff(whole, moment, "--files-only")
    assert found["tensor"]["tensor"] == "v.model.norm.weight" and found["tensor"]["ulps"] == 8 and found["replay"] is None, found
    print("a wrong bit: step, grain, rank, host, tensor, element, and the run that is not reproducible")


def check_damage(folder, whole):
    damaged = folder / "damaged"
    shutil.copytree(whole, damaged)
    path = damaged / "step-000003" / "model.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1000] ^= 1
    path.write_bytes(raw)
    assert diff(whole, damaged, differs=False)["same"], "manifests are compared; checkpoint verify reads the bytes"
    (damaged / "step-000002" / "manifest.json").write_text("{")
    assert "step-000002" in diff(whole, damaged, differs=False)["notes"][0]
    lines = (damaged / "metrics.jsonl").read_text().splitlines()
    (damaged / "metrics.jsonl").write_text("\n".join(lines[:5]) + "\n" + lines[5][:50])
    assert diff(whole, damaged, differs=False)["steps"] == [1, 2, 3, 4, 5], "half a line at the end is what a kill leaves"
    (damaged / "metrics.jsonl").write_text(lines[0] + "\n{\"step\": 2}\n")
    for a, b, says in ((whole, damaged, "line 2"), (whole, folder / "nowhere", "nowhere"), (folder, whole, "metrics.jsonl")):
        done = t.run("diff", a, b)
        assert done.returncode == 1 and "isotone: error: " in done.stderr and says in done.stderr, (done.stdout, done.stderr)
    print("damaged folders: told of")


def check_recipes(folder, model, text, recipe, whole):
    def other(name, **changes):
        path = t.recipe(folder / f"{name}.toml", model, [text], train__checkpoint_every=1, train__keep=9, **changes)
        t.ok("train", path, "--quiet")
        return diff(whole, folder / f"{name}.run")

    found = other("rate", optimiser__lr=1e-3)
    assert found["recipes"] == "optimiser.lr is 0.003 there and 0.001 here", found["recipes"]
    assert found["step"]["step"] == 1 and found["step"]["fields"] == ["lr"] and found["replay"]["op"] is None, found
    found = other("half", train__dtype="bf16")
    op = found["replay"]["op"]
    assert "train.dtype" in found["recipes"] and op["kind"] == "operation" and "cast" in op["text_b"], (found["recipes"], op)
    found = other("seed", train__seed=4)
    assert found["step"]["fields"][0] == "batch_sha256" and found["replay"]["op"]["kind"] == "input" and found["replay"]["op"]["op"] == "the tokens", found
    # Nothing to do the steps again from: said, and the files are compared all the same.
    bare = folder / "bare"
    bare.mkdir()
    shutil.copy(folder / "seed.run" / "metrics.jsonl", bare)
    found = diff(whole, bare)
    assert found["step"]["step"] == 1 and found["replay"] is None and any("no checkpoint" in n for n in found["notes"]), found
    assert found["step"]["b"]["worker"] is None, found
    print("other recipes: the keys, and the first operation or input that differs")


def check_data(folder, model):
    """The same recipe over a file that somebody changed in between: only one of the runs comes out again."""
    text = t.make_text(folder / "changing.txt", seed=7)
    recipe = t.recipe(folder / "changing.toml", model, [text], train__steps=2)
    t.ok("train", recipe, "--out", folder / "before", "--quiet")
    t.make_text(text, seed=8)
    t.ok("train", recipe, "--out", folder / "after", "--quiet")
    found = diff(folder / "before", folder / "after")
    assert found["recipes"] == "" and found["step"]["fields"][0] == "batch_sha256" and found["replay"]["like"] == "b", found
    t.make_text(text, seed=9)
    assert diff(folder / "before", folder / "after")["replay"]["like"] == "neither"
    text.unlink()
    assert any("changing.txt" in n for n in diff(folder / "before", folder / "after")["notes"])
    print("a data file that changed")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        recipe = t.recipe(folder / "r.toml", model, [text], train__checkpoint_every=1, train__keep=9)
        whole = folder / "whole"
        t.ok("train", recipe, "--out", whole, "--quiet")
        # Threads, cuts and stops show nowhere.
        t.ok("train", recipe, "--out", folder / "again", "--quiet", "--micro-grains", 1, "--stop-after", 4)
        t.ok("train", recipe, "--out", folder / "again", "--quiet", ISOTONE_THREADS="1")
        assert diff(whole, folder / "again", differs=False)["equal_at"] == 6
        sessions = [json.loads(line) for line in (folder / "again" / "workers.jsonl").read_text().splitlines()]
        assert [s["from_step"] for s in sessions] == [0, 4] and sessions[0]["hosts"] == [socket.gethostname()], sessions
        check_wrong_bit(folder, recipe, whole)
        check_damage(folder, whole)
        check_recipes(folder, model, text, recipe, whole)
        check_data(folder, model)


if __name__ == "__main__":
    os.chdir(t.ROOT)
    main()
