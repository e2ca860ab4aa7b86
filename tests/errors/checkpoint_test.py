#!/usr/bin/env python3
"""`isotone checkpoint`: every kind of damage is found and named by file and tensor, what is whole is called whole, and a model
goes to a Hugging Face folder and back into training without losing a bit."""
import json
import pathlib
import random
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bits"))
import tiny_run as t  # noqa: E402

TENSOR = "model.layers.1.mlp.up_proj.weight"


def fails(*arguments, says=()):
    done = t.run("checkpoint", *arguments)
    assert done.returncode == 1, (arguments, done.returncode, done.stdout, done.stderr)
    assert "terminate called" not in done.stderr and "isotone: " in done.stderr, done.stderr
    for text in says:
        assert text in done.stderr, (text, done.stderr)
    return done


def flip(path, offset):
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 16
    path.write_bytes(raw)


def tensor_offset(path, name):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    return 8 + n + json.loads(raw[8:8 + n])[name]["data_offsets"][0]


def change_manifest(folder, change):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    del manifest["manifest_sha256"]  # as older programs wrote it
    path.write_text(json.dumps(manifest))


def check_whole(out):
    done = t.ok("checkpoint", "verify", out, "--json")
    report = json.loads(done.stdout)
    assert report["whole"] and [pathlib.Path(c["checkpoint"]).name for c in report["checkpoints"]] == ["step-000004", "step-000002"], report
    for c in report["checkpoints"]:
        assert c["whole"] and not c["faults"] and not c["unknown"] and c["tensors"] == 3 * len(t.weights()) and c["files"] == 3, c
        # All bytes but the headers' and the manifest's.
        size = sum(p.stat().st_size for p in pathlib.Path(c["checkpoint"]).iterdir() if p.name != "manifest.json")
        assert 0 <= size - c["bytes"] < 20000, (size, c["bytes"])
    assert t.ok("checkpoint", "verify", out / "step-000002").stdout.count("whole") == 1
    quiet = t.ok("checkpoint", "verify", out, "--quiet")
    assert quiet.stdout == quiet.stderr == "", quiet
    print("whole checkpoints are whole")


def check_damage(folder, good):
    """(what is done to a copy, what must be named)"""
    weights, optimiser = "model.safetensors", "optimiser.safetensors"

    def cut(name, keep):
        return lambda c: (c / name).write_bytes((c / name).read_bytes()[:keep])

    def longer_header(c):
        (c / weights).write_bytes(struct.pack("<Q", 1 << 60) + (c / weights).read_bytes()[8:])

    def other_shape(c):
        raw = (c / optimiser).read_bytes()
        # The same bytes under another shape: no checksum shows it.
        (c / optimiser).write_bytes(raw.replace(b'"v.model.layers.0.mlp.down_proj.weight":{"dtype":"F32","shape":[64,96]',
                                                b'"v.model.layers.0.mlp.down_proj.weight":{"dtype":"F32","shape":[96,64]'))
        assert raw != (c / optimiser).read_bytes()

    def lost(name):
        def change(manifest):
            del manifest["sha256"][name]
        return lambda c: change_manifest(c, change)

    def invented(manifest):
        manifest["sha256"]["model.layers.9.mlp.up_proj.weight"] = "0" * 64

    def outside(manifest):
        manifest["files"]["../../etc/passwd"] = "0" * 64

    damage = [
        ("a bit of a weight", lambda c: flip(c / weights, tensor_offset(c / weights, TENSOR)), [weights, f"'{TENSOR}'", "checksum"]),
        ("the last bit of all", lambda c: flip(c / optimiser, -1), [optimiser, "tensor", "checksum"]),
        ("a bit of a moment", lambda c: flip(c / optimiser, tensor_offset(c / optimiser, "v." + TENSOR) + 77), [optimiser, f"'v.{TENSOR}'"]),
        ("a bit of the tokenizer", lambda c: flip(c / "tokenizer.json", 2000), ["tokenizer.json", "checksum"]),
        ("a space in the configuration", lambda c: (c / "config.json").write_text(" " + (c / "config.json").read_text()), ["config.json", "checksum"]),
        ("no configuration", lambda c: (c / "config.json").unlink(), ["config.json"]),
        ("no weights", lambda c: (c / weights).unlink(), [weights]),
        ("no optimiser", lambda c: (c / optimiser).unlink(), [optimiser]),
        ("weights cut", cut(weights, 50000), [weights]),
        ("an empty file", cut(optimiser, 0), [optimiser]),
        ("half a header", cut(optimiser, 300), [optimiser]),
        ("a header of absurd length", longer_header, [weights]),
        ("another shape", other_shape, [optimiser, "'v.model.layers.0.mlp.down_proj.weight'", "[96, 64]"]),
        ("no manifest", lambda c: (c / "manifest.json").unlink(), ["manifest.json"]),
        ("half a manifest", cut("manifest.json", 500), ["manifest.json", "damaged"]),
        ("another step", lambda c: (c / "manifest.json").write_text((c / "manifest.json").read_text().replace('"step": 4', '"step": 5')),
         ["manifest.json", "checksum of itself"]),
        ("a checksum lost", lost("m." + TENSOR), [optimiser, f"'m.{TENSOR}'"]),
        ("a checksum too many", lambda c: change_manifest(c, invented), ["model.layers.9.mlp.up_proj.weight", "missing"]),
        ("a file outside", lambda c: change_manifest(c, outside), ["outside the folder"]),
        ("a folder for a file", lambda c: ((c / weights).unlink(), (c / weights).mkdir()), [weights]),
    ]
    for what, do, says in damage:
        bad = folder / "bad"
        shutil.copytree(good, bad)
        do(bad)
        fails("verify", bad, says=says)
        report = t.run("checkpoint", "verify", bad, "--json")
        assert report.returncode == 1 and not json.loads(report.stdout)["whole"] and json.loads(report.stdout)["checkpoints"][0]["faults"], what
        shutil.rmtree(bad)
    # Any bit of any tensor or text: found (headers of safetensors are held to their form).
    generator = random.Random(4)
    for i in range(20):
        bad = folder / "bad"
        shutil.copytree(good, bad)
        name = generator.choice([weights, optimiser, "manifest.json", "config.json", "tokenizer.json", "tokenizer_config.json"])
        size = (bad / name).stat().st_size
        flip(bad / name, generator.randrange(4096 if name.endswith("safetensors") else 0, size))
        fails("verify", bad, says=[name])
        shutil.rmtree(bad)
    # One bad among good ones.
    out = folder / "some"
    shutil.copytree(good.parent, out)
    flip(out / "step-000002" / weights, -5)
    done = fails("verify", out, says=["step-000002"])
    assert "step-000004: whole" in done.stdout, done.stdout
    shutil.copytree(good, folder / "more")
    (folder / "more" / "notes.txt").write_text("mine")
    assert "notes.txt" in t.ok("checkpoint", "verify", folder / "more").stderr, "an unknown file is told of"
    for path, says in ((folder / "nowhere", "nowhere"), (good / "config.json", "is a file"), (folder / "model" / "..", "holds none")):
        fails("verify", path, says=[says])
        fails("show", path, says=[says])
    print(f"{len(damage)} kinds of damage and 20 random bits: found and named")


def check_show(out, recipe_path):
    said = json.loads(t.ok("checkpoint", "show", out, "--json").stdout)
    assert said["step"] == 4 and said["numerics"] == 1 and said["profile"] == "pairdot-1", said
    assert said["recipe_fields"]["optimiser.lr"] == 3e-3 and len(said["recipe"]) == 64, said
    sizes = {name: shape for name, (shape, _) in t.weights().items()}
    listed = {e["name"]: e["shape"] for e in said["tensors"] if e["file"] == "model.safetensors"}
    assert listed == sizes, listed
    assert said["parameters"] == sum(s[0] * (s[1] if len(s) == 2 else 1) for s in sizes.values()) and said["tensor_bytes"] == 12 * said["parameters"]
    assert said["file_bytes"] == sum(p.stat().st_size for p in (out / "step-000004").iterdir()), said
    manifest = json.loads((out / "step-000004" / "manifest.json").read_text())
    assert {e["name"]: e["sha256"] for e in said["tensors"]} == manifest["sha256"]
    text = t.ok("checkpoint", "show", out / "step-000002").stdout
    assert "step 2" in text and "numerics contract 1" in text and "optimiser.lr" in text and manifest["recipe"] in text, text
    print("show: step, contract, recipe, tensors")


def sha(path):
    return t.ok("inspect", "--sha256", path).stdout.split()[0]


def check_convert(folder, model, text):
    # With a learning rate of 0 a step changes nothing, so what comes out must be what went in.
    still = t.recipe(folder / "still.toml", model, [text], optimiser__lr=0.0, schedule__warmup=0, train__steps=1)
    t.ok("train", still, "--quiet")
    checkpoint = folder / "still.run" / "step-000001"
    whole, shards, half = folder / "hf", folder / "hf-shards", folder / "hf-bf16"
    said = json.loads(t.ok("checkpoint", "convert", checkpoint, whole, "--json").stdout)
    assert said["tensors"] == len(t.weights()) and said["sha256"] == sha(model) == sha(whole), said
    assert sorted(p.name for p in whole.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"], list(whole.iterdir())
    t.ok("checkpoint", "convert", folder / "still.run", shards, "--shard-bytes", 70000, "--quiet")
    files = sorted(p.name for p in shards.glob("*.safetensors"))
    assert len(files) > 3 and (shards / "model.safetensors.index.json").exists() and sha(shards) == sha(model), files
    assert all(p.stat().st_size < 72000 for p in shards.glob("*.safetensors"))
    t.ok("checkpoint", "convert", checkpoint, half, "--dtype", "bf16")
    assert json.loads((half / "config.json").read_text()).get("dtype", json.loads((half / "config.json").read_text()).get("torch_dtype")) == "bfloat16"
    described = json.loads(t.ok("inspect", "--json", half).stdout)
    assert {e["dtype"] for e in described["tensors"]} == {"BF16"}, described["tensors"][0]
    # And back: training from the folder is training from the model, whatever the cut into files.
    runs = []
    for i, start in enumerate((model, whole, shards)):
        t.ok("train", t.recipe(folder / f"back{i}.toml", start, [text], train__steps=2), "--quiet")
        runs.append((t.losses(folder / f"back{i}.run"), t.hashes(folder / f"back{i}.run")))
    assert runs[0] == runs[1] == runs[2], runs
    said = [t.ok("generate", m, "-p", "the sea", "-n", "4", "--temperature", "0", "--json", "--dtype", "f32").stdout for m in (model, shards)]
    assert json.loads(said[0])["tokens"] == json.loads(said[1])["tokens"], said
    fails("convert", checkpoint, whole, says=["already there"])
    damaged = folder / "damaged"
    shutil.copytree(checkpoint, damaged)
    flip(damaged / "model.safetensors", tensor_offset(damaged / "model.safetensors", TENSOR))
    fails("convert", damaged, folder / "never", says=[f"'{TENSOR}'", "damaged"])
    shutil.copytree(checkpoint, folder / "damaged2")
    flip(folder / "damaged2" / "tokenizer.json", 2000)
    fails("convert", folder / "damaged2", folder / "never", says=["tokenizer.json", "damaged"])
    assert not [p for p in folder.iterdir() if p.name.startswith("never")], "nothing may stay of a conversion that failed"
    print("convert: to the Hugging Face layout in one file, in several, in bf16; and back into training, equal bits")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        recipe = t.recipe(folder / "r.toml", model, [text], train__steps=4)
        t.ok("train", recipe, "--quiet")
        out = folder / "r.run"
        check_whole(out)
        check_damage(folder, out / "step-000004")
        check_show(out, recipe)
        check_convert(folder, model, text)
    assert t.run("checkpoint").returncode == 2 and t.run("checkpoint", "verify").returncode == 2


if __name__ == "__main__":
    main()
