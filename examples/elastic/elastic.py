#!/usr/bin/env python3
"""A run that begins on some ranks and goes on on others, compared with the same run on one: batches, losses, weights.

    python3 examples/elastic/elastic.py                     # 16 ranks, then 8, 32, 64, 3 and 1, f32 and bf16: minutes
    python3 examples/elastic/elastic.py --quick             # 4 ranks, then 2, 3 and 1

Prints a table, draws the curves (OUT/elastic.svg) and writes OUT.json: a list of {from, to, layout, dtype, steps,
batches_equal, losses_equal, weights_equal}. Exit code 1 where anything differs. Every rank is a process of its own."""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ISOTONE", str(ROOT / "build/release/isotone"))
RECIPE = pathlib.Path(__file__).with_name("recipe.toml")
MODES = ("zero3", "zero1", "replicated")  # a continuation keeps its state in another way than the last


def write_recipe(path, dtype, mode, steps, grains):
    """The recipe with other settings; those of [parallel] decide no number."""
    text = RECIPE.read_text()
    for key, value in {"dtype": f'"{dtype}"', "data": f'"{mode}"', "steps": steps, "grains": grains}.items():
        text, found = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert found == 1, (key, found)
    path.write_text(text)
    return path


def train(ranks, recipe, out, *more):
    command = [PROGRAM, "launch", "-n", str(ranks), "--max-restarts", "0", "--", "train", str(recipe), "--out", str(out), "--quiet", *map(str, more)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")


def metrics(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def weights(out):
    """SHA-256 of the newest checkpoint's weights and moments."""
    newest = max(p for p in out.iterdir() if p.name.startswith("step-"))
    return [hashlib.sha256((newest / name).read_bytes()).hexdigest() for name in ("model.safetensors", "optimiser.safetensors")]


def column(lines, *names):
    return [[line[name] for name in names] for line in lines]


def compare(whole, out, was, now, layout, dtype):
    ours, theirs = metrics(out), metrics(whole)
    return {"from": was, "to": now, "layout": layout, "dtype": dtype, "steps": len(ours),
            "batches_equal": column(ours, "step", "batch_sha256") == column(theirs, "step", "batch_sha256"),
            "losses_equal": column(ours, "loss", "grad_norm") == column(theirs, "loss", "grad_norm"),
            "weights_equal": weights(out) == weights(whole)}


def experiment(folder, dtype, was, worlds, steps, at, grains):
    """Rows of the table, and the loss curves by name."""
    whole, first = folder / f"{dtype}-whole", folder / f"{dtype}-{was}"
    recipe = write_recipe(folder / f"{dtype}.toml", dtype, "replicated", steps, grains)
    train(1, recipe, whole)
    train(was, recipe, first, "--stop-after", at)
    rows, curves = [], {"1 rank, never stopped": metrics(whole)}
    for i, now in enumerate(worlds):
        out, mode = folder / f"{dtype}-{was}-{now}", MODES[i % len(MODES)]
        shutil.copytree(first, out)
        train(now, write_recipe(folder / f"{dtype}-{now}.toml", dtype, mode, steps, grains), out)
        rows.append(compare(whole, out, was, now, f"data {was} replicated, data {now} {mode}", dtype))
        curves[f"{was} ranks, then {now}"] = metrics(out)
        show(rows[-1])
    return rows, curves


def show(row):
    if isinstance(row, dict):
        row = [row["from"], row["to"], row["layout"], row["dtype"], row["steps"],
               *("equal" if row[k] else "DIFFER" for k in ("batches_equal", "losses_equal", "weights_equal"))]
    print("{:>5} {:>5}  {:<36} {:<6} {:>5}  {:<8} {:<7} {:<7}".format(*row), flush=True)


def draw(path, charts, at):
    """One chart a dtype: the curves lie on each other, so each is drawn with other dashes."""
    width, height, left, top = 640, 260, 60, 40
    colours = ("#888888", "#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6f2dbd")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height * len(charts)}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for c, (dtype, curves) in enumerate(charts.items()):
        losses = [m["loss"] for lines in curves.values() for m in lines]
        low, high, steps = min(losses), max(losses), max(len(lines) for lines in curves.values())
        x = lambda step: left + (step - 1) * (width - left - 190) / max(1, steps - 1)
        y = lambda loss: c * height + top + (high - loss) * (height - 2 * top) / max(1e-9, high - low)
        out.append(f'<text x="{left}" y="{c * height + 22}">loss by step, {dtype}; the ranks change after step {at}</text>')
        for value in (low, high):
            out.append(f'<text x="{left - 8}" y="{y(value) + 4}" text-anchor="end">{value:.3f}</text>')
        out.append(f'<line x1="{x(at + 0.5)}" x2="{x(at + 0.5)}" y1="{y(high)}" y2="{y(low)}" stroke="#cccccc"/>')
        for i, (name, lines) in enumerate(curves.items()):
            colour, dash = colours[i % len(colours)], f"6 {6 * (len(curves) - 1)}" if i else "none"
            points = " ".join(f'{x(m["step"]):.1f},{y(m["loss"]):.1f}' for m in lines)
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" stroke-dashoffset="{-6 * i}"/>')
            out.append(f'<text x="{width - 180}" y="{c * height + top + 16 * i}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="was", type=int, default=16, help="ranks of the first part (16)")
    parser.add_argument("--to", type=numbers, default=[8, 32, 64, 3, 1], help="ranks of the second part (8,32,64,3,1)")
    parser.add_argument("--dtypes", type=lambda text: text.split(","), default=["f32", "bf16"], help="f32,bf16")
    parser.add_argument("--steps", type=int, default=12, help="of the whole run (12)")
    parser.add_argument("--at", type=int, default=5, help="the step after which the ranks change (5)")
    parser.add_argument("--grains", type=int, default=64, help="of a global batch (64)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/elastic", help="folder of the runs (build/elastic)")
    parser.add_argument("--quick", action="store_true", help="4 ranks, then 2, 3 and 1; 4 steps, 6 grains")
    a = parser.parse_args()
    if a.quick:
        a.was, a.to, a.steps, a.at, a.grains = 4, [2, 3, 1], 4, 2, 6
    if not 0 < a.at < a.steps:
        parser.error(f"--at {a.at} must lie between 0 and --steps {a.steps}")
    a.out = a.out.resolve()
    shutil.rmtree(a.out, ignore_errors=True)
    a.out.mkdir(parents=True)
    rows, charts = [], {}
    show(["from", "to", "layout", "dtype", "steps", "batches", "losses", "weights"])
    for dtype in a.dtypes:
        more, charts[dtype] = experiment(a.out, dtype, a.was, a.to, a.steps, a.at, a.grains)
        rows += more
    draw(a.out / "elastic.svg", charts, a.at)
    report = a.out.with_suffix(".json")
    report.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"curves: {a.out / 'elastic.svg'}; table: {report}")
    return 0 if all(row[k] for row in rows for k in ("batches_equal", "losses_equal", "weights_equal")) else 1


if __name__ == "__main__":
    sys.exit(main())
