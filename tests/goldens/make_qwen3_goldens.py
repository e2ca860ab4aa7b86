#!/usr/bin/env python3
"""Makes tests/goldens/qwen3: a tiny random Qwen3 as transformers saves it, and what transformers computes of it in f64: logits,
greedy tokens, loss and gradients. Run in a virtual environment with torch and transformers. Must not use our own program."""
import json
import pathlib

import torch
import transformers

FOLDER = pathlib.Path(__file__).parent / "qwen3"
TOKENS, GREEDY = 24, 16


def main():
    torch.manual_seed(11)
    config = transformers.Qwen3Config(
        vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, rope_theta=10000.0, tie_word_embeddings=False,
        attention_bias=False, bos_token_id=0, eos_token_id=1, initializer_range=0.3, attn_implementation="eager")
    model = transformers.Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):  # not all ones, so that a norm without its weight shows
                p.copy_(0.5 + torch.rand_like(p))
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
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
              "gradients": {name: flat(p.grad) for name, p in model.named_parameters()}}
    (FOLDER / "golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
