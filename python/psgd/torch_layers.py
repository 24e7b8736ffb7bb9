"""torch modules for those layers of psgd that torch.nn has not, or has in another form. Each has the parameters, and their
names, of the torch class it extends."""
from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple, Type

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

Pads = Tuple[int, int, int, int]  # left, right, top, bottom
Pair = Tuple[int, int]


class Text(nn.Sequential):
    """A model of tokens (samples, time). A text ends behind its last token that is not 0: recurrent layers stop there."""

    def forward(self, x: Tensor) -> Tensor:
        place = torch.arange(1, x.shape[1] + 1)
        lengths = ((x != 0) * place).amax(1).clamp(min=1)
        return _chain(self, x, lengths)


def _chain(layers: nn.Sequential, x: Tensor, lengths: Optional[Tensor]) -> Tensor:
    for layer in layers:
        y: Tensor = layer(x, lengths) if isinstance(layer, (LSTM, GRU, MeanOverTime, Residual)) else layer(x)
        x = y
    return x


class Residual(nn.Sequential):
    """A block whose input is added to the output of its layers."""

    def forward(self, x: Tensor, lengths: Optional[Tensor] = None) -> Tensor:
        return x + _chain(self, x, lengths)


class Dense(nn.Linear):
    """nn.Linear of all values of a sample."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = super().forward(x.flatten(1))
        return y


class PaddedConv2d(nn.Conv2d):
    """nn.Conv2d with more zeros on one side than on the other."""

    def __init__(self, n_in: int, n_out: int, kernel: Pair, stride: Pair, pads: Pads) -> None:
        super().__init__(n_in, n_out, kernel, stride)
        self.pads = pads

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = super().forward(functional.pad(x, self.pads))
        return y


class PaddedMaxPool2d(nn.MaxPool2d):
    def __init__(self, size: Pair, stride: Pair, pads: Pads) -> None:
        super().__init__(size, stride)
        self.pads = pads

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.pad(x, self.pads, value=float("-inf")))


class PaddedAvgPool2d(nn.AvgPool2d):
    """The padding does not count in the mean."""

    def __init__(self, size: Pair, stride: Pair, pads: Pads) -> None:
        super().__init__(size, stride)
        self.pads = pads

    def forward(self, x: Tensor) -> Tensor:
        inside = functional.pad(torch.ones_like(x), self.pads)
        return super().forward(functional.pad(x, self.pads)) / super().forward(inside)


class TimeBatchNorm(nn.BatchNorm1d):
    """nn.BatchNorm1d over the last of (samples, time, values)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class ChannelLayerNorm(nn.LayerNorm):
    """nn.LayerNorm over the channels of each pixel."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class SlopedHardtanh(nn.Module):
    """nn.Hardtanh with a slope outside of -1 to 1."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        inside = functional.hardtanh(x)
        return inside + self.slope * (x - inside)


class Reshape(nn.Module):
    """Samples in the shape of psgd's layer reshape, in psgd's order, in which channels come last. `order`: where psgd has value
    0, 1, ... of what torch has flattened, if that is another place."""

    order: Optional[Tensor]

    def __init__(self, shape: Tuple[int, ...], order: Optional[Tensor]) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("order", None if order is None else torch.argsort(order), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.order is not None:
            x = x[:, self.order]
        x = x.reshape(len(x), *self.shape)
        return x.permute(0, 3, 1, 2) if len(self.shape) == 3 else x


def _run(whole: Callable[[Any], Any], x: Tensor, lengths: Optional[Tensor], sequences: bool) -> Tensor:
    """A recurrent layer of torch on samples of one length, or of their own."""
    if lengths is None:
        out, state = whole(x)
    else:
        out, state = whole(pack_padded_sequence(x, lengths.clamp(max=x.shape[1]), batch_first=True, enforce_sorted=False))
    if not sequences:
        last: Tensor = (state[0] if isinstance(state, tuple) else state)[-1]
        return last
    steps: Tensor = out if lengths is None else pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])[0]
    return steps


class LSTM(nn.LSTM):
    """nn.LSTM of one layer from (samples, time, values) to the state after the last step, or with `sequences` after each."""

    def __init__(self, n_in: int, units: int, sequences: bool = False) -> None:
        super().__init__(n_in, units, batch_first=True)  # type: ignore[no-untyped-call]
        self.sequences = sequences

    def forward(self, x: Tensor, lengths: Optional[Tensor] = None) -> Tensor:  # type: ignore[override]
        return _run(super().forward, x, lengths, self.sequences)


class GRU(nn.GRU):
    """As LSTM."""

    def __init__(self, n_in: int, units: int, sequences: bool = False) -> None:
        super().__init__(n_in, units, batch_first=True)  # type: ignore[no-untyped-call]
        self.sequences = sequences

    def forward(self, x: Tensor, lengths: Optional[Tensor] = None) -> Tensor:  # type: ignore[override]
        return _run(super().forward, x, lengths, self.sequences)


class MeanOverTime(nn.Module):
    """The mean over the steps of (samples, time, values), of a text over those that it has."""

    def forward(self, x: Tensor, lengths: Optional[Tensor] = None) -> Tensor:
        if lengths is None:
            return x.mean(1)
        lengths = lengths.clamp(max=x.shape[1])
        inside = torch.arange(x.shape[1])[None, :] < lengths[:, None]
        return (x * inside[:, :, None]).sum(1) / lengths[:, None]


class Positions(nn.Module):
    """Adds a row of `weight` to each step of (samples, time, values)."""

    def __init__(self, positions: int, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(positions, units) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[: x.shape[1]]


class Attention(nn.Module):
    """Causal self-attention of several heads on (samples, time, values). rope: the base of a rotary embedding, 0: none;
    dropout: the rate, of the softmax."""

    def __init__(self, units: int, heads: int, bias: bool = True, rope: float = 0, dropout: float = 0) -> None:
        super().__init__()
        self.heads, self.rope, self.dropout = heads, rope, dropout
        self.qkv = nn.Linear(units, 3 * units, bias)
        self.output = nn.Linear(units, units, bias)

    def forward(self, x: Tensor) -> Tensor:
        n, time, units = x.shape
        q, k, v = (t.reshape(n, time, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(units, 2))
        if self.rope:
            q, k = self._rotated(q), self._rotated(k)
        scores = q @ k.transpose(2, 3) / (units // self.heads) ** 0.5
        later = torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)
        weights = functional.softmax(scores.masked_fill(later, float("-inf")), -1)
        mixed = functional.dropout(weights, self.dropout, self.training) @ v
        y: Tensor = self.output(mixed.transpose(1, 2).reshape(n, time, units))
        return y


    def _rotated(self, x: Tensor) -> Tensor:
        time, e = x.shape[2:]
        angles = torch.arange(time)[:, None] * self.rope ** (-2 * torch.arange(e // 2, dtype=torch.float64) / e)
        cosine, sine = (f(angles).to(x).repeat(1, 2) for f in (torch.cos, torch.sin))
        first, second = x.chunk(2, -1)
        return x * cosine + torch.cat([-second, first], -1) * sine


class SwiGLU(nn.Module):
    """silu of the first half of the last dimension, times the second half."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return functional.silu(a) * b


class RMSNorm(nn.Module):
    """Divides each last dimension by its root mean square."""

    def __init__(self, units: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(units))

    def forward(self, x: Tensor) -> Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.weight


class TiedHead(nn.Module):
    """The scores of each token by the weight of `embedding`, which it shares."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.embedding.weight)


class PlainLayerNorm(nn.LayerNorm):
    """nn.LayerNorm without a bias, which torch has since 2.1."""

    def __init__(self, n: int, eps: float = 1e-5) -> None:
        super().__init__(n, eps=eps)
        self.register_parameter("bias", None)


# psgd's layers of one number each without keys and parameters: torch_load.py, torch_save.py and tests/reference/ read them.
ELEMENTWISE: Dict[str, Type[nn.Module]] = {
    "linear": nn.Identity,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
