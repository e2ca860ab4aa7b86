#!/usr/bin/env python3
"""Each header of src/ compiles alone. What was found good is remembered in BUILD/headers.json under a hash of the header
and of all project files it includes, so that a second run costs nothing. usage: check_headers.py [--build BUILD]"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import rule

CXX = os.environ.get("CXX", "g++")
BASE = ["-std=c++20", "-fsyntax-only", "-w", "-x", "c++", "-ffp-contract=off", '-DISOTONE_SOURCE_DIR="."']
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mavx512bf16"]
ARM = "aarch64-linux-gnu-g++"


def command(root, header, generated):
    """The compiler's command line, or None where this machine has no compiler for it."""
    on_x86 = platform.machine() in ("x86_64", "AMD64")
    compiler, flags = CXX, ["-march=x86-64-v3"] if on_x86 else []
    text = header.read_text(encoding="utf-8")
    if "neon" in header.name or ("<arm_neon.h>" in text and "__ARM_NEON" not in text and "__aarch64__" not in text):
        if on_x86:
            compiler, flags = ARM, []
    elif "avx512" in header.name:
        if not on_x86:
            return None
        flags = flags + AVX512
    if not shutil.which(compiler):
        return None
    return [compiler, *BASE, *flags, f"-I{root / 'src'}", f"-I{generated}", f"-I{root / 'src/backends/cpu/kernels'}"]


def digest(paths):
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.encode() + b"\0" + (pathlib.Path(path).read_bytes() if os.path.exists(path) else b"gone"))
    return whole.hexdigest()


def check_one(root, header, generated, known):
    """(key, entry to remember or None, complaint or None)"""
    key = header.relative_to(root).as_posix()
    line = command(root, header, generated)
    if line is None:
        return key, None, None
    old = known.get(key)
    if old and digest(old["files"]) == old["sha256"]:
        return key, old, None
    with tempfile.NamedTemporaryFile(suffix=".d") as listing:
        done = subprocess.run([*line, "-MMD", "-MF", listing.name, "-MT", "x", str(header)], capture_output=True, text=True)
        names = pathlib.Path(listing.name).read_text().replace("\\\n", " ").split()[1:]
    if done.returncode != 0:
        errors = [e for e in done.stderr.splitlines() if "error" in e] or done.stderr.splitlines()
        return key, None, f"{key} does not compile alone: {errors[0] if errors else done.returncode}"
    files = sorted(name for name in set(names) if not name.startswith("/usr/"))
    return key, {"files": files, "sha256": digest(files)}, None


def check(root, build=None):
    memory = build / "headers.json" if build else None
    known = json.loads(memory.read_text()) if memory and memory.exists() else {}
    generated = build / "generated" if build else root / "generated"
    headers = [h for h in rule.tracked(root, ".h") if h.relative_to(root).parts[0] == "src"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda h: check_one(root, h, generated, known), headers))
    if memory:
        memory.write_text(json.dumps({key: entry for key, entry, _ in results if entry}))
    return [complaint for _, _, complaint in results if complaint]


if __name__ == "__main__":
    folder = rule.ROOT / "build/release"
    if len(sys.argv) == 3 and sys.argv[1] == "--build":
        folder = pathlib.Path(sys.argv[2])
        del sys.argv[1:]
    if sys.argv[1:] != ["--self-test"] and not folder.is_dir():
        sys.exit(f"{folder}: no such build folder; make build, or --build BUILD")
    rule.main(lambda root: check(root, folder if root == rule.ROOT else None),
              {"src/a.h": "#pragma once\n#include <string>\nstd::string f();\n", "src/b.h": '#pragma once\n#include "a.h"\n'},
              [{"src/c.h": "#pragma once\nstd::string g();\n"}, {"src/c.h": '#include "gone.h"\n'}])
