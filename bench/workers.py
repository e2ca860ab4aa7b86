"""Runs the sides of a bench: persistent peers that answer one line a request, and our own program, once a request."""
import json
import os
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = os.path.join(ROOT, ".cache/models")
STEM = os.path.join(MODELS, "smollm2-135m-instruct")
HF = os.path.join(MODELS, "smollm2-hf")
PYTHON = os.path.join(ROOT, ".cache/venv-bench/bin/python")
LLAMA = os.path.join(ROOT, ".cache/peer-llama/llama_worker")
ISOTONE = os.environ.get("ISOTONE", os.path.join(ROOT, "build/release/isotone"))


def gguf(kind):
    """The model file of a weight kind; Q4_1 is the one the others are made from."""
    return STEM + ("" if kind == "q4_1" else "-" + kind) + ".gguf"


def environment(**more):
    env = dict(os.environ)
    # Set on some machines for the sake of old OpenBLAS builds; they slow current ones. Unset together or not at all.
    env.pop("OPENBLAS_CORETYPE", None)
    env.pop("OPENBLAS_L2_SIZE", None)
    env["OMP_NUM_THREADS"] = "2"
    env.update(more)
    return env


class Failed(Exception):
    """A side could not do the work; the row is then printed without it."""


def on_two_cores():
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)


class Worker:
    """One persistent process. Its own thread drains standard error, so that no pipe fills."""

    def __init__(self, command, **env):
        if not os.path.exists(command[0]):
            raise Failed(f"{command[0]} is not there")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=environment(**env), preexec_fn=on_two_cores)
        self.errors = []
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            tail = "".join(self.errors[-3:]).strip()
            raise Failed(f"the peer ended with status {self.process.returncode}: {tail}")
        result = json.loads(line)
        if "error" in result:
            raise Failed(result["error"])
        return result

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the empty answer below says why
        return self.answer()

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()


class Peers:
    """Peers by name, started at first use and kept."""

    def __init__(self):
        self.open = {}

    def _get(self, key, command, **env):
        if key not in self.open:
            self.open[key] = Worker(command, **env)
        return self.open[key]

    def torch(self, request, amx=True):
        env = {} if amx else {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
        worker = self._get(("torch", amx), [PYTHON, os.path.join(ROOT, "bench/peers/torch_worker.py"), HF], **env)
        return worker.ask(json.dumps(request))

    def llama(self, kind, line, amx=True):
        command = [LLAMA, gguf(kind)] + ([] if amx else ["plain"])
        return self._get(("llama", kind, amx), command).ask(line)

    def close(self):
        for worker in self.open.values():
            worker.close()
        self.open.clear()


def isotone(arguments):
    """Runs our program with --json; returns its object, with the process's own peak memory added."""
    if not os.path.exists(ISOTONE):
        raise Failed(f"{ISOTONE} is not built (run `make build`)")
    done = subprocess.Popen([ISOTONE] + arguments + ["--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(), preexec_fn=on_two_cores)
    out, err = [], []
    drain = threading.Thread(target=lambda: err.append(done.stderr.read()))
    drain.start()
    out = done.stdout.read()
    drain.join()
    _, status, usage = os.wait4(done.pid, 0)
    done.returncode = os.waitstatus_to_exitcode(status)
    if done.returncode != 0:
        raise Failed(f"isotone {' '.join(a if len(a) < 60 else a[:20] + '…' for a in arguments)}: {err[0].strip()[-300:] or done.returncode}")
    try:
        result = json.loads(out.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise Failed(f"isotone {arguments[0]} printed no JSON object") from None
    result["process_peak_bytes"] = usage.ru_maxrss * 1024
    return result


def kernel_bench(target, *arguments):
    """Builds and runs a program of bench/kernels; the JSON objects it prints."""
    build = os.path.join(ROOT, "build/release")
    done = subprocess.run(["cmake", "--build", build, "--target", target], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{target} does not build: {done.stdout[-300:]}{done.stderr[-300:]}")
    lines = subprocess.run([os.path.join(build, target), *arguments], check=True, capture_output=True, text=True, preexec_fn=on_two_cores).stdout
    return [json.loads(line) for line in lines.splitlines()]


def timed_process(command):
    """Seconds from the start of a process to its first line of output; it must end well."""
    t = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), preexec_fn=on_two_cores)
    line = process.stdout.readline()
    seconds = time.perf_counter() - t
    process.stdout.read()
    if process.wait() != 0 or not line:
        raise Failed(f"{os.path.basename(command[0])} ended with status {process.returncode}")
    return seconds


def set_up_peers():
    """Installs and builds what is missing; true if all is there."""
    return subprocess.run(["bash", os.path.join(ROOT, "bench/setup_peers.sh")]).returncode == 0


def wait_for_quiet(seconds=20):
    """Waits a while for others to stop; returns the share of the processor time that they still take."""

    def ticks():
        with open("/proc/stat") as stat:
            values = [int(v) for v in stat.readline().split()[1:9]]
        return sum(values), values[3] + values[4]

    busy = 1.0
    for _ in range(seconds):
        total, idle = ticks()
        time.sleep(1)
        total_now, idle_now = ticks()
        busy = 1 - (idle_now - idle) / max(1, total_now - total)
        if busy < 0.1:
            break
    return busy


def limits():
    """Builds and runs limits.cc."""
    build = os.path.join(ROOT, "build")
    os.makedirs(build, exist_ok=True)
    program, source = os.path.join(build, "limits"), os.path.join(ROOT, "bench/limits.cc")
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", source, "-o", program, "-lpthread"], check=True)
    sizes = ["100", "145", "270", "1024"]
    return json.loads(subprocess.run([program] + sizes, check=True, capture_output=True, text=True, preexec_fn=on_two_cores).stdout)


def has_amx():
    with open("/proc/cpuinfo") as info:
        return "amx_bf16" in info.read()
