#!/usr/bin/env bash
# The tour that `make demo` gives: look at a model, talk to it, convert it, fine-tune it on real text, once on one worker and
# once on workers that are killed, lost and added, to the same bits, and let an OpenAI client ask the result. About five minutes on two cores; everything lands in .cache/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
isotone=${ISOTONE:-build/release/isotone}
model=.cache/models/smollm2-135m-instruct.gguf
demo=.cache/demo
recipe=recipes/demo.toml
kill_after=6  # steps
stop_after=8  # steps of each start of the second run

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
run() {
  printf '\033[2m$ %s\033[0m\n' "$*"
  "$@"
}
[ -x "$isotone" ] || { echo "demo: no $isotone; make build" >&2; exit 1; }
[ -f "$model" ] || { echo "demo: no $model; make setup" >&2; exit 1; }
rm -rf "$demo"
mkdir -p "$demo"

say "1. A model file: SmolLM2-135M-Instruct, 4-bit weights"
"$isotone" inspect "$model" >"$demo/inspect.txt"
printf '\033[2m$ %s inspect %s | head -n 12\033[0m\n' "$isotone" "$model"
head -n 12 "$demo/inspect.txt"

say "2. It talks"
run "$isotone" generate "$model" --chat -p "Why is the sky blue?" -n 40 --temperature 0

say "3. The same weights as a folder that transformers loads, widened to f32"
run "$isotone" convert "$model" "$demo/model" --quiet

say "4. Fine-tuning on real text, once without a break"
[ -f "$recipe" ] || { echo "demo: no $recipe" >&2; exit 1; }
run "$isotone" train "$recipe" --out "$demo/whole"

say "5. The same run on 2 workers, of which one is killed, then on the 1 that is left, then on 4"
printf '\033[2m$ %s\033[0m\n' "$isotone launch -n 2 -- train $recipe --out $demo/moved --stop-after $stop_after"
"$isotone" launch -n 2 -- train "$recipe" --out "$demo/moved" --stop-after "$stop_after" &
launcher=$!
trap 'kill "$launcher" 2>/dev/null || true' EXIT
until [ "$(cat "$demo/moved/metrics.jsonl" 2>/dev/null | wc -l)" -ge "$kill_after" ]; do
  kill -0 "$launcher" 2>/dev/null || { echo "demo: the workers ended too early" >&2; exit 1; }
  sleep 0.05
done
victim=$(awk '{print $2}' "/proc/$launcher/task/$launcher/children")
run kill -9 "$victim"
wait "$launcher"
trap - EXIT
run "$isotone" launch -n 4 -- train "$recipe" --out "$demo/moved"

# The last checkpoint of a run; it is a folder that every command takes as MODEL.
weights() {
  find "$1" -maxdepth 1 -type d -name 'step-*' | sort | tail -n 1
}
whole=$(weights "$demo/whole")
moved=$(weights "$demo/moved")
# Step, loss and the hash of the global batch, a line each.
course() {
  python3 -c 'import json, sys
for line in open(sys.argv[1]):
    m = json.loads(line)
    print(f"step {m[\"step\"]:2}  batch {m[\"batch_sha256\"][:12]}  loss {m[\"loss\"]}")' "$1/metrics.jsonl"
}
a=$("$isotone" inspect --sha256 "$whole")
b=$("$isotone" inspect --sha256 "$moved")
echo "one worker, without a break:"
course "$demo/whole"
echo "  weights $a"
echo "2 workers, one killed, 1, then 4:"
course "$demo/moved"
echo "  weights $b"
if [ "$(course "$demo/whole")" != "$(course "$demo/moved")" ] || [ "$(cut -d' ' -f1 <<<"$a")" != "$(cut -d' ' -f1 <<<"$b")" ]; then
  echo "demo: the two runs differ; that must not be" >&2
  exit 1
fi
echo "Every batch, every loss and every bit of every weight is the same."
echo "Loss curve: $demo/whole/loss.svg"

say "6. The fine-tuned weights behind OpenAI's API"
"$isotone" serve "$whole" --port 0 --json --quiet >"$demo/serve.json" 2>"$demo/serve.log" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  [ -s "$demo/serve.json" ] && break
  kill -0 "$server" 2>/dev/null || { cat "$demo/serve.log" >&2; exit 1; }
  sleep 0.1
done
url=$(grep -o 'http://[0-9.:]*' "$demo/serve.json" | head -n 1)
[ -n "$url" ] || { echo "demo: the server gave no address: $(cat "$demo/serve.json")" >&2; exit 1; }
run .cache/venv-openai-client/bin/python - "$url" <<'PY'
import sys
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="unused")
model = client.models.list().data[0].id
question = [{"role": "user", "content": "Who wrote Pride and Prejudice?"}]
print(f"{model}: ", end="")
for piece in client.chat.completions.create(model=model, messages=question, max_tokens=40, temperature=0, stream=True):
    print(piece.choices[0].delta.content or "" if piece.choices else "", end="", flush=True)
print()
PY
kill "$server"
wait "$server" || true
trap - EXIT

say "Done. Yours to try:  $isotone chat $model    $isotone serve $model    $isotone --help"
