#!/usr/bin/env bash
# Installs the Debian packages below, and those given as arguments, that are missing; does nothing, and asks for no
# rights, when all are there.
set -euo pipefail

packages() {
  sed 's/ *#.*//' <<'LIST'
ccache                 # a rebuild compiles only what changed
cmake                  # the build
ninja-build            # its runner
g++                    # the compiler: 12 or newer
python3                # generators and rule scripts, standard library only
python3-venv           # virtual environments of tests and benches
git                    # rule scripts ask it for the tracked files
libfmt-dev             # formatting of messages
libcli11-dev           # command line
nlohmann-json3-dev     # JSON
libtomlplusplus-dev    # recipes of `isotone train`
libboost1.81-dev       # HTTP server (Beast, Asio)
libssl-dev             # SHA-256
libgloo-dev            # messages between the processes of a run
libxxhash-dev          # fast checksums
libgtest-dev           # tests
g++-aarch64-linux-gnu  # the Arm build of core and kernels
qemu-user              # runs it
clang-format           # make format
clang-tidy             # make lint
r-cran-janeaustenr     # text: six novels of Jane Austen
anarchism              # text: a long FAQ in plain prose
LIST
}

missing=()
for package in $(packages) "$@"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: installing ${missing[*]}"
root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: these packages are missing; install them as root: ${missing[*]}" >&2; exit 1; }
  root=(sudo)
fi
# Debian's slim images drop /usr/share/doc, where the text of `anarchism` lives; it is let through.
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  -o 'Dpkg::Options::=--path-include=/usr/share/doc/anarchism/*' "${missing[@]}" >/dev/null
