"""torch_peer.py MODEL BATCH DESCENT LEARN_RATE SAMPLES EPOCHS: the same training in PyTorch, one thread, in the
configuration that was quickest of those tried: data in memory, index_select, foreach Adam, channels last for LeNet.
Prints samples a second, the median over the epochs after the first. In a torchrun-like environment (RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT) it is one of several processes under DistributedDataParallel over gloo, each with BATCH."""
import os
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


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
    "mlp-tutorial": lambda: mlp(128, nn.Tanh),
    "mlp-relu": lambda: mlp(512, nn.ReLU),
    "convnet-ray": ConvnetRay,
    "lenet": lambda: Lenet().to(memory_format=torch.channels_last),
    "lstm-rows": LstmRows,
}


def main():
    model, batch, descent, rate, samples, epochs = sys.argv[1:7]
    batch, samples, epochs, rate = int(batch), int(samples), int(epochs), float(rate)
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = MODELS[model]()
    if world > 1:
        torch.distributed.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)
    step = (torch.optim.Adam(net.parameters(), lr=rate, foreach=True) if descent == "adam"
            else torch.optim.SGD(net.parameters(), lr=rate))
    x, y = torch.rand(samples, 784), torch.randint(0, 10, (samples,))
    rates = []
    for _ in range(epochs):
        order = torch.randperm(samples)
        n = samples // (batch * world)
        start = time.perf_counter()
        for i in range(n):
            k = order[(i * world + rank) * batch:][:batch]
            loss = F.cross_entropy(net(x.index_select(0, k)), y.index_select(0, k))
            step.zero_grad(set_to_none=world == 1)
            loss.backward()
            step.step()
        rates.append(n * batch * world / (time.perf_counter() - start))
    if rank == 0:
        print(statistics.median(rates[1:] or rates))


main()
