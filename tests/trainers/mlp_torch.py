"""That of mlp_numpy.py by torch.

    mlp_torch.py DATA.npz BATCH RATE
"""
import sys

import numpy as np
import torch
from torch import nn

import psgd.trainer


class Dense(nn.Module):
    """psgd's weight is (inputs, outputs)."""

    def __init__(self, n, m):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(n, m) / n**0.5), nn.Parameter(torch.zeros(m))

    def forward(self, x):
        return x @ self.weight + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer0, self.layer2 = (nn.ModuleDict({"dense": Dense(n, m)}) for n, m in ((20, 16), (16, 5)))

    def forward(self, x):
        return self.layer2["dense"](torch.tanh(self.layer0["dense"](x)))


data, size, rate = np.load(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
x, y, x_test, y_test = (torch.from_numpy(data[name]) for name in ("x_train", "y_train", "x_test", "y_test"))
y, y_test = y.long(), y_test.long()
torch.manual_seed(1)
net = Net()
opt = psgd.trainer.wrap(net, torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9))


def score(outputs, y):
    return nn.functional.cross_entropy(outputs, y), (outputs.argmax(1) == y).float().mean()


def evaluate():
    return (*score(net(x_test), y_test), len(y_test))


rows = torch.utils.data.TensorDataset(x, y)
loader = torch.utils.data.DataLoader(rows, batch_sampler=psgd.trainer.batches(len(y), size, y))
for inputs, labels in psgd.trainer.steps(loader, evaluate):
    opt.zero_grad()
    loss, accuracy = score(net(inputs), labels)
    loss.backward()
    psgd.trainer.worker().gradient(accuracy=float(accuracy))
    opt.step()
    psgd.trainer.worker().log(f1=accuracy)
