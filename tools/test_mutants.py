#!/usr/bin/env python3
"""test_mutants.py BUILD: breaks the order of sums on purpose, one kernel at a time, and expects that kernel's tests to go red.
Works on a copy of the sources in BUILD; minutes the first time, so it is a slow test."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
KERNELS = "src/backends/cpu/kernels/"
# File, what stands there once, what breaks it, tests that must notice.
MUTANTS = [
    (KERNELS + "contract_drive.cc", "return axis_tree(0, k, leaf, add);", "return leaf(0, k);", "Contract*"),
    (KERNELS + "contract_drive.cc", "element_tree(0, outer, grain, add);",
     "grain(0);\n  for (std::int64_t o = 1; o < outer; ++o) {\n    grain(o);\n    add(0, 0);\n  }", "Contract*"),
    (KERNELS + "contract_drive.cc", "left.outer = (node.outer + 1) / 2;", "left.outer = 1;", "Contract*"),
    (KERNELS + "contract_tile.h", "acc[r][v] = V::fma(V::to_float(dot), V::mul(dw, da), acc[r][v]);",
     "acc[r][v] = V::fma(V::mul(V::to_float(dot), dw), da, acc[r][v]);", "QuantisedTest*"),
    (KERNELS + "contract_lanes.h", "const std::int64_t k = kKind == Kind::bf16 ? (i ^ 1) : i;  // pairs: odd first",
     "const std::int64_t k = i;", "Contract*"),
    (KERNELS + "attention_driver.h", "if (top.index % 2 == 0) {", "if (top.index % 2 == 0 || top.level > 0) {", "Attention.*:PagedAttention.*"),
    (KERNELS + "attention_driver.h", "if (top.index % 2 == 0) {", "if (top.index % 2 == 0 || top.level > 0) {", "AttentionGradient.*"),
    (KERNELS + "vec.h", "if (n <= kLeaf) {\n    return leaf_sum<V>(0, n, term);", "if (n <= 4 * kLeaf) {\n    return leaf_sum<V>(0, n, term);", "*Norm*"),
    (KERNELS + "vec.h", "if (n <= kLeaf) {\n    return leaf_sum<V>(0, n, term);", "if (n <= 4 * kLeaf) {\n    return leaf_sum<V>(0, n, term);", "Softmax*"),
    (KERNELS + "vec.h", "if (n <= kLeaf) {\n    return leaf_sum<V>(0, n, term);", "if (n <= 4 * kLeaf) {\n    return leaf_sum<V>(0, n, term);", "CrossEntropy*"),
    (KERNELS + "reduce_impl.h", "return axis_tree(0, n, leaf, [](V a, V b) { return a + b; });", "return leaf(0, n);", "Reduce*"),
    (KERNELS + "embedding_scalar.cc", "const std::int64_t left = axis_cut(length);", "const std::int64_t left = kLeaf;", "Embedding*"),
    (KERNELS + "experts.cc", "const std::int64_t left = (count + 1) / 2;", "const std::int64_t left = count / 2;", "ExpertLinearGrad*"),
]


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True)


def must(*command):
    done = run(*command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def copy_sources(to):
    """Copies what has changed, so that a second run compiles little."""
    names = must("git", "-C", ROOT, "ls-files").splitlines()
    for name in names:
        source, target = ROOT / name, to / name
        if source.is_file() and (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def main():
    folder = pathlib.Path(sys.argv[1]) / "mutants"
    source, build = folder / "source", folder / "build"
    copy_sources(source)
    must("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release")

    def test(tests):
        must("cmake", "--build", build, "--target", "backends_cpu_test")
        done = run(build / "backends_cpu_test", "--gtest_filter=" + tests, "--gtest_brief=1")
        if " 0 tests from " in done.stdout or " tests from 0 test suites" in done.stdout:
            sys.exit(f"no test is named {tests}")
        return done.returncode

    for tests in sorted({m[3] for m in MUTANTS}):
        if test(tests) != 0:
            sys.exit(f"{tests} are red before anything is broken")
    survivors = 0
    for file, old, new, tests in MUTANTS:
        path = source / file
        text = path.read_text()
        if text.count(old) != 1:
            sys.exit(f"{file}: {old!r} stands there {text.count(old)} times; bring this script up to date")
        path.write_text(text.replace(old, new))
        try:
            red = test(tests) != 0
        finally:
            path.write_text(text)
        survivors += not red
        print(f"{'red' if red else 'SURVIVED'}: {tests:<30} {file}: {new.splitlines()[0]}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
