#!/usr/bin/env python3
"""Writes optimizers.safetensors and schedules.safetensors beside itself: the results of PyTorch's optimizers and schedulers.

Needs torch and numpy (made with Debian 12's python3-torch 1.13.0 and python3-numpy 1.24.2). `make test` reads the files and never
runs this. 100 steps; 7 parameters whose gradients have scales from 1e-3 to 10 and are zero now and then; all float32.

optimizers.safetensors: "grads" (100, 7), "start" (7), and for each variant in VARIANTS the weights after each step (100, 7).
schedules.safetensors: for each schedule, without warm-up and after one of 10 steps, the rate of each of 100 steps (100).
"""
import json, pathlib, struct
import numpy as np
import torch
from torch.optim import lr_scheduler as sched

STEPS, PARAMS, LR = 100, 7, 0.01
FOLDER = pathlib.Path(__file__).parent


def write(path, tensors):
    header, at = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.astype("<f4").tobytes() for t in tensors.values()))


def rms(params, **kw):
    return torch.optim.RMSprop(params, lr=LR, alpha=0.9, eps=1e-7, **kw)


class Graves(torch.optim.Optimizer):
    """Graves 2013, eq. 38-45, with the learning rate outside the momentum. torch's own RMSprop with centered=True adds
    epsilon to the root."""

    def __init__(self, params, momentum=0.9, weight_decay=0):
        super().__init__(params, {"momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                s = self.state[p]
                g = p.grad + group["weight_decay"] * p
                for name in "nab":
                    s.setdefault(name, torch.zeros_like(p))
                s["n"] = 0.95 * s["n"] + 0.05 * g.square()
                s["a"] = 0.95 * s["a"] + 0.05 * g
                s["b"] = group["momentum"] * s["b"] + g / (s["n"] - s["a"].square() + 1e-4).sqrt()
                p -= LR * s["b"]


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, Algorithm 2, the weights shrunk first, as in its authors' program (google/automl, lion_pytorch.py)."""

    def __init__(self, params, betas=(0.9, 0.99), weight_decay=0):
        super().__init__(params, {"betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - LR * group["weight_decay"])
                p -= LR * (b1 * m + (1 - b1) * p.grad).sign()
                m.mul_(b2).add_((1 - b2) * p.grad)


def newton_schulz(g):
    """zeropower_via_newtonschulz5 of Jordan's Muon, in double."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        y = x @ x.T
        x = a * x + (b * y + c * y @ y) @ x
    return x.T if g.shape[0] > g.shape[1] else x


class Muon(torch.optim.Optimizer):
    """Jordan et al. 2024 (github.com/KellerJordan/Muon), in double, where there the iteration is in bfloat16. The first 6
    parameters are a matrix of (inputs, outputs), so torch's (outputs, inputs) transposed; the last is updated by AdamW."""

    def __init__(self, params, inputs, weight_decay=0):
        super().__init__(params, {"inputs": inputs, "weight_decay": weight_decay})
        w, rest = (group["params"][0] for group in self.param_groups)
        self.w, self.m, self.inputs = w.detach().double(), torch.zeros(6, dtype=torch.float64), inputs
        self.rest = torch.optim.AdamW([rest], lr=0.3 * LR, betas=(0.9, 0.95), eps=1e-10,
                                      weight_decay=self.param_groups[1]["weight_decay"])

    @torch.no_grad()
    def step(self):
        w = self.param_groups[0]["params"][0]
        g = w.grad.double()
        self.m = 0.95 * self.m + g
        step = newton_schulz((g + 0.95 * self.m).reshape(self.inputs, -1).T)
        step = step * max(1, step.shape[0] / step.shape[1]) ** 0.5
        self.w = self.w * (1 - LR * self.param_groups[0]["weight_decay"]) - LR * step.T.reshape(6)
        w.copy_(self.w)
        self.rest.step()


def adagrad(params, **kw):
    return torch.optim.Adagrad(params, lr=LR, eps=1e-7, **kw)


def adadelta(params, **kw):
    return torch.optim.Adadelta(params, lr=1.0, rho=0.95, eps=1e-6, **kw)


def sgd(params, **kw):
    return torch.optim.SGD(params, lr=LR, **kw)


def adam(params, **kw):
    return torch.optim.Adam(params, lr=LR, **kw)


def adamw(params, **kw):
    return torch.optim.AdamW(params, lr=LR, **kw)


def decay(opt):
    return sched.LambdaLR(opt, lambda t: (t + 1) ** -0.5)


# name: optimizer, its arguments, weight decay (or pairs: of how many parameters, which), norm to clip to, scheduler
VARIANTS = {
    "sgd": (sgd, {}, 0, 0, None),
    "sgd, decay": (sgd, {}, 0.1, 0, None),
    "sgd, clip": (sgd, {}, 0, 1.5, None),
    "momentum": (sgd, {"momentum": 0.9}, 0, 0, None),
    "momentum 0.5, decay": (sgd, {"momentum": 0.5}, 0.1, 0, None),
    "nesterov": (sgd, {"momentum": 0.9, "nesterov": True}, 0, 0, None),
    "nesterov, decay, clip": (sgd, {"momentum": 0.9, "nesterov": True}, 0.1, 1.5, None),
    "adam": (adam, {}, 0, 0, None),
    "adam, decay, clip": (adam, {}, 0.1, 1.5, None),
    "adamw, decay": (adamw, {}, 0.1, 0, None),
    "adagrad": (adagrad, {}, 0, 0, None),
    "adagrad, decay": (adagrad, {}, 0.1, 0, None),
    "adadelta": (adadelta, {}, 0, 0, None),
    "adadelta, decay": (adadelta, {}, 0.1, 0, None),
    "rmsprop": (rms, {}, 0, 0, None),
    "rmsprop, decay": (rms, {}, 0.1, 0, None),
    "rmsprop_graves": (Graves, {}, 0, 0, None),
    "rmsprop_graves 0.5, decay": (Graves, {"momentum": 0.5}, 0.1, 0, None),
    "gradient_decay": (sgd, {}, 0, 0, decay),
    "adamw 0.8 0.95 1e-3, decay": (adamw, {"betas": (0.8, 0.95), "eps": 1e-3}, 0.1, 0, None),
    "adamw, decay of 4": (adamw, {}, ((4, 0.1), (3, 0)), 0, None),
    "muon of 2 inputs": (Muon, {"inputs": 2}, ((6, 0), (1, 0)), 0, None),
    "muon of 3 inputs, decay": (Muon, {"inputs": 3}, ((6, 0.1), (1, 0.1)), 0, None),
    "lion": (Lion, {}, 0, 0, None),
    "lion 0.95 0.98, decay, clip": (Lion, {"betas": (0.95, 0.98)}, 0.1, 1.5, None),
}

SCHEDULES = {
    "constant": lambda o, n: sched.ConstantLR(o, factor=1.0),
    "step:every_steps=30,factor=0.5": lambda o, n: sched.StepLR(o, step_size=30, gamma=0.5),
    "step:every=3": lambda o, n: sched.StepLR(o, step_size=30, gamma=0.1),  # epochs of 10 steps
    "cosine": lambda o, n: sched.CosineAnnealingLR(o, T_max=n),
    "linear": lambda o, n: sched.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=n),
    "cosine:floor=0.1": lambda o, n: sched.CosineAnnealingLR(o, T_max=n, eta_min=0.05),
    "linear:floor=0.2": lambda o, n: sched.LinearLR(o, start_factor=1.0, end_factor=0.2, total_iters=n),
    "sqrt": lambda o, n: sched.LambdaLR(o, lambda t: (t + 1) ** -0.5),
}


def iterates(start, grads, make, args, weight_decay, clip, scheduler):
    decays = weight_decay if isinstance(weight_decay, tuple) else ((PARAMS, weight_decay),)
    counts = [n for n, _ in decays]
    parts = [torch.nn.Parameter(part.clone()) for part in start.split(counts)]
    opt = make([{"params": [w], "weight_decay": d} for w, (_, d) in zip(parts, decays)], **args)
    rates = scheduler(opt) if scheduler else None
    out = np.empty((STEPS, PARAMS), "f4")
    for t in range(STEPS):
        for w, g in zip(parts, grads[t].split(counts)):
            w.grad = g.clone()
        if clip:
            torch.nn.utils.clip_grad_norm_(parts, clip)
        opt.step()
        if rates:
            rates.step()
        out[t] = torch.cat(parts).detach().numpy()
    return out


def rates(make, warmup):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    s = make(opt, STEPS - warmup)
    if warmup:
        up = sched.LinearLR(opt, start_factor=1 / (warmup + 1), end_factor=1.0, total_iters=warmup)
        s = sched.SequentialLR(opt, [up, s], milestones=[warmup])
    out = np.empty(STEPS, "f4")
    for t in range(STEPS):
        out[t] = opt.param_groups[0]["lr"]
        opt.step()
        s.step()
    return out


def main():
    torch.manual_seed(1)
    grads = torch.randn(STEPS, PARAMS) * torch.logspace(-3, 1, PARAMS)
    grads[torch.rand(STEPS, PARAMS) < 0.1] = 0
    start = torch.randn(PARAMS)
    tensors = {"grads": grads.numpy(), "start": start.numpy()}
    tensors.update({name: iterates(start, grads, *v) for name, v in VARIANTS.items()})
    write(FOLDER / "optimizers.safetensors", tensors)
    write(FOLDER / "schedules.safetensors",
          {f"{name} after {w}": rates(make, w) for name, make in SCHEDULES.items() for w in (0, 10)})


main()
