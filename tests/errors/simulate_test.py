#!/usr/bin/env python3
"""`isotone train --simulate`: figures that fit together, and one clear message where machines are not understood."""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bits"))
import tiny_run as t  # noqa: E402


def simulated(recipe, machines):
    return json.loads(t.ok("train", recipe, "--simulate", machines, "--json").stdout)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        recipe = t.recipe(folder / "r.toml", model, [text], batch__grains=32, train__dtype="bf16", parallel__data="zero2")
        for machines, ranks in (("8 x H100", 8), ("32 x MI300X, 400 Gb/s, tensor 2, pipeline 2, context 2", 32), ("1 x A100", 1)):
            s = simulated(recipe, machines)
            assert s["ranks"] == ranks and s["seconds"] > 0 and 0 < s["peak_share"] < 1, s
            assert abs(s["tok_s"] - 2 * 32 * 128 / s["seconds"]) < 1e-6 * s["tok_s"], s
            assert abs(sum(s["parts"].values()) - s["seconds"]) < 1e-9, "the parts are the whole"
            assert s["memory_bytes"]["total"] > 0 and (s["sent_bytes"]["data"] > 0) == (ranks > 1), s
        # On this machine the memory is what --plan says.
        here = simulated(recipe, "4 x here")
        plan = json.loads(t.ok("train", recipe, "--plan", "--world", 4, "--json").stdout)
        assert here["memory_bytes"]["total"] == plan["total_bytes"], (here, plan)
        shown = t.ok("train", recipe, "--simulate", "8 x H100, no overlap").stdout
        assert "8 x H100: data 8" in shown and "matrix products" in shown and "messages: data" in shown and "memory of a rank" in shown, shown
        assert not (folder / "r.run").exists(), "nothing runs"
        for machines, *says in (("8 x H101", "H101", "B200"), ("many", "8 x H100"), ("64 x H100", "400 Gb/s"), ("8 x H100, tensr 2", "tensor N"),
                                ("8 x H100, tensor 3", "8 ranks"), ("8 x A100, fp8", "fp8"), ("1 x here, fp8", "fp8"), ("4096 x here", "1024"), ("128 x H100, 400 Gb/s", "64 sequences"), ("", "8 x H100"),
                                ("8 x H100, tensor 8", "heads"), ("8 x H100, tensor 4", "keys")):
            done = t.run("train", recipe, "--simulate", machines)
            assert done.returncode == 1 and "isotone: error: " in done.stderr and all(s in done.stderr for s in says), (machines, done)
        rows = json.loads(t.ok("bench", "simulate", "--json").stdout)
        assert len(rows) == 5 and all(abs(r["error"] - (r["predicted"] / r["published"] - 1)) < 1e-9 for r in rows), rows
        table = t.ok("bench", "simulate").stdout.splitlines()
        assert len(table) == 6 and all("%" in line for line in table[1:]), table
        print("simulated machines: the figures fit together; wrong ones are named")


if __name__ == "__main__":
    main()
