"""A training loop as platoon's scripts have it, and the two calls of platoon's Worker: init_shared_params() before the loop and
sync_params() in it. No library is needed: logistic regression of points in a plane.

    job_submit --trainer examples/trainers/platoon_style.py --codec easgd:alpha=0.5,every=10 --node_count 2 --max-steps 400
"""
import math
import random

import psgd.trainer

source = random.Random(1)
points = [(source.gauss(0, 1), source.gauss(0, 1)) for _ in range(2000)]
data = [(x, y, float(2 * x - y > 0.5)) for x, y in points]
rate, batch_size = 0.5, 20

# Worker.init_shared_params(): the parameters lie in psgd's memory from here on.
worker = psgd.trainer.open({"w": (2,), "b": (1,)})
w, b = worker["w"], worker["b"]
worker.next()
random.seed(worker.info.node)

steps = 0
while True:
    batch = random.sample(data, batch_size)
    grad, loss = [0.0, 0.0, 0.0], 0.0
    for x, y, label in batch:
        p = 1 / (1 + math.exp(-(w[0] * x + w[1] * y + b[0])))
        loss -= math.log(p if label else 1 - p) / batch_size
        for k, value in enumerate((x, y, 1.0)):
            grad[k] += (p - label) * value / batch_size
    w[0] -= rate * grad[0]
    w[1] -= rate * grad[1]
    b[0] -= rate * grad[2]
    steps += 1

    # Worker.sync_params(): the rule says in which steps anything is exchanged.
    if not worker.sync(loss=loss, samples=batch_size, lr=rate):
        break
    if worker.info.is_alone and steps == 400:
        print(f"loss {loss:.3f}")
        break
