#!/usr/bin/env python3
"""What can go wrong with data ends in one clear message that names the file, the line, the shard or the key."""
import json
import pathlib
import resource
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bits"))
import tiny_run as t  # noqa: E402


def fails(arguments, *says, code=1, **more):
    done = t.run(*arguments, **more)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    assert "isotone: error: " in done.stderr and "terminate called" not in done.stderr, done.stderr
    for text in says:
        assert text in done.stderr, (says, done.stderr)


def sourced(path, model, **changes):
    return t.recipe(path, model, [], **({"data__kind": None, "data__files": None, "data__grain_tokens": 64} | changes))


def check_lines(folder, model):
    def bad(content, *says, **changes):
        path = folder / "lines.jsonl"
        path.write_bytes(content)
        fails(["data", "hash", sourced(folder / "l.toml", model, **({"data.sources.a__kind": "jsonl", "data.sources.a__files": [str(path)]} | changes))],
              "lines.jsonl", *says)

    good = b'{"text": "the sea"}\n'
    bad(good * 700 + b'{"text": "cut in the mid', "line 701", "JSON")
    bad(good + b"\n\n" + b'{"text": 3}\n', "line 4", "'text' is 3, not a text")
    bad(good + b'{"body": "x"}\n', "line 2", "no 'text'", "field")
    bad(b'{"text": "x"}\n' * 5, "line 1", "no 'body'", **{"data.sources.a__field": "body"})
    bad(b'["text"]\n', "line 1", "object")
    bad(good + b'{"text": "a", "text": "b"}\n', "line 2", "twice")
    bad(good + b'{"text": "a\xff"}\n', "line 2", "UTF-8")
    bad(b"[" * 100000 + b"\n", "line 1", "deep")
    bad(b"", "no text")
    bad(b'{"text": ""}\n\n', "no text")
    arrow = str(t.ROOT / "tests/goldens/parquet/snappy.parquet")
    for field, says in (("body", "inner.body, always"), ("number", "no column of texts"), ("raw", "row 2")):
        fails(["data", "hash", sourced(folder / "q.toml", model, **{"data.sources.a__kind": "parquet", "data.sources.a__field": field,
                                                                    "data.sources.a__files": [arrow]})], "snappy.parquet", says)
    (folder / "cut.parquet").write_bytes(pathlib.Path(arrow).read_bytes()[:-9])
    fails(["data", "hash", sourced(folder / "q.toml", model, **{"data.sources.a__kind": "parquet", "data.sources.a__files": [str(folder / "cut.parquet")]})],
          "cut.parquet")
    print("lines of JSON: file and line; Parquet: file, row and column")


def check_folders(folder, model):
    empty = folder / "empty"
    empty.mkdir()
    fails(["data", "hash", sourced(folder / "f.toml", model, **{"data.sources.a__files": [str(empty)]})], str(empty), "no file")
    (empty / "x.txt").write_text("text")
    fails(["data", "hash", sourced(folder / "f.toml", model, **{"data.sources.a__files": [str(empty)], "data.sources.a__kind": "jsonl"})],
          str(empty), ".jsonl")
    for name in ("round", "again"):
        (empty / name).symlink_to(empty)
    fails(["data", "hash", sourced(folder / "f.toml", model, **{"data.sources.a__files": [str(empty)]})], str(empty), "32 deep")
    fails(["data", "hash", sourced(folder / "f.toml", model, **{"data.sources.a__files": [str(folder / "nowhere")]})], "nowhere")
    print("folders: empty, of another kind, endless")


def check_recipes(folder, model, text):
    one = {"data.sources.a__files": [str(text)]}

    def bad(*says, **changes):
        fails(["data", "hash", sourced(folder / "bad.toml", model, **changes)], "bad.toml", *says)

    bad("data.files is missing")
    bad("exclude each other", data__files=[str(text)], **one)
    bad("did you mean 'data.sources.a.weight'", **one, **{"data.sources.a__wieght": 3})
    bad("kind", "text, jsonl", **one, **{"data.sources.a__kind": "xml"})
    bad("weight", "7 and 3 stand for", **one, **{"data.sources.a__weight": 0.5})
    bad("weight", "-1", **one, **{"data.sources.a__weight": -1})
    bad("weight", "9000000000000000000", **one, **{"data.sources.a__weight": 9 * 10**18})
    bad("all sources have weight 0", **one, **{"data.sources.a__weight": 0})
    bad("add up to more than 1000000", **one, **{"data.sources.a__weight": 999999, "data.sources.b__files": [str(text)], "data.sources.b__weight": 999998})
    bad("data.sources.a", "files is missing", **{"data.sources.a__weight": 1})
    bad("name is of 1 to 64", **{'data.sources."../up"__files': [str(text)]})
    bad("taken by data.validation", **{"data.sources.validation__files": [str(text)]})
    bad("from_step is missing", **one, **{"data.stages.x.weights__a": 1})
    bad("weights is missing", **one, **{"data.stages.x__from_step": 1})
    bad("no source 'b'", **one, **{"data.stages.x__from_step": 1, "data.stages.x.weights__b": 1})
    bad("begin at one step", **one, **{"data.stages.x__from_step": 1, "data.stages.x.weights__a": 1, "data.stages.y__from_step": 1,
                                       "data.stages.y.weights__a": 1})
    bad("from_step", "1000000000", **one, **{"data.stages.x__from_step": 10**15, "data.stages.x.weights__a": 1})
    bad("over 16777216 grains a step", **one, batch__rounds=1 << 20, batch__grains=1 << 20)
    bad("[data.stages] needs", data__files=[str(text)], **{"data.stages.x__from_step": 1, "data.stages.x.weights__a": 1})
    fails(["data", "show", sourced(folder / "far.toml", model, batch__rounds=1 << 12, batch__grains=1 << 12, **one), "--batch", 1 << 40],
          "no batch 1099511627776")
    print("recipes: keys, and numbers that are absurd")


def check_shards(folder, model, text):
    recipe = sourced(folder / "s.toml", model, data__built=str(folder / "built"), **{"data.sources.a__files": [str(text)]})
    t.ok("data", "build", recipe)
    shard, index = folder / "built/a-00000.grains", folder / "built/data.json"
    whole, listed = shard.read_bytes(), index.read_text()
    flipped = bytearray(whole)
    flipped[128 + 2 * (4 * 64 + 8) + 5] ^= 16
    shard.write_bytes(flipped)
    fails(["data", "hash", recipe], "a-00000.grains", "grain 2 is damaged", "build the data again")
    fails(["train", recipe, "--steps", 40], "a-00000.grains", "grain 2 is damaged")
    assert not (folder / "s.run/step-000040").exists()
    shard.write_bytes(whole[:-100])
    fails(["train", recipe, "--resume", "never", "--out", folder / "s2"], "a-00000.grains")
    shard.write_bytes(whole)
    # An index that is damaged is built anew by train, and named by what only reads.
    for broken in (listed[:100], "[]", listed.replace('"grains": ', '"grains": -'), listed.replace("a-00000", "../a-00000"),
                   listed.replace('"format": 1', '"format": 2')):
        index.write_text(broken)
        done = t.ok("data", "build", recipe)
        assert "data.json" in done.stdout and "built (" in done.stdout, done.stdout
        assert shard.read_bytes() == whole
    # The index says more than the shards hold, and other hashes.
    index.write_text(json.dumps(json.loads(listed) | {"sources": [json.loads(listed)["sources"][0] | {"grains": 10**18}]}))
    fails(["data", "hash", recipe], "grains, not 1000000000000000000")
    index.write_text(json.dumps(json.loads(listed) | {"sources": [json.loads(listed)["sources"][0] | {"sha256": "0" * 64}]}))
    fails(["data", "hash", recipe], "not those that were built", "'a'")
    print("shards and their index: damage is named")


def check_places(folder, model, text):
    recipe = sourced(folder / "p.toml", model, **{"data.sources.a__files": [str(text)]})
    mine = folder / "mine"
    mine.mkdir()
    (mine / "letters.txt").write_text("keep me")
    fails(["data", "build", recipe, "--out", mine], "letters.txt", "no built data")
    assert (mine / "letters.txt").read_text() == "keep me"
    fails(["data", "build", recipe, "--out", text], str(text))
    out = folder / "full"
    t.ok("data", "build", recipe, "--out", out, "--quiet")
    before = {p.name: p.read_bytes() for p in out.iterdir()}

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    fails(["data", "build", recipe, "--out", out, "--force"], str(out), preexec=small_files)
    assert before == {p.name: p.read_bytes() for p in out.iterdir()}, "what was built stays whole on a full disk"
    assert not [p for p in folder.iterdir() if ".aside-" in p.name]
    fails(["data", "diff", recipe, folder], "manifest.json")
    print("places: nothing foreign is overwritten, a full disk leaves the old build")


def check_changed(folder, model):
    text = t.make_text(folder / "changing.txt")
    recipe = sourced(folder / "c.toml", model, **{"data.sources.a__files": [str(text)]})
    t.ok("train", recipe, "--quiet", "--stop-after", 2)
    text.write_text(text.read_text() + "\f\nOne more text.\n")
    fails(["train", recipe], "step-000002", "data files", "data.sources.a.tokens is")
    fingerprint = json.loads((folder / "c.run/step-000002/manifest.json").read_text())["recipe"]
    t.ok("train", recipe, "--quiet", "--accept-recipe", fingerprint[:16])
    manifest = json.loads((folder / "c.run/step-000006/manifest.json").read_text())
    assert manifest["earlier_recipes"] == [{"recipe": fingerprint, "steps": 2}], manifest["earlier_recipes"]
    print("data that changed under a run: refused, named, accepted by name")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        check_lines(folder, model)
        check_folders(folder, model)
        check_recipes(folder, model, text)
        check_shards(folder, model, text)
        check_places(folder, model, text)
        check_changed(folder, model)
    assert t.run("data").returncode == 2 and t.run("data", "hash").returncode == 2


if __name__ == "__main__":
    main()
