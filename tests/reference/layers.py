#!/usr/bin/python3
"""Writes layers/*.safetensors: the reference results of each kind of layer and each loss, by PyTorch.

    apt install python3-torch && /usr/bin/python3 tests/reference/layers.py

Run it after adding a case below; `make test` only reads the files. README.md describes the files.
"""
import json
import os
import sys

import numpy as np
import torch

from reference import ACTIVATIONS, STATE, Net, generator, named_shapes, write_file

CASES = {}


def case(name, shape, layers, loss="mse", n=4, **more):
    """scale: deviation of the weights. labels: even if the loss takes targets. x_scale, shift: of the inputs.
    lengths: of texts; the first layer reads tokens then. The document's loss names the rest."""
    assert name not in CASES
    CASES[name] = dict(shape=shape, layers=layers, loss=loss, n=n, **more)


def L(kind, **keys):
    return {"kind": kind, **keys}


def dense(units):
    return L("dense", units=units)


def behind(name, shape, layers, **more):
    """The layers after a dense one, whose gradient depends on their input gradient: two inputs, at least two samples,
    so that each value of it matters."""
    case(name, [2], [dense(int(np.prod(shape))), L("reshape", shape=shape)] + layers, **{"n": 2, **more})


# dense: also where sizes leave a remainder after vectors of 4, 8 and 16
case("dense", [7], [dense(5)])
case("dense-one-sample-one-unit", [1], [dense(1)], n=1)
case("dense-wide", [21], [dense(5)], n=17)
case("dense-three", [6], [dense(8), dense(7), dense(3)], n=5)
case("dense-on-image", [3, 4, 2], [dense(3)])
case("flatten", [3, 2, 2], [L("conv2d", filters=2, kernel=2), L("flatten"), dense(3)])
case("reshape", [6], [dense(12), L("reshape", shape=[3, 2, 2]), L("conv2d", filters=2, kernel=2)])

# conv2d
for kernel in (2, 3, 5):
    for side, stride, pad in ((5, 1, "same"), (5, 2, "same"), (6, 1, "valid"), (6, 2, "same")):
        behind(f"conv-{side}-k{kernel}-s{stride}-{pad}", [side, side, 1],
               [L("conv2d", filters=2, kernel=kernel, stride=stride, padding=pad)], n=2)
behind("conv-5-k1", [5, 5, 1], [L("conv2d", filters=2, kernel=1)], n=2)
behind("conv-5-k1-s2-same", [5, 5, 1], [L("conv2d", filters=2, kernel=1, stride=2, padding="same")], n=2)
behind("conv-channels-3-4", [5, 4, 3], [L("conv2d", filters=4, kernel=3)], n=2)
behind("conv-channels-2-9-same", [3, 4, 2], [L("conv2d", filters=9, kernel=3, padding="same")], n=2)
behind("conv-channels-16-8-k1", [1, 3, 16], [L("conv2d", filters=8, kernel=1)])
behind("conv-channels-5-17-k1-s2-same", [4, 3, 5], [L("conv2d", filters=17, kernel=1, stride=2, padding="same")], n=2)
behind("conv-rectangle", [5, 4, 2], [L("conv2d", filters=3, kernel=[2, 3], stride=[2, 1], padding="same")])
behind("conv-rectangle-valid", [4, 5, 2], [L("conv2d", filters=3, kernel=[3, 1], stride=[1, 3])])
behind("conv-stride-beyond-kernel", [7, 7, 1], [L("conv2d", filters=2, kernel=2, stride=3)])
behind("conv-kernel-beyond-image", [2, 3, 2], [L("conv2d", filters=2, kernel=5, padding="same")])
behind("conv-kernel-is-image", [3, 4, 2], [L("conv2d", filters=3, kernel=[3, 4])])
case("conv-on-input", [6, 6, 1], [L("conv2d", filters=3, kernel=3)])
case("conv-on-input-channels-same", [4, 5, 3], [L("conv2d", filters=4, kernel=3, stride=2, padding="same")], n=3)
case("conv-conv", [5, 5, 1], [L("conv2d", filters=3, kernel=3, padding="same"), L("tanh"),
                              L("conv2d", filters=2, kernel=2, stride=2), L("tanh"), dense(3)],
     loss="softmax_cross_entropy")
case("conv-one-sample", [7, 6, 1], [L("conv2d", filters=2, kernel=5, padding="same")], n=1)

# pools
for kind in ("max_pool", "avg_pool"):
    short = kind.replace("_", "-")
    for side, size, stride, pad in ((7, 2, 2, "valid"), (7, 3, 2, "same"), (7, 2, 2, "same"), (7, 3, 3, "valid"),
                                    (6, 3, 2, "valid"), (6, 3, 1, "same"), (6, 2, 3, "valid")):
        behind(f"{short}-{side}-{size}-s{stride}-{pad}", [side, side, 1],
               [L(kind, size=size, stride=stride, padding=pad)], n=2)
    behind(f"{short}-channels-same", [5, 3, 4], [L(kind, size=3, stride=2, padding="same")], n=2)
    behind(f"{short}-rectangle", [4, 5, 2], [L(kind, size=[2, 3], stride=[1, 2], padding="same")], n=2)
    behind(f"{short}-all-negative-same", [3, 3, 2], [L(kind, size=2, padding="same")], shift=-9.0)
    case(f"{short}-on-input", [4, 4, 2], [L(kind, size=2), dense(3)])

# norms, which differ in training and evaluation
behind("batch-norm", [6], [L("batch_norm")], n=9)
behind("batch-norm-image", [3, 2, 4], [L("batch_norm")])
behind("batch-norm-sequence", [4, 5], [L("batch_norm")])
behind("batch-norm-words", [5], [L("batch_norm", momentum=0.3, epsilon=0.01)], n=6)
behind("batch-norm-momentum-0-and-1", [3], [L("batch_norm", momentum=0), L("tanh"), L("batch_norm", momentum=1)], n=7)
behind("batch-norm-far-from-zero", [4], [L("batch_norm")], n=8, shift=30.0)
case("batch-norm-on-input", [5], [L("batch_norm"), dense(3)], n=7)
case("batch-norm-behind-conv", [5, 5, 1], [L("conv2d", filters=3, kernel=3), L("batch_norm"), L("relu"), dense(4)],
     loss="softmax_cross_entropy")
behind("layer-norm", [6], [L("layer_norm")])
behind("layer-norm-image", [2, 3, 5], [L("layer_norm")])
behind("layer-norm-sequence", [3, 7], [L("layer_norm", epsilon=0.001)])
behind("layer-norm-wide", [21], [L("layer_norm"), L("tanh"), L("layer_norm")])
behind("layer-norm-far-from-zero", [9], [L("layer_norm")], shift=30.0)
case("layer-norm-on-input", [5], [L("layer_norm"), dense(3)])
behind("dropout-0", [5], [L("dropout", rate=0), L("tanh"), L("dropout", rate=0), dense(3)])

# texts and sequences
TEXTS = [6, 1, 4, 3]
case("embedding", [6], [L("embedding", vocab=7, units=3), L("mean_over_time")], lengths=[6, 6, 6, 6])
case("embedding-lengths", [6], [L("embedding", vocab=7, units=3), L("mean_over_time"), dense(2)],
     loss="softmax_cross_entropy", lengths=TEXTS)
case("mean-over-time", [5, 3], [L("mean_over_time"), dense(2)])
behind("mean-over-time-behind", [5, 3], [L("mean_over_time")])
for kind in ("lstm", "gru"):
    behind(kind, [5, 3], [L(kind, units=4)])
    behind(f"{kind}-sequences", [4, 3], [L(kind, units=5, sequences=True)])
    behind(f"{kind}-one-step", [1, 3], [L(kind, units=4)])
    behind(f"{kind}-one-unit", [6, 1], [L(kind, units=1)])
    behind(f"{kind}-large-numbers", [3, 2], [L(kind, units=3)], scale=3.0)
    behind(f"{kind}-two", [4, 2], [L(kind, units=3, sequences=True), L(kind, units=4)])
    case(f"{kind}-on-input", [5, 3], [L(kind, units=5), dense(3)], loss="softmax_cross_entropy")
    case(f"{kind}-many", [2, 2], [L(kind, units=3), dense(2)], n=19)
    case(f"{kind}-text", [6], [L("embedding", vocab=9, units=3), L(kind, units=4), dense(2)],
         loss="softmax_cross_entropy", lengths=TEXTS)
    case(f"{kind}-text-mean", [6], [L("embedding", vocab=9, units=3), L(kind, units=4, sequences=True),
                                    L("mean_over_time"), L("dropout", rate=0), dense(1)],
         loss="sigmoid_cross_entropy", lengths=TEXTS)
    case(f"{kind}-text-two", [6], [L("embedding", vocab=9, units=2), L(kind, units=3, sequences=True),
                                   L(kind, units=3), dense(2)], loss="softmax_cross_entropy", lengths=TEXTS)
    case(f"{kind}-text-sequences-are-0-in-the-padding", [4],
         [L("embedding", vocab=9, units=2), L(kind, units=3, sequences=True), dense(2)],
         loss="softmax_cross_entropy", lengths=[2, 4, 1])

# transformers: sizes with and without a remainder after the strips and tiles of nn/kernels/strip.h
def each(units, **keys):
    return dense(units) | {"positionwise": True, **keys}


behind("dense-positionwise", [5, 3], [each(7)])
behind("dense-without-bias", [5], [L("dense", units=4, bias=False)])
behind("dense-positionwise-without-bias", [2, 3], [each(4, bias=False)])
behind("layer-norm-without-bias", [3, 7], [L("layer_norm", bias=False)])
behind("rms-norm", [6], [L("rms_norm")])
behind("rms-norm-sequence", [3, 17], [L("rms_norm", epsilon=0.001)])
case("rms-norm-on-input", [5], [L("rms_norm"), dense(3)])
behind("position-embedding", [4, 3], [L("position_embedding")])
behind("position-embedding-longer", [4, 3], [L("position_embedding", positions=6)])
for time, heads, width in ((1, 1, 1), (5, 1, 3), (7, 2, 6), (6, 1, 16), (17, 2, 32), (16, 3, 24), (33, 1, 8)):
    behind(f"attention-{time}-{heads}x{width // heads}", [time, width], [L("attention", heads=heads)], scale=0.3)
behind("attention-without-bias", [5, 4], [L("attention", heads=2, bias=False)])
behind("attention-rope", [7, 8], [L("attention", heads=2, rope=10000)], scale=0.3)
behind("attention-rope-base", [9, 6], [L("attention", heads=1, bias=False, rope=100)], scale=0.3)
behind("swiglu", [10], [L("swiglu")], scale=2.0)
behind("swiglu-sequence", [3, 34], [L("swiglu"), each(3)])
case("attention-on-input", [5, 4], [L("attention", heads=2), dense(2)], n=3)
behind("residual", [5], [L("residual", layers=[dense(5), L("tanh")])])
behind("residual-of-image", [3, 3, 2], [L("residual", layers=[L("conv2d", filters=2, kernel=3, padding="same")]), L("relu")])
case("residual-on-input", [4], [L("residual", layers=[L("tanh"), dense(4)]), L("residual", layers=[L("gelu")]), dense(2)])
behind("residual-without-parameters", [4], [L("tanh"), L("residual", layers=[L("tanh")]), L("tanh")])
GPT = [L("position_embedding"),
       L("residual", layers=[L("layer_norm", bias=False), L("attention", heads=2, bias=False), L("dropout", rate=0)]),
       L("residual", layers=[L("rms_norm"), each(8), L("gelu"), each(4)]), L("layer_norm")]
case("net-gpt", [6], [L("embedding", vocab=9, units=4), *GPT, L("head", tied=0)], loss="token_cross_entropy",
     lengths=[6, 6, 6], scale=0.4)
case("head", [3], [L("embedding", vocab=5, units=2), L("tanh"), L("head", tied=0)], loss="token_cross_entropy",
     lengths=[3, 3])
case("loss-token-cross-entropy", [4], [dense(15), L("reshape", shape=[3, 5])], loss="token_cross_entropy", n=6)

# activations: near and far from 0, on the input itself, and after each other (which forbids working in place)
for kind in ACTIVATIONS:
    short = kind.replace("_", "-")
    behind(short, [19], [L(kind)], scale=2.0)
    behind(f"{short}-chain", [5], [L(kind), L(kind), dense(4), L(kind), L("tanh"), L(kind)])
    case(f"{short}-on-input", [6], [L(kind), dense(3)], x_scale=5.0)
behind("leaky-relu-slope", [6], [L("leaky_relu", slope=0.3)])
behind("hard-tanh-slope", [19], [L("hard_tanh", slope=0.01)], scale=2.0)
behind("softmax-of-sequence", [3, 4], [L("softmax")])
behind("softmax-of-image", [2, 3, 4], [L("softmax")])

# losses
for scale, word in ((0.7, ""), (12.0, "-far-out")):
    case(f"loss-softmax-cross-entropy{word}", [4], [dense(5)], loss="softmax_cross_entropy", n=6, scale=scale)
    case(f"loss-sigmoid-cross-entropy-one{word}", [4], [dense(1)], loss="sigmoid_cross_entropy", n=6, scale=scale)
    case(f"loss-sigmoid-cross-entropy-labels{word}", [4], [dense(5)], loss="sigmoid_cross_entropy", n=6, scale=scale)
    case(f"loss-mse-labels{word}", [4], [dense(5)], n=6, scale=scale, labels=True)
    case(f"loss-tanh-squared{word}", [4], [dense(5)], loss="tanh_squared", n=6, scale=scale)
case("loss-softmax-cross-entropy-two", [4], [dense(2)], loss="softmax_cross_entropy", n=6)
case("loss-sigmoid-cross-entropy-targets", [4], [dense(3)], loss="sigmoid_cross_entropy", n=6, targets=True)
case("loss-mse-targets-one", [4], [dense(1)], n=6)
case("loss-mse-label-of-two", [4], [dense(1)], n=6, labels=True)
case("loss-tanh-squared-targets", [4], [dense(3)], loss="tanh_squared", n=6, targets=True)

# whole networks, small
case("net-mlp", [9], [dense(9), L("tanh"), dense(8), L("tanh"), dense(4)], loss="softmax_cross_entropy", n=8)
case("net-convnet", [8, 8, 1], [L("conv2d", filters=3, kernel=3), L("max_pool", size=3), L("relu"), dense(4)],
     loss="softmax_cross_entropy")
case("net-lenet-bn", [8, 8, 1],
     [L("conv2d", filters=3, kernel=3, padding="same"), L("batch_norm"), L("relu"), L("max_pool", size=2),
      L("conv2d", filters=4, kernel=3), L("batch_norm"), L("relu"), L("avg_pool", size=2), L("flatten"), dense(9),
      L("batch_norm"), L("relu"), L("dropout", rate=0), dense(5)], loss="softmax_cross_entropy", n=6)


def reference(name, shape, layers, loss, n, scale=0.7, x_scale=1.0, shift=0.0, labels=False, targets=False,
              lengths=None):
    r = generator(name)
    doc = {"version": 1, "name": "m", "input": shape, "layers": layers, "loss": loss}
    shapes, out = named_shapes(doc)
    k = int(np.prod(out))
    by_token = loss == "token_cross_entropy"
    params = {}
    for t, dims in shapes.items():
        value = r.normal(0, scale, dims)
        last = t.split(".")[-1]
        value += shift if t == "layer0.dense.bias" else 0
        value = r.uniform(0.5, 1.5, dims) if last in ("running_var", "gain") else value
        params[t] = value.astype("f4")
    if lengths:
        n, x = len(lengths), np.zeros((len(lengths), *shape))
        for i, length in enumerate(lengths):
            x[i, :length] = r.randint(0, layers[0]["vocab"], length)
            x[i, length - 1] = r.randint(1, layers[0]["vocab"])  # a 0 at the end would be padding
    else:
        x = r.normal(0, x_scale, (n, int(np.prod(shape))))
    x = x.astype("f4")
    if labels or (loss != "mse" and not targets):
        truth = r.randint(0, out[-1], (n, out[0])) if by_token else r.randint(0, max(k, 2), n)
    elif loss == "mse":
        truth = r.normal(0, 1, (n, k)).astype("f4").astype("f8")
    else:
        truth = r.uniform(0, 1, (n, k)).astype("f4").astype("f8")

    z, loss, found = run(doc, params, x, truth, "f8")
    z4, _, found4 = run(doc, params, x, truth, "f4")
    out = {"x": x, ("labels" if truth.dtype.kind == "i" else "targets"): truth}
    out.update({f"param/{t}": v for t, v in params.items()})
    out["z"] = z
    out.update(found)
    meta = {"model": json.dumps(doc, separators=(",", ":")), "loss": repr(loss)}
    top = max(np.abs(v).max() for t, v in found.items() if t.startswith("grad/"))
    error = max([np.abs(z4 - z).max() / np.abs(z).max()] +
                [np.abs(found4[t] - v).max() / (top if t.startswith("grad/") else max(1, np.abs(v).max()))
                 for t, v in found.items()])
    if error > 5e-7:
        meta["float32_error"] = f"{error:.1e}"
    return out, meta


def run(doc, params, x, truth, kind):
    """Outputs in evaluation, the mean loss in training, {"grad/...", "state/..."}, computed in `kind`."""
    tensors = {t: torch.tensor(v.astype(kind), requires_grad=t.split(".")[-1] not in STATE) for t, v in params.items()}
    x, truth = torch.tensor(x.astype(kind)), torch.tensor(truth if truth.dtype.kind == "i" else truth.astype(kind))
    net = Net(doc, tensors)
    with torch.no_grad():
        z = net.forward(x, False)
    loss = net.loss(net.forward(x, True), truth)
    loss.backward()
    found = {f"grad/{t}" if v.requires_grad else f"state/{t}": (v.grad if v.requires_grad else v).numpy()
             for t, v in tensors.items()}
    return z.numpy(), loss.item(), found


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers")
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.remove(os.path.join(folder, old))
    for name, keys in CASES.items():
        write_file(os.path.join(folder, name + ".safetensors"), *reference(name, **keys))
    total = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    print(f"{len(CASES)} files, {total} bytes")


if __name__ == "__main__":
    sys.exit(main())
