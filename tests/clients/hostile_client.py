"""Raw sockets against the server: half requests, slow ones, huge ones, vanishing clients, wrong keys.
Usage: hostile_client.py PORT open | key KEY | endless. No third-party package. Exits 0 if all holds."""
import json
import socket
import sys
import threading
import time

PORT = int(sys.argv[1])
CHAT = "/v1/chat/completions"


def connect():
    s = socket.create_connection(("127.0.0.1", PORT), timeout=30)
    return s


def read_response(s):
    """(status, headers, body) of one response; body until Content-Length, the last chunk, or the end."""
    f = s.makefile("rb")
    line = f.readline()
    assert line, "the server closed without an answer"
    status = int(line.split()[1])
    headers = {}
    while True:
        line = f.readline().strip()
        if not line:
            break
        name, value = line.split(b":", 1)
        headers[name.decode().lower()] = value.strip().decode()
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            n = int(f.readline(), 16)
            chunk = f.read(n)
            f.readline()
            if n == 0:
                break
            body += chunk
    elif "content-length" in headers:
        body = f.read(int(headers["content-length"]))
    else:
        body = f.read()
    return status, headers, body


def request(method, path, body=None, headers=(), s=None, version="1.1"):
    own = s is None
    s = s or connect()
    s.sendall(encode(method, path, body, headers, version))
    result = read_response(s)
    if own:
        s.close()
    return result


def encode(method, path, body=None, headers=(), version="1.1"):
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost"]
    data = b""
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines += [f"Content-Length: {len(data)}"]
        if not any(h.lower().startswith("content-type") for h in headers):
            lines.append("Content-Type: application/json")
    return ("\r\n".join(lines + list(headers)) + "\r\n\r\n").encode() + data


def chat(text="hi", **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **more}


def error_of(response, status, code=None, param="any"):
    got, headers, body = response
    assert got == status, (got, status, body[:300])
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"], error
    assert code is None or error["code"] == code, error
    assert param == "any" or error["param"] == param, error
    return error


def events(body):
    """The JSON objects of a stream; checks the closing mark."""
    lines = [l[6:] for l in body.decode().split("\n\n") if l]
    assert lines[-1] == "[DONE]", lines[-1:]
    return [json.loads(l) for l in lines[:-1]]


def metric(name):
    text = request("GET", "/metrics")[2].decode()
    return sum(float(l.split()[-1]) for l in text.splitlines() if l.split("{")[0].split(" ")[0] == name)


def wait_for(condition, what):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited in vain: " + what
        time.sleep(0.005)


LONG = "x" * 1100  # beyond 1000 tokens the fake model takes 2 ms a token


def start_slow(stream=False, max_tokens=2000):
    s = connect()
    s.sendall(encode("POST", CHAT, chat(LONG, max_tokens=max_tokens, stream=stream)))
    return s


# ---- cases ----
def plain_routes():
    status, headers, body = request("GET", "/health")
    assert status == 200 and json.loads(body)["status"] == "ok"
    models = json.loads(request("GET", "/v1/models")[2])
    assert models["object"] == "list" and models["data"][0]["id"] == "fake"
    assert json.loads(request("GET", "/v1/models/fake")[2])["id"] == "fake"
    error_of(request("GET", "/v1/models/other"), 404)
    status, headers, body = request("GET", "/metrics?x=1")
    assert status == 200 and headers["content-type"].startswith("text/plain")
    assert b"isotone_requests_total{" in body and b"isotone_request_seconds_bucket" in body


def wrong_routes_and_methods():
    error_of(request("GET", "/"), 404, "unknown_url")
    error_of(request("POST", "/v1/embeddings", {}), 404, "unknown_url")
    for method, path, allow in [("GET", CHAT, "POST"), ("PUT", CHAT, "POST"), ("DELETE", "/v1/completions", "POST"),
                                ("OPTIONS", CHAT, "POST"), ("POST", "/health", "GET"), ("POST", "/v1/models", "GET")]:
        response = request(method, path, {} if method in ("POST", "PUT") else None)
        error_of(response, 405, "method_not_allowed")
        assert response[1]["allow"] == allow


def answers():
    status, headers, body = request("POST", CHAT, chat(max_tokens=5, seed=1))
    assert status == 200, body
    a = json.loads(body)
    choice = a["choices"][0]
    assert a["object"] == "chat.completion" and choice["finish_reason"] == "length"
    assert choice["message"]["role"] == "assistant" and len(choice["message"]["content"]) == 5
    assert a["usage"]["completion_tokens"] == 5
    assert a["usage"]["total_tokens"] == a["usage"]["prompt_tokens"] + 5
    # The same again: equal text, from the cache.
    b = json.loads(request("POST", CHAT, chat(max_tokens=5, seed=1))[2])
    assert b["choices"] == a["choices"] and b["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    c = json.loads(request("POST", "/v1/completions", {"prompt": "hi", "max_tokens": 4, "temperature": 0})[2])
    assert c["object"] == "text_completion" and len(c["choices"][0]["text"]) == 4
    d = json.loads(request("POST", "/v1/completions", {"prompt": [104, 105], "max_tokens": 4, "temperature": 0})[2])
    assert d["choices"] == c["choices"]


def streams():
    whole = json.loads(request("POST", CHAT, chat(max_tokens=30, stop=["fox"], logprobs=True, top_logprobs=2))[2])
    status, headers, body = request("POST", CHAT, chat(max_tokens=30, stop=["fox"], stream=True, logprobs=True,
                                                       top_logprobs=2, stream_options={"include_usage": True}))
    assert status == 200 and headers["content-type"] == "text/event-stream"
    parts = events(body)
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(p["choices"][0]["delta"].get("content", "") for p in parts if p["choices"])
    assert text == whole["choices"][0]["message"]["content"] and "fox" not in text
    assert parts[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "stop"
    assert parts[-1]["choices"] == [] and parts[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    logprobs = [t for p in parts if p["choices"] and p["choices"][0]["logprobs"]
                for t in p["choices"][0]["logprobs"]["content"]]
    assert logprobs == whole["choices"][0]["logprobs"]["content"] and len(logprobs[0]["top_logprobs"]) == 2
    assert len({p["id"] for p in parts}) == 1
    # HTTP/1.0 knows no chunks: bare events, then the end of the connection.
    status, headers, body = request("POST", CHAT, chat(max_tokens=5, stream=True), version="1.0")
    assert status == 200 and "transfer-encoding" not in headers and len(events(body)) >= 3


def keep_alive():
    s = connect()
    for _ in range(3):
        assert request("POST", CHAT, chat(max_tokens=2), s=s)[0] == 200
        assert request("POST", CHAT, chat(max_tokens=2, stream=True), s=s)[0] == 200
        error_of(request("POST", CHAT, b"{", s=s), 400, "invalid_json")
    # Two requests at once on one connection are answered in order.
    s.sendall(encode("GET", "/health") + encode("GET", "/v1/models"))
    f = s.makefile("rb").read1
    got = b""
    while got.count(b"HTTP/1.1 200") < 2 or not got.endswith(b"}"):
        piece = f(65536)
        assert piece
        got += piece
    assert got.index(b'"status"') < got.index(b'"list"')
    assert request("GET", "/health", headers=["Connection: close"], s=connect())[1].get("connection") == "close"


def bad_bodies():
    for body in [b"", b"{", b"[]", b"\xff\xfe", b'{"prompt": "\xff"}', b"[" * 50000, b'{"a":' * 9000 + b"1" + b"}" * 9000,
                 b'{"prompt": 1e99999}', b"\0" * 100]:
        error_of(request("POST", "/v1/completions", body), 400, "invalid_json")
    error_of(request("POST", CHAT, {}), 400, param="messages")
    error_of(request("POST", CHAT, chat(n=2)), 400, param="n")
    error_of(request("POST", CHAT, chat(tools=[{"type": "function"}])), 400, param="tools")
    error_of(request("POST", CHAT, chat(response_format={"type": "json_object"})), 400, param="response_format")
    error_of(request("POST", CHAT, chat(model="gpt-4")), 404, "model_not_found", "model")
    error_of(request("POST", CHAT, {"messages": [{"role": "user", "content": "x"}], "temperature": -1}), 400,
             param="temperature")
    error_of(request("POST", CHAT, chat(logit_bias={"99999": 1})), 400, param="logit_bias")
    error_of(request("POST", CHAT, chat("y" * 5000)), 400, "context_length_exceeded", "messages")
    error_of(request("POST", CHAT, chat(max_tokens=2001)), 400, param="max_tokens")
    error_of(request("POST", CHAT, chat("y" * 3000, max_tokens=1900)), 400, param="max_tokens")
    error_of(request("POST", "/v1/completions", {"prompt": [5, 70000]}), 400, param="prompt")
    error_of(request("POST", CHAT, b"messages=1", headers=["Content-Type: application/x-www-form-urlencoded"]), 415)


def bad_http():
    for data in [b"nonsense\r\n\r\n", b"GET /health HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                 b"GET /health HTTP/1.1\r\nbad header\r\n\r\n"]:
        s = connect()
        s.sendall(data)
        error_of(read_response(s), 400)
        s.close()
    s = connect()
    s.sendall(b"GET /health HTTP/1.1\r\nX: " + b"a" * 20000 + b"\r\n\r\n")
    error_of(read_response(s), 431, "header_too_large")
    s = connect()
    s.sendall(b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n")
    error_of(read_response(s), 431)
    # Too long by its own word, and too long in chunks without saying so. The answer arrives although data is unread.
    s = connect()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 200000\r\n\r\n" + b"x" * 100000)
    error_of(read_response(s), 413, "body_too_large")
    s = connect()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b"x" * 65536 +
              b"\r\n10000\r\n" + b"x" * 65536)
    error_of(read_response(s), 413, "body_too_large")


def expect_continue():
    s = connect()
    body = json.dumps(chat(max_tokens=2)).encode()
    s.sendall(f"POST {CHAT} HTTP/1.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
              f"Content-Length: {len(body)}\r\n\r\n".encode())
    assert s.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    s.sendall(body)
    assert read_response(s)[0] == 200


def half_and_slow_requests():
    # Half a body, then nothing: 408 after the time limit, not before the headers' own.
    s = connect()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    error_of(read_response(s), 408, "timeout")
    # Headers a byte at a time do not extend the limit.
    s = connect()
    stop = threading.Event()

    def drip():
        try:
            s.sendall(b"GET /health HTTP/1.1\r\nX: ")
            while not stop.wait(0.05):
                s.sendall(b"a")
        except OSError:
            pass

    t = threading.Thread(target=drip)
    t.start()
    error_of(read_response(s), 408, "timeout")
    stop.set()
    t.join()
    # A connection that never speaks is closed without a word.
    s = connect()
    assert s.recv(100) == b""
    # Half a request, then the end.
    s = connect()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    s.shutdown(socket.SHUT_WR)
    error_of(read_response(s), 400, "incomplete_request")
    for data in [b"", b"G", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"]:
        s = connect()
        s.sendall(data)
        s.close()


def vanishing_clients():
    for stream in (False, True):
        before = metric("isotone_cancelled_total")
        s = start_slow(stream)
        wait_for(lambda: metric("isotone_running") == 1, "the answer to start")
        waiting = start_slow()
        wait_for(lambda: metric("isotone_queue_waiting") == 1, "the second to wait")
        waiting.close()  # leaves the queue at once, while the first still runs
        wait_for(lambda: metric("isotone_queue_waiting") == 0, "the place in the queue to be free")
        assert metric("isotone_running") == 1
        if stream:
            s.recv(50)
        s.close()
        wait_for(lambda: metric("isotone_running") == 0, "the work to end")
        wait_for(lambda: metric("isotone_cancelled_total") == before + 2, "both to be counted")
    # With unread data behind the request, a client that leaves is noticed all the same.
    s = start_slow()
    s.sendall(encode("GET", "/health"))
    wait_for(lambda: metric("isotone_running") == 1, "the answer to start")
    s.close()
    wait_for(lambda: metric("isotone_running") == 0, "the work to end")
    assert request("POST", CHAT, chat(max_tokens=2))[0] == 200


def full_queue():
    wait_for(lambda: metric("isotone_running") == 0, "the case before to end")
    running = start_slow()
    wait_for(lambda: metric("isotone_running") == 1, "the answer to start")
    waiting = [start_slow(), start_slow()]
    wait_for(lambda: metric("isotone_queue_waiting") == 2, "two to wait")
    response = request("POST", CHAT, chat())
    error_of(response, 429, "queue_full")
    assert "retry-after" in response[1]
    assert request("GET", "/health")[0] == 200  # the network does not wait for the model
    for s in [running, *waiting]:
        s.close()
    wait_for(lambda: metric("isotone_running") == 0, "all to end")


def first_come_first_served():
    wait_for(lambda: metric("isotone_running") == 0, "the case before to end")
    running = start_slow()
    wait_for(lambda: metric("isotone_running") == 1, "the answer to start")
    queued = []
    for i in range(2):
        queued.append(start_slow(stream=True))
        wait_for(lambda: metric("isotone_queue_waiting") == i + 1, "its turn to wait")
    first, second = queued
    running.close()
    assert b"200 OK" in first.recv(50)
    assert metric("isotone_queue_waiting") == 1
    second.setblocking(False)
    try:
        raise AssertionError(f"the second was answered first: {second.recv(50)}")
    except BlockingIOError:
        second.setblocking(True)
    first.close()
    assert b"200 OK" in second.recv(50)
    second.close()
    wait_for(lambda: metric("isotone_running") == 0, "all to end")


def many_connections():
    idle = [connect() for _ in range(20)]
    # All are taken: the next one is told so. (The server counts them as it accepts, in order.)
    s = connect()
    error_of(read_response(s), 503, "too_many_connections")
    for c in idle:
        c.close()

    def answered():
        try:
            return request("GET", "/health")[0] == 200
        except (OSError, AssertionError):
            return False

    wait_for(answered, "room for a connection")


def key_over_all_routes():
    key = sys.argv[3]
    for method, path in [("GET", "/health"), ("GET", "/metrics"), ("GET", "/v1/models"), ("POST", CHAT),
                         ("POST", "/v1/completions"), ("GET", "/nothing")]:
        for headers in [[], ["Authorization: Bearer wrong"], [f"Authorization: Bearer {key}x"],
                        [f"Authorization: Bearer {key[:-1]}"], [f"Authorization: Basic {key}"], ["Authorization: Bearer "],
                        [f"Authorization: {key}"]]:
            response = request(method, path, chat() if method == "POST" else None, headers=headers)
            error_of(response, 401, "invalid_api_key")
            assert response[1]["www-authenticate"] == "Bearer"
    # Refused before its body is there.
    s = connect()
    s.sendall(f"POST {CHAT} HTTP/1.1\r\nContent-Length: 1000\r\n\r\n".encode())
    error_of(read_response(s), 401)
    good = [f"Authorization: Bearer {key}"]
    assert request("GET", "/health", headers=good)[0] == 200
    assert request("POST", CHAT, chat(max_tokens=2), headers=good)[0] == 200


def endless():
    s = connect()
    s.sendall(encode("POST", CHAT, chat(LONG, max_tokens=2900)))
    error_of(read_response(s), 503, "shutdown")


OPEN = [plain_routes, wrong_routes_and_methods, answers, streams, keep_alive, bad_bodies, bad_http, expect_continue,
        half_and_slow_requests, vanishing_clients, full_queue, first_come_first_served, many_connections]
CASES = {"open": OPEN, "key": [key_over_all_routes], "endless": [endless]}[sys.argv[2]]
for case in CASES:
    began = time.monotonic()
    case()
    print(f"{case.__name__}: ok ({time.monotonic() - began:.1f} s)", flush=True)
