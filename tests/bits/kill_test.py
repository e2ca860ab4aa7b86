#!/usr/bin/env python3
"""kill -9 at random moments of training and of saving: every checkpoint that has its name is whole afterwards, and going on from the
newest gives the bits of a run that nobody disturbed. Ten moments here, two hundred in kill_slow_test.py, which goes on where it was
stopped itself."""
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import tiny_run as t

SEED = 20
BUILD = pathlib.Path(os.environ.get("ISOTONE_BUILD", t.ROOT / "build/release"))


def aside_names(out):
    """What is being written or removed in the folder right now."""
    try:
        return [name for name in os.listdir(out) if ".aside-" in name]
    except FileNotFoundError:
        return []


def kill_once(arguments, out, moment, attempt, seconds):
    """Starts a run and kills it. Even moments come anywhere in the length of a run, odd ones within a save, as soon as its folder
    appears. Returns what the kill hit: "saving", "training", or "end" where the run was faster."""
    generator = random.Random(f"{SEED} {moment} {attempt}")
    aim, delay = moment % 2 == 1, generator.random()
    process = subprocess.Popen([t.PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    start = time.monotonic()
    try:
        if aim:
            saves = generator.randrange(1, 4)  # the first, the second or the third that is seen
            seen = set()
            while process.poll() is None and len(seen) < saves:
                seen.update(name for name in aside_names(out) if name.startswith("step-"))
            time.sleep(delay * 0.012)
        else:
            while process.poll() is None and time.monotonic() - start < delay * seconds:
                time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        error = process.communicate()[1].decode()
    if process.returncode == 0:
        return "end"
    assert process.returncode == -signal.SIGKILL, (moment, process.returncode, error)
    return "saving" if any(name.startswith("step-") for name in aside_names(out)) else "training"


class Killing:
    def __init__(self, folder):
        self.folder = folder
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        self.recipe = t.recipe(folder / "r.toml", model, [text], train__checkpoint_every=2, train__keep=2, train__steps=8, batch__grains=8)
        self.whole = folder / "whole"
        start = time.monotonic()
        t.ok("train", self.recipe, "--out", self.whole, "--quiet")
        self.seconds = time.monotonic() - start
        self.names = sorted(p.name for p in self.whole.iterdir())
        self.bits = (self.all_metrics(self.whole), self.files(self.whole))

    @staticmethod
    def all_metrics(out):
        """Without what only the clock decides."""
        return [{k: v for k, v in m.items() if k not in ("tok_s", "cost")} for m in t.metrics(out).values()]

    @staticmethod
    def files(out):
        """SHA-256 of every file of the newest checkpoint."""
        newest = t.checkpoints(out)[-1]
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in newest.iterdir()} | {"": newest.name}

    def moment(self, number):
        """Kills a run at moment `number`, then lets it go on to its end."""
        out = self.folder / f"killed-{number}"
        for attempt in range(20):
            shutil.rmtree(out, ignore_errors=True)
            hit = kill_once(["train", self.recipe, "--out", out, "--quiet"], out, number, attempt, self.seconds)
            if hit != "end":
                break
        there = [p for p in t.checkpoints(out) if ".aside-" not in p.name] if out.exists() else []
        if there:
            verified = json.loads(t.ok("checkpoint", "verify", out, "--json").stdout)
            assert verified["whole"] and len(verified["checkpoints"]) == len(there), (number, verified)
        done = t.ok("train", self.recipe, "--out", out)
        assert "damaged" not in done.stderr, (number, done.stderr)
        if there:
            # Not an older one, and no fresh start.
            assert f"going on from {max(there)}" in done.stderr or max(there).name == "step-000008", (number, there, done.stderr)
        assert self.all_metrics(out) == self.bits[0], (number, hit)
        assert self.files(out) == self.bits[1], (number, hit)
        left = sorted(p.name for p in out.iterdir())
        assert left == self.names, f"moment {number}: left behind {set(left) - set(self.names)}, missing {set(self.names) - set(left)}"
        shutil.rmtree(out)
        return hit


def run(moments, progress=None):
    """progress: a file that remembers which moments of this very program have held."""
    with open(t.PROGRAM, "rb") as program:
        key = hashlib.sha256(program.read() + pathlib.Path(__file__).read_bytes()).hexdigest()
    done = {}
    if progress and progress.exists():
        remembered = json.loads(progress.read_text())
        done = remembered["done"] if remembered["key"] == key else {}
        print(f"going on after {len(done)} moments")
    with tempfile.TemporaryDirectory() as name:
        killing = Killing(pathlib.Path(name))
        for number in range(moments):
            if str(number) in done:
                continue
            done[str(number)] = killing.moment(number)
            if progress:
                aside = progress.with_suffix(".aside")
                aside.write_text(json.dumps({"key": key, "done": done}))
                aside.rename(progress)
    saving, between = (sum(hit == what for hit in done.values()) for what in ("saving", "training"))
    print(f"{moments} kills: {saving} while saving, {between} between; equal bits after each")
    assert saving + between == moments and min(saving, between) >= moments // 10, "too few kills hit a save, or a step: the moments are badly chosen"
    if progress and progress.exists():
        progress.unlink()


if __name__ == "__main__":
    os.chdir(t.ROOT)
    sys.exit(run(10))
