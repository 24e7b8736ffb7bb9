#!/usr/bin/python3
"""Writes curves/*.safetensors: the losses of 100 training steps, by PyTorch.

    apt install python3-torch && /usr/bin/python3 tests/reference/curves.py

Samples, labels and initial weights are formulas, which tests/suite/test_curves.c has as well, in integers and exact
float32 numbers, so that a file only holds losses and some of the final weights.
"""
import json
import os
import sys

import numpy as np
import torch

from reference import Net, named_shapes, write_file

N_STEPS, BATCH, N_SAMPLES, N_IN, N_CLASSES = 100, 64, 640, 784, 10
PROBE = 97  # every 97th weight is kept

MLP = [{"kind": "dense", "units": 128}, {"kind": "tanh"}, {"kind": "dense", "units": 128}, {"kind": "tanh"},
       {"kind": "dense", "units": 10}]
CONVNET = [{"kind": "conv2d", "filters": 3, "kernel": 3}, {"kind": "max_pool", "size": 3}, {"kind": "relu"},
           {"kind": "dense", "units": 10}]
# {name: (input, layers, {gradient descent: learning rate})}
MODELS = {"mlp-tutorial": ([784], MLP, {"sgd": 0.1, "adam": 0.001}),
          "convnet-ray": ([28, 28, 1], CONVNET, {"sgd": 0.1, "adam": 0.01})}


def bits(stream, n):
    """32 bits for each i < n: MurmurHash3's finalizer on stream * 2^24 + i."""
    h = (np.arange(n, dtype=np.uint64) + stream * 2**24).astype(np.uint32)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def samples():
    """x = 3/4 noise + 1/4 the pattern of the label - 1/2, both bytes / 256: exact, and slowly learnable."""
    labels = bits(1, N_SAMPLES) % N_CLASSES
    patterns = (bits(2, N_CLASSES * N_IN) >> 24).reshape(N_CLASSES, N_IN)
    noise = (bits(3, N_SAMPLES * N_IN) >> 24).reshape(N_SAMPLES, N_IN)
    return (3 * noise + patterns[labels]) / 1024 - 0.5, labels.astype("i4")


def weights(shapes):
    """Tensor k: uniform in +-2^-e with 24 bits, 2^-e next below the root of 6 / (first and last dimension)."""
    out = {}
    for k, (name, dims) in enumerate(shapes.items()):
        bound = 2.0 ** np.floor(np.log2(np.sqrt(6 / (dims[0] + dims[-1]))))
        unit = (bits(16 + k, int(np.prod(dims))) >> 8) / 2.0**23 - 1
        out[name] = (unit * (bound if len(dims) > 1 else 0)).reshape(dims)
    return out


def curve(name, method):
    shape, layers, rates = MODELS[name]
    doc = {"version": 1, "name": name, "input": shape, "layers": layers, "loss": "softmax_cross_entropy"}
    shapes, _ = named_shapes(doc)
    params = {t: torch.tensor(v, requires_grad=True) for t, v in weights(shapes).items()}
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    optimizer = kinds[method](params.values(), lr=rates[method])
    net, losses = Net(doc, params), []
    x, labels = samples()
    x, labels = torch.tensor(x), torch.tensor(labels.astype("i8"))
    for step in range(N_STEPS):
        at = step * BATCH % N_SAMPLES
        optimizer.zero_grad()
        loss = net.loss(net.forward(x[at:at + BATCH], True), labels[at:at + BATCH])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    final = np.concatenate([v.detach().numpy().ravel() for v in params.values()])
    print(f"{name} {method}: loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    meta = {"model": json.dumps(doc), "gradient_descent": method, "learn_rate": str(rates[method])}
    return {"losses": np.array(losses), "weights": final[::PROBE]}, meta


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "curves")
    os.makedirs(folder, exist_ok=True)
    for name, (_, _, rates) in MODELS.items():
        for method in rates:
            write_file(os.path.join(folder, f"{name}-{method}.safetensors"), *curve(name, method))


if __name__ == "__main__":
    sys.exit(main())
