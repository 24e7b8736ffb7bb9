"""Common code of layers.py and curves.py: our model documents run in PyTorch, and safetensors files.

Everything is computed in float64 from float32 numbers and rounded once, so that a file holds the true values and
a test's bound only covers our own rounding. Layouts are ours: images channels last, dense (in, out), conv2d
(rows, columns, channels, filters), recurrent weights (in, gates x units); they are turned into PyTorch's here.
"""
import json
import os
import struct
import sys
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
from psgd.torch_layers import ELEMENTWISE  # noqa: E402

STATE = ("running_mean", "running_var")


def write_file(path, tensors, meta):
    """A safetensors file of float32 and int32 arrays: shared/records/tensor_file.h has the format."""
    header, at, blobs = {"__metadata__": meta}, 0, []
    for name, value in tensors.items():
        value = np.ascontiguousarray(value, dtype="<i4" if value.dtype.kind in "iu" else "<f4")
        end = at + value.nbytes
        kind = "I32" if value.dtype.kind == "i" else "F32"
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [at, end]}
        blobs.append(value.tobytes())
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def window(layer, size):
    rows, cols = pair(layer[size])
    strides = pair(layer.get("stride", 1 if size == "kernel" else layer[size]))
    return (rows, cols), strides


def padding(layer, size, shape):
    """(left, right, top, bottom) for F.pad. PyTorch does not support "same" with strides."""
    if layer.get("padding", "valid") == "valid":
        return (0, 0, 0, 0)
    sizes, strides = window(layer, size)
    out = []
    for n, k, s in zip(shape[:2], sizes, strides):
        missing = max(0, (-(-n // s) - 1) * s + k - n)
        out.append((missing // 2, missing - missing // 2))
    return out[1] + out[0]


def shape_after(layer, shape):
    kind = layer["kind"]
    if kind in ("conv2d", "max_pool", "avg_pool"):
        size = "kernel" if kind == "conv2d" else "size"
        sizes, strides = window(layer, size)
        left, right, top, bottom = padding(layer, size, shape)
        padded = (shape[0] + top + bottom, shape[1] + left + right)
        rows, cols = ((n - k) // s + 1 for n, k, s in zip(padded, sizes, strides))
        return (rows, cols, layer.get("filters", shape[2]))
    if kind == "dense":
        return (shape[0], layer["units"]) if layer.get("positionwise") else (layer["units"],)
    if kind == "flatten":
        return (int(np.prod(shape)),)
    if kind == "reshape":
        return tuple(layer["shape"])
    if kind == "embedding":
        return (shape[0], layer["units"])
    if kind in ("lstm", "gru"):
        return (shape[0], layer["units"]) if layer.get("sequences") else (layer["units"],)
    if kind == "mean_over_time":
        return (shape[1],)
    if kind == "swiglu":
        return (*shape[:-1], shape[-1] // 2)
    return shape


def tensor_shapes(layer, shape):
    kind, n, units = layer["kind"], int(np.prod(shape)), layer.get("units")
    if kind == "dense":
        both = {"weight": (shape[-1] if layer.get("positionwise") else n, units), "bias": (units,)}
        return both if layer.get("bias", True) else {"weight": both["weight"]}
    if kind == "attention":
        n = shape[-1]
        four = {"weight": (n, 3 * n), "bias": (3 * n,), "output_weight": (n, n), "output_bias": (n,)}
        return {name: dims for name, dims in four.items() if "bias" not in name or layer.get("bias", True)}
    if kind == "position_embedding":
        return {"weight": (layer.get("positions", shape[0]), shape[1])}
    if kind == "rms_norm":
        return {"gain": shape[-1:]}
    if kind == "conv2d":
        (rows, cols), _ = window(layer, "kernel")
        return {"weight": (rows, cols, shape[2], layer["filters"]), "bias": (layer["filters"],)}
    if kind == "embedding":
        return {"weight": (layer["vocab"], units)}
    if kind in ("lstm", "gru"):
        wide = (4 if kind == "lstm" else 3) * units
        both = {"weight": (shape[1], wide), "recurrent": (units, wide), "bias": (wide,)}
        return both if kind == "lstm" else {**both, "recurrent_bias": (wide,)}
    if kind in ("batch_norm", "layer_norm"):
        both = {"gain": shape[-1:], "bias": shape[-1:]}
        if not layer.get("bias", True):
            return {"gain": shape[-1:]}
        return both if kind == "layer_norm" else {**both, **{name: shape[-1:] for name in STATE}}
    return {}


def named_shapes(doc):
    """{"layer0.dense.weight": (in, out), ...} of a model document, and the shape of its output."""
    names = {}

    def walk(layers, shape, place):
        for i, layer in enumerate(layers):
            for name, dims in tensor_shapes(layer, shape).items():
                names[f"layer{place}{i}.{layer['kind']}.{name}"] = dims
            if layer["kind"] == "residual":
                walk(layer["layers"], shape, f"{i}.")
            shape = (shape[0], doc["layers"][layer["tied"]]["vocab"]) if layer["kind"] == "head" else shape_after(layer, shape)
        return shape
    return names, walk(doc["layers"], tuple(doc["input"]), "")


def generator(name):
    """Random numbers of one case, so that a new case does not change the others."""
    return np.random.RandomState(zlib.crc32(name.encode()))


def images(x):
    return x.permute(0, 3, 1, 2)


def channels_last(x):
    return x.permute(0, 2, 3, 1)


def elementwise(module):
    return lambda x, layer: module()(x)


# Layers of no parameters that keep the shape: layers.py makes the cases of each.
ACTIVATIONS = {
    **{kind: elementwise(module) for kind, module in ELEMENTWISE.items()},
    "leaky_relu": lambda x, layer: F.leaky_relu(x, layer.get("slope", 0.01)),
    "hard_tanh": lambda x, layer: F.hardtanh(x) + layer.get("slope", 0) * (x - F.hardtanh(x)),
    "gelu": lambda x, layer: F.gelu(x, approximate="tanh"),
    "softmax": lambda x, layer: F.softmax(x, -1),
}


class Net:
    """A model document in PyTorch. tensors: {name: float64 tensor}; the running statistics are updated in place."""

    def __init__(self, doc, tensors):
        self.doc, self.tensors, self.lengths, self.training = doc, tensors, None, False

    def forward(self, x, training):
        self.training, self.lengths = training, None
        shape = tuple(self.doc["input"])
        if self.doc["layers"][0]["kind"] == "embedding":
            used = x != 0
            self.lengths = torch.tensor([max([1] + [t + 1 for t in range(len(row)) if row[t]]) for row in used])
        return self.layers(x.reshape(-1, *shape), self.doc["layers"], "").flatten(1)

    def layers(self, x, layers, place):
        for i, layer in enumerate(layers):
            prefix = f"layer{place}{i}.{layer['kind']}."
            t = {n[len(prefix):]: v for n, v in self.tensors.items() if n.startswith(prefix)}
            activation = ACTIVATIONS.get(layer["kind"])
            shape = shape_after(layer, tuple(x.shape[1:]))
            if activation:
                x = activation(x, layer)
            elif layer["kind"] == "residual":
                x = x + self.layers(x, layer["layers"], f"{i}.")
            else:
                x = getattr(self, layer["kind"])(x, layer, t)
            assert tuple(x.shape[1:]) == tuple(shape) or layer["kind"] == "head", (layer, x.shape, shape)
        return x

    def dense(self, x, layer, t):
        x = x if layer.get("positionwise") else x.reshape(len(x), -1)
        return x @ t["weight"] + t.get("bias", 0)

    def rms_norm(self, x, layer, t):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + layer.get("epsilon", 1e-5)) * t["gain"]

    def position_embedding(self, x, layer, t):
        return x + t["weight"][:x.shape[1]]

    def head(self, x, layer, t):
        return x @ self.tensors[f"layer{layer['tied']}.embedding.weight"].T

    def swiglu(self, x, layer, t):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    def rotated(self, x, base):
        """x (n, heads, time, e) as complex numbers, whose imaginary parts are the second half of a head's values."""
        time, e = x.shape[2:]
        real, imaginary = x.chunk(2, -1)
        angles = torch.arange(time)[:, None] * base ** (-2 * torch.arange(e // 2, dtype=torch.float64) / e)
        turned = torch.complex(real, imaginary) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1).to(x.dtype)

    def attention(self, x, layer, t):
        assert not layer.get("dropout") or not self.training
        n, time, d = x.shape
        q, k, v = (part.reshape(n, time, layer["heads"], -1).transpose(1, 2)
                   for part in (x @ t["weight"] + t.get("bias", 0)).split(d, 2))
        if "rope" in layer:
            q, k = (self.rotated(part, layer["rope"]) for part in (q, k))
        s = q @ k.transpose(2, 3) / np.sqrt(q.shape[-1])
        s = s.masked_fill(~torch.ones(time, time, dtype=bool).tril(), -np.inf)
        o = (F.softmax(s, -1) @ v).transpose(1, 2).reshape(n, time, d)
        return o @ t["output_weight"] + t.get("output_bias", 0)

    def conv2d(self, x, layer, t):
        _, strides = window(layer, "kernel")
        padded = F.pad(images(x), padding(layer, "kernel", x.shape[1:]))
        return channels_last(F.conv2d(padded, t["weight"].permute(3, 2, 0, 1), t["bias"], strides))

    def max_pool(self, x, layer, t):
        sizes, strides = window(layer, "size")
        padded = F.pad(images(x), padding(layer, "size", x.shape[1:]), value=-np.inf)
        return channels_last(F.max_pool2d(padded, sizes, strides))

    def avg_pool(self, x, layer, t):
        sizes, strides = window(layer, "size")
        pads = padding(layer, "size", x.shape[1:])
        inside = F.pad(torch.ones_like(images(x)), pads)
        mean = F.avg_pool2d(F.pad(images(x), pads), sizes, strides) / F.avg_pool2d(inside, sizes, strides)
        return channels_last(mean)

    def batch_norm(self, x, layer, t):
        flat = x.reshape(-1, x.shape[-1])
        y = F.batch_norm(flat, t["running_mean"], t["running_var"], t["gain"], t["bias"], self.training,
                         layer.get("momentum", 0.1), layer.get("epsilon", 1e-5))
        return y.reshape(x.shape)

    def layer_norm(self, x, layer, t):
        return F.layer_norm(x, x.shape[-1:], t["gain"], t.get("bias"), layer.get("epsilon", 1e-5))

    def dropout(self, x, layer, t):
        assert layer["rate"] == 0 or not self.training
        return x

    def flatten(self, x, layer, t):
        return x.reshape(len(x), -1)

    def reshape(self, x, layer, t):
        return x.reshape(len(x), *layer["shape"])

    def embedding(self, x, layer, t):
        return F.embedding(x.long(), t["weight"])

    def steps(self, x):
        return self.lengths if self.lengths is not None else torch.full((len(x),), x.shape[1])

    def recurrent(self, x, layer, run, weights, n_states):
        packed = pack_padded_sequence(x, self.steps(x), batch_first=True, enforce_sorted=False)
        zeros = torch.zeros(1, len(x), layer["units"], dtype=x.dtype)
        out = run(packed.data, packed.batch_sizes, (zeros, zeros) if n_states == 2 else zeros, weights, True, 1,
                  0.0, False, False)
        if not layer.get("sequences"):
            return out[1][0].index_select(0, packed.unsorted_indices)
        whole = PackedSequence(out[0], packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        return pad_packed_sequence(whole, batch_first=True, total_length=x.shape[1])[0]

    def lstm(self, x, layer, t):
        none = torch.zeros_like(t["bias"])
        return self.recurrent(x, layer, torch.lstm, [t["weight"].T, t["recurrent"].T, t["bias"], none], 2)

    def gru(self, x, layer, t):
        weights = [t["weight"].T, t["recurrent"].T, t["bias"], t["recurrent_bias"]]
        return self.recurrent(x, layer, torch.gru, weights, 1)

    def mean_over_time(self, x, layer, t):
        steps = self.steps(x)
        inside = torch.arange(x.shape[1])[None, :] < steps[:, None]
        return (x * inside[:, :, None]).sum(1) / steps[:, None]

    def loss(self, z, truth):
        """The mean over the samples, or their steps; truth: labels (n), (n, time) or targets (n, k)."""
        n, k = z.shape
        if self.doc["loss"] == "token_cross_entropy":
            return F.cross_entropy(z.reshape(n * truth.shape[1], -1), truth.reshape(-1))
        if self.doc["loss"] == "softmax_cross_entropy":
            return F.cross_entropy(z, truth)
        if truth.dim() == 1:
            truth = truth[:, None].to(z.dtype) if k == 1 else F.one_hot(truth, k).to(z.dtype)
        if self.doc["loss"] == "mse":
            return F.mse_loss(z, truth)
        if self.doc["loss"] == "tanh_squared":
            return F.mse_loss(torch.tanh(z - truth), torch.zeros_like(z))
        return F.binary_cross_entropy_with_logits(z, truth, reduction="sum") / n
