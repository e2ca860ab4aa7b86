#!/usr/bin/env python3
"""Each folder of src/ that has a level in layers.txt and sources, and each of its neighbours with code, has a README.md
of at most 20 lines."""
import check_layers
import rule


def check(root):
    names = [f"src/{folder}" for folder in check_layers.rows()] + ["tests", "bench", "tools", "crates/text"]
    for name in names:
        folder = root / name
        if not any(folder.glob("*.*")) or (folder.is_dir() and not any(p.suffix in (".cc", ".py", ".toml") for p in folder.rglob("*"))):
            continue
        readme = folder / "README.md"
        if not readme.exists():
            yield f"{name}: no README.md (purpose, entry point, what it must not know; at most 20 lines)"
        elif len(readme.read_text(encoding="utf-8").splitlines()) > 20:
            yield f"{name}/README.md: over 20 lines"


if __name__ == "__main__":
    rule.main(check, {"src/ops/a.cc": "", "src/ops/README.md": "# Ops\n"},
              [{"src/ir/a.cc": ""}, {"src/ops/README.md": "x\n" * 21}])
