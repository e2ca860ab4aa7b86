#!/usr/bin/env python3
"""Ranks as processes: the losses and files of one process, whoever starts them and whoever is killed or stopped."""
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_run as t  # noqa: E402


def digests(folder):
    """SHA-256 of the newest checkpoint's files; the manifest apart, which tells when it was written."""
    newest = t.checkpoints(folder)[-1]
    return {name: hashlib.sha256((newest / name).read_bytes()).hexdigest() for name in ("model.safetensors", "optimiser.safetensors")}


def same(a, b, what):
    assert t.losses(a) == t.losses(b), (what, t.losses(a), t.losses(b))
    assert digests(a) == digests(b), what


def start(*arguments, **environment):
    return subprocess.Popen([t.PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                            env={**os.environ, **environment})


def children(pid):
    return sorted(int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def wait_for_step(out, step, process):
    """Until the metrics have that step."""
    for _ in range(30000):
        path = out / "metrics.jsonl"
        if path.exists() and path.read_text().count("\n") >= step:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    raise AssertionError(f"no step {step}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check_worlds(folder, recipe, whole):
    for ranks in (2, 3, 5):
        out = folder / f"world-{ranks}"
        done = t.ok("launch", "-n", ranks, "--json", "--", "train", recipe, "--out", out, "--quiet")
        assert json.loads(done.stdout)["starts"] == [{"ranks": ranks, "lost": [], "exit_code": 0}], done.stdout
        same(whole, out, ranks)
    print("2, 3 and 5 processes: the bits of one")


def check_environments(folder, recipe, whole):
    """Each launcher's names; two hosts that meet at a port."""
    names = {"torchrun": lambda r: {"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "TORCHELASTIC_USE_AGENT_STORE": "True"},
             "mpirun": lambda r: {"OMPI_COMM_WORLD_RANK": str(r), "OMPI_COMM_WORLD_SIZE": "2"},
             "slurm": lambda r: {"SLURM_PROCID": str(r), "SLURM_NTASKS": "2"}}
    for name, environment in names.items():
        out, meet = folder / name, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ranks = [start("train", recipe, "--out", out, "--quiet", **meet, **environment(r)) for r in range(2)]
        for rank in ranks:
            assert rank.wait(timeout=300) == 0, (name, rank.communicate())
        same(whole, out, name)
    out, meet = folder / "hosts", f"127.0.0.1:{free_port()}"
    hosts = [start("launch", "-n", 2, "--hosts", 2, "--host", h, "--meet", meet, "--", "train", recipe, "--out", out, "--quiet") for h in (1, 0)]
    for host in hosts:
        assert host.wait(timeout=300) == 0, host.communicate()
    same(whole, out, "two hosts")
    print("torchrun's, Open MPI's and Slurm's names, two launchers: the same bits")


def check_killed(folder, recipe, whole):
    out = folder / "killed"
    launcher = start("launch", "-n", 2, "--json", "--", "train", recipe, "--out", out)
    wait_for_step(out, 3, launcher)
    os.kill(children(launcher.pid)[1], signal.SIGKILL)
    stdout, stderr = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, (stdout, stderr)
    report = json.loads(stdout.splitlines()[-1])
    assert report["starts"] == [{"ranks": 2, "lost": [1], "exit_code": 75}, {"ranks": 1, "lost": [], "exit_code": 0}], (report, stderr)
    assert "rank 1 was killed by signal 9" in stderr and "starting again with 1 rank" in stderr, stderr
    assert re.search(r"rank 0 of 2, in .*step \d+.*: the connection to rank 1 has ended", stderr) and "last calls here:" in stderr, stderr
    same(whole, out, "one of two killed")
    out = folder / "kept"
    launcher = start("launch", "-n", 3, "--keep-ranks", "--json", "--", "train", recipe, "--out", out)
    wait_for_step(out, 3, launcher)
    os.kill(children(launcher.pid)[0], signal.SIGKILL)
    stdout, stderr = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, (stdout, stderr)
    assert [s["ranks"] for s in json.loads(stdout.splitlines()[-1])["starts"]] == [3, 3], stdout
    same(whole, out, "rank 0 killed, three again")
    print("killed ranks: started again, the same bits")


def check_stopped(folder, recipe, whole):
    """A rank that stands still is named by the others within the timeout, and replaced."""
    out = folder / "stopped"
    launcher = start("launch", "-n", 2, "--grace", 1, "--json", "--", "train", recipe, "--out", out, "--timeout", 2)
    wait_for_step(out, 3, launcher)
    os.kill(children(launcher.pid)[1], signal.SIGSTOP)
    stdout, stderr = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, (stdout, stderr)
    assert re.search(r"rank 0 of 2, in .*step \d+.*: rank 1 has sent nothing for 2 s", stderr) and "rank 1 does not end" in stderr, stderr
    assert [(s["ranks"], s["lost"]) for s in json.loads(stdout.splitlines()[-1])["starts"]] == [(2, [1]), (1, [])], stdout
    same(whole, out, "one of two stopped")
    print("a stopped rank: named, replaced, the same bits")


def check_signals(folder, recipe, whole):
    """SIGTERM to the launcher saves and stops; its death stops the ranks too."""
    out = folder / "asked"
    launcher = start("launch", "-n", 2, "--", "train", recipe, "--out", out, "--quiet")
    wait_for_step(out, 2, launcher)
    launcher.send_signal(signal.SIGTERM)
    stdout, stderr = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, (stdout, stderr)
    done = max(t.metrics(out))
    assert done < 40 and t.checkpoints(out)[-1].name == f"step-{done:06d}", (done, t.checkpoints(out))
    launcher = start("launch", "-n", 2, "--", "train", recipe, "--out", out, "--quiet")
    wait_for_step(out, done + 1, launcher)
    ranks = children(launcher.pid)
    launcher.kill()
    launcher.communicate()
    for _ in range(3000):
        if not any(pathlib.Path(f"/proc/{r}").exists() for r in ranks):
            break
        time.sleep(0.01)
    else:
        raise AssertionError("ranks outlive their launcher")
    t.ok("train", recipe, "--out", out, "--quiet")
    same(whole, out, "stopped twice")
    print("signals: passed on; no rank outlives its launcher")


def check_faults(folder, recipe):
    """What is wrong with the run itself ends it; nobody starts again."""
    def fails(code, *says, arguments=(), launch=("-n", 2), **environment):
        done = t.run("launch", *launch, "--", "train", *arguments, **environment)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        for text in says:
            assert text in done.stderr, (text, done.stderr)
        assert "starting again" not in done.stderr and "terminate called" not in done.stderr, done.stderr

    fails(1, "nowhere.toml", arguments=[folder / "nowhere.toml"])
    fails(2, "--wrong", arguments=[recipe, "--wrong"])
    def alone(*says, **environment):
        done = t.run("train", recipe, "--out", folder / "alone", "--timeout", 1, **environment)
        assert done.returncode in (1, 75), (done.returncode, done.stderr)
        for text in says:
            assert text in done.stderr, (text, done.stderr)

    alone("WORLD_SIZE", "not", RANK="0")
    alone("RANK is '3'", "0 to 1", RANK="3", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29")
    alone("MASTER_ADDR", RANK="0", WORLD_SIZE="2")
    alone("MASTER_PORT is 'x'", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="x")
    port = str(free_port())
    alone("rank 1 did not come", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    alone("nobody answers", "rank 0 has not started", RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    assert t.run("launch", "-n", 2).returncode == 2
    assert t.run("launch", "-n", 2, "--hosts", 2, "--", "train", recipe).returncode == 2
    assert t.run("launch", "-n", 2, "--hosts", 2, "--meet", "here", "--", "train", recipe).returncode == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        alone("cannot wait for the others", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(taken.getsockname()[1]))
    print("faults: named, not tried again")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, text = t.make_model(folder / "model"), t.make_text(folder / "text.txt")
        recipe = t.recipe(folder / "run.toml", model, [text], train__steps=40, train__checkpoint_every=4)
        whole = folder / "whole"
        t.ok("train", recipe, "--out", whole, "--quiet")
        check_worlds(folder, recipe, whole)
        check_environments(folder, recipe, whole)
        check_killed(folder, recipe, whole)
        check_stopped(folder, recipe, whole)
        check_signals(folder, recipe, whole)
        check_faults(folder, recipe)


if __name__ == "__main__":
    os.chdir(t.ROOT)
    main()
