"""A training program that only takes its turns, for tests/bench/trainer and trainer_gpu.
With --used it also writes its gradient and updates its parameters, as a real one does. The median length of a turn, from GO to GO,
in microseconds, is the metric turn_us; alone it is printed.
  trainer_turn.py numpy|torch N_PARAMS N_STEPS [--used] [--device cuda]
"""
import argparse
import statistics
import time

import psgd.trainer


def of_numpy(a):
    import numpy  # before open(): the vectors become its arrays

    w = psgd.trainer.open({"w": (a.n_params,)}, batches=a.n_steps)
    values, grad = w["w"], w.grad["w"]
    grad.fill(1)  # the norm of a gradient of zeros is computed twice

    def write():
        if a.used:
            grad.fill(1)

    def update(by):
        if a.used:
            numpy.subtract(values, by["w"], out=values)

    return w, write, update


def of_torch(a):
    import torch

    torch.set_num_threads(1)
    net = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(a.n_params, device=a.device))])
    own = torch.ones(a.n_params, device=a.device)  # a gradient as backward() leaves it: in no memory of psgd's
    w = psgd.trainer.open(net, batches=a.n_steps)
    (p,) = net.parameters()

    def write():
        p.grad = own.fill_(1) if a.used else own

    @torch.no_grad()
    def update(_):
        if a.used:
            p.sub_(p.grad)
        if p.is_cuda:
            torch.cuda.synchronize()

    return w, write, update


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("library", choices=("numpy", "torch"))
    arguments.add_argument("n_params", type=int)
    arguments.add_argument("n_steps", type=int)
    arguments.add_argument("--used", action="store_true")
    arguments.add_argument("--device", default="cpu")
    a = arguments.parse_args()
    w, write, update = (of_torch if a.library == "torch" else of_numpy)(a)
    began = []
    while w.next():
        began.append(time.perf_counter())
        write()
        update(w.gradient(loss=0.0, samples=1, lr=1.0))
        if len(began) == a.n_steps:
            times = began[a.n_steps // 10:]  # the first tenth is the start of a job
            turn_us = 1e6 * statistics.median(end - begin for begin, end in zip(times, times[1:]))
            if w.info.is_alone:
                print(turn_us)
            else:
                w.log(turn_us=turn_us)
        w.stepped()


main()
