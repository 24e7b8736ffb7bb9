"""Data sets of .npy files, without numpy: what the tests train on."""
import random
import struct


def write_npy(path, shape, values, kind):
    """kind: f4, i4 or u1."""
    header = repr({"descr": ("|" if kind == "u1" else "<") + kind, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    code = {"f4": "f", "i4": "i", "u1": "B"}[kind]
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack(f"<{len(values)}{code}", *values))


def count(shape):
    n = 1
    for k in shape:
        n *= k
    return n


def make_targets(folder, shape, outputs, n=24, vocab=0, seed=1):
    """n samples of random numbers, or tokens below vocab with zeros behind them, and random targets; the same in both halves.
    Returns the samples as flat lists."""
    rng = random.Random(seed)
    folder.mkdir(exist_ok=True)
    if vocab:
        used = [rng.randint(1, shape[0]) for _ in range(n)]
        x = [rng.randint(1, vocab - 1) if t < used[i] else 0 for i in range(n) for t in range(shape[0])]
    else:
        x = [rng.uniform(0, 1) for _ in range(n * count(shape))]
    y = [rng.gauss(0, 1) for _ in range(n * outputs)]
    for half in "train", "test":
        write_npy(folder / f"x_{half}.npy", [n, *shape], x, "i4" if vocab else "f4")
        write_npy(folder / f"y_{half}.npy", [n, outputs], y, "f4")
    per = count(shape)
    return [x[i * per : (i + 1) * per] for i in range(n)]
