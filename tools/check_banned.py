#!/usr/bin/env python3
"""Calls that a library must not make: ending the process, printing to standard output, raw owning pointers, global
mutable state. Code of src/ only; comments and strings do not count."""
import re

import rule

LIBRARY = [  # everywhere but in src/cli; 127 is the end of a child process whose program cannot be run
    (r"\bstd::(exit|abort|terminate|quick_exit|_Exit)\b|(?<![\w.>:])(exit|abort|_exit)\s*\((?!127\))", "a library never ends its process: throw isotone::Error"),
    (r"\bstd::(cout|printf|puts)\b|(?<![\w.>:])(printf|puts|putchar)\s*\(|\bfmt::print\s*\(\s*(?!stderr\b|\w+\s*,)", "a library never writes to standard output"),
]
EVERYWHERE = [
    # Handed at once to an owner's constructor, Owner(new T...), it is owned; make_unique would clear large arrays for nothing.
    (r"(?<!operator )(?<!\w\()(?<!>\()\bnew\s+(?!\()[A-Za-z_:]", "raw new: use std::make_unique or a container"),
    (r"(?<!operator )(?<!= )\bdelete\b(?!\s*[;,)]?\s*$)\s*(\[\])?\s*[A-Za-z_*(]", "raw delete: let an owner do it"),
    (r"(?<![\w.>:])(malloc|calloc|realloc)\s*\(|\bstd::(malloc|calloc|realloc)\b", "malloc: use a container or a unique_ptr"),
]
# A definition at the left margin that ends in a value: neither const, nor a function, nor a type. thread_local flags that say
# "this thread is inside a region" are state of a thread and are allowed.
GLOBAL = re.compile(r"^(?:static |inline )*(?:std::[\w:]+(?:<[^;=(){}]*>)?|bool|int|long|float|double|char|size_t|u?int\d+_t)[&*]* \w+(?:\[\w*\])*\s*(?:=|;|\{)")


def check(root):
    for path in rule.tracked(root, ".cc", ".h"):
        name = path.relative_to(root).as_posix()
        if not name.startswith("src/"):
            continue
        rules = EVERYWHERE + ([] if name.startswith("src/cli/") or name.endswith("_test.cc") else LIBRARY)
        code = re.sub(r"\(\n\s+new\b", "(new", rule.code_only(path.read_text(encoding="utf-8")))
        for number, line in enumerate(code.splitlines(), 1):
            for pattern, why in rules:
                if re.search(pattern, line):
                    yield f"{name}:{number}: {why}"
            if GLOBAL.match(line) and "const" not in line:
                yield f"{name}:{number}: global mutable state: make it const, or a member of something handed in"


if __name__ == "__main__":
    good = 'void f() = delete;\nconstexpr int kA = 1;\nint g(int new_value);\n// new X, exit(1)\nauto s = "printf(";\nthread_local bool b = false;\n' \
           "struct S {\n  int member = 0;\n  void operator delete[](void* p);\n  S(const S&) = delete;\n};\nvoid h() { fmt::print(stderr, 1); app.exit(1); }\n"
    rule.main(check, {"src/base/a.cc": good, "src/cli/a.cc": 'void f() { std::exit(1); std::printf("x"); }\n'},
              [{"src/ops/b.cc": line + "\n"} for line in ("void f() { std::exit(1); }", "void f() { abort(); }", "void f() { std::cout << 1; }",
               'void f() { printf("x"); }', "auto* p = new Foo;", "void f() { delete p; }", "void f() { delete[] p; }", "int counter = 0;",
               "static std::vector<int> all;", "void* p = malloc(3);", 'void f() { fmt::print("x"); }')])
