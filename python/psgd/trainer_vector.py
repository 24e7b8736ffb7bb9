"""The vectors of a training program: names, shapes and places of its tensors, and the tensors as arrays."""
from __future__ import annotations

import mmap
import sys
from array import array
from collections.abc import Mapping
from math import prod
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from .trainer_wire import DIMS, TENSORS_MAX, TEXT, Error


class Tensor(NamedTuple):
    name: str
    shape: Tuple[int, ...]
    is_statistic: bool = False


Frozen = Tuple[str, int]  # the name of a tensor that is not exchanged, and a checksum of its values


class Place(NamedTuple):
    at: int  # of its first number in a vector
    n: int
    shape: Tuple[int, ...]


class Layout:
    """Trained tensors in the order given, then the statistics."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.places: Dict[str, Place] = {}
        self.n_params = self.n_trained = 0
        if not any(not t.is_statistic for t in tensors):
            raise Error("there is no tensor to train")
        if len(tensors) > TENSORS_MAX:
            raise Error(f"there are {len(tensors)} tensors, more than {TENSORS_MAX}")
        for t in sorted(tensors, key=lambda t: t.is_statistic):
            n = prod(t.shape)
            if not t.name or len(t.name.encode()) >= TEXT or "\0" in t.name:
                raise Error(f"the name {t.name!r} of a tensor is empty or longer than {TEXT - 1} bytes")
            if t.name in self.places:
                raise Error(f"two tensors have the name {t.name!r}")
            if len(t.shape) > DIMS or n < 1 or min(t.shape, default=1) < 1:
                raise Error(f"{t.name!r} has the shape {t.shape}: 0 to {DIMS} dimensions, each of 1 at least, are exchanged")
            self.places[t.name] = Place(self.n_params, n, t.shape)
            self.n_params += n
            self.n_trained += 0 if t.is_statistic else n


class Vector(Mapping):  # type: ignore[type-arg]
    """One value, gradient, ... for each parameter: v["name"] is the tensor, a view of it; v["name"] = array copies into it. Views are
    numpy arrays if the program has imported numpy, else memoryviews. `flat`: all of it."""

    def __init__(self, layout: Layout, memory: mmap.mmap, at: int) -> None:
        self._layout, self._memory, self._at = layout, memory, at
        self._bytes = memoryview(memory)[at : at + 4 * layout.n_params]
        self._arrays: Dict[str, Any] = {}  # of numpy

    @property
    def flat(self) -> Any:
        return self._view(Place(0, self._layout.n_params, (self._layout.n_params,)))

    def _view(self, place: Place) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            return numpy.frombuffer(self._memory, "f4", place.n, self._at + 4 * place.at).reshape(place.shape)
        return self._bytes[4 * place.at : 4 * (place.at + place.n)].cast("f", list(place.shape))

    def _place(self, name: str) -> Place:
        try:
            return self._layout.places[name]
        except KeyError:
            raise KeyError(f"{name!r} is none of {', '.join(map(repr, self._layout.places))}") from None

    def __getitem__(self, name: str) -> Any:
        view = self._arrays.get(name)
        if view is None:
            view = self._view(self._place(name))
            if "numpy" in sys.modules:
                self._arrays[name] = view
        return view

    def __setitem__(self, name: str, value: Any) -> None:
        place = self._place(name)
        numpy = sys.modules.get("numpy")
        if hasattr(value, "shape") and tuple(value.shape) != place.shape:
            raise Error(f"{name!r} has the shape {place.shape}, the array {tuple(value.shape)}")
        if numpy is not None:
            self._view(place)[...] = numpy.asarray(value, "f4")
            return
        numbers = array("f", _numbers_in(value))
        if len(numbers) != place.n:
            raise Error(f"{name!r} has {place.n} numbers, the value {len(numbers)}")
        self._bytes[4 * place.at : 4 * (place.at + place.n)] = memoryview(numbers).cast("B")

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.places)

    def __len__(self) -> int:
        return len(self._layout.places)

    def fill(self, value: float) -> None:
        self._bytes[:] = memoryview(array("f", [value]) * self._layout.n_params).cast("B")

    def pull(self, tree: Any) -> Any:
        """A copy, as a tree like this one; its leaves are arrays of the leaves' kind: jax.Array or numpy.ndarray."""
        return _like(tree, "", self._copy)

    def push(self, tree: Any) -> None:
        """Copies a tree's arrays."""
        for name, leaf in leaves(tree):
            self[name] = leaf

    def _copy(self, name: str, leaf: Any) -> Any:
        view = self[name]
        if type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib"):
            # A copy of jax's own: it takes an aligned array of numpy's without copying.
            return sys.modules["jax"].numpy.array(view, dtype=leaf.dtype, copy=True)
        return view.astype(getattr(leaf, "dtype", "f4")) if hasattr(view, "astype") else array("f", _numbers_in(view))


def _numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, memoryview):
        value = value.tolist()
    if hasattr(value, "__iter__"):
        for part in value:
            yield from _numbers_in(part)
    else:
        yield float(value)


def is_shape(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and all(isinstance(k, int) and not isinstance(k, bool) for k in x)


def leaves(tree: Any, name: str = "") -> Iterator[Tuple[str, Any]]:
    """The arrays of nested dicts, lists and tuples, or their shapes, with names as 'layers.0.bias'."""
    branches = branches_of(tree)
    for key, branch in branches:
        yield from leaves(branch, f"{name}.{key}" if name else str(key))
    if not branches and tree is not None and not isinstance(tree, Mapping):
        yield name, tree


def branches_of(tree: Any) -> List[Tuple[Any, Any]]:
    if isinstance(tree, Mapping):
        return list(tree.items())
    if isinstance(tree, (tuple, list)) and not is_shape(tree):
        return list(zip(getattr(tree, "_fields", range(len(tree))), tree))
    return []


def _like(tree: Any, name: str, leaf_of: Any) -> Any:
    def child(key: Any, branch: Any) -> Any:
        return _like(branch, f"{name}.{key}" if name else str(key), leaf_of)

    if isinstance(tree, Mapping):
        return type(tree)({key: child(key, branch) for key, branch in tree.items()})  # type: ignore[call-arg]
    if isinstance(tree, (tuple, list)) and not is_shape(tree):
        parts = [child(key, branch) for key, branch in branches_of(tree)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return None if tree is None else leaf_of(name, tree)


def tensors_of(tree: Any, statistics: Sequence[str] = ()) -> Tuple[List[Tensor], Dict[str, Any]]:
    """Of dicts, lists and tuples of arrays or shapes; and the arrays' values."""
    tensors, values = [], {}
    for name, leaf in leaves(tree):
        shape = leaf if is_shape(leaf) else getattr(leaf, "shape", None)
        if shape is None:
            raise Error(f"{name!r} is {leaf!r}, which is neither a shape, as (784, 10), nor an array")
        if leaf is not shape:
            if str(getattr(leaf, "dtype", "float")).lstrip("<>=|b")[:1] not in "f":
                raise Error(f"{name!r} is an array of {leaf.dtype}: parameters are floats")
            values[name] = leaf
        tensors.append(Tensor(name, tuple(shape), name in statistics))
    unknown = [name for name in statistics if name not in {t.name for t in tensors}]
    if unknown:
        raise Error(f"statistics has {unknown[0]!r}, which is none of the tensors")
    return tensors, values
