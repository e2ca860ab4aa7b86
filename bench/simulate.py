#!/usr/bin/env python3
"""The cost model against this machine: constants are fitted on one and two ranks, then 4 and 8 are predicted and measured.

    python3 bench/simulate.py            # predictions with the constants that are built in
    python3 bench/simulate.py --fit      # constants from new measurements, for src/train/fitted.cc
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("ISOTONE", str(ROOT / "build/release/isotone"))


def call(*arguments, **environment):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return json.loads(done.stdout)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def measured(ranks, batch, a):
    """Seconds of a step on `ranks` processes that share the cores: the least of some runs' medians."""
    cores = len(os.sched_getaffinity(0))
    words = ["bench", "train", "--size", a.size, "--batch", batch, "--seq", a.seq, "--steps", a.steps, "--data", "zero2", "--json"]
    best = None
    for _ in range(a.repeats):
        environment = {**os.environ, "ISOTONE_THREADS": str(max(1, cores // ranks)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                       "WORLD_SIZE": str(ranks)}
        processes = [subprocess.Popen([PROGRAM, *map(str, words)], env={**environment, "RANK": str(r)}, stdout=subprocess.PIPE, text=True)
                     for r in range(ranks)]
        outs = [p.communicate()[0] for p in processes]
        assert all(p.returncode == 0 for p in processes)
        seconds = json.loads(outs[0])["seconds"]
        best = seconds if best is None else min(best, seconds)
    return best


def predicted(ranks, batch, a, machine, fitted=None):
    more = ["--fitted", *fitted] if fitted else []
    return call("bench", "simulate", "--ranks", ranks, "--size", a.size, "--batch", batch, "--seq", a.seq, "--machine", *machine, *more, "--json")


def least_squares(rows):
    """x, y >= 0 of a x + b y = t, each row weighed by 1 / t."""
    rows = [(a / t, b / t, 1.0) for a, b, t in rows]
    aa, ab, bb = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    at, bt = (sum(r[i] * r[2] for r in rows) for i in (0, 1))
    x, y = (bb * at - ab * bt) / (aa * bb - ab * ab), (aa * bt - ab * at) / (aa * bb - ab * ab)
    return (x, y) if x >= 0 and y >= 0 else (max(0.0, at / aa), 0.0) if y < 0 else (0.0, max(0.0, bt / bb))


def fit(times, a, machine):
    rows = []
    for batch in (2, 4, 8):
        parts = predicted(1, batch, a, machine, (1, 1, 1))["parts"]
        rows.append((parts["activations"], parts["parameters"], times[1, batch] - parts["matmul"] - parts["update"]))
    activations, parameters = least_squares(rows)
    two = predicted(2, 8, a, machine, (activations, parameters, 1))
    messages = times[2, 8] - (two["seconds"] - two["parts"]["data"])
    return activations, parameters, max(0.01, min(1.0, two["parts"]["data"] / max(messages, 1e-9)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--fit", action="store_true", help="fit the constants anew")
    p.add_argument("--size", default="small")
    p.add_argument("--seq", default=256)
    p.add_argument("--steps", default=3)
    p.add_argument("--repeats", default=2, type=int)
    a = p.parse_args()
    best = [call("bench", "simulate", "--ranks", 1, "--size", "tiny", "--json") for _ in range(3)]
    machine = [max(b[key] for b in best) for key in ("matmul_flops", "memory_bandwidth")]
    print(f"this machine: {machine[0] / 1e9:.0f} GFLOP/s in f32, {machine[1] / 1e9:.1f} GB/s")
    fitted = None
    times = {}
    if a.fit:
        for ranks, batch in ((1, 2), (1, 4), (1, 8), (2, 8)):
            times[ranks, batch] = measured(ranks, batch, a)
        fitted = fit(times, a, machine)
        print("fitted: {:.2f} passes over activations, {:.2f} over parameters, {:.3f} of the link".format(*fitted))
    print("ranks  batch  predicted  measured  error")
    for ranks, batch in ((1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (8, 8)):
        if (ranks, batch) not in times:
            times[ranks, batch] = measured(ranks, batch, a)
        guess = predicted(ranks, batch, a, machine, fitted)["seconds"]
        role = " (fitted)" if a.fit and ranks <= 2 else ""
        print(f"{ranks:5}{batch:7}{guess:10.3f} s{times[ranks, batch]:8.3f} s{100 * (guess / times[ranks, batch] - 1):+6.0f} %{role}", flush=True)


if __name__ == "__main__":
    main()
