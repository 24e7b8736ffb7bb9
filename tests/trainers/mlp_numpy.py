"""The network of tests/e2e/trainer_numerics.bats by numpy: dense, tanh, dense, softmax, with the names of psgd's own tensors, its data in
the order of psgd's own worker, and SGD with momentum in float32.

    mlp_numpy.py DATA.npz BATCH RATE
"""
import sys

import numpy as np

import psgd.trainer

data, size, rate = np.load(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
x, y = data["x_train"], data["y_train"]

w = psgd.trainer.open(
    {"layer0.dense.weight": (20, 16), "layer0.dense.bias": (16,), "layer2.dense.weight": (16, 5), "layer2.dense.bias": (5,)}
)
W0, b0, W2, b2 = (w[name] for name in w.params)
velocity = np.zeros_like(w.params.flat)
w.keep(velocity.tobytes, lambda kept: np.copyto(velocity, np.frombuffer(kept, "f4")))


def forward(x, y):
    hidden = np.tanh(x @ W0 + b0)
    logits = hidden @ W2 + b2
    logits -= logits.max(1, keepdims=True)
    p = np.exp(logits)
    sums = p.sum(1, keepdims=True)
    loss = (np.log(sums[:, 0]) - logits[np.arange(len(y)), y]).mean()
    return hidden, p / sums, loss, (logits.argmax(1) == y).mean()


def evaluate():
    loss, accuracy = forward(data["x_test"], data["y_test"])[2:]
    return loss, accuracy, len(data["y_test"])


for rows in psgd.trainer.steps(w.batches(len(x), size, y), evaluate):
    hidden, p, loss, accuracy = forward(x[rows], y[rows])
    p[np.arange(size), y[rows]] -= 1
    p /= size
    back = p @ W2.T * (1 - hidden**2)
    w.grad["layer0.dense.weight"], w.grad["layer0.dense.bias"] = x[rows].T @ back, back.sum(0)
    w.grad["layer2.dense.weight"], w.grad["layer2.dense.bias"] = hidden.T @ p, p.sum(0)
    by = w.gradient(loss=loss, samples=size, lr=rate, accuracy=accuracy)
    velocity[...] = 0.9 * velocity + by.flat
    w.params.flat[...] -= np.float32(rate) * velocity
    w.stepped()
    w.log(f1=accuracy)
