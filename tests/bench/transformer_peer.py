"""A transformer of 30 million parameters on random tokens, on a GPU: steps per second, for tests/bench/trainer_gpu.
It is one process alone, one of several under DistributedDataParallel (in a torchrun-like environment; over NCCL if each process has
a GPU of its own, else over gloo), or, as the training program of a job of psgd, one of the workers. Rank 0 prints the figure; in a
job it is the metric steps_per_s, and the job needs --max-steps WARM_UP + STEPS + 1.
  transformer_peer.py WARM_UP STEPS [--device cuda] [--fp16] [--width 512] [--layers 8] [--length 256] [--batch 16]
--fp16: DistributedDataParallel exchanges gradients in 16 bits."""
import argparse
import os
import time

import torch
from torch import nn

VOCABULARY, HEADS, BATCHES, RATE = 4096, 8, 8, 3e-4


class Transformer(nn.Module):
    """That of examples/trainers/torch_transformer.py, larger."""

    def __init__(self, width, layers, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, HEADS, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        return self.out(self.layers(self.tokens(x) + self.places.weight, mask=self.mask))


def in_ddp(net, world, fp16):
    has_own_gpus = torch.cuda.device_count() >= world
    torch.distributed.init_process_group("nccl" if has_own_gpus and next(net.parameters()).is_cuda else "gloo")
    net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)
    if fp16:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

        net.register_comm_hook(None, fp16_compress_hook)
    return net


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("warm_up", type=int)
    p.add_argument("steps", type=int)
    p.add_argument("--device", default="cuda")
    p.add_argument("--fp16", action="store_true")
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--batch", type=int, default=16)
    a = p.parse_args()
    rank, world, is_job = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)), "PSGD_TRAINER_FD" in os.environ
    if a.device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    device = torch.device(a.device)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(1)
    net = Transformer(a.width, a.layers, a.length).to(device)
    if world > 1:
        net = in_ddp(net, world, a.fp16)
    opt = torch.optim.AdamW(net.parameters(), lr=RATE)
    if is_job:
        import psgd.trainer

        opt = psgd.trainer.wrap(net, opt)
        rank = psgd.trainer.worker().info.node
    torch.manual_seed(2 + rank)
    batches = torch.randint(VOCABULARY, (BATCHES, a.batch, a.length + 1), device=device)

    def step(i):
        x = batches[i % BATCHES]
        loss = nn.functional.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()

    for i in range(a.warm_up):
        step(i)
    synchronize(device)
    start = time.perf_counter()
    for i in range(a.steps):
        step(i)
    synchronize(device)
    steps_per_s = a.steps / (time.perf_counter() - start)
    if is_job:
        psgd.trainer.worker().log(steps_per_s=steps_per_s)
        step(0)  # with which the job ends, and so the program
    elif rank == 0:
        print(steps_per_s)
    if world > 1:
        torch.distributed.destroy_process_group()


main()
