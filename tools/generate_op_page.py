#!/usr/bin/env python3
"""docs/ops.md, the page of operations, from the comments and structs of src/ops. With --check (as ctest runs it) nothing is
written, and a page that is out of date is an error."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
OPS, PAGE = ROOT / "src/ops", ROOT / "docs/ops.md"
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
import generate_ops  # noqa: E402

HEAD = """# Operations

Made by `tools/generate_op_page.py` from `src/ops`; do not edit. *Primitives* have a scalar reference that defines their bits;
*composites* are made of other operations, and a kernel that takes one as a whole must give the same bits. In the last column:
`own` gradients are a rule of the operation, `derived` ones come from the decomposition, `none` says so when asked.
"""


def bases():
    """Text of each struct template that operations derive from, by name."""
    found = {}
    for path in [OPS / "op.h", *sorted((OPS / "support").glob("*.h"))]:
        for match in re.finditer(r"^struct (\w+)[^;{\n]*\{\n(.*?)^\};", path.read_text(), re.M | re.S):
            found[match.group(1)] = match.group(0)
    return found


def struct_text(path, known):
    """The operation's struct with the structs it derives from."""
    text = path.read_text()
    struct = re.search(r"^ISOTONE_OP\(\w+, (\w+)\);", text, re.M).group(1)
    whole = re.search(rf"^struct {struct}\b.*?^\}};", text, re.M | re.S).group(0)
    todo = [whole]
    while todo:
        head = todo.pop().split("{", 1)[0]
        for base in re.findall(r"(\w+)(?:<\w+>)?", head.split(":", 1)[1]) if ":" in head else []:
            if base in known:
                whole += known[base]
                todo.append(known[base])
    return whole


def page():
    known, rows = bases(), {True: [], False: []}
    for path in sorted(OPS.glob("*.cc")):
        if path.stem == "op" or path.stem.endswith("_test"):
            continue
        text = struct_text(path, known)
        primitive = "void reference(" in text
        assert primitive != ("Values decompose(" in text), f"{path}: neither primitive nor composite"
        gradient = "none" if "NoGradient" in text else "own" if "Values vjp(" in text else "derived"
        calls, about = [], ""
        for line in generate_ops.declarations(path):
            if line.startswith("///"):
                about += line[3:] if not calls else ""
            elif line:
                calls.append("`" + re.sub(r"const (std::string|Value|Shape)& ", r"\1 ", line.rstrip(";")).replace("std::", "") + "`")
        about = about.strip() or path.read_text().splitlines()[0][3:]
        about = about.replace("|", "\\|")
        rows[primitive].append(f"| [{path.stem}](../src/ops/{path.name}) | {'<br>'.join(calls)} | {about} | {gradient} |")
    table = ["| name | call | what | gradient |", "|---|---|---|---|"]
    return "\n".join([HEAD, f"## Primitives ({len(rows[True])})", *table, *rows[True], "",
                      f"## Composites ({len(rows[False])})", *table, *rows[False], ""])


if __name__ == "__main__":
    text = page()
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.exit("docs/ops.md is not what src/ops says: run tools/generate_op_page.py")
    else:
        PAGE.write_text(text)
