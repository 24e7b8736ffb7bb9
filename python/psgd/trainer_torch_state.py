"""States of torch's optimizers, schedulers and scalers as bytes: a line of JSON, then the tensors' numbers. Nothing is pickled, since to
unpickle is to run what the file says, and a checkpoint has been in other hands than the program's."""
from __future__ import annotations

import ctypes
import json
from typing import Any, List, Tuple

import torch

from .trainer_wire import Error


def to_bytes(state: Any) -> bytes:
    numbers: List[bytes] = []
    head = json.dumps(_encode(state, numbers))
    return b"\n".join([head.encode(), b"".join(numbers)])


def of_bytes(data: bytes) -> Any:
    head, _, numbers = data.partition(b"\n")
    try:
        return _decode(json.loads(head), bytearray(numbers), [0])
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as e:
        raise Error(f"the state in the checkpoint is none of this program: {e}") from None


def _encode(x: Any, numbers: List[bytes]) -> Any:
    """In JSON: what it has no words for is a dict of one key."""
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if isinstance(x, list):
        return [_encode(part, numbers) for part in x]
    if isinstance(x, tuple):
        return {"tuple": [_encode(part, numbers) for part in x]}
    if isinstance(x, dict):
        return {"dict": [[_encode(key, numbers), _encode(value, numbers)] for key, value in x.items()]}
    if isinstance(x, bytes):
        numbers.append(x)
        return {"bytes": len(x)}
    if isinstance(x, torch.Tensor):
        t = x.detach().cpu().contiguous()
        numbers.append(bytes(memory_of(t)))
        return {"tensor": [str(t.dtype).rpartition(".")[2], list(t.shape)]}
    if hasattr(x, "item") and getattr(x, "shape", None) == ():  # a number of numpy
        return x.item()
    raise Error(f"a checkpoint cannot have {type(x).__name__} in the state of an optimizer or a scheduler: {x!r:.40}")


def memory_of(t: torch.Tensor) -> Any:
    """The bytes of a tensor in the processor's memory, dense in the order of its indices, for as long as it lives."""
    n = t.numel() * t.element_size()
    return (ctypes.c_char * n).from_address(t.data_ptr()) if n else b""  # ctypes.string_at() takes less than 2 GiB


def _decode(x: Any, numbers: bytearray, at: List[int]) -> Any:
    if isinstance(x, list):
        return [_decode(part, numbers, at) for part in x]
    if not isinstance(x, dict):
        return x
    ((kind, of),) = x.items()
    if kind == "tuple":
        return tuple(_decode(part, numbers, at) for part in of)
    if kind == "dict":
        return {_decode(key, numbers, at): _decode(value, numbers, at) for key, value in of}
    if kind == "bytes":
        return bytes(_next(of, numbers, at))
    if kind != "tensor":
        raise ValueError(f"a value of the unknown kind {kind!r}")
    dtype, shape = of
    tensor = torch.empty(shape, dtype=_dtype_of(dtype))
    part = _next(tensor.numel() * tensor.element_size(), numbers, at)
    return torch.frombuffer(part, dtype=tensor.dtype).reshape(shape) if part else tensor


def _dtype_of(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"a tensor of the unknown kind {name!r}")
    return dtype


def _next(n: int, numbers: bytearray, at: List[int]) -> bytearray:
    begin, at[0] = at[0], at[0] + n
    if not 0 <= n <= len(numbers) - begin:
        raise ValueError("it is shorter than it says")
    return numbers[begin : begin + n]
