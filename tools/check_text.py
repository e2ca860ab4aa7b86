#!/usr/bin/env python3
"""No tracked file names a machine's own paths, a registry's host, or words that mean nothing outside the place where it was
written. The words are kept turned by thirteen letters, so that this file does not name them either."""
import codecs
import re

import rule

TURNED = [r"(?<![\w.~-])/jbex/(?!\*)", r"(?<![\w.~-])/ebbg(?![\w-])", r"(?<![\w.~-])/gzc/grnz", r"\bclcv\.bet\b", r"\bclgubaubfgrq\.bet\b",
          r"\bpengrf\.vb\b", r"\bert\w*\.acczwf\.bet\b", r"\bqro\.qrovna\.bet\b", r"\bjbexcynpr\b", r"\bfhontrag\b", r"\bfvoyvat frffvba\b",
          r"\bguvf frffvba\b", r"\bnabgure frffvba\b", r"\bvffhr \d+\b", r"\bvffhr #\d+\b", r"\bgur oevrs\b"]
SKIPPED = ("crates/text/Cargo.lock", "LICENSE", "tests/text/goldens/", "tests/goldens/")  # made by tools, or text to be tested


def check(root):
    pattern = re.compile("|".join(turned_back(word) for word in TURNED), re.IGNORECASE)
    for path in rule.tracked(root):
        name = path.relative_to(root).as_posix()
        if name.startswith(SKIPPED):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for found in pattern.findall(line):
                yield f"{name}:{number}: {found!r} says something of the machine it was written on"


def turned_back(word):
    """The pattern with its letters turned, escapes such as \\b left alone."""
    return re.sub(r"\\[a-z]|[a-z]+", lambda m: m.group(0) if m.group(0)[0] == "\\" else codecs.decode(m.group(0), "rot13"), word)


if __name__ == "__main__":
    words = ["cd /jbex/znva", "/ebbg/.pnetb", "uggcf://clcv.bet/fvzcyr", "Vffhr 3 nfxf", "qbar va guvf frffvba"]
    rule.main(check, {"a.md": "a framework/workload, /home/user, tissue 3, ~/work/x\n", "LICENSE": codecs.decode("/ebbg\n", "rot13")},
              [{"b.md": codecs.decode(word, "rot13") + "\n"} for word in words])
