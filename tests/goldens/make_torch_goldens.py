#!/usr/bin/env python3
"""Makes the golden values that PyTorch and transformers vouch for: ops.json (op values and gradients, computed in f64
from f32 inputs) and smollm2.json (SmolLM2: prompts and greedy text in f32; losses, gradients and AdamW steps in f64, the
rotary angles too, because PyTorch's f32 is further from f64 than ours: 2e-4 in the embedding's gradient).

usage: make_torch_goldens.py [ops] [model]     needs the bench's venv (bench/setup_peers.sh); both parts by default
"""
import json
import math
import os
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
HF = os.path.join(HERE, "../../.cache/models/smollm2-hf")
torch.set_num_threads(1)  # a fixed count, and one that does not spin where other work runs


def number(x):
    """A float as %.9g, which holds every f32 exactly; JSON has no infinities, so they become strings."""
    return float(f"{x:.9g}") if math.isfinite(x) else str(x)


def pack(tensor):
    flat = tensor.detach().reshape(-1)
    data = [number(v) for v in flat.tolist()] if tensor.is_floating_point() else [int(v) for v in flat.tolist()]
    dtype = "f32" if tensor.is_floating_point() else {torch.int64: "i64", torch.bool: "bool"}[tensor.dtype]
    return {"shape": list(tensor.shape), "dtype": dtype, "data": data}


class Ops:
    def __init__(self):
        self.cases = []
        self.generator = torch.Generator().manual_seed(20261201)

    def rand(self, *shape, scale=1.0):
        """Normal values rounded to f32, held in f64, so that the inputs in the file are exact."""
        return (torch.randn(shape, generator=self.generator, dtype=torch.float64) * scale).float().double()

    def ints(self, high, *shape):
        return torch.randint(0, high, shape, generator=self.generator)

    def case(self, op, name, function, inputs, attrs=None, gradient=True):
        """Records function(*inputs); with a random cotangent of each float output, the gradient of each float input."""
        inputs = {k: v.clone().requires_grad_(gradient and v.is_floating_point()) for k, v in inputs.items()}
        outputs = function(*inputs.values())
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        entry = {
            "op": op,
            "name": name,
            "attrs": attrs or {},
            "inputs": {k: pack(v) for k, v in inputs.items()},
            "outputs": [pack(o) for o in outputs],
        }
        if gradient:
            floats = [o for o in outputs if o.is_floating_point()]
            cotangents = [self.rand(*o.shape) for o in floats]
            wanted = {k: v for k, v in inputs.items() if v.requires_grad}
            grads = torch.autograd.grad(floats, list(wanted.values()), cotangents)
            entry["cotangents"] = [pack(c) for c in cotangents]
            entry["grads"] = {k: pack(g) for k, g in zip(wanted, grads)}
        self.cases.append(entry)


def rotate(x, theta, positions):
    """Llama's rotary embedding as transformers has it: halves, not pairs. x: [batch, heads, tokens, width]."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    width = x.shape[-1]
    frequency = 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = positions.double()[:, None] * frequency
    both = torch.cat((angle, angle), -1)[None]
    return apply_rotary_pos_emb(x, x, both.cos(), both.sin())[0]


def attention(q, k, v, causal=True, window=0):
    """q: [batch, heads, tokens, width], k and v with fewer heads. A window of w: the w latest keys, the own one included."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    tq, tk = q.shape[2], k.shape[2]
    row = torch.arange(tq)[:, None] + (tk - tq)
    column = torch.arange(tk)[None]
    allowed = torch.ones(tq, tk, dtype=torch.bool)
    if causal:
        allowed &= column <= row
    if window:
        allowed &= column > row - window
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


def elementwise_and_reductions(ops):
    x = ops.rand(3, 7, scale=2.0)
    for dim in (-1, 0):
        ops.case("softmax", f"dim{dim}", lambda a, d=dim: a.softmax(d), {"x": x}, {"dim": dim})
        ops.case("log_softmax", f"dim{dim}", lambda a, d=dim: a.log_softmax(d), {"x": x}, {"dim": dim})
        ops.case("logsumexp", f"dim{dim}", lambda a, d=dim: a.logsumexp(d), {"x": x}, {"dim": dim})
        ops.case("cumsum", f"dim{dim}", lambda a, d=dim: a.cumsum(d), {"x": x}, {"dim": dim})
        for correction in (0, 1):
            ops.case("var", f"dim{dim}_correction{correction}", lambda a, d=dim, c=correction: a.var(d, correction=c), {"x": x}, {"dim": dim, "correction": correction})
    ops.case("softmax", "large", lambda a: a.softmax(-1), {"x": ops.rand(2, 300, scale=30.0)}, {"dim": -1})
    targets = torch.tensor([3, 0, 6, 2])
    ops.case("cross_entropy", "none", lambda a, t: F.cross_entropy(a, t, reduction="none"), {"logits": ops.rand(4, 7, scale=3.0), "targets": targets}, {"reduction": "none"})
    ops.case("cross_entropy", "mean", lambda a, t: F.cross_entropy(a, t), {"logits": ops.rand(4, 7, scale=3.0), "targets": targets}, {"reduction": "mean"})
    ignored = torch.tensor([3, -100, 6, -100])
    ops.case("cross_entropy", "mean_ignore", lambda a, t: F.cross_entropy(a, t), {"logits": ops.rand(4, 7), "targets": ignored}, {"reduction": "mean", "ignore_index": -100})
    ops.case("rms_norm", "eps1e-5", lambda a, w: F.rms_norm(a, (12,), w, 1e-5), {"x": ops.rand(2, 3, 12), "weight": ops.rand(12)}, {"eps": 1e-5})
    ops.case("layer_norm", "eps1e-5", lambda a, w, b: F.layer_norm(a, (12,), w, b, 1e-5), {"x": ops.rand(2, 3, 12), "weight": ops.rand(12), "bias": ops.rand(12)}, {"eps": 1e-5})
    wide = torch.cat((ops.rand(20, scale=3.0), torch.tensor([0.0, 1e-3, -1e-3, 12.0, -12.0], dtype=torch.float64).float().double()))
    for op, function, attrs in (
        ("gelu", lambda a: F.gelu(a), {"approximate": "none"}),
        ("gelu", lambda a: F.gelu(a, approximate="tanh"), {"approximate": "tanh"}),
        ("silu", F.silu, {}),
        ("sigmoid", torch.sigmoid, {}),
        ("tanh", torch.tanh, {}),
        ("erf", torch.erf, {}),
        ("relu", F.relu, {}),
        ("exp", torch.exp, {}),
        ("sin", torch.sin, {}),
        ("cos", torch.cos, {}),
        ("abs", torch.abs, {}),
    ):
        ops.case(op, attrs.get("approximate", "wide"), function, {"x": wide[:20] if op == "abs" else wide}, attrs)
    positive = ops.rand(12).abs() + 0.01
    for op, function in (("log", torch.log), ("sqrt", torch.sqrt), ("rsqrt", torch.rsqrt)):
        ops.case(op, "positive", function, {"x": positive.float().double()})
    ops.case("pow", "tensor", torch.pow, {"x": positive.float().double(), "y": ops.rand(12)})
    ops.case("clamp", "both", lambda a: a.clamp(-0.5, 0.75), {"x": x}, {"min": -0.5, "max": 0.75})
    for op in ("sum", "mean"):
        for dim in (-1, 0):
            ops.case(op, f"dim{dim}", lambda a, o=op, d=dim: getattr(a, o)(d), {"x": x}, {"dim": dim})
    for op in ("amax", "amin"):
        ops.case(op[1:], "dim-1", lambda a, o=op: getattr(a, o)(-1), {"x": x}, {"dim": -1})
    for op in ("argmax", "argmin"):
        ops.case(op, "dim-1", lambda a, o=op: getattr(a, o)(-1), {"x": x}, {"dim": -1}, gradient=False)


def order_and_index(ops):
    x = ops.rand(3, 9)
    for descending in (False, True):
        ops.case("sort", f"descending{int(descending)}", lambda a, d=descending: tuple(a.sort(dim=-1, descending=d, stable=True)), {"x": x}, {"dim": -1, "descending": descending})
    ties = torch.tensor([[2.0, 1.0, 2.0, 0.0, 1.0, 2.0]], dtype=torch.float64)
    ops.case("sort", "ties_stable", lambda a: tuple(a.sort(dim=-1, stable=True)), {"x": ties}, {"dim": -1, "descending": False})
    ops.case("topk", "k4", lambda a: tuple(a.topk(4, -1)), {"x": x}, {"dim": -1, "k": 4})
    index = ops.ints(3, 2, 9)
    ops.case("gather", "dim0", lambda a, i: a.gather(0, i), {"x": x, "index": index}, {"dim": 0})
    ops.case("gather", "dim1", lambda a, i: a.gather(1, i), {"x": x, "index": ops.ints(9, 3, 4)}, {"dim": 1})
    ops.case("take", "rows", lambda a, i: a.index_select(0, i), {"x": x, "index": torch.tensor([2, 0, 2, 1])}, {"dim": 0})
    ops.case("scatter_add", "dim0", lambda a, i, s: a.scatter_add(0, i, s), {"x": x, "index": ops.ints(3, 5, 9), "source": ops.rand(5, 9)}, {"dim": 0})
    ops.case("scatter_add", "dim1", lambda a, i, s: a.scatter_add(1, i, s), {"x": x, "index": ops.ints(9, 3, 14), "source": ops.rand(3, 14)}, {"dim": 1})
    ops.case("embedding", "repeated", lambda i, w: F.embedding(i, w), {"ids": torch.tensor([[1, 4, 1], [0, 4, 4]]), "weight": ops.rand(6, 5)})
    ops.case("one_hot", "classes5", lambda i: F.one_hot(i, 5), {"ids": torch.tensor([0, 4, 2])}, {"classes": 5}, gradient=False)


def convolutions(ops):
    settings = [
        ("plain", 2, 3, 1, 0, 1, 1), ("stride2_pad1", 4, 3, 2, 1, 1, 1), ("dilation2_pad2", 2, 4, 1, 2, 2, 1), ("groups2", 4, 6, 1, 1, 1, 2), ("depthwise", 3, 3, 2, 1, 1, 3),
    ]
    for name, cin, cout, stride, padding, dilation, groups in settings:
        attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        ops.case("conv2d", name, lambda a, w, b, kw=attrs: F.conv2d(a, w, b, **kw),
                 {"x": ops.rand(2, cin, 6, 7), "weight": ops.rand(cout, cin // groups, 3, 3), "bias": ops.rand(cout)}, attrs)
    uneven = {"stride": [2, 1], "padding": [0, 1], "dilation": [1, 2], "groups": 1}
    ops.case("conv2d", "uneven", lambda a, w: F.conv2d(a, w, None, (2, 1), (0, 1), (1, 2), 1), {"x": ops.rand(1, 2, 7, 6), "weight": ops.rand(3, 2, 3, 2)}, uneven)
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1)):
        attrs = {"kernel": kernel, "stride": stride, "padding": padding}
        ops.case("max_pool2d", f"k{kernel}s{stride}p{padding}", lambda a, k=kernel, s=stride, p=padding: F.max_pool2d(a, k, s, p), {"x": ops.rand(2, 2, 7, 6)}, attrs)
        ops.case("avg_pool2d", f"k{kernel}s{stride}p{padding}", lambda a, k=kernel, s=stride, p=padding: F.avg_pool2d(a, k, s, p), {"x": ops.rand(2, 2, 7, 6)}, {**attrs, "count_include_pad": True})


def model_parts(ops):
    positions = torch.tensor([0, 1, 2, 5, 100])
    ops.case("rope", "theta1e4", lambda a: rotate(a, 1e4, positions), {"x": ops.rand(1, 2, 5, 8)}, {"theta": 1e4, "positions": positions.tolist(), "layout": "batch,heads,tokens,width"})
    far = torch.tensor([0, 2047, 8191])
    ops.case("rope", "theta1e5_far", lambda a: rotate(a, 1e5, far), {"x": ops.rand(1, 1, 3, 16)}, {"theta": 1e5, "positions": far.tolist(), "layout": "batch,heads,tokens,width"})
    ops.case("swiglu", "gate_up", lambda g, u: F.silu(g) * u, {"gate": ops.rand(3, 10, scale=2.0), "up": ops.rand(3, 10)})
    layout = {"layout": "batch,heads,tokens,width"}
    shapes = [("full", 2, 2, 6, 6, False, 0), ("causal", 2, 2, 9, 9, True, 0), ("causal_gqa", 6, 2, 10, 10, True, 0), ("causal_gqa_window4", 4, 2, 12, 12, True, 4), ("decode_step", 4, 2, 1, 9, True, 0)]
    for name, heads, kv_heads, tq, tk, causal, window in shapes:
        attrs = {**layout, "causal": causal, "window": window}
        ops.case("attention", name, lambda q, k, v, c=causal, w=window: attention(q, k, v, c, w),
                 {"q": ops.rand(2, heads, tq, 8), "k": ops.rand(2, kv_heads, tk, 8), "v": ops.rand(2, kv_heads, tk, 8)}, attrs)
    # Longer than one block of 64 keys, so that blocks must be merged.
    ops.case("attention", "causal_two_blocks", lambda q, k, v: attention(q, k, v), {"q": ops.rand(1, 1, 80, 4), "k": ops.rand(1, 1, 80, 4), "v": ops.rand(1, 1, 80, 4)}, {**layout, "causal": True, "window": 0})
    sizes = dict(zip("abcdijk", (2, 3, 4, 5, 3, 4, 5)))
    for pattern in ("ij,jk->ik", "aij,ajk->aik", "ij,kj->ki", "i,j->ij", "ij->ji", "ij->j", "ii->i", "ii->", "abcd,bd->ca", "aij,j->ai", "ij,ij->", "bij,bjk,kc->bic"):
        names = pattern.split("->")[0].split(",")
        arrays = {f"x{n}": ops.rand(*(sizes[s] for s in name)) for n, name in enumerate(names)}
        ops.case("einsum", pattern, lambda *a, p=pattern: torch.einsum(p, *a), arrays, {"pattern": pattern})


PROMPTS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "user", "content": "Write one sentence about the sea."}],
    [{"role": "system", "content": "You answer in few words."}, {"role": "user", "content": "Name three colours."}],
    [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello! How can I help you today?"}, {"role": "user", "content": "Explain why the sky is blue."}],
    [{"role": "user", "content": "def add(a, b):\n    return a + b\n\nWhat does this do? 123 + 456 = ?"}],
]

TEXT = """The lighthouse keeper kept two books. In the first he wrote what the rules asked of him: the hour the lamp was lit, the
hour it was put out, the oil that was used, and the ships that passed. In the second he wrote what he saw when nobody
asked. On the third of March the wind came from the north and brought a flock of small grey birds, which slept on the
railing and were gone before the sun was up. On the ninth a boat without a sail drifted past, and in it sat a dog that
looked straight ahead, as if it knew the way. He called to it, but the sea was loud. He wrote that down as well.
When the inspector came in autumn he read the first book, nodded, and signed it. Then he asked whether there was anything
else. The keeper thought for a while. He said that the lamp burned better when the glass was cleaned from the inside
first, that salt finds its way through a closed window in eleven days, and that a man who counts waves will lose his
place at about four hundred. The inspector laughed, and wrote none of it down. But on his way back in the boat he began
to count, and at three hundred and ninety-six a gull cried above him, and he had to begin again.
Years later the lamp was changed for one that lights itself. The first book was sent to an office, where it is kept in
a box with a number. The second stayed on the shelf."""

WATCHED = [
    "model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight", "model.layers.7.mlp.gate_proj.weight", "model.layers.15.self_attn.o_proj.weight",
    "model.layers.15.post_attention_layernorm.weight", "model.layers.29.mlp.up_proj.weight", "model.layers.29.mlp.down_proj.weight", "model.layers.29.self_attn.q_proj.weight",
]


def entries(parameters, pick):
    """A few fixed entries of each watched parameter: corners, the middle, and one row in between."""
    found = []
    for name in WATCHED:
        value = pick(parameters[name])
        shape = value.shape
        spots = [tuple(0 for _ in shape), tuple(s // 2 for s in shape), tuple(s - 1 for s in shape), tuple(s * (n + 1) // 5 for n, s in enumerate(shape))]
        found += [{"name": name, "index": list(spot), "value": number(float(value[spot]))} for spot in spots]
    return found


def exact_rotary(config):
    """Cosines and sines with angles in f64; transformers takes them in f32 whatever the model's dtype."""
    width = config.hidden_size // config.num_attention_heads
    frequency = 1.0 / config.rope_parameters["rope_theta"] ** (torch.arange(0, width, 2, dtype=torch.float64) / width)

    def forward(x, position_ids, **_):
        angle = (position_ids[..., None].double() * frequency).repeat(1, 1, 2)
        return angle.cos(), angle.sin()

    return forward


def model_goldens():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(HF)
    model = AutoModelForCausalLM.from_pretrained(HF, dtype=torch.float32, attn_implementation="eager").eval()
    end = model.config.eos_token_id
    goldens = {"model": "SmolLM2-135M-Instruct, Q4_1 weights widened to f32", "dtype": "f32", "prompts": []}
    for messages in PROMPTS:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False).input_ids
        tokens, logprobs, gaps, first = [], [], [], None
        with torch.no_grad():
            # Without a cache: each token from a whole forward pass, the plainest form there is.
            for _ in range(32):
                logits = model(torch.tensor([ids + tokens]), use_cache=False).logits[0, -1]
                top = logits.topk(5)
                if first is None:
                    first = {"ids": top.indices.tolist(), "logits": [number(v) for v in top.values.tolist()]}
                gaps.append(float(top.values[0] - top.values[1]))
                tokens.append(int(top.indices[0]))
                logprobs.append(number(float(logits.log_softmax(-1)[tokens[-1]])))
        stop = tokens.index(end) if end in tokens else None
        goldens["prompts"].append({
            "messages": messages, "text": text, "ids": ids, "top5": first, "greedy": tokens, "logprobs": logprobs,
            "stops_at": stop, "answer": tokenizer.decode(tokens if stop is None else tokens[:stop]), "smallest_gap": number(min(gaps)),
        })
    ids = torch.tensor([tokenizer(TEXT, add_special_tokens=False).input_ids])
    model = AutoModelForCausalLM.from_pretrained(HF, dtype=torch.float64, attn_implementation="eager").eval()
    model.model.rotary_emb.forward = exact_rotary(model.config)
    logits = model(ids, use_cache=False).logits
    nll = F.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="none")
    loss = nll.mean()
    loss.backward()
    parameters = dict(model.named_parameters())
    total = torch.nn.utils.get_total_norm([p.grad for p in parameters.values()])
    goldens["score"] = {"text": TEXT, "ids": ids[0].tolist(), "mean_nll": number(float(loss.detach())), "nll": [number(v) for v in nll.tolist()]}
    goldens["gradients"] = {
        "total_norm": number(float(total)), "norms": {name: number(float(parameters[name].grad.norm())) for name in WATCHED}, "entries": entries(parameters, lambda p: p.grad),
    }
    model.zero_grad()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    optimiser = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-4, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for step in range(4):
        loss = F.cross_entropy(model(ids, use_cache=False).logits[0, :-1], ids[0, 1:])
        losses.append(number(float(loss.detach())))
        if step == 3:
            break
        loss.backward()
        norms.append(number(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))))
        optimiser.step()
        optimiser.zero_grad()
    goldens["adamw"] = {
        "lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "decays": "weights of two dimensions", "clip": 1.0, "clip_eps": 1e-6,
        "losses": losses, "grad_norms": norms, "entries": entries(parameters, lambda p: p.detach()),
    }
    return goldens


def write(name, value):
    path = os.path.join(HERE, name)
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")
    print(f"wrote {path}: {os.path.getsize(path)} bytes")


def main():
    parts = sys.argv[1:] or ["ops", "model"]
    made_by = f"PyTorch {torch.__version__.split('+')[0]}"
    if "ops" in parts:
        ops = Ops()
        for fill in (elementwise_and_reductions, order_and_index, convolutions, model_parts):
            fill(ops)
        write("ops.json", {"made_by": made_by, "precision": "f64 arithmetic on exact f32 inputs, printed with 9 digits", "cases": ops.cases})
    if "model" in parts:
        import transformers

        write("smollm2.json", {"made_by": f"{made_by}, transformers {transformers.__version__}", **model_goldens()})


if __name__ == "__main__":
    main()
