"""tokens_peer.py LAYERS HEADS WIDTH CONTEXT VOCABULARY BATCH SECONDS: tokens per second of the same training as tests/bench/tokens in
PyTorch on one thread, in the form of nanoGPT: the better one of an attention written out and of torch's own, where it has one."""
import math
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

OWN = getattr(F, "scaled_dot_product_attention", None)


class Block(nn.Module):
    def __init__(self, heads, width, context, takes_own):
        super().__init__()
        self.heads, self.takes_own = heads, takes_own
        self.norm1, self.norm2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.qkv, self.mix = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.register_buffer("later", torch.ones(context, context, dtype=torch.bool).triu(1))

    def attention(self, x):
        n, time_, width = x.shape
        q, k, v = (t.view(n, time_, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, 2))
        if self.takes_own:
            y = OWN(q, k, v, is_causal=True)
        else:
            s = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(k.shape[-1]))
            y = F.softmax(s.masked_fill(self.later, float("-inf")), -1) @ v
        return self.mix(y.transpose(1, 2).reshape(n, time_, width))

    def forward(self, x):
        width = x.shape[-1:]
        x = x + self.attention(F.layer_norm(x, width, self.norm1))
        return x + self.down(F.gelu(self.up(F.layer_norm(x, width, self.norm2)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary, takes_own):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(heads, width, context, takes_own) for _ in range(layers)))
        self.norm = nn.Parameter(torch.ones(width))
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, x):
        x = self.blocks(self.tokens(x) + self.places)
        return F.linear(F.layer_norm(x, x.shape[-1:], self.norm), self.tokens.weight)


def rate(layers, heads, width, context, vocabulary, batch, seconds, takes_own):
    torch.manual_seed(1)
    net = Gpt(layers, heads, width, context, vocabulary, takes_own)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=True)
    x, y = torch.randint(vocabulary, (2, batch, context))

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(x).view(-1, vocabulary), y.view(-1)).backward()
        optimizer.step()

    step()
    rates = []
    for _ in range(5):
        start, n = time.process_time(), 0
        while n == 0 or time.process_time() - start < seconds / 5:
            step()
            n += 1
        rates.append(n * batch * context / (time.process_time() - start))
    return statistics.median(rates)


def main():
    torch.set_num_threads(1)
    sizes, seconds = [int(a) for a in sys.argv[1:7]], float(sys.argv[7])
    print(f"{max(rate(*sizes, seconds, own) for own in ([False, True] if OWN else [False])):.0f}")


if __name__ == "__main__":
    main()
