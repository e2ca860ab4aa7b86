#!/usr/bin/env python3
"""The PyTorch side of the benches: reads one JSON request a line, answers each with one line of JSON.

requests: {"op": "contraction", "m", "n", "k", "dtype"} · {"op": "prefill", "dtype", "ids"} ·
          {"op": "train", "dtype", "ids", "steps"} · {"op": "info"}
argv: the Hugging Face folder (used by prefill and train). Eager mode, two threads.
"""
import json
import os
import sys
import time

import torch

torch.set_num_threads(2)
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
kept = {}


def model(dtype, train):
    """One model at a time is kept, so that peak memory is that of one job."""
    from transformers import AutoModelForCausalLM

    key = (dtype, train)
    if key not in kept:
        kept.clear()
        # Training keeps f32 masters and computes in bf16 under autocast; prefill holds the weights in its dtype.
        held = torch.float32 if train else DTYPES[dtype]
        made = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=held, attn_implementation="sdpa")
        kept[key] = made.train() if train else made.eval()
        if train:
            kept["optimiser"] = torch.optim.AdamW(made.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    return kept[key]


def contraction(request):
    m, n, k, dtype = request["m"], request["n"], request["k"], DTYPES[request["dtype"]]
    a, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    call = lambda: torch.nn.functional.linear(a, w)
    call(), call()
    best, began = 1e9, time.perf_counter()
    while time.perf_counter() - began < 0.3 or best == 1e9:
        t = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - t)
    return {"gflops": 2 * m * n * k / best / 1e9, "seconds": best}


def prefill(request):
    made = model(request["dtype"], False)
    ids = torch.tensor([request["ids"]])
    best = 1e9
    with torch.no_grad():
        for _ in range(request.get("repeat", 3)):
            t = time.perf_counter()
            hidden = made.model(ids, use_cache=True).last_hidden_state
            made.lm_head(hidden[:, -1])
            best = min(best, time.perf_counter() - t)
    return {"tok_s": len(request["ids"]) / best, "seconds": best}


def train(request):
    made = model(request["dtype"], True)
    optimiser = kept["optimiser"]
    ids = torch.tensor([request["ids"]])
    times = []
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # starts the high-water mark anew: loading the file does not count
    for _ in range(request["steps"]):
        t = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=request["dtype"] == "bf16"):
            loss = made(ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - t)
    return {"tok_s": len(request["ids"]) / min(times), "seconds": times, "peak_bytes": peak(), "loss": float(loss)}


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def info(_):
    import transformers

    return {"torch": torch.__version__, "transformers": transformers.__version__, "isa": os.environ.get("ONEDNN_MAX_CPU_ISA", "as it is")}


def main():
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever libraries print must not break the protocol
    print(json.dumps({"ready": True}), file=out)
    ops = {"contraction": contraction, "prefill": prefill, "train": train, "info": info}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = ops[request["op"]](request)
        except Exception as error:  # the bench reports it and goes on with the other peers
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
