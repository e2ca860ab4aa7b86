#!/usr/bin/env bash
# lint.sh BUILD: format, rule scripts, and clang-tidy over the files changed since the last commit (LINT=all: every file).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: tools/lint.sh BUILD}
bad=0
mapfile -t files < <(git ls-files '*.cc' '*.h')
clang-format --dry-run --Werror "${files[@]}" || bad=1
for rule in layers length options text readmes banned; do
  python3 "tools/check_$rule.py" || bad=1
done
if [ -d "$build/generated/ops" ]; then python3 tools/check_headers.py --build "$build" || bad=1; fi
if [ "${LINT:-changed}" = all ]; then
  mapfile -t sources < <(git ls-files 'src/*.cc' | grep -v -e _avx -e _neon)
else
  mapfile -t sources < <(git diff --name-only --diff-filter=d HEAD -- 'src/*.cc' | grep -v -e _avx -e _neon)
fi
if [ ${#sources[@]} -gt 0 ]; then
  printf '%s\n' "${sources[@]}" | xargs -P 2 -n 4 clang-tidy --quiet -p "$build" || bad=1
fi
exit $bad
