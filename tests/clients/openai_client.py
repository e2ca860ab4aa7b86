"""OpenAI's own Python client against a server. Usage: openai_client.py PORT MODEL [KEY]. Exits 0 if all holds."""
import sys

import openai

port, model = sys.argv[1], sys.argv[2]
key = sys.argv[3] if len(sys.argv) > 3 else "unused"
client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0, timeout=120)
messages = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": "What is the capital of France?"}]

assert [m.id for m in client.models.list()] == [model]
assert client.models.retrieve(model).id == model

# Whole and streamed answers are equal, tokens and log-probabilities too.
whole = client.chat.completions.create(model=model, messages=messages, temperature=0, max_tokens=24, logprobs=True,
                                       top_logprobs=3)
text = whole.choices[0].message.content
assert text and whole.choices[0].finish_reason in ("stop", "length"), whole
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
tokens = whole.choices[0].logprobs.content
assert len(tokens) == whole.usage.completion_tokens
for t in tokens:
    assert t.logprob <= 0 and len(t.top_logprobs) == 3
    assert t.logprob == t.top_logprobs[0].logprob, "greedy takes the most likely token"
print("answer:", repr(text))

pieces, usage, streamed = [], None, []
with client.chat.completions.create(model=model, messages=messages, temperature=0, max_tokens=24, stream=True,
                                    logprobs=True, top_logprobs=3, stream_options={"include_usage": True}) as stream:
    for chunk in stream:
        usage = chunk.usage or usage
        if chunk.choices:
            pieces.append(chunk.choices[0].delta.content or "")
            if chunk.choices[0].logprobs:
                streamed += chunk.choices[0].logprobs.content
assert "".join(pieces) == text, (pieces, text)
assert [t.logprob for t in streamed] == [t.logprob for t in tokens]
assert usage.completion_tokens == whole.usage.completion_tokens and len(pieces) > 3

# A stop string taken from the middle of the answer.
if len(text) > 6:
    stop = text[3:6]
    cut = client.chat.completions.create(model=model, messages=messages, temperature=0, max_tokens=24, stop=[stop])
    assert cut.choices[0].message.content == text[:text.index(stop)] and cut.choices[0].finish_reason == "stop"

# Seeds.
def draw(seed):
    return client.chat.completions.create(model=model, messages=messages, temperature=1.5, max_tokens=16, seed=seed,
                                          frequency_penalty=0.5, presence_penalty=0.2, top_p=0.95,
                                          extra_body={"top_k": 50, "min_p": 0.01}).choices[0].message.content

assert draw(7) == draw(7)

# Completions, from text and from ids.
c = client.completions.create(model=model, prompt="The sea is", temperature=0, max_tokens=8, logprobs=2)
assert len(c.choices[0].logprobs.token_logprobs) == c.usage.completion_tokens
assert "".join(p.choices[0].text for p in client.completions.create(
    model=model, prompt="The sea is", temperature=0, max_tokens=8, stream=True)) == c.choices[0].text
assert client.completions.create(model=model, prompt=[10, 20, 30], max_tokens=2).usage.prompt_tokens == 3
biased = client.completions.create(model=model, prompt="a", max_tokens=3, temperature=0, logit_bias={"65": 100},
                                   logprobs=0)
assert len(set(biased.choices[0].logprobs.tokens)) == 1

# Errors arrive as the client's own classes.
for make, kind, param in [
        (dict(model="other", messages=messages), openai.NotFoundError, "model"),
        (dict(model=model, messages=messages, n=2), openai.BadRequestError, "n"),
        (dict(model=model, messages=[]), openai.BadRequestError, "messages"),
        (dict(model=model, messages=messages, temperature=-1), openai.BadRequestError, "temperature"),
        (dict(model=model, messages=messages, tools=[{"type": "function", "function": {"name": "f"}}]),
         openai.BadRequestError, "tools"),
        (dict(model=model, messages=messages, response_format={"type": "json_object"}), openai.BadRequestError,
         "response_format")]:
    try:
        client.chat.completions.create(**make)
        raise SystemExit(f"no error for {param}")
    except kind as e:
        assert e.param == param, (param, e.body)
if len(sys.argv) > 3:
    try:
        openai.OpenAI(base_url=client.base_url, api_key="wrong", max_retries=0).models.list()
        raise SystemExit("a wrong key was taken")
    except openai.AuthenticationError:
        pass

# Leaving a stream in the middle frees the server for the next request.
stream = client.chat.completions.create(model=model, messages=messages, stream=True, max_tokens=200)
next(iter(stream))
stream.close()
assert client.chat.completions.create(model=model, messages=messages, max_tokens=1).usage.completion_tokens == 1
print("openai client: ok")
