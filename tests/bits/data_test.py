#!/usr/bin/env python3
"""Data by recipes: several sources in exact proportions, stages, folders; the same batches from memory, from shards and after
going on; what `isotone data` says of them."""
import collections
import json
import os
import pathlib
import shutil
import tempfile

import tiny_run as t

BATCH = 10  # grains of a step


def lines(path, texts, field="text"):
    path.write_text("".join(json.dumps({field: text, "n": i}) + "\n" for i, text in enumerate(texts)))
    return path


def make_sources(folder):
    """Three sources: a folder of texts, JSONL with a field of its own, conversations."""
    books = folder / "books"
    (books / "more").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "more/c.txt"):
        (books / name).write_text(f"In {name} the sea is deep.\n\f\nSecond text of {name}.\n")
    (books / ".hidden").write_text("never read")
    web = lines(folder / "web.jsonl", [f"page {i} of the web" for i in range(9)], "body")
    return books, web, t.make_chats(folder / "chats.jsonl")


def mixed(path, model, books, web, chats, **changes):
    keys = {"data__kind": None, "data__files": None, "batch__rounds": 2, "batch__grains": BATCH // 2, "data__grain_tokens": 64,
            "data.sources.books__files": [str(books)], "data.sources.books__weight": 5,
            "data.sources.web__kind": "jsonl", "data.sources.web__field": "body", "data.sources.web__files": [str(web)], "data.sources.web__weight": 3,
            "data.sources.chats__kind": "chat", "data.sources.chats__files": [str(chats)], "data.sources.chats__weight": 2}
    return t.recipe(path, model, [], **(keys | changes))


def shown(recipe, batch):
    return json.loads(t.ok("data", "show", recipe, "--batch", batch, "--json").stdout)


def hash_of(recipe, *more):
    return t.ok("data", "hash", recipe, *more).stdout.strip()


def sources_of(batch):
    return collections.Counter({d["grain"]: d["source"] for d in batch["documents"]}.values())


def check_mixture(folder, model, sources):
    recipe = mixed(folder / "mixed.toml", model, *sources)
    for batch in (0, 1, 7, 10**9):
        assert sources_of(shown(recipe, batch)) == {"books": 5, "web": 3, "chats": 2}, batch
    texts = [d["text"] for b in range(12) for d in shown(recipe, b)["documents"] if d["source"] == "web"]
    assert collections.Counter(texts)["page 3 of the web<|end|>"] == 4, collections.Counter(texts)
    texts = {d["text"] for b in range(12) for d in shown(recipe, b)["documents"] if d["source"] == "books"}
    assert "In more/c.txt the sea is deep.<|end|>" in texts and not any("never" in text for text in texts), texts
    staged = mixed(folder / "staged.toml", model, *sources, **{"data.stages.late__from_step": 3, "data.stages.late.weights__web": 4,
                                                               "data.stages.late.weights__chats": 1})
    assert shown(staged, 2) == shown(recipe, 2)
    for batch in (3, 4, 50):
        assert sources_of(shown(staged, batch)) == {"web": 8, "chats": 2}, batch
    print("proportions are exact, each epoch shows each grain once, stages hold from their step on")


def check_parquet(folder, model):
    """A file that Arrow wrote, and the same documents as lines of JSON."""
    arrow = folder / "arrow"
    arrow.mkdir()
    shutil.copy(t.ROOT / "tests/goldens/parquet/zstd.parquet", arrow)
    (arrow / "read me").write_text("not read")
    texts = ["The sea is deep.", "Grüße von der Küste – 海は深い", "", "two\nlines", "The sea is deep.", "x" * 300]
    plain = lines(folder / "plain.jsonl", texts)

    def one(kind, files):
        return t.recipe(folder / f"{kind}.toml", model, [], **{"data__kind": None, "data__files": None, "data__grain_tokens": 64,
                                                               "data.sources.a__kind": kind, "data.sources.a__files": [str(files)]})

    assert hash_of(one("parquet", arrow)) == hash_of(one("jsonl", plain))
    built = json.loads(t.ok("data", "build", one("parquet", arrow), "--json").stdout)
    assert built["sources"][0]["documents"] == 5, built
    print("Parquet: the documents of its column")


def check_hashes(folder, model, sources):
    base = hash_of(mixed(folder / "mixed.toml", model, *sources))
    copied = folder / "elsewhere"
    shutil.copytree(sources[0], copied)
    assert hash_of(mixed(folder / "h.toml", model, copied, *sources[1:])) == base, "names of files do not count"
    changes = [{"train__seed": 4}, {"batch__grains": 4}, {"data__grain_tokens": 128}, {"data.sources.web__weight": 4}, {"batch__rounds": 1},
               {"data.stages.late__from_step": 3, "data.stages.late.weights__web": 4}]
    hashes = [hash_of(mixed(folder / "h.toml", model, *sources, **c)) for c in changes]
    assert len({base, *hashes}) == len(changes) + 1, hashes
    # A source may be called like a key.
    named = [hash_of(t.recipe(folder / "n.toml", model, [], **{"data__kind": None, "data__files": None, "data.sources.field__files": [str(sources[0])],
                                                               "data.sources.kind__files": [str(copied)], "data.stages.late__from_step": 3,
                                                               "data.stages.late.weights__field": w, "data.stages.late.weights__kind": 1}))
             for w in (2, 3)]
    assert named[0] != named[1]
    (copied / "a.txt").write_text("Other words.\n")
    assert hash_of(mixed(folder / "h.toml", model, copied, *sources[1:])) != base, "contents do"
    print("the hash covers tokens, order, packing and batch size, not names of files")


def check_diff(folder, model, sources):
    a, b = mixed(folder / "a.toml", model, *sources), mixed(folder / "b.toml", model, *sources, **{"data.sources.web__weight": 4})
    same = t.ok("data", "diff", a, folder / "a.toml")
    assert same.stdout == "", same.stdout
    done = t.run("data", "diff", a, b, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found == {"same": False, "differences": [{"key": "data.sources.web.weight", "a": 3, "b": 4}]}, found
    t.ok("train", a, "--out", folder / "diffed", "--quiet", "--stop-after", 1)
    t.ok("data", "diff", a, folder / "diffed/step-000001")
    done = t.run("data", "diff", b, folder / "diffed/step-000001")
    assert done.returncode == 1 and "data.sources.web.weight" in done.stdout and "books" not in done.stdout.replace("/books", ""), done.stdout
    print("differences are named by key, between recipes and with a checkpoint")


def check_runs(folder, model, sources):
    """From memory, from shards, stopped in between, and moved from one to the other: one run."""
    recipe = mixed(folder / "runs.toml", model, *sources, data__validation=[str(sources[2])], data__kind="chat", train__eval_every=3)
    whole, parts, built = folder / "whole", folder / "parts", folder / "built"
    t.ok("train", recipe, "--out", whole, "--quiet")
    shards = mixed(folder / "shards.toml", model, *sources, data__validation=[str(sources[2])], data__kind="chat", train__eval_every=3,
                   data__built=str(built))
    t.ok("train", recipe, "--out", parts, "--quiet", "--stop-after", 2)
    said = t.ok("train", shards, "--out", parts, "--stop-after", 3).stderr
    assert "building the data in" in said, said
    said = t.ok("train", shards, "--out", parts).stderr
    assert "building" not in said, said
    assert t.losses(whole) == t.losses(parts) and t.hashes(whole) == t.hashes(parts)
    hashes = [m["batch_sha256"] for m in t.metrics(whole).values()]
    assert hashes == [hash_of(shards, "--batch", b) for b in range(len(hashes))] == [hash_of(recipe, "--batch", b) for b in range(len(hashes))]
    assert hash_of(shards) == hash_of(recipe)
    print("from memory, from shards, stopped and moved between them: equal bits")


def check_builds(folder, model, sources):
    recipe = mixed(folder / "builds.toml", model, *sources)
    report = lambda *more: json.loads(t.ok("data", "build", recipe, "--json", *more).stdout)
    first = report()
    data = pathlib.Path(first["folder"])
    assert first["built"] and data == folder / "builds.run/data", first
    assert {s["name"]: (s["documents"], s["files"]) for s in first["sources"]} == {"books": (6, 3), "chats": (2, 1), "web": (9, 1)}, first
    assert not report()["built"], "it is up to date"
    os.utime(sources[1], (1, 1))
    assert not report()["built"], "another time of change, the same contents"
    assert report("--force")["sources"] == first["sources"]
    text = sources[1].read_text()
    sources[1].write_text(text + json.dumps({"body": "one more page"}) + "\n")
    again = report()
    assert again["built"] and "web.jsonl has changed" in again["why"] and again["sources"][2]["documents"] == 10, again
    sources[1].write_text(text)
    (sources[0] / "new.txt").write_text("A new text.\n")
    assert "files" in report()["why"]
    (sources[0] / "new.txt").unlink()
    assert report()["sources"] == first["sources"]
    # A run takes what was built into its out folder.
    said = t.ok("train", recipe, "--stop-after", 1).stderr
    assert "building" not in said, said
    (data / "web-00000.grains").unlink()
    done = t.run("data", "hash", recipe)
    assert done.returncode == 1 and "web-00000.grains" in done.stderr, done.stderr
    print("built once, again where a source changed, and only then")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, sources = t.make_model(folder / "model"), make_sources(folder)
        check_mixture(folder, model, sources)
        check_parquet(folder, model)
        check_hashes(folder, model, sources)
        check_diff(folder, model, sources)
        check_runs(folder, model, sources)
        check_builds(folder, model, sources)


if __name__ == "__main__":
    os.chdir(t.ROOT)
    main()
