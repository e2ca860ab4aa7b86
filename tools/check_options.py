#!/usr/bin/env python3
"""The options of the command line against the frozen list options.txt: a new one is a decision, not an accident.
check_options.py --write makes the list anew."""
import pathlib
import re
import sys

import rule

LIST = "tools/options.txt"


def options(root):
    found = set()
    for path in sorted((root / "src/cli").glob("*.cc")):
        for call in re.finditer(r'add_(?:option|flag)\w*\s*\(\s*"([^"]+)"', path.read_text(encoding="utf-8")):
            found.add(f"{path.stem} {call.group(1)}")
    return sorted(found)


def check(root):
    frozen = (root / LIST).read_text().splitlines() if (root / LIST).exists() else []
    found = options(root)
    for line in sorted(set(found) ^ set(frozen)):
        verb = "is new" if line in found else "is gone"
        yield f"{line}: {verb}; if that is meant, run tools/check_options.py --write and say in the commit who needs it"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        (rule.ROOT / LIST).write_text("\n".join(options(rule.ROOT)) + "\n")
        sys.exit(0)
    command = 'void f(CLI::App& c) {\n  c.add_option("-n,--count", n);\n  c.add_flag(\n      "--json", j);\n}\n'
    rule.main(check, {"src/cli/a.cc": command, LIST: "a --json\na -n,--count\n"},
              [{"src/cli/b.cc": 'c->add_flag("--new", x);\n'}, {"src/cli/a.cc": "\n"}])
