"""A notebook on EASGD over ZeroMQ: two workers, one number, five gradients drawn by numpy. Each worker prints its number after each step;
the final model is the center.

    job_submit --trainer examples/trainers/numpy_easgd.py --codec easgd_grad:rho=0.5,every=1 --node_count 2 --max-steps 5
"""
import numpy as np

import psgd.trainer

w = psgd.trainer.open({"x": np.array([0.1106])})
np.random.seed(7 * w.info.node)
while w.next():
    w.grad["x"][...] = np.random.rand()
    by = w.gradient(loss=0, samples=1, lr=0.9)
    w["x"][0] = float(w["x"][0]) - 0.9 * float(by["x"][0])  # in float64, as the notebook
    print(f"{w['x'][0]:.6f}")
    w.stepped()
    if w.info.is_alone and w.steps_done == 5:
        w.finish()
