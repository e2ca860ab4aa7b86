#!/usr/bin/env python3
"""TensorBoard's own reader takes the event files of `isotone train`. Says so and exits 0 where it cannot be installed."""
import pathlib
import subprocess
import sys
import tempfile

import tiny_run as t

READ = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
for tag in events.Tags()["scalars"]:
    for e in events.Scalars(tag):
        print(tag, e.step, repr(e.value))
"""


def main():
    # setuptools: TensorBoard asks for pkg_resources, which a fresh environment may lack.
    if subprocess.run(["bash", t.ROOT / "tools/venv.sh", "tensorboard", "tensorboard", "setuptools<81"]).returncode != 0:
        print("skipped: tensorboard cannot be installed here")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recipe = t.recipe(folder / "r.toml", t.make_model(folder / "model"), [t.make_text(folder / "text.txt")])
        t.ok("train", recipe, "--quiet", "--tensorboard", folder / "events")
        done = subprocess.run([t.ROOT / ".cache/venv-tensorboard/bin/python", "-c", READ, folder / "events"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        read = {}
        for line in done.stdout.splitlines():
            tag, step, value = line.split()
            read.setdefault(tag, {})[int(step)] = float(value)
        lines = t.metrics(folder / "r.run")
        assert list(read["loss"]) == list(lines) == [1, 2, 3, 4, 5, 6], read
        for step, value in read["loss"].items():
            assert abs(value - lines[step]["loss"]) < 1e-5, (step, value)
        print("TensorBoard reads", ", ".join(sorted(read)))


if __name__ == "__main__":
    sys.exit(main())
