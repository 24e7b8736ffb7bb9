"""A function that trains one client, of whom a simulation has a hundred: softmax regression in numpy. Each client keeps a momentum of
its own from round to round.

    job_submit simulate --trainer examples/trainers/numpy_clients.py --codec fedavg --node_count 100 --participate 0.1 --epochs 20 \\
        --partition dirichlet:0.5
"""
import numpy as np

import psgd.trainer

rng = np.random.default_rng(1)
labels = rng.integers(0, 10, 6000)
x = (rng.random((10, 64)) < 0.3)[labels] + 0.5 * rng.normal(size=(6000, 64))
tests = range(5000, 6000)


def forward(params, rows):
    logits = x[rows] @ params["W"] + params["b"]
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    right = p[np.arange(len(rows)), labels[rows]]
    return p, -np.log(right).mean(), (p.argmax(1) == labels[rows]).mean()


def train(params, indices, round, client):
    velocity = client.state.setdefault("velocity", {name: np.zeros_like(params[name]) for name in params})
    np.random.shuffle(indices)
    losses = []
    for first in range(0, len(indices), 10):
        rows = indices[first : first + 10]
        p, loss, accuracy = forward(params, rows)
        p[np.arange(len(rows)), labels[rows]] -= 1
        grads = {"W": x[rows].T @ p / len(rows), "b": p.mean(0)}
        for name in params:
            velocity[name] = 0.5 * velocity[name] + grads[name]
            params[name] -= 0.05 * velocity[name]
        losses.append(loss)
    client.log(last_accuracy=accuracy)
    return params, np.mean(losses), len(indices)


def evaluate(params):
    return forward(params, tests)[1:]


psgd.trainer.client({"W": (64, 10), "b": (10,)}, train, evaluate=evaluate, rows=5000, labels=labels[:5000], rounds=5)
