"""mnist_peer.py DIR BATCH LEARN_RATE TARGET SEED: mlp-tutorial on MNIST in PyTorch, one thread, until TARGET of the test set
is right, looked at each quarter of an epoch. Prints the epochs that it took. In a torchrun-like environment it is one of several
processes under DistributedDataParallel over gloo, each with BATCH samples of a step."""
import gzip
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def idx(path, head, kind):
    with gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb") as f:
        return torch.from_numpy(np.frombuffer(f.read(), np.uint8, offset=head).astype(kind))


def load(folder, part):
    x = idx(f"{folder}/{part}-images-idx3-ubyte", 16, np.float32)
    return x.reshape(-1, 784).div_(255), idx(f"{folder}/{part}-labels-idx1-ubyte", 8, np.int64)


def main():
    folder, batch, rate, target, seed = sys.argv[1:6]
    batch, rate, target = int(batch), float(rate), float(target)
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    net = nn.Sequential(nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 10))
    if world > 1:
        torch.distributed.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)
    step = torch.optim.SGD(net.parameters(), lr=rate)
    (x, y), (x_test, y_test) = load(folder, "train"), load(folder, "t10k")
    n = len(x) // (batch * world)
    for epoch in range(100):
        order = torch.randperm(len(x))
        for i in range(n):
            k = order[(i * world + rank) * batch:][:batch]
            loss = F.cross_entropy(net(x.index_select(0, k)), y.index_select(0, k))
            step.zero_grad(set_to_none=world == 1)
            loss.backward()
            step.step()
            if (i + 1) % (n // 4) == 0:
                with torch.no_grad():
                    if (net(x_test).argmax(1) == y_test).float().mean() >= target:
                        if rank == 0:
                            print(epoch + (i + 1) / n)
                        return


main()
