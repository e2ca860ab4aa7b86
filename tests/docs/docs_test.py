#!/usr/bin/env python3
"""The documents say what is there: docs/ops.md is what src/ops makes of it, links lead somewhere, and every `isotone`
command line in a code block has a command and flags that the program knows."""
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ISOTONE", str(ROOT / "build/release/isotone"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@functools.cache
def flags_of(command):
    done = subprocess.run([PROGRAM, *command.split(), "--help"], capture_output=True, text=True)
    assert done.returncode == 0, f"there is no command `isotone {command}`"
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", done.stdout))


def complaints(page):
    text = page.read_text()
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
        if not target.startswith(("http:", "https:")) and not (page.parent / target).exists():
            yield f"{page.name}: there is no {target}"
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"\s*(?:\$ )?(?:\w+=\S+ )*(?:\S*/)?isotone (.*)", line)
            if not found:
                continue
            words = shlex.split(re.split(r" [|>&#]| 2>", found.group(1))[0], comments=True)
            command = next((w for w in words if not w.startswith("-") and w not in ("cpu", "interpreter")), "")
            known = flags_of("") | flags_of(command)
            if command in ("bench", "checkpoint", "data"):  # commands with commands of their own
                known |= flags_of(" ".join(words[words.index(command):][:2]))
            if command == "launch" and "--" in words:  # and what it starts
                known |= flags_of(words[words.index("--") + 1])
            for word in words:
                flag = word.split("=")[0]
                if re.match(r"--?[a-zA-Z]", flag) and flag not in known:
                    yield f"{page.name}: `isotone {command}` has no {flag}"


def main():
    subprocess.run([sys.executable, ROOT / "tools/generate_op_page.py", "--check"], check=True)
    found = [complaint for page in PAGES for complaint in complaints(page)]
    print("\n".join(found) or f"{len(PAGES)} pages: links and commands hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
