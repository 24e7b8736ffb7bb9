"""LeNet in PyTorch, on MNIST's files or, without --data, on digits drawn as noisy patterns. The lines with psgd are all that is added.

    job_submit --trainer examples/trainers/torch_lenet.py --codec diloco --node_count 2 -- --data /data/mnist
"""
import argparse
import gzip
from pathlib import Path

import torch
from torch import nn

import psgd.trainer

options = argparse.ArgumentParser()
options.add_argument("--data", type=Path, help="folder of train-images-idx3-ubyte, ..., which may end with .gz")
options.add_argument("--lr", type=float, default=0.02)
options.add_argument("--batch", type=int, default=50)
args = options.parse_args()
torch.manual_seed(1)


def read(name, header):
    path = next(path for path in (args.data / name, args.data / f"{name}.gz") if path.exists())
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as f:
        return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)


def digits(half, n):
    if args.data:
        return read(f"{half}-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28) / 255, read(f"{half}-labels-idx1-ubyte", 8).long()
    labels = torch.randint(10, (n,))
    return patterns[labels] + 0.7 * torch.randn(n, 1, 28, 28), labels


patterns = nn.functional.interpolate(torch.randn(10, 1, 7, 7), size=(28, 28))
train, test = digits("train", 2000), digits("t10k", 500)
net = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
)  # fmt: skip
opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
opt = psgd.trainer.wrap(net, opt)


def evaluate():
    outputs = torch.cat([net(x) for x in test[0].split(500)])
    return nn.functional.cross_entropy(outputs, test[1]), (outputs.argmax(1) == test[1]).float().mean()


loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*train), batch_size=args.batch, shuffle=True)
for x, y in psgd.trainer.steps(loader, evaluate):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
