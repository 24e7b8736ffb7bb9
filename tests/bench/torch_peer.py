"""torch_peer.py MODEL BATCH DESCENT LEARN_RATE [options]: the same training in PyTorch, one thread, in the configuration
that was fastest of those tried: data in memory, index_select, foreach Adam, channels last for LeNet. In a torchrun-like
environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) it is one of several processes under DistributedDataParallel over
gloo, each with BATCH samples of a step. Rank 0 prints one number:
  --samples N --epochs N      samples per second of synthetic data, the median over the epochs after the first
  --mnist DIR --target SHARE  the epochs until SHARE of MNIST's test set is classified correctly, evaluated each quarter of an epoch
As the training program of a job of psgd (job_submit --trainer) it is one of the workers instead, and the samples per second of each
epoch are the metric samples_per_s; the job needs --max-steps of one epoch more."""
import argparse
import gzip
import os
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

EPOCHS_MAX = 100


class ConvnetRay(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 3, 3), nn.Linear(192, 10)

    def forward(self, x):
        return self.fc(F.relu(F.max_pool2d(self.conv(x.view(-1, 1, 28, 28)), 3)).view(-1, 192))


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x.view(-1, 1, 28, 28)))))
        return self.fc2(F.relu(self.fc1(F.max_pool2d(x, 2).flatten(1))))


class LstmRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(28, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        return self.fc(self.lstm(x.view(-1, 28, 28))[0][:, -1])


def mlp(width, activation):
    return nn.Sequential(nn.Linear(784, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 10))


MODELS = {
    "softmax": lambda: nn.Linear(784, 10),
    "mlp-128": lambda: nn.Sequential(nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 10)),
    "mlp-tutorial": lambda: mlp(128, nn.Tanh),
    "mlp-relu": lambda: mlp(512, nn.ReLU),
    "convnet-ray": ConvnetRay,
    "lenet": lambda: Lenet().to(memory_format=torch.channels_last),
    "lstm-rows": LstmRows,
}


def idx(path, head, kind):
    with gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb") as f:
        return torch.from_numpy(np.frombuffer(f.read(), np.uint8, offset=head).astype(kind))


def mnist(folder, part):
    x = idx(f"{folder}/{part}-images-idx3-ubyte", 16, np.float32)
    return x.reshape(-1, 784).div_(255), idx(f"{folder}/{part}-labels-idx1-ubyte", 8, np.int64)


class Training:
    def __init__(self, model, batch, descent, rate):
        self.batch, self.world, self.rank = batch, int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        self.net, self.is_ddp, self.worker = MODELS[model](), self.world > 1, None
        if self.is_ddp:
            torch.distributed.init_process_group("gloo")
            self.net = nn.parallel.DistributedDataParallel(self.net, gradient_as_bucket_view=True, broadcast_buffers=False)
        self.step = (torch.optim.Adam(self.net.parameters(), lr=rate, foreach=True) if descent == "adam"
                     else torch.optim.SGD(self.net.parameters(), lr=rate))
        if "PSGD_TRAINER_FD" in os.environ:
            import psgd.trainer

            self.step = psgd.trainer.wrap(self.net, self.step)
            self.worker = psgd.trainer.worker()
            self.world, self.rank = self.worker.info.n_nodes, self.worker.info.node

    def epoch(self, x, y):
        """Yields after each step the number of steps done, and of all."""
        n = len(x) // (self.batch * self.world)
        order = torch.randperm(len(x))
        for i in range(n):
            k = order[(i * self.world + self.rank) * self.batch:][:self.batch]
            loss = F.cross_entropy(self.net(x.index_select(0, k)), y.index_select(0, k))
            self.step.zero_grad(set_to_none=not self.is_ddp)
            loss.backward()
            self.step.step()
            yield i + 1, n

    def samples_per_second(self, samples, epochs):
        x, y = torch.rand(samples, 784), torch.randint(0, 10, (samples,))
        rates = []
        for _ in range(epochs + bool(self.worker)):  # in the last one a job ends the program
            epoch = self.epoch(x, y)
            next(epoch)  # the order of the samples, and a step
            start = time.perf_counter()
            n = sum(1 for _ in epoch)
            rates.append(n * self.batch * self.world / (time.perf_counter() - start))
            if self.worker:
                self.worker.log(samples_per_s=rates[-1])
        return statistics.median(rates[1:] or rates)

    @torch.no_grad()
    def is_good(self, x, y, target):
        return (self.net(x).argmax(1) == y).float().mean() >= target

    def epochs_to(self, target, folder):
        data, test = mnist(folder, "train"), mnist(folder, "t10k")
        for epoch in range(EPOCHS_MAX):
            for i, n in self.epoch(*data):
                if i % (n // 4) == 0 and self.is_good(*test, target):
                    return epoch + i / n
        raise SystemExit(f"torch_peer.py: {target} is not reached in {EPOCHS_MAX} epochs")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=MODELS)
    p.add_argument("batch", type=int)
    p.add_argument("descent", choices=("sgd", "adam"))
    p.add_argument("rate", type=float)
    p.add_argument("--samples", type=int)
    p.add_argument("--epochs", type=int)
    p.add_argument("--mnist")
    p.add_argument("--target", type=float)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    t = Training(a.model, a.batch, a.descent, a.rate)
    figure = t.epochs_to(a.target, a.mnist) if a.mnist else t.samples_per_second(a.samples, a.epochs)
    if t.rank == 0:
        print(figure)


main()
