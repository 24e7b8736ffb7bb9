"""Least squares in numpy: each worker computes the gradient on its part of the rows, and updates its own copy of the parameters.

    job_submit --trainer examples/trainers/numpy_linear.py --codec fedavg --node_count 2
    python3 examples/trainers/numpy_linear.py        # alone: one pass over all rows
"""
import numpy as np

import psgd.trainer

rng = np.random.default_rng(1)
x = rng.normal(size=(5000, 20))
y = x @ rng.normal(size=20) + 3 + 0.1 * rng.normal(size=5000)
train, test = slice(0, 4000), slice(4000, None)
rate, batch = 0.05, 50

w = psgd.trainer.open({"W": (20,), "b": (1,)})


def error(rows):
    return x[rows] @ w["W"] + w["b"] - y[rows]


def evaluate():
    return float((error(test) ** 2).mean())


mine = w.shard(4000)
for first in psgd.trainer.steps(range(0, len(mine), batch), evaluate):
    rows = mine[first : first + batch]
    e = error(rows)
    w.grad["W"] = 2 * x[rows].T @ e / len(rows)
    w.grad["b"] = 2 * e.mean(keepdims=True)
    by = w.gradient(loss=(e**2).mean(), samples=len(rows), lr=rate)
    for name in w.params:
        w[name][...] -= rate * by[name]
    w.stepped()
