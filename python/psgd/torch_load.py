"""A model of psgd as a torch module.

Differences of layout: psgd has images as (rows, columns, channels), and torch as (channels, rows, columns). So the values of an
image that a layer flattens have another order, and a layer behind has its weights in that order: `Walk.order`. dense is (in,
out) and torch's Linear (out, in); conv2d (rows, columns, in, out) and torch's (out, in, rows, columns); recurrent weights (in,
gates) and torch's (gates, in), with two biases.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn

from .torch_layers import (
    ELEMENTWISE,
    GRU,
    LSTM,
    Attention,
    ChannelLayerNorm,
    Dense,
    MeanOverTime,
    PaddedAvgPool2d,
    PaddedConv2d,
    PaddedMaxPool2d,
    Pads,
    Pair,
    PlainLayerNorm,
    Positions,
    Reshape,
    Residual,
    RMSNorm,
    SlopedHardtanh,
    SwiGLU,
    Text,
    TiedHead,
    TimeBatchNorm,
)

Keys = Mapping[str, Any]  # of a layer in the model's document
Tensors = Mapping[str, Tensor]  # of a layer, by psgd's names


class Walk:
    """The input of a layer: a sample of zeros, and the places in psgd of its values 0, 1, ...; None: the same places."""

    def __init__(self, sample: Tensor) -> None:
        self.sample = sample
        self.order: Optional[Tensor] = None
        self.embedding: Optional[nn.Embedding] = None  # the model's first layer, to which a head may be tied

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self.sample.shape[1:])

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 3

    def flatten_order(self) -> Optional[Tensor]:
        """The order of these values behind a layer that flattens them as torch does."""
        if not self.is_image:
            return self.order
        channels, rows, columns = self.shape
        places = torch.arange(rows * columns * channels).reshape(rows, columns, channels)
        return places.permute(2, 0, 1).reshape(-1)


def pair(value: Any) -> Pair:
    a, b = value if isinstance(value, (list, tuple)) else (value, value)
    return int(a), int(b)


def same_pads(shape: Tuple[int, ...], size: Pair, stride: Pair) -> Pads:
    """Of the padding "same": one output per stride, and the odd zero behind the image."""
    out: List[int] = []
    for n, k, s in zip(shape[1:], size, stride):
        missing = max(0, (-(-n // s) - 1) * s + k - n)
        out += [missing // 2, missing - missing // 2]
    top, bottom, left, right = out
    return left, right, top, bottom


def window_of(keys: Keys, walk: Walk, size_key: str) -> Tuple[Pair, Pair, Pads]:
    size = pair(keys[size_key])
    stride = pair(keys.get("stride", 1 if size_key == "kernel" else size))
    is_same = keys.get("padding", "valid") == "same"
    return size, stride, same_pads(walk.shape, size, stride) if is_same else (0, 0, 0, 0)


def is_even(pads: Pads) -> bool:
    return pads[0] == pads[1] and pads[2] == pads[3]


def assign(module: nn.Module, **tensors: Tensor) -> nn.Module:
    """Sets parameters and statistics, whose shapes must be those of the module."""
    own: Dict[str, Tensor] = {}
    own.update(module.named_parameters())
    own.update(module.named_buffers())
    for name, tensor in tensors.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not {tuple(own[name].shape)}")
        own[name].data.copy_(tensor)
    return module


def bias_in(t: Tensors) -> Dict[str, Tensor]:
    return {"bias": t["bias"]} if "bias" in t else {}


def make_dense(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    weight = t["weight"].T
    if keys.get("positionwise"):
        return assign(nn.Linear(walk.shape[-1], int(keys["units"]), "bias" in t), weight=weight, **bias_in(t))
    order = walk.flatten_order()
    kind = nn.Linear if len(walk.shape) == 1 else Dense
    module = kind(walk.sample.numel(), int(keys["units"]), "bias" in t)
    return assign(module, weight=weight if order is None else weight[:, order], **bias_in(t))


def make_conv2d(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    size, stride, pads = window_of(keys, walk, "kernel")
    n_in, n_out = walk.shape[0], int(keys["filters"])
    module = (
        nn.Conv2d(n_in, n_out, size, stride, padding=(pads[2], pads[0]))
        if is_even(pads)
        else PaddedConv2d(n_in, n_out, size, stride, pads)
    )
    return assign(module, weight=t["weight"].permute(3, 2, 0, 1), bias=t["bias"])


def may_pad(size: Pair, pads: Pads) -> bool:
    """torch's own pools pad on both sides alike, and at most half a window."""
    return is_even(pads) and 2 * pads[2] <= size[0] and 2 * pads[0] <= size[1]


def make_max_pool(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    size, stride, pads = window_of(keys, walk, "size")
    if may_pad(size, pads):
        return nn.MaxPool2d(size, stride, padding=(pads[2], pads[0]))
    return PaddedMaxPool2d(size, stride, pads)


def make_avg_pool(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    size, stride, pads = window_of(keys, walk, "size")
    if may_pad(size, pads):
        return nn.AvgPool2d(size, stride, padding=(pads[2], pads[0]), count_include_pad=False)
    return PaddedAvgPool2d(size, stride, pads)


def by_order(t: Tensors, walk: Walk) -> Dict[str, Tensor]:
    return {name: v if walk.order is None else v[walk.order] for name, v in t.items()}


def make_batch_norm(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    kind = {1: nn.BatchNorm1d, 2: TimeBatchNorm, 3: nn.BatchNorm2d}[len(walk.shape)]
    n = walk.shape[1] if len(walk.shape) == 2 else walk.shape[0]
    v = by_order(t, walk)
    return assign(
        kind(n, eps=float(keys.get("epsilon", 1e-5)), momentum=float(keys.get("momentum", 0.1))),
        weight=v["gain"],
        bias=v["bias"],
        running_mean=v["running_mean"],
        running_var=v["running_var"],
    )


def make_layer_norm(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    kind, n = (ChannelLayerNorm, walk.shape[0]) if walk.is_image else (nn.LayerNorm, walk.shape[-1])
    if "bias" not in t:
        if walk.is_image:
            raise ValueError("torch has no layer_norm of images without a bias")
        kind = PlainLayerNorm
    v = by_order(t, walk)
    return assign(kind(n, eps=float(keys.get("epsilon", 1e-5))), weight=v["gain"], **bias_in(v))


def make_rms_norm(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    if walk.is_image:
        raise ValueError("rms_norm of images has no module of torch")
    return assign(RMSNorm(walk.shape[-1], float(keys.get("epsilon", 1e-5))), weight=by_order(t, walk)["gain"])


def make_position_embedding(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    return assign(Positions(*t["weight"].shape), weight=t["weight"])


def make_attention(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    tensors = {"qkv.weight": t["weight"].T, "output.weight": t["output_weight"].T}
    if "bias" in t:
        tensors.update({"qkv.bias": t["bias"], "output.bias": t["output_bias"]})
    rope, dropout = float(keys.get("rope", 0)), float(keys.get("dropout", 0))
    module = Attention(walk.shape[1], int(keys["heads"]), "bias" in t, rope, dropout)
    return assign(module, **tensors)


def make_head(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    if walk.embedding is None:
        raise ValueError("a head without an embedding")
    return TiedHead(walk.embedding)


def make_reshape(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    return Reshape(tuple(int(n) for n in keys["shape"]), walk.flatten_order())


def make_embedding(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    walk.embedding = nn.Embedding(int(keys["vocab"]), int(keys["units"]))
    return assign(walk.embedding, weight=t["weight"])


def make_lstm(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    return assign(
        LSTM(walk.shape[1], int(keys["units"]), bool(keys.get("sequences", False))),
        weight_ih_l0=t["weight"].T,
        weight_hh_l0=t["recurrent"].T,
        bias_ih_l0=t["bias"],
        bias_hh_l0=torch.zeros_like(t["bias"]),
    )


def make_gru(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    return assign(
        GRU(walk.shape[1], int(keys["units"]), bool(keys.get("sequences", False))),
        weight_ih_l0=t["weight"].T,
        weight_hh_l0=t["recurrent"].T,
        bias_ih_l0=t["bias"],
        bias_hh_l0=t["recurrent_bias"],
    )


def make_hard_tanh(keys: Keys, t: Tensors, walk: Walk) -> nn.Module:
    slope = float(keys.get("slope", 0))
    return SlopedHardtanh(slope) if slope else nn.Hardtanh()


def make_elementwise(module: Type[nn.Module]) -> Callable[[Keys, Tensors, Walk], nn.Module]:
    return lambda keys, t, walk: module()


MAKERS: Dict[str, Callable[[Keys, Tensors, Walk], nn.Module]] = {
    "dense": make_dense,
    "conv2d": make_conv2d,
    "max_pool": make_max_pool,
    "avg_pool": make_avg_pool,
    "batch_norm": make_batch_norm,
    "layer_norm": make_layer_norm,
    "rms_norm": make_rms_norm,
    "dropout": lambda keys, t, walk: nn.Dropout(float(keys.get("rate", 0.5))),
    "flatten": lambda keys, t, walk: nn.Flatten(),
    "reshape": make_reshape,
    "embedding": make_embedding,
    "position_embedding": make_position_embedding,
    "attention": make_attention,
    "head": make_head,
    "swiglu": lambda keys, t, walk: SwiGLU(),
    "lstm": make_lstm,
    "gru": make_gru,
    "mean_over_time": lambda keys, t, walk: MeanOverTime(),
    "leaky_relu": lambda keys, t, walk: nn.LeakyReLU(float(keys.get("slope", 0.01))),
    "hard_tanh": make_hard_tanh,
    "gelu": lambda keys, t, walk: nn.GELU(approximate="tanh"),
    "softmax": lambda keys, t, walk: nn.Softmax(2 if len(walk.shape) == 2 else 1),
    **{kind: make_elementwise(module) for kind, module in ELEMENTWISE.items()},
}

ENDS_ORDER = ("dense", "reshape")  # their outputs are at the same places in both


def first_sample(input: List[int], reads_tokens: bool) -> Tensor:
    """A batch of one sample of zeros, as torch has it."""
    shape = [input[2], input[0], input[1]] if len(input) == 3 else list(input)
    return torch.zeros(1, *shape, dtype=torch.long if reads_tokens else torch.float32)


def in_own_order(walk: Walk) -> List[nn.Module]:
    """A layer that restores psgd's order of the values, if it is another one."""
    if walk.order is None:
        return []
    layer, walk.order = Reshape(walk.shape, walk.order), None
    with torch.no_grad():
        walk.sample = layer(walk.sample)
    return [layer]


def layers_of(documents: Sequence[Keys], place: str, arrays: Mapping[str, Any], walk: Walk) -> Tuple[List[nn.Module], int]:
    """The modules of a model's layers, or of those of the residual block at `place`, "3.", and the number of their tensors."""
    layers: List[nn.Module] = []
    used = 0
    for i, keys in enumerate(documents):
        prefix = f"layer{place}{i}.{keys['kind']}."
        t = {name[len(prefix) :]: tensor_of(a) for name, a in arrays.items() if name.startswith(prefix)}
        used += len(t)
        if keys["kind"] == "residual":
            layers += in_own_order(walk)
            inner, n = layers_of(keys["layers"], f"{i}.", arrays, walk)
            layers.append(Residual(*inner, *in_own_order(walk)).eval())
            used += n
            continue
        if keys["kind"] not in MAKERS:
            raise ValueError(f"layer {place}{i} is of the unknown kind {keys['kind']}")
        layers.append(MAKERS[keys["kind"]](keys, t, walk).eval())
        order = walk.flatten_order() if keys["kind"] == "flatten" else walk.order
        walk.order = None if keys["kind"] in ENDS_ORDER else order
        with torch.no_grad():
            walk.sample = layers[-1](walk.sample)
    return layers, used


def module_of(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> nn.Sequential:
    """document: the model's; arrays: its weights. KeyError, ValueError: they do not fit each other."""
    reads_tokens = document["layers"][0]["kind"] == "embedding"
    is_padded = reads_tokens and document["loss"] != "token_cross_entropy"  # there 0 is the end of a document
    walk = Walk(first_sample(document["input"], reads_tokens))
    layers, used = layers_of(document["layers"], "", arrays, walk)
    if used != len(arrays):
        raise ValueError(f"{len(arrays) - used} tensors are of none of its layers")
    layers += in_own_order(walk)  # no layer behind restores it
    module: nn.Sequential = (Text if is_padded else nn.Sequential)(*layers).eval()
    return module


def tensor_of(array: Any) -> Tensor:
    """A copy, of a numpy array or of a memoryview with a shape."""
    if isinstance(array, memoryview):
        return torch.frombuffer(bytearray(array.tobytes()), dtype=torch.float32).reshape(array.shape or ())
    return torch.from_numpy(array.astype("float32"))
