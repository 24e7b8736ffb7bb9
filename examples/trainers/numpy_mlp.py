"""A network of one hidden layer in numpy, by hand, with momentum and a checkpoint of it. Ten digits are drawn as noisy patterns.

    job_submit --trainer examples/trainers/numpy_mlp.py --codec diloco --node_count 2 -- --units 64
"""
import argparse

import numpy as np

import psgd.trainer

options = argparse.ArgumentParser()
options.add_argument("--units", type=int, default=32)
options.add_argument("--lr", type=float, default=0.1)
args = options.parse_args()

rng = np.random.default_rng(1)
labels = rng.integers(0, 10, 3000)
x = (rng.random((10, 64)) < 0.3)[labels] + 0.5 * rng.normal(size=(3000, 64))
tests = range(2500, 3000)

rows_and_units = [64, args.units, 10]
w = psgd.trainer.open(
    {f"W{k}": rng.normal(size=(n, m)) / n**0.5 for k, (n, m) in enumerate(zip(rows_and_units, rows_and_units[1:]))}
    | {f"b{k}": np.zeros(m) for k, m in enumerate(rows_and_units[1:])}
)
velocity = np.zeros_like(w.params.flat)
w.keep(velocity.tobytes, lambda data: np.copyto(velocity, np.frombuffer(data, "f4")))


def forward(rows):
    hidden = np.maximum(x[rows] @ w["W0"] + w["b0"], 0)
    logits = hidden @ w["W1"] + w["b1"]
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    right = p[np.arange(len(rows)), labels[rows]]
    return hidden, p, -np.log(right).mean(), (p.argmax(1) == labels[rows]).mean()


def evaluate():
    return forward(tests)[2:]


mine = w.shard(2500, labels[:2500])
for first in psgd.trainer.steps(range(0, len(mine), 50), evaluate):
    rows = mine[first : first + 50]
    hidden, p, loss, accuracy = forward(rows)
    p[np.arange(len(rows)), labels[rows]] -= 1
    p /= len(rows)
    w.grad["W1"], w.grad["b1"] = hidden.T @ p, p.sum(0)
    back = (p @ w["W1"].T) * (hidden > 0)
    w.grad["W0"], w.grad["b0"] = x[rows].T @ back, back.sum(0)
    by = w.gradient(loss=loss, samples=len(rows), lr=args.lr, accuracy=accuracy)
    velocity[...] = 0.9 * velocity + by.flat
    w.params.flat[...] -= args.lr * velocity
    w.stepped()
