#!/usr/bin/python3
"""Writes gpt2.safetensors, small random weights in the form in which GPT-2 is published, and gpt2-logits.safetensors: tokens, and the
logits of PyTorch in the form of Hugging Face's GPT2LMHeadModel, in float64; metadata `model`: the model's document.

    apt install python3-torch && /usr/bin/python3 tests/reference/gpt2.py
"""
import json
import math
import os
import sys

import torch
import torch.nn.functional as F

from reference import generator, write_file

BLOCKS, HEADS, WIDTH, CONTEXT, VOCABULARY = 2, 2, 8, 6, 11


def published(r):
    w = WIDTH
    shapes = {"wte.weight": (VOCABULARY, w), "wpe.weight": (CONTEXT, w)}
    for i in range(BLOCKS):
        shapes.update({f"h.{i}.{name}": dims for name, dims in {
            "ln_1.weight": (w,), "ln_1.bias": (w,), "attn.c_attn.weight": (w, 3 * w), "attn.c_attn.bias": (3 * w,),
            "attn.c_proj.weight": (w, w), "attn.c_proj.bias": (w,), "ln_2.weight": (w,), "ln_2.bias": (w,),
            "mlp.c_fc.weight": (w, 4 * w), "mlp.c_fc.bias": (4 * w,), "mlp.c_proj.weight": (4 * w, w),
            "mlp.c_proj.bias": (w,)}.items()})
    shapes.update({"ln_f.weight": (w,), "ln_f.bias": (w,)})
    return {name: r.normal(name.endswith("weight") and ".ln" in name or name == "ln_f.weight", 0.3, dims).astype("f4")
            for name, dims in shapes.items()}


def conv1d(x, t, name):
    """transformers' Conv1D, whose weight is (in, out)."""
    return torch.addmm(t[name + ".bias"], x.reshape(-1, x.shape[-1]), t[name + ".weight"]).reshape(*x.shape[:-1], -1)


def norm(x, t, name):
    return F.layer_norm(x, (WIDTH,), t[name + ".weight"], t[name + ".bias"], 1e-5)


def logits(x, t):
    h = F.embedding(x, t["wte.weight"]) + t["wpe.weight"]
    for i in range(BLOCKS):
        q, k, v = (a.reshape(len(x), CONTEXT, HEADS, -1).permute(0, 2, 1, 3)
                   for a in conv1d(norm(h, t, f"h.{i}.ln_1"), t, f"h.{i}.attn.c_attn").split(WIDTH, 2))
        s = (q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)).masked_fill(torch.ones(CONTEXT, CONTEXT).triu(1) > 0, -math.inf)
        mixed = (s.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(len(x), CONTEXT, WIDTH)
        h = h + conv1d(mixed, t, f"h.{i}.attn.c_proj")
        h = h + conv1d(F.gelu(conv1d(norm(h, t, f"h.{i}.ln_2"), t, f"h.{i}.mlp.c_fc"), approximate="tanh"), t, f"h.{i}.mlp.c_proj")
    return norm(h, t, "ln_f") @ t["wte.weight"].T


def document():
    def each(units):
        return {"kind": "dense", "positionwise": True, "units": units}
    block = [{"kind": "residual", "layers": [{"kind": "layer_norm"}, {"kind": "attention", "heads": HEADS}]},
             {"kind": "residual", "layers": [{"kind": "layer_norm"}, each(4 * WIDTH), {"kind": "gelu"}, each(WIDTH)]}]
    layers = [{"kind": "embedding", "vocab": VOCABULARY, "units": WIDTH}, {"kind": "position_embedding"}, *(block * BLOCKS),
              {"kind": "layer_norm"}, {"kind": "head", "tied": 0}]
    return {"version": 1, "name": "gpt2-small", "input": [CONTEXT], "layers": layers, "loss": "token_cross_entropy"}


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    r = generator("gpt2")
    weights = published(r)
    x = r.randint(0, VOCABULARY, (3, CONTEXT))
    z = logits(torch.tensor(x), {name: torch.tensor(v.astype("f8")) for name, v in weights.items()})
    mask = torch.ones(CONTEXT, CONTEXT).tril().reshape(1, 1, CONTEXT, CONTEXT).numpy()
    masks = {f"h.{i}.attn.bias": mask for i in range(BLOCKS)}
    write_file(os.path.join(folder, "gpt2.safetensors"), {**weights, **masks}, {"format": "pt"})
    write_file(os.path.join(folder, "gpt2-logits.safetensors"), {"x": x.astype("f4"), "z": z.reshape(3, -1).numpy()},
               {"model": json.dumps(document(), separators=(",", ":"))})


if __name__ == "__main__":
    sys.exit(main())
