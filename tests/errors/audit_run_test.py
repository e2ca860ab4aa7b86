#!/usr/bin/env python3
"""`isotone train --audit`: no bit changes, grains are counted, and a share that is none is refused."""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bits"))
import tiny_run as t  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        for dtype, flags in (("f32", []), ("bf16", []), ("bf16", ["--numerics", "amx-1"])):
            recipe = t.recipe(folder / "r.toml", model, [text], train__dtype=dtype)
            runs = []
            for i, audit in enumerate(([], ["--audit", "1/3"], ["--audit", "1"])):
                out = folder / f"{dtype}{len(flags)}-{i}"
                done = t.ok("train", recipe, "--out", out, "--json", *flags, *audit)
                runs.append((t.losses(out), t.hashes(out)))
                grains = json.loads(done.stdout)["audited"]
                assert (grains == 0 if i == 0 else 0 < grains < 36 if i == 1 else grains == 36), (i, grains)
            assert runs[0] == runs[1] == runs[2], (dtype, runs)
        said = t.ok("train", recipe, "--out", folder / "said", "--audit", "1", ISOTONE_ISA="scalar").stdout
        assert "audit: 36 grains computed a second time, with equal bits" in said, said
        for bad in ("0", "2", "0.1", "1/0", "3/2", "-1/5", "a lot"):
            done = t.run("train", recipe, "--out", folder / "bad", f"--audit={bad}")
            assert done.returncode == 1 and f"got '{bad}'" in done.stderr, (bad, done.returncode, done.stderr)
    print("audits: equal bits, counted; shares out of range refused")


if __name__ == "__main__":
    main()
