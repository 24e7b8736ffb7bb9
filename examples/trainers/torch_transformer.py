"""A small transformer that predicts the next character, of sums as "12+7=19;": AdamW, a rate that warms up, and gradients that are
clipped after they are combined.

    job_submit --trainer examples/trainers/torch_transformer.py --codec allreduce --node_count 2 --max-steps 200
"""
import random

import torch
from torch import nn

import psgd.trainer

CHARS, LENGTH, WIDTH = "0123456789+=;", 32, 32
torch.manual_seed(1)
source = random.Random(1)
pairs = [(source.randrange(50), source.randrange(50)) for _ in range(6000)]
text = torch.tensor([CHARS.index(c) for a, b in pairs for c in f"{a}+{b}={a + b};"])
rows = text[: len(text) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.chars, self.places = nn.Embedding(len(CHARS), WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, len(CHARS))
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        return self.out(self.layers(self.chars(x) + self.places.weight[: x.shape[1]], mask=self.mask))


net = Transformer()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
warmup = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min(1, (step + 1) / 20))
opt = psgd.trainer.wrap(net, opt, warmup)
w = psgd.trainer.worker()


def loss_of(x):
    return nn.functional.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


def evaluate():
    return loss_of(rows[-64:])


loader = torch.utils.data.DataLoader(rows[:-64], batch_size=16, shuffle=True)
for x in psgd.trainer.steps(loader, evaluate):
    opt.zero_grad()
    loss_of(x).backward()
    w.gradient()
    w.log(norm=nn.utils.clip_grad_norm_(net.parameters(), 1.0))
    opt.step()
    warmup.step()
