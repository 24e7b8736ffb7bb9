"""A torch.nn.Sequential as a model of psgd: the opposite of torch_load.py, which says how the layouts differ."""
from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn

from .errors import Invalid
from .program import plain
from .safetensors import write, write_whole
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
    Positions,
    Reshape,
    Residual,
    RMSNorm,
    SlopedHardtanh,
    SwiGLU,
    TiedHead,
    TimeBatchNorm,
)
from .torch_load import Walk, first_sample, pair, same_pads

Layer = Tuple[Dict[str, Any], Dict[str, Tensor]]  # its object in the document, and its tensors


def need(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(why)


def unordered(values: Tensor, order: Optional[Tensor]) -> Tensor:
    """The values, by their first dimension, at psgd's places."""
    if order is None:
        return values
    out = torch.empty_like(values)
    out[order] = values
    return out


def bias_of(module: nn.Module, n: int) -> Tensor:
    """psgd's layers have a bias in any case: one that torch's has not begins as 0."""
    bias: Optional[Tensor] = getattr(module, "bias", None)
    return torch.zeros(n) if bias is None else bias.detach()


def without_bias(keys: Dict[str, Any], tensors: Dict[str, Tensor], bias: Optional[Tensor]) -> Layer:
    """The layer with its bias, or with "bias": false."""
    return ({**keys, "bias": False}, tensors) if bias is None else (keys, {**tensors, "bias": bias.detach()})


def save_linear(m: nn.Linear, walk: Walk) -> Layer:
    keys = {"kind": "dense", "units": m.out_features}
    if len(walk.shape) == 2 and not isinstance(m, Dense):
        return without_bias({**keys, "positionwise": True}, {"weight": m.weight.detach().T}, m.bias)
    need(isinstance(m, Dense) or len(walk.shape) == 1, "a Linear of other than vectors; put a Flatten before it")
    return without_bias(keys, {"weight": unordered(m.weight.detach().T, walk.flatten_order())}, m.bias)


def padding_of(shape: Tuple[int, ...], size: Any, stride: Any, padding: Any) -> str:
    """psgd's name of a padding in torch; ValueError: it has none."""
    if padding == "valid" or padding == "same":
        return str(padding)
    rows, columns = pair(padding)
    if (rows, columns) == (0, 0):
        return "valid"
    same: Pads = (columns, columns, rows, rows)
    need(
        same_pads(shape, pair(size), pair(stride)) == same,
        f"padding {(rows, columns)} of images of {shape[1:]} is neither none nor psgd's \"same\", one output per stride",
    )
    return "same"


def window(m: Any, walk: Walk, size: Any, padded: type) -> Dict[str, Any]:
    need(walk.is_image, "it needs images")
    dilation = pair(getattr(m, "dilation", 1))
    need(dilation == (1, 1), "psgd has no dilation")
    need(not getattr(m, "ceil_mode", False), "psgd has no ceil_mode")
    padding = "same" if isinstance(m, padded) else padding_of(walk.shape, size, m.stride, m.padding)
    return {"stride": list(pair(m.stride)), "padding": padding}


def save_conv2d(m: nn.Conv2d, walk: Walk) -> Layer:
    need(m.groups == 1, "psgd has no groups")
    need(m.padding_mode == "zeros", "psgd pads with zeros")
    keys = {"kind": "conv2d", "filters": m.out_channels, "kernel": list(m.kernel_size)}
    return (
        {**keys, **window(m, walk, m.kernel_size, PaddedConv2d)},
        {"weight": m.weight.detach().permute(2, 3, 1, 0), "bias": bias_of(m, m.out_channels)},
    )


def save_max_pool(m: nn.MaxPool2d, walk: Walk) -> Layer:
    return {"kind": "max_pool", "size": list(pair(m.kernel_size)), **window(m, walk, m.kernel_size, PaddedMaxPool2d)}, {}


def save_avg_pool(m: nn.AvgPool2d, walk: Walk) -> Layer:
    keys = window(m, walk, m.kernel_size, PaddedAvgPool2d)
    is_plain = isinstance(m, PaddedAvgPool2d) or keys["padding"] == "valid" or not m.count_include_pad
    need(is_plain and m.divisor_override is None, "the padding counts in its mean; psgd has count_include_pad=False")
    return {"kind": "avg_pool", "size": list(pair(m.kernel_size)), **keys}, {}


def save_adaptive(m: nn.AdaptiveAvgPool2d, walk: Walk) -> Layer:
    need(walk.is_image and pair(m.output_size) == (1, 1), "psgd has an adaptive pool only of one output")
    return {"kind": "avg_pool", "size": list(walk.shape[1:])}, {}


def save_batch_norm(m: nn.BatchNorm1d, walk: Walk) -> Layer:
    need(len(walk.shape) != 2 or isinstance(m, TimeBatchNorm), "psgd's channels of (time, values) are the values")
    need(m.affine and m.running_mean is not None, "it needs affine=True and track_running_stats=True")
    need(m.momentum is not None, "psgd needs a momentum")
    tensors = {"gain": m.weight, "bias": m.bias, "running_mean": m.running_mean, "running_var": m.running_var}
    return (
        {"kind": "batch_norm", "momentum": m.momentum, "epsilon": m.eps},
        {name: unordered(t.detach(), walk.order) for name, t in tensors.items() if t is not None},
    )


def save_layer_norm(m: nn.LayerNorm, walk: Walk) -> Layer:
    need(m.elementwise_affine, "it needs elementwise_affine=True")
    need(len(m.normalized_shape) == 1, "psgd's is over the last dimension")
    need(walk.is_image == isinstance(m, ChannelLayerNorm), "of images psgd's is over the channels")
    bias = None if m.bias is None else unordered(m.bias.detach(), walk.order)
    return without_bias({"kind": "layer_norm", "epsilon": m.eps}, {"gain": unordered(m.weight.detach(), walk.order)}, bias)


def save_rms_norm(m: RMSNorm, walk: Walk) -> Layer:
    return {"kind": "rms_norm", "epsilon": m.eps}, {"gain": unordered(m.weight.detach(), walk.order)}


def save_positions(m: Positions, walk: Walk) -> Layer:
    return {"kind": "position_embedding", "positions": m.weight.shape[0]}, {"weight": m.weight.detach()}


def save_attention(m: Attention, walk: Walk) -> Layer:
    tensors = {"weight": m.qkv.weight.detach().T, "output_weight": m.output.weight.detach().T}
    own = {name: value for name, value in (("rope", m.rope), ("dropout", m.dropout)) if value}
    keys = {"kind": "attention", "heads": m.heads, **own}
    if m.qkv.bias is None:
        return {**keys, "bias": False}, tensors
    return keys, {**tensors, "bias": m.qkv.bias.detach(), "output_bias": m.output.bias.detach()}


def save_head(m: TiedHead, walk: Walk) -> Layer:
    need(m.embedding is walk.embedding, "its embedding is not the first layer")
    return {"kind": "head", "tied": 0}, {}


def save_flatten(m: nn.Flatten, walk: Walk) -> Layer:
    need(m.start_dim == 1 and m.end_dim in (-1, len(walk.shape)), "psgd flattens whole samples")
    return {"kind": "flatten"}, {}


def save_unflatten(m: nn.Unflatten, walk: Walk) -> Layer:
    sizes = [int(n) for n in m.unflattened_size]  # type: ignore[arg-type]
    need(m.dim in (1, -1) and len(walk.shape) == 1, "psgd reshapes whole samples")
    need(walk.order is None, "behind a Flatten of images psgd has another order of the values")
    need(len(sizes) < 3 or sizes[0] == 1, "to images of several channels, which are last in psgd")
    return {"kind": "reshape", "shape": sizes if len(sizes) < 3 else [sizes[1], sizes[2], sizes[0]]}, {}


def save_embedding(m: nn.Embedding, walk: Walk) -> Layer:
    need(m.max_norm is None, "psgd has no max_norm")
    walk.embedding = m
    return {"kind": "embedding", "vocab": m.num_embeddings, "units": m.embedding_dim}, {"weight": m.weight.detach()}


def recurrent(kind: str, m: Any) -> Layer:
    need(isinstance(m, (LSTM, GRU)), "it returns a tuple; take psgd.torch_layers.LSTM or GRU")
    need(m.num_layers == 1 and not m.bidirectional and m.bias, "psgd's have one layer, one direction and a bias")
    tensors = {"weight": m.weight_ih_l0.detach().T, "recurrent": m.weight_hh_l0.detach().T}
    if kind == "lstm":
        tensors["bias"] = (m.bias_ih_l0 + m.bias_hh_l0).detach()
    else:
        tensors.update(bias=m.bias_ih_l0.detach(), recurrent_bias=m.bias_hh_l0.detach())
    return {"kind": kind, "units": m.hidden_size, "sequences": m.sequences}, tensors


def save_hardtanh(m: nn.Hardtanh, walk: Walk) -> Layer:
    need((m.min_val, m.max_val) == (-1, 1), "psgd's is from -1 to 1")
    return {"kind": "hard_tanh"}, {}


def save_gelu(m: nn.GELU, walk: Walk) -> Layer:
    need(getattr(m, "approximate", "none") == "tanh", 'psgd\'s is GELU(approximate="tanh")')
    return {"kind": "gelu"}, {}


def save_softmax(m: nn.Softmax, walk: Walk) -> Layer:
    of_values = {1: (1, -1), 2: (2, -1), 3: (1, -3)}[len(walk.shape)]
    need(m.dim in of_values, "psgd's is over the values, the last dimension, or the channels of an image")
    return {"kind": "softmax"}, {}


def save_elementwise(kind: str) -> Callable[[Any, Walk], Layer]:
    return lambda m, walk: ({"kind": kind}, {})


# The first class that a module is of.
SAVERS: List[Tuple[Type[nn.Module], Callable[[Any, Walk], Layer]]] = [
    (nn.Linear, save_linear),
    (nn.Conv2d, save_conv2d),
    (nn.MaxPool2d, save_max_pool),
    (nn.AvgPool2d, save_avg_pool),
    (nn.AdaptiveAvgPool2d, save_adaptive),
    (nn.BatchNorm1d, save_batch_norm),
    (nn.BatchNorm2d, save_batch_norm),
    (nn.LayerNorm, save_layer_norm),
    (RMSNorm, save_rms_norm),
    (Positions, save_positions),
    (Attention, save_attention),
    (TiedHead, save_head),
    (SwiGLU, lambda m, walk: ({"kind": "swiglu"}, {})),
    (nn.Dropout, lambda m, walk: ({"kind": "dropout", "rate": m.p}, {})),
    (nn.Flatten, save_flatten),
    (nn.Unflatten, save_unflatten),
    (Reshape, lambda m, walk: ({"kind": "reshape", "shape": list(m.shape)}, {})),
    (nn.Embedding, save_embedding),
    (nn.LSTM, lambda m, walk: recurrent("lstm", m)),
    (nn.GRU, lambda m, walk: recurrent("gru", m)),
    (MeanOverTime, lambda m, walk: ({"kind": "mean_over_time"}, {})),
    (nn.LeakyReLU, lambda m, walk: ({"kind": "leaky_relu", "slope": m.negative_slope}, {})),
    (nn.Hardtanh, save_hardtanh),
    (SlopedHardtanh, lambda m, walk: ({"kind": "hard_tanh", "slope": m.slope}, {})),
    (nn.GELU, save_gelu),
    (nn.Softmax, save_softmax),
    *((module, save_elementwise(kind)) for kind, module in ELEMENTWISE.items()),
]


def save_one(module: nn.Module, walk: Walk) -> Layer:
    for kind, saver in SAVERS:
        if isinstance(module, kind):
            return saver(module, walk)
    known = ", ".join(kind.__name__ for kind, _ in SAVERS)
    hint = " Leave it out: the loss softmax_cross_entropy has it." if isinstance(module, nn.LogSoftmax) else ""
    raise ValueError(f"psgd has no such layer; it has {known}.{hint}")


def leaves(module: nn.Module) -> List[nn.Module]:
    """The layers of a Sequential, and of those in it but residual blocks."""
    if not isinstance(module, nn.Sequential) or isinstance(module, Residual):
        return [module]
    return [leaf for child in module for leaf in leaves(child)]


def input_of(layers: List[nn.Module], given: Optional[Sequence[int]]) -> List[int]:
    if given is not None:
        shape = [int(n) for n in given]
    elif layers and isinstance(layers[0], nn.Linear):
        shape = [layers[0].in_features]
    else:
        raise Invalid("input= is needed: the shape of a sample, as (28, 28, 1) for images of one channel", "", "USAGE")
    if not 1 <= len(shape) <= 3 or min(shape) < 1:
        raise Invalid(f"input={given}: not one to three positive sizes", "", "USAGE")
    return shape


def save_residual(m: Residual, walk: Walk, place: str) -> Tuple[Dict[str, Any], Dict[str, Tensor]]:
    need(walk.order is None, "behind a Flatten of images psgd has another order of the values")
    documents, tensors = convert([leaf for child in m for leaf in leaves(child)], walk, f"{place}.")
    return {"kind": "residual", "layers": documents}, tensors


def convert(layers: List[nn.Module], walk: Walk, place: str = "") -> Tuple[List[Dict[str, Any]], Dict[str, Tensor]]:
    """place: of a residual block, "3."."""
    documents: List[Dict[str, Any]] = []
    tensors: Dict[str, Tensor] = {}
    for i, module in enumerate(layers):
        at = f"{place}{i}"
        try:
            if isinstance(module, Residual):
                need(not place, "a residual block in a residual block")
                document, inner = save_residual(module, walk, at)
                documents.append(document)
                tensors.update(inner)
                continue
            document, own = save_one(module, walk)
            order = walk.flatten_order() if document["kind"] == "flatten" else walk.order
            was_training = module.training
            with torch.no_grad():
                sample = module.eval()(walk.sample.to(next(module.parameters(), walk.sample).device))
            module.train(was_training)
        except (ValueError, RuntimeError) as e:
            raise Invalid(f"layer {at}, {module}: {e}") from None
        documents.append(document)
        tensors.update({f"layer{at}.{document['kind']}.{name}": t for name, t in own.items()})
        walk.sample, walk.order = sample.cpu(), None if document["kind"] in ("dense", "reshape") else order
    return documents, tensors


def raw(t: Tensor) -> Any:
    """A buffer of float32 with the tensor's shape; without numpy, too."""
    whole = t.detach().to("cpu", torch.float32).contiguous()
    try:
        return whole.numpy()
    except RuntimeError:
        flat = array("f", whole.flatten().tolist())
        return memoryview(flat).cast("B").cast("f", tuple(whole.shape))


def save(
    module: nn.Module,
    path: Path,
    *,
    input: Optional[Sequence[int]],
    loss: str,
    name: str,
    metrics: Sequence[str],
    metadata: Mapping[str, str],
) -> Path:
    if path.suffix != ".safetensors":
        raise Invalid(f"{path}: the name ends with .safetensors", "", "USAGE")
    layers = leaves(module)
    shape = input_of(layers, input)
    walk = Walk(first_sample(shape, bool(layers) and isinstance(layers[0], nn.Embedding)))
    documents, tensors = convert(layers, walk)
    if not tensors:
        raise Invalid("a module without parameters is no model")
    document = {"version": 1, "name": name, "input": shape, "layers": documents, "loss": loss}
    if metrics:
        document["metrics"] = list(metrics)
    document = json.loads(json.dumps(document, default=lambda value: plain("a layer's size", value)))  # numpy's numbers, too
    text = json.dumps(document, indent=1) + "\n"
    write(path, {key: raw(t) for key, t in tensors.items()}, {"format": "psgd", "arch": json.dumps(document), **metadata})
    beside = path.with_suffix(".json")
    write_whole(beside, [text.encode()])
    return beside
