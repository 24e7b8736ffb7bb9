#!/usr/bin/python3
"""Writes generate-NAME.safetensors: small random models of language, a prompt, and the tokens with which PyTorch goes on from it, always
the most probable one, beyond the length of the input: the model then reads the last tokens only. Metadata `model`: its document.

    apt install python3-torch && /usr/bin/python3 tests/reference/generate.py
"""
import json
import os
import sys

import torch

from reference import Net, generator, named_shapes, write_file

VOCABULARY, TIME, WIDTH, TOKENS = 13, 10, 16, 24
PROMPT = [3, 0, 7]


def dense(units, **more):
    return {"kind": "dense", "positionwise": True, "units": units, **more}


def block(norm, *layers):
    return {"kind": "residual", "layers": [{"kind": norm}, *layers]}


EMBEDDING = {"kind": "embedding", "vocab": VOCABULARY, "units": WIDTH}
MODELS = {
    "gpt": [EMBEDDING, {"kind": "position_embedding"}, {"kind": "dropout", "rate": 0.1},
            block("layer_norm", {"kind": "attention", "heads": 2}),
            block("layer_norm", dense(4 * WIDTH), {"kind": "gelu"}, dense(WIDTH)),
            {"kind": "layer_norm", "bias": False}, {"kind": "head", "tied": 0}],
    "rope": [EMBEDDING, block("rms_norm", {"kind": "attention", "heads": 4, "bias": False, "rope": 10000}),
             block("rms_norm", dense(4 * WIDTH, bias=False), {"kind": "swiglu"}, dense(WIDTH, bias=False)),
             block("rms_norm", {"kind": "attention", "heads": 1, "bias": False, "rope": 100}),
             {"kind": "rms_norm"}, dense(VOCABULARY)],
    "gru": [EMBEDDING, {"kind": "gru", "units": WIDTH, "sequences": True}, {"kind": "tanh"}, dense(VOCABULARY)],
}


def weights(name, doc):
    r = generator("generate-" + name)
    shapes, _ = named_shapes(doc)
    return {key: r.normal(key.endswith(("gain",)), 0.6, dims).astype("f4") for key, dims in shapes.items()}


def go_on(net, tokens):
    seen = tokens[-TIME:]
    z = net.forward(torch.tensor([seen + [1] * (TIME - len(seen))]), False).reshape(TIME, VOCABULARY)[len(seen) - 1]
    best, second = z.topk(2).values
    assert best - second > 1e-4, "two tokens are as probable: choose other weights"
    return int(z.argmax())


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    for name, layers in MODELS.items():
        doc = {"version": 1, "name": name, "input": [TIME], "layers": layers, "loss": "token_cross_entropy"}
        tensors = weights(name, doc)
        net = Net(doc, {key: torch.tensor(v.astype("f8")) for key, v in tensors.items()})
        tokens = list(PROMPT)
        while len(tokens) < len(PROMPT) + TOKENS:
            tokens.append(go_on(net, tokens))
        print(name, tokens)
        write_file(os.path.join(folder, f"generate-{name}.safetensors"), {**tensors, "tokens": torch.tensor(tokens).numpy()},
                   {"model": json.dumps(doc, separators=(",", ":")), "prompt": str(len(PROMPT))})


if __name__ == "__main__":
    sys.exit(main())
