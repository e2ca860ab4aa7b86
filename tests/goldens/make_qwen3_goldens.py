#!/usr/bin/env python3
"""Makes tests/goldens/qwen3 and qwen3_moe: tiny random Qwen3 models, dense and with experts, as transformers saves them, and what
transformers computes of them in f64 (norms and router in f32): logits, greedy tokens, loss and gradients, the balance loss. Run in a
virtual environment with torch and transformers; arguments choose some of the folders. Must not use our own program."""
import json
import pathlib
import sys

import torch
import transformers

TOKENS, GREEDY = 24, 16
COMMON = dict(vocab_size=48, hidden_size=16, intermediate_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
              max_position_embeddings=64, rope_theta=10000.0, tie_word_embeddings=False, attention_bias=False, bos_token_id=0,
              eos_token_id=1, initializer_range=0.3, attn_implementation="eager")
MAKE = {
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(num_hidden_layers=2, **COMMON)),
    # The second of three layers has no experts.
    "qwen3_moe": lambda: transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
        num_hidden_layers=3, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=8, norm_topk_prob=True,
        mlp_only_layers=[1], experts_implementation="eager", **COMMON)),
}


def by_saved_name(name, tensor):
    """A parameter under the names of the files: transformers holds the experts' matrices stacked, the first two as one."""
    if ".mlp.experts." not in name:
        return {name: tensor}
    stem, part = name.rsplit(".", 1)
    parts = dict(zip(("gate_proj", "up_proj"), tensor.chunk(2, 1))) if part == "gate_up_proj" else {part: tensor}
    return {f"{stem}.{x}.{p}.weight": t[x] for p, t in parts.items() for x in range(len(tensor))}


def make(kind):
    folder = pathlib.Path(__file__).parent / kind
    torch.manual_seed(11)
    model = MAKE[kind]().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):  # not all ones, so that a norm without its weight shows
                p.copy_(0.5 + torch.rand_like(p))
            if name.endswith("mlp.gate.weight"):
                p.copy_(0.5 * torch.randn_like(p))
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = model.double()
    model.model.rotary_emb.inv_freq = 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)

    ids = torch.randint(2, 48, (1, TOKENS))
    logits = model(ids).logits
    loss = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="sum")
    loss.backward()
    tokens, gap = ids, float("inf")
    with torch.no_grad():
        for _ in range(GREEDY):
            best = model(tokens).logits[0, -1].topk(2)
            gap = min(gap, float(best.values[0] - best.values[1]))
            tokens = torch.cat([tokens, best.indices[:1][None]], 1)
    flat = lambda t: [float(f"{x:.9g}") for x in t.detach().flatten().tolist()]  # noqa: E731
    golden = {"made_by": f"torch {torch.__version__}, transformers {transformers.__version__}", "ids": ids[0].tolist(),
              "greedy": tokens[0, TOKENS:].tolist(), "smallest_gap": gap, "loss": float(loss.detach()), "logits": flat(logits),
              "gradients": {n: flat(g) for name, p in model.named_parameters() for n, g in by_saved_name(name, p.grad).items()}}
    if kind == "qwen3_moe":
        routers = {name: p for name, p in model.named_parameters() if name.endswith("mlp.gate.weight")}
        balance = model(ids, output_router_logits=True).aux_loss
        gradients = torch.autograd.grad(balance, list(routers.values()))
        golden |= {"balance_loss": float(balance.detach()), "balance_gradients": dict(zip(routers, map(flat, gradients)))}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or MAKE:
        make(chosen)
