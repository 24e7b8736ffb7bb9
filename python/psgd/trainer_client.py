"""A training program that is a function of one client: psgd.trainer.client(). In a simulation the process calls it for many clients,
in the order in which psgd asks; alone, and on agents, for one."""
from __future__ import annotations

import functools
import inspect
import os
import random
import sys
from array import array
from collections.abc import Mapping
from mmap import mmap
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from . import trainer_wire as wire
from .trainer import Worker, _open, is_module, kind_of
from .trainer_vector import branches_of, is_shape
from .trainer_wire import Error

BATCH, LEARN_RATE = 64, 0.01  # alone: psgd's defaults of --batch_size and --learn-rate


class Client:
    """The fourth argument of a function that has four: whom it computes for. `state` is a dict of this client's own, which lives as
    long as the job."""

    def __init__(self, worker: Worker, node: int) -> None:
        self._worker = worker
        self.node, self.n_nodes, self.seed = node, worker.info.n_nodes, worker.info.seed
        self.state: Dict[Any, Any] = {}

    def log(self, **metrics: float) -> None:
        """Rows of metrics.csv."""
        self._worker.log(**metrics)


class Function(NamedTuple):
    train: Optional[Callable[..., Any]]
    gradient: Optional[Callable[..., Any]]

    @property
    def name(self) -> str:
        return "train" if self.train else "gradient"

    @property
    def call(self) -> Callable[..., Any]:
        call = self.train or self.gradient
        if not callable(call) or (self.train and self.gradient):
            raise Error("client() needs one function: train, which returns parameters, or gradient=")
        return call

    def takes_client(self) -> bool:
        try:
            inspect.signature(self.call).bind(*range(4))
        except TypeError:
            return False
        return True


def run(
    tensors: Any,
    function: Function,
    evaluate: Optional[Callable[..., Any]],
    rows: int,
    labels: Optional[Iterable[int]],
    rounds: int,
    lr: float,
) -> None:
    call, takes_client = function.call, function.takes_client()
    flags = wire.IS_FUNCTION | (wire.GIVES_GRADIENTS if function.gradient else 0)
    w = _open(tensors, (), rounds if not wire.connected() else 1 if function.train else 0, flags, {})
    _refuse(w, function)
    form = _Form(w, tensors, function)
    if evaluate is not None:
        w._evaluate = functools.partial(_evaluated, w, evaluate, form)
    indices = _Indices(w, function, rows, labels)
    clients: Dict[int, Client] = {}
    while w.next():
        if not w.takes_part and w._follow():
            continue
        node = w._turn.node if w._turn and w.info.simulates else w.info.node
        client = clients.get(node) or Client(w, node)
        if node >= 0:
            clients[node] = client
        _seed(w, node)
        form.begin()
        given = (form.params(), indices.of_turn(), w.steps_done, client)
        loss, samples, accuracy = form.take(call(*given[: 4 if takes_client else 3]))
        if function.train:
            w.stepped(loss=loss, samples=samples, lr=lr, accuracy=accuracy)
        else:
            by = w.gradient(loss=loss, samples=samples, lr=LEARN_RATE, accuracy=accuracy)
            if w.info.is_alone:
                form.descend(by)
                w.stepped()


def _evaluated(w: Worker, evaluate: Callable[..., Any], form: "_Form") -> Any:
    _seed(w, "evaluate")
    return evaluate(form.params())


def _refuse(w: Worker, function: Function) -> None:
    if w.info.is_alone or w.info.simulates or w.info.describes:
        return
    if function.gradient:
        raise Error("gradient() gives gradients, and no optimizer: it is for job_submit simulate; on agents open() or wrap() trains")
    if w.info.takes_gradients:
        raise Error("the job's rule combines or changes gradients, and train() gives parameters: use a rule of rounds, as fedavg")


def _seed(w: Worker, whom: Any) -> None:
    """So that a client's numbers do not depend on the process that computes them, or on what it has computed before."""
    random.seed(f"{w.info.seed} {whom} {w.steps_done}")
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(random.getrandbits(32))
    if torch is not None:
        torch.manual_seed(random.getrandbits(63))


class _Indices:
    """The rows of a client, and in a simulation those of each turn, which psgd writes to a file that both have mapped."""

    def __init__(self, w: Worker, function: Function, rows: int, labels: Optional[Iterable[int]]) -> None:
        self.w, self.function, self.rows = w, function, rows
        self.own: List[int] = []
        self.memory: Optional[mmap] = None
        if rows and w.info.simulates:
            r = w._divide(rows, labels)
            if r is not None:
                self.memory = mmap(r.file, 4 * r.n)
                os.close(r.file)
        elif rows:
            self.own = w.shard(rows, labels)

    def of_turn(self) -> Any:
        w = self.w
        if not self.rows:
            return None
        if self.memory is not None and w._turn is not None:
            return _array(array("I", bytes(self.memory[: 4 * w._turn.n])))
        if self.function.train:
            return _array(self.own)
        first = w.steps_done * BATCH
        return _array([self.own[(first + i) % len(self.own)] for i in range(min(BATCH, len(self.own)))])


def _array(rows: Iterable[int]) -> Any:
    numpy = sys.modules.get("numpy")
    return list(rows) if numpy is None else numpy.array(rows, "i8")


class _Form:
    """How the function gets its parameters, and gives them or gradients back: a module of torch has both; of a dict of tensors it
    gets the vector, of another tree a tree like it."""

    def __init__(self, w: Worker, tensors: Any, function: Function) -> None:
        self.w, self.function = w, function
        self.net = w.net if is_module(tensors) else None  # type: ignore[attr-defined]
        is_flat = isinstance(tensors, dict) and all(is_shape(t) or hasattr(t, "shape") for t in tensors.values())
        self.tensors = tensors
        self.tree = None if self.net is not None or is_flat else tensors

    def begin(self) -> None:
        if self.net is not None:
            for p in self.net.parameters():
                p.grad = None

    def params(self) -> Any:
        if self.net is not None:
            return self.net
        return self.w.params if self.tree is None else self.w.pull(self.tree)

    def descend(self, by: Any) -> None:
        """A step of the plain SGD that stands in for psgd's optimizer."""
        if self.net is not None:
            for p in self.net.parameters():
                p.data.sub_(0 if p.grad is None else LEARN_RATE * p.grad)
            return
        values = [v - LEARN_RATE * g for v, g in zip(self.w.params.flat, by.flat)]
        self.w.params._bytes[:] = memoryview(array("f", values)).cast("B")

    def take(self, result: Any) -> Tuple[float, int, Optional[float]]:
        name, what = self.function.name, "params" if self.function.train else "gradients"
        known = "" if self.net is not None else f"{what}, "
        n = 2 if self.net is not None else 3
        if not isinstance(result, tuple) or len(result) not in (n, n + 1):
            returned = f"{len(result)} values" if isinstance(result, tuple) else kind_of(result)
            raise Error(f"{name}() returned {returned}, and not ({known}loss, samples) or ({known}loss, samples, accuracy)")
        if self.net is None:
            self._take_tensors(result[0], name, what)
        loss, samples, *accuracy = result[n - 2 :]
        return float(loss), int(samples), float(accuracy[0]) if accuracy else None

    def _take_tensors(self, tree: Any, name: str, what: str) -> None:
        to = self.w.params if self.function.train else self.w.grad
        if tree is to:
            return
        for key, value in _matched(self.tensors, tree, "", f"{name}() returned {what}"):
            to[key] = value


def _matched(known: Any, tree: Any, name: str, told: str) -> Iterator[Tuple[str, Any]]:
    """The values of a tree like the known one, by the names of the tensors."""
    branches = branches_of(known)
    if not branches:
        yield name, tree
        return
    parts = dict(branches_of(tree)) if isinstance(tree, Mapping) == isinstance(known, Mapping) else {}
    keys = [key for key, _ in branches]
    for key in [key for key in keys if key not in parts] + [key for key in parts if key not in keys]:
        whole = f"{name}.{key}" if name else str(key)
        raise Error(f"{told} with {whole!r}, which is no tensor" if key in parts else f"{told} without {whole!r}")
    for key, branch in branches:
        yield from _matched(branch, parts[key], f"{name}.{key}" if name else str(key), told)
