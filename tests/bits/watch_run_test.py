#!/usr/bin/env python3
"""What `isotone train` writes for people to look at: a timeline, event files, figures for Prometheus, the cost of each step.
The event files are read here without TensorBoard (watch_tensorboard_slow_test.py asks TensorBoard itself)."""
import json
import pathlib
import re
import struct
import tempfile

import tiny_run as t


def records(path):
    """Messages of a record file; checksums are the business of the C++ tests."""
    raw = path.read_bytes()
    at = 0
    while at < len(raw):
        (length,) = struct.unpack_from("<Q", raw, at)
        yield raw[at + 12:at + 12 + length]
        at += 16 + length
    assert at == len(raw), "half a record at the end"


def fields(message):
    """(number, value) of a protocol buffer's fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            b = message[at]
            at += 1
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value = message[at:at + size]
            at += size
        yield key >> 3, value


def scalars(folder):
    """{tag: {step: value}} of all event files of a folder."""
    out = {}
    for path in sorted(folder.iterdir()):
        events = [list(fields(r)) for r in records(path)]
        assert (3, b"brain.Event:2") in events[0], events[0]
        for event in events[1:]:
            step = dict(event)[2]
            for number, value in fields(dict(event)[5]):
                parts = dict(fields(value))
                out.setdefault(parts[1].decode(), {})[step] = struct.unpack("<f", parts[2])[0]
    return out


def prometheus(path):
    """{name: value}; each figure has its help and its type once, before it."""
    text = path.read_text()
    assert text.endswith("\n")
    out = {}
    for block in re.findall(r"# HELP (\S+) .+\n# TYPE \1 (?:gauge|counter)\n\1\{recipe=\"[0-9a-f]{16}\"\} (\S+)\n", text):
        out[block[0]] = float(block[1])
    assert len(out) * 3 == len(text.splitlines()), text
    return out


def check_watching(folder, recipe, whole):
    out = folder / "watched"
    events, figures, timeline = folder / "events", folder / "run.prom", folder / "timeline.json"
    t.ok("train", recipe, "--out", out, "--quiet", "--tensorboard", events, "--prometheus", figures, "--timeline", timeline)
    assert t.losses(out) == t.losses(whole) and t.hashes(out) == t.hashes(whole), "looking changes no bit"
    lines = t.metrics(out)
    read = scalars(events)
    for tag, key in (("loss", "loss"), ("grad_norm", "grad_norm"), ("learning_rate", "lr"), ("learned_tokens", "tokens")):
        assert list(read[tag]) == list(lines), tag
        for step, value in read[tag].items():
            assert abs(value - lines[step][key]) <= 1e-6 * abs(value), (tag, step)
    assert set(read["validation_loss"]) == {3, 6}
    last = prometheus(figures)
    assert last["isotone_train_step"] == 6 and last["isotone_train_loss"] == lines[6]["loss"], last
    assert last["isotone_train_learned_tokens_total"] == lines[6]["tokens"] and last["isotone_train_ranks"] == 1
    assert not [p for p in folder.iterdir() if p.name.startswith("run.prom") and p != figures], "nothing is left aside"
    trace = json.loads(timeline.read_text())["traceEvents"]
    names = [e["name"] for e in trace if e["ph"] == "X"]
    assert names.count("step") == 6 and names.count("evaluation") == 2, names
    # A second call adds a file of its own, and the recipe's keys do what the flags do.
    keys = t.recipe(folder / "keys.toml", folder / "model", [folder / "text.txt"], data__validation=[str(folder / "validation.txt")], train__eval_every=3,
                    train__eval_grains=2, train__tensorboard=str(events), train__prometheus=str(folder / "keys.prom"))
    t.ok("train", keys, "--out", folder / "keys", "--quiet")
    assert t.hashes(folder / "keys") == t.hashes(whole) and len(list(events.iterdir())) == 2
    assert prometheus(folder / "keys.prom")["isotone_train_step"] == 6
    print("timeline, event files, figures: as the metrics say, and no bit changes")


def check_costs(whole):
    for step, m in t.metrics(whole).items():
        cost = m["cost"]
        assert cost["seconds"] > 0 and cost["communication_share"] == 0 and cost["sent_bytes"] == cost["received_bytes"] == 0, cost
        assert 0 < cost["peak_share"] < 100 and cost["planned_bytes"] > 4 * 4 * 50000 and cost["resident_bytes"] > 1e6, cost
        assert abs(m["tok_s"] - 6 * 128 / cost["seconds"]) < 1 + 0.01 * m["tok_s"], m
    print("each step has its cost")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        validation = t.make_text(folder / "validation.txt", 4, seed=2)
        recipe = t.recipe(folder / "r.toml", model, [text], data__validation=[str(validation)], train__eval_every=3, train__eval_grains=2)
        whole = folder / "whole"
        shown = t.ok("train", recipe, "--out", whole).stderr
        assert re.search(r"step 6/6 .*% of peak .*% comm .* GB", shown), shown
        check_costs(whole)
        check_watching(folder, recipe, whole)
        for flag in ("--timeline", "--prometheus", "--tensorboard"):
            done = t.run("train", recipe, "--out", folder / ("bad" + flag), "--quiet", flag, text / "below")
            assert done.returncode == 1 and "isotone: error: " in done.stderr and "text.txt" in done.stderr, (flag, done)


if __name__ == "__main__":
    main()
