#!/usr/bin/env python3
"""Each #include "..." of src/ against layers.txt: a folder sees lower levels and the siblings that its row names."""
import pathlib
import re

import rule

TABLE = pathlib.Path(__file__).with_name("layers.txt")


def rows():
    """folder -> (level, siblings, only, forbidden)"""
    table = {}
    for line in TABLE.read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        lists, current = {"siblings": [], "only:": [], "not:": []}, "siblings"
        for word in words[2:]:
            if word in lists:
                current = word
            else:
                lists[current].append(word)
        table[words[1]] = (int(words[0]), lists["siblings"], lists["only:"], lists["not:"])
    return table


def check(root):
    table = rows()

    def folder_of(path):
        return next((f for f in sorted(table, key=len, reverse=True) if path.startswith(f + "/")), None)

    for path in rule.tracked(root, ".cc", ".h"):
        name = path.relative_to(root).as_posix()
        if not name.startswith("src/"):
            continue
        folder = folder_of(name[4:])
        if folder is None:
            yield f"{name}: its folder has no row in tools/layers.txt"
            continue
        level, siblings, only, forbidden = table[folder]
        test = name.endswith("_test.cc")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            other = found and folder_of(found.group(1))
            if not found or other == folder:
                continue
            if other is None:  # generated headers live under the folder's name too; all else is a spelling not from src/
                yield f"{name}:{number}: {found.group(1)} does not name a file from the root of src/"
                continue
            below = table[other][0] < level and (not only or other in only) and other not in forbidden
            beside = table[other][0] == level and (test or other in siblings)
            if not below and not beside:
                yield f"{name}:{number}: {folder} (level {level}) may not include {other} (level {table[other][0]})"


if __name__ == "__main__":
    rule.main(check, {"src/ops/a.cc": '#include "ir/b.h"\n#include <vector>\n', "src/ir/b.h": "", "src/train/c.h": '#include "data/d.h"\n'},
              [{"src/base/x.h": '#include "ir/b.h"\n'}, {"src/formats/x.cc": '#include "ir/b.h"\n'}, {"src/ops/x.cc": '#include "formats/b.h"\n'},
               {"src/tensor/x.cc": '#  include "backends/cpu/device.h"\n'}, {"src/serve/x.cc": '#include "train/c.h"\n'},
               {"src/unheard/x.cc": "\n"}, {"src/ops/x.cc": '#include "op.h"\n'}])
