#!/usr/bin/env python3
"""A source file over 500 lines is two things: fails at more than 500, warns at more than 400. Tables of data apart."""
import rule

DATA_TABLES = {"src/text/goldens_for_test.h"}  # generated numbers and texts, no code


def check(root):
    for path in rule.tracked(root, ".cc", ".h", ".py", ".sh", ".rs", ".cmake"):
        name = path.relative_to(root).as_posix()
        if name in DATA_TABLES:
            continue
        lines = path.read_bytes().count(b"\n")
        if lines > 500:
            yield f"{name}: {lines} lines; split it (at most 500)"
        elif lines > 400:
            print(f"warning: {name}: {lines} lines; over 400 it begins to be two things")


if __name__ == "__main__":
    rule.main(check, {"a.cc": "x\n" * 500}, [{"b.h": "x\n" * 501}, {"tools/c.py": "x\n" * 900}])
