#!/usr/bin/python3
"""Evaluates ONNX files in numpy, double precision, and compares with psgd's results.

    onnx_eval.py FOLDER

For each NAME.onnx in the folder: onnx.checker and strict shape inference accept it; its initializers are the numbers of
NAME.safetensors, bit for bit, whatever their order; and evaluated on `input` of NAME.io.safetensors it gives `output`,
for the whole batch and for its first sample alone. Status 77: the onnx package is not installed.
Written from ONNX's Operators.md, for the operators that submit/export/onnx.c uses."""
import glob
import json
import struct
import sys

import numpy as np

try:
    import onnx
    from onnx import checker, helper, numpy_helper, shape_inference
except ImportError:
    print("python3-onnx is not installed")
    sys.exit(77)


def read_tensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    types = {"F32": "<f4", "I32": "<i4", "U8": "|u1", "I64": "<i8"}
    head = {k: t for k, t in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
    return {k: np.frombuffer(raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]], types[t["dtype"]])
            .reshape(t["shape"]) for k, t in head.items()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def windows(x, a, fill):
    """Every window of a padded image: (N, C, out rows, out columns, kernel rows, kernel columns)."""
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    w = np.lib.stride_tricks.sliding_window_view(x, tuple(a["kernel_shape"]), axis=(2, 3))
    return w[:, :, ::a["strides"][0], ::a["strides"][1]]


def conv(a, x, w, b):
    return np.einsum("nchwij,ocij->nohw", windows(x, a, 0), w) + b[:, None, None]


def max_pool(a, x):
    return windows(x, a, -np.inf).max((4, 5))


def average_pool(a, x):
    assert a["count_include_pad"] == 0
    return np.nanmean(windows(x, a, np.nan), (4, 5))


def batch_norm(a, x, gain, bias, mean, var):
    s = (-1,) + (1,) * (x.ndim - 2)
    return (x - mean.reshape(s)) / np.sqrt(var.reshape(s) + a["epsilon"]) * gain.reshape(s) + bias.reshape(s)


def recurrence(x, units, lens, n_states, step):
    """Runs step(x_t, states) -> states; beyond its length a sequence keeps its state and its output is 0."""
    time, n = x.shape[:2]
    lens = np.full(n, time) if lens is None else lens
    states = [np.zeros((n, units)) for _ in range(n_states)]
    y = np.zeros((time, 1, n, units))
    for t in range(time):
        on = (t < lens)[:, None]
        states = [np.where(on, new, old) for new, old in zip(step(x[t], states), states)]
        y[t, 0] = np.where(on, states[0], 0)
    return y, states[0][None]


def lstm(a, x, w, r, b, lens=None):
    h = a["hidden_size"]
    bias = b[0, :4 * h] + b[0, 4 * h:]

    def step(x_t, states):
        z = x_t @ w[0].T + states[0] @ r[0].T + bias
        i, o, f, c = (z[:, k * h:(k + 1) * h] for k in range(4))
        cell = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(c)
        return [sigmoid(o) * np.tanh(cell), cell]
    return recurrence(x, h, lens, 2, step)


def gru(a, x, w, r, b, lens=None):
    h = a["hidden_size"]
    assert a["linear_before_reset"] == 1

    def step(x_t, states):
        p = x_t @ w[0].T + b[0, :3 * h]
        q = states[0] @ r[0].T + b[0, 3 * h:]
        z = sigmoid(p[:, :h] + q[:, :h])
        reset = sigmoid(p[:, h:2 * h] + q[:, h:2 * h])
        return [(1 - z) * np.tanh(p[:, 2 * h:] + reset * q[:, 2 * h:]) + z * states[0]]
    return recurrence(x, h, lens, 1, step)


def softmax(a, x):
    e = np.exp(x - x.max(a["axis"], keepdims=True))
    return e / e.sum(a["axis"], keepdims=True)


def reduce(f, a, x, axes=None):
    return f(x, axis=tuple(a["axes"] if axes is None else axes), keepdims=bool(a.get("keepdims", 1)))


def reshape(a, x, shape):
    return x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape)])


OPS = {
    "Transpose": lambda a, x: x.transpose(a["perm"]),
    "Gemm": lambda a, x, w, b: x @ w + b,
    "Reshape": reshape, "Conv": conv, "MaxPool": max_pool, "AveragePool": average_pool,
    "BatchNormalization": batch_norm, "LSTM": lstm, "GRU": gru, "Softmax": softmax,
    "Gather": lambda a, w, i: w[i], "MatMul": lambda a, x, y: x @ y,
    "Slice": lambda a, x, i, j, axes=(0,): x.take(np.arange(i[0], j[0]), axes[0]),
    "Neg": lambda a, x: -x, "Concat": lambda a, *x: np.concatenate(x, a["axis"]),
    "ReduceMean": lambda a, x: reduce(np.mean, a, x),
    "ReduceMax": lambda a, x: reduce(np.max, a, x),
    "ReduceSum": lambda a, x, axes: reduce(np.sum, a, x, axes),
    "Squeeze": lambda a, x, axes: x.squeeze(tuple(axes)),
    "Unsqueeze": lambda a, x, axes: np.expand_dims(x, tuple(axes)),
    "Cast": lambda a, x: x.astype({onnx.TensorProto.FLOAT: np.float64}.get(
        a["to"], onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[a["to"]])),
    "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y, "Max": lambda a, x, y: np.maximum(x, y),
    "Min": lambda a, x, y: np.minimum(x, y), "Less": lambda a, x, y: x < y,
    "Sqrt": lambda a, x: np.sqrt(x), "Tanh": lambda a, x: np.tanh(x), "Sigmoid": lambda a, x: sigmoid(x),
    "Relu": lambda a, x: np.maximum(x, 0), "LeakyRelu": lambda a, x: np.where(x < 0, a["alpha"] * x, x),
    "Clip": lambda a, x, low, high: np.clip(x, low, high),
    "Identity": lambda a, x: x,
}


def wide(x):
    return x.astype(np.float64) if x.dtype == np.float32 else x


def evaluate(graph, x):
    values = {t.name: wide(numpy_helper.to_array(t)) for t in graph.initializer}
    values[graph.input[0].name] = wide(x)
    for n in graph.node:
        attrs = {a.name: helper.get_attribute_value(a) for a in n.attribute}
        out = OPS[n.op_type](attrs, *[values[i] for i in n.input if i])
        for name, v in zip(n.output, out if isinstance(out, tuple) else (out,)):
            values[name] = v
    return values["output"]


def check_shapes(model, y):
    inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    known = {v.name for v in list(inferred.graph.value_info) + list(inferred.graph.output)}
    for n in model.graph.node:
        for name in n.output:
            assert not name or name in known, f"{n.op_type}: no shape was inferred for {name}"
    dims = [d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim]
    assert dims[1:] == list(y.shape[1:]), f"output {dims}, expected {y.shape}"


def check_bits(graph, tensors):
    made = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for name, w in tensors.items():
        if name not in made:  # a gru's second bias follows its first
            assert name.endswith("recurrent_bias"), f"{name} is not in the graph"
            continue
        other = tensors.get(name.replace(".bias", ".recurrent_bias")) if ".gru." in name else None
        ours = w if other is None or not name.endswith(".bias") else np.concatenate([w, other])
        a = np.sort(ours.view(np.uint32).ravel())
        b = np.sort(made[name].view(np.uint32).ravel())
        if ".lstm.bias" in name:
            b = np.delete(b, np.arange((b == 0).sum())[:w.size])  # ONNX's second bias: zeros
        assert np.array_equal(a, b), f"{name} has other numbers"


def main(folder):
    paths = sorted(glob.glob(folder + "/*.onnx"))
    assert paths, "no .onnx files"
    for path in paths:
        base = path[:-len(".onnx")]
        model = onnx.load(path)
        checker.check_model(model, full_check=True)
        assert model.opset_import[0].version == 13 and model.ir_version == 7
        io = read_tensors(base + ".io.safetensors")
        x, y = io["input"], io["output"]
        check_shapes(model, y)
        check_bits(model.graph, read_tensors(base + ".safetensors"))
        got = evaluate(model.graph, x)
        assert got.shape == y.shape, (got.shape, y.shape)
        worst = np.max(np.abs(got - y) / (1 + np.abs(y)))
        alone = np.max(np.abs(evaluate(model.graph, x[:1]) - got[:1]))
        print(f"{base.split('/')[-1]}: {len(model.graph.node)} nodes, outputs to {np.abs(y).max():.3g}, "
              f"largest difference {worst:.2g}")
        assert np.isfinite(y).all() and np.abs(y).max() > 1e-3, "outputs that show nothing"
        assert worst < 2e-5 and alone < 1e-9, "other outputs than psgd's"


if __name__ == "__main__":
    main(sys.argv[1])
