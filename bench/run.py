#!/usr/bin/env python3
"""Measures Isotone beside its peers, alternately in one run, and says how far each figure is from the machine's limit.

Environment: BENCH=contraction,order,prefill,decode,train,start chooses works; PEERS=0 leaves peers out; ROUNDS=4 rounds;
ISOTONE=path to the program. Prints a table and writes build/bench.json: a list of {work, ours, peer, peer_name, unit,
ratio, limit, share_of_limit}. A ratio above 1 means that ours is better, for times and memory too.
"""
import json
import os
import statistics
import sys

import workers
from workers import Failed, Peers, gguf, isotone

IDS = [(i * 7919 + 13) % 49000 + 100 for i in range(512)]
LIST = ",".join(map(str, IDS))
# The ids of "Once upon a time, in a small village by the sea, there lived": greedy text from it does not end early.
STORY = "6403,1980,253,655,28,281,253,1165,6560,411,260,3426,28,665,4161"
SHAPES = [(504, 576, 576), (504, 1536, 576), (504, 576, 1536), (504, 49152, 576), (2048, 2048, 2048)]

# SmolLM2-135M: parameters outside the embedding, the embedding (also the head), and attention's work in FLOP a token.
BODY, HEAD = 106_203_456, 28_311_552
ATTENTION = 30 * 2 * 2 * 576 * 256
PREFILL_FLOP = 2 * BODY + ATTENTION
TRAIN_FLOP = 3 * (2 * (BODY + HEAD) + ATTENTION)


class Row:
    """One work of one kind: our figure, the peers' figures, what bounds it and what is asked of it."""

    def __init__(self, work, unit, ours, peers, limit, floor="", lower_is_better=False):
        self.work, self.unit, self.ours, self.peers = work, unit, ours, peers
        self.limit, self.floor, self.lower = limit, floor, lower_is_better
        self.busy = 0.0  # share of the machine that others took before the run


def kinds(amx):
    """(dtype, name in the table, our options, whether PyTorch may use tile units, its name): where the processor has tile units, bf16 is
    measured with them on both sides and without them on both sides."""
    yield "f32", "f32", [], True, "PyTorch"
    if amx:
        yield "bf16", "bf16 amx-1", ["--numerics", "amx-1"], True, "PyTorch"
        yield "bf16", "bf16", [], False, "PyTorch without AMX"
    else:
        yield "bf16", "bf16", [], True, "PyTorch"


def limit_of(limits, name):
    """FLOP/s that the machine gives for a row named so."""
    return 1e9 * limits["amx_bf16_gflops" if name.endswith("amx-1") else name + "_gflops"]


def contraction(peers, limits, amx):
    for dtype, name, options, tiles, peer in kinds(amx):
        for m, n, k in SHAPES:
            request = {"op": "contraction", "m": m, "n": n, "k": k, "dtype": dtype}
            command = ["bench", "contraction", "--m", str(m), "--n", str(n), "--k", str(k), "--dtype", dtype, *options]
            yield Row(f"contraction {m}x{n}x{k} {name}", "GFLOP/s", lambda c=command: isotone(c)["gflops"],
                      {peer: lambda r=request, t=tiles: peers.torch(r, amx=t)["gflops"]}, lambda n=name: limit_of(limits, n) / 1e9,
                      "1.9 x" if dtype == "f32" else "0.95 x")


def order(peers, limits, amx):
    """The contraction's innermost kernel with the contract's tree and with one chain over everything instead."""
    found = {(r["dtype"], r["k"]): r for r in workers.kernel_bench("contract_bench", "tree", "--json")}
    for kind, k in found:
        def side(which, kind=kind, k=k):
            # A run yields both figures; ours is asked for first.
            if which == "tree_gflops":
                found.update({(r["dtype"], r["k"]): r for r in workers.kernel_bench("contract_bench", "tree", "--json")})
            return found[kind, k][which]

        yield Row(f"order k={k} {kind}, one thread", "GFLOP/s", lambda s=side: s("tree_gflops"), {"the same without trees": lambda s=side: s("chain_gflops")},
                  lambda n=kind: limit_of(limits, n) / 2e9, "at least 0.95 x")


def prefill(peers, limits, amx):
    model = gguf("bf16") if os.path.exists(gguf("bf16")) else gguf("q4_1")
    request = {"op": "prefill", "dtype": "bf16", "ids": IDS}
    # A peer's first round also warms it up: it answers three times and the best counts.
    llama = lambda on: 512 / min(peers.llama("bf16", "prefill " + LIST, on)["prefill_s"] for _ in range(3))
    for dtype, name, options, tiles, peer in kinds(amx):
        if dtype == "f32":
            continue
        command = ["generate", model, "--tokens", LIST, "-n", "1", "--temperature", "0", "--dtype", "bf16", *options]
        them = {peer: lambda t=tiles: peers.torch(request, amx=t)["tok_s"], "llama.cpp" + peer[len("PyTorch"):]: lambda t=tiles: llama(t)}
        yield Row(f"prefill 512 {name}", "tok/s", lambda c=command: isotone(c)["timings"]["prefill_tok_s"], them,
                  lambda n=name: limit_of(limits, n) / PREFILL_FLOP, "1.2 x the better of both")


def decode(peers, limits, amx):
    for kind in ("bf16", "q8_0", "q4_1"):
        model = gguf(kind)

        def ours(model=model, kind=kind):
            if not os.path.exists(model):
                raise Failed(f"{model} is not there (bench/setup_peers.sh makes it)")
            answer = isotone(["generate", model, "--tokens", STORY, "-n", "129", "--temperature", "0", "--dtype", "bf16" if kind == "bf16" else "native"])
            if len(answer["tokens"]) < 64:
                raise Failed(f"only {len(answer['tokens'])} tokens were generated")
            return answer["timings"]["decode_tok_s"]

        them = {"llama.cpp": lambda k=kind: 128 / peers.llama(k, "decode 128 " + STORY)["decode_s"]}
        if amx and kind != "bf16":
            them["llama.cpp without AMX"] = lambda k=kind: 128 / peers.llama(k, "decode 128 " + STORY, amx=False)["decode_s"]
        # Every weight is read once a token; the working set decides which level of memory bounds it.
        size = os.path.getsize(model) if os.path.exists(model) else {"bf16": 270e6, "q8_0": 145e6, "q4_1": 98e6}[kind]
        nearest = min(limits["read_gbs"], key=lambda mb: abs(float(mb) * 1e6 - size))
        yield Row(f"decode 128 {kind}", "tok/s", ours, them, lambda b=nearest, s=size: limits["read_gbs"][b] * 1e9 / s, "1.0 x")


def train(peers, limits, amx):
    for dtype, name, options, tiles, peer in kinds(amx):
        request = {"op": "train", "dtype": dtype, "ids": IDS, "steps": 3}
        # One run of each side yields both figures: speed now, memory kept for the next row.
        memory = {"ours": [], peer: []}

        def ours(dtype=dtype, options=options, memory=memory):
            answer = isotone(["bench", "train", "--size", "135m", "--batch", "1", "--seq", "512", "--dtype", dtype, "--steps", "5", *options])
            memory["ours"].append(answer["process_peak_bytes"] / 1e9)
            return answer["tok_s"]

        def torch(request=request, memory=memory, tiles=tiles, peer=peer):
            answer = peers.torch(request, amx=tiles)
            memory[peer].append(answer["peak_bytes"] / 1e9)
            return answer["tok_s"]

        def last(side, memory=memory):
            if not memory[side]:
                raise Failed("the training row above did not run")
            return memory[side].pop(0)

        yield Row(f"train 1x512 {name}", "tok/s", ours, {peer: torch}, lambda n=name: limit_of(limits, n) / TRAIN_FLOP, "2.0 x" if dtype == "f32" else "1.5 x")
        # Parameters, gradients and two moments in f32: what no trainer of this kind does without.
        least = 4 * 4 * (BODY + HEAD) / 1e9
        yield Row(f"train 1x512 {name} peak memory", "GB", lambda f=last: f("ours"), {peer: lambda f=last, p=peer: f(p)}, lambda: least,
                  "at most 0.8 x (ratio 1.25)", lower_is_better=True)


def start(peers, limits, amx):
    text = "The capital of France is"
    if not os.path.exists(workers.ISOTONE):
        command = None
    else:
        command = [workers.ISOTONE, "generate", gguf("q4_1"), "-p", text, "-n", "1", "--temperature", "0", "--json"]

    def ours():
        if command is None:
            raise Failed(f"{workers.ISOTONE} is not built (run `make build`)")
        return workers.timed_process(command)

    them = {"llama.cpp": lambda: workers.timed_process([workers.LLAMA, gguf("q4_1"), "start", text])}
    # The weights are read at least once.
    size = os.path.getsize(gguf("q4_1")) if os.path.exists(gguf("q4_1")) else 98e6
    yield Row("start to first token q4_1", "s", ours, them, lambda: size / limits["read_gbs"]["100"] / 1e9, "at most 0.2 s", lower_is_better=True)


WORKS = {"contraction": contraction, "order": order, "prefill": prefill, "decode": decode, "train": train, "start": start}


def measure(row, rounds):
    """Alternates the sides; returns the figures of each by name ('' is ours) and why a side gave none."""
    sides = {"": row.ours, **row.peers}
    figures, reasons = {name: [] for name in sides}, {}
    for _ in range(rounds):
        for name, side in sides.items():
            if name in reasons:
                continue
            try:
                figures[name].append(side())
            except Failed as error:
                reasons[name] = str(error)
            except (KeyError, ValueError, TypeError) as error:
                reasons[name] = f"an unexpected answer ({type(error).__name__}: {error})"
    return figures, reasons


def summarise(row, figures):
    """One entry a peer, or one without a peer."""
    ours = statistics.median(figures[""]) if figures[""] else None
    limit = row.limit()
    share = (limit / ours if row.lower else ours / limit) if ours else None
    for name in row.peers or [None]:
        theirs = figures.get(name) or []
        pairs = [(b / a if row.lower else a / b) for a, b in zip(figures[""], theirs)]
        yield {
            "work": row.work,
            "ours": ours,
            "peer": statistics.median(theirs) if theirs else None,
            "peer_name": name,
            "unit": row.unit,
            "ratio": statistics.median(pairs) if pairs else None,
            "limit": limit,
            "share_of_limit": share,
            "floor": row.floor,
            "machine_busy": row.busy,
            "ratios": [round(p, 4) for p in pairs],
        }


def merge(limits, more):
    """Keeps the best of each limit: a busy moment must not make the machine look slower than it is."""
    for key, value in more.items():
        if isinstance(value, dict):
            merge(limits[key], value)
        else:
            limits[key] = max(limits[key], value)


def show(value, digits=4):
    return "-" if value is None else f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


LINE = "{:<36} {:>9} {:>9} {:<22} {:>6} {:>9} {:>6}  {}"


def print_entry(entry):
    share = "-" if entry["share_of_limit"] is None else f"{entry['share_of_limit']:.0%}"
    print(LINE.format(f"{entry['work']} [{entry['unit']}]", show(entry["ours"]), show(entry["peer"]), entry["peer_name"] or "-",
                      show(entry["ratio"], 3), show(entry["limit"]), share, entry["floor"]), flush=True)


def main():
    chosen = [w for w in os.environ.get("BENCH", ",".join(WORKS)).split(",") if w]
    unknown = [w for w in chosen if w not in WORKS]
    if unknown:
        raise SystemExit(f"bench: no work named {unknown[0]}; there are {', '.join(WORKS)}")
    with_peers = os.environ.get("PEERS", "1") != "0"
    rounds = int(os.environ.get("ROUNDS", "4"))
    if with_peers and not workers.set_up_peers():
        print("warning: the peers could not all be set up; rows without them follow", file=sys.stderr)
    amx = workers.has_amx()
    busy = workers.wait_for_quiet()
    if busy > 0.1:
        print(f"warning: other programs keep {busy:.0%} of this machine busy. The peers' threads wait by spinning and lose far more to that "
              "than ours: trust no ratio of this run")
    limits = workers.limits()
    merge(limits, workers.limits())
    if amx:
        print("this processor has AMX, whose order of sums is a profile of its own (amx-1): bf16 is measured with it and without it on both sides")
    print(LINE.format("work", "ours", "peer", "peer's name", "ratio", "limit", "share", "floor"))
    peers, measured = Peers(), []
    try:
        for work in chosen:
            for row in WORKS[work](peers, limits, amx):
                if not with_peers:
                    row.peers = {}
                figures, reasons = measure(row, rounds)
                row.busy = round(busy, 3)
                measured.append((row, figures))
                for entry in summarise(row, figures):
                    print_entry(entry)
                for name, reason in reasons.items():
                    print(f"  no figure for {name or 'ours'}: {reason}", file=sys.stderr)
            peers.close()
            merge(limits, workers.limits())
    finally:
        peers.close()
    print("machine, 2 threads, best seen: " + json.dumps(limits))
    # The shares in the file use the best limits seen over the whole run.
    entries = [entry for row, figures in measured for entry in summarise(row, figures)]
    path = os.path.join(workers.ROOT, "build", "bench.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(entries, out, indent=1)
    print("wrote build/bench.json")
    if all(entry["ours"] is None for entry in entries):
        raise SystemExit("bench: no figure of ours; see above")


if __name__ == "__main__":
    main()
