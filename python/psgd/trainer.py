"""A training program of yours as a worker of a psgd job: it computes gradients and updates its parameters by its own optimizer, psgd
exchanges them by the job's rule.

    opt = psgd.trainer.wrap(net, opt)                     # PyTorch
    for x, y in psgd.trainer.steps(loader):
        ...                                               # as before, up to opt.step()

    w = psgd.trainer.open({"W": (784, 10), "b": (10,)})   # numpy, or Python alone
    while w.next():
        w.grad["W"][...] = ...
        by = w.gradient(loss=loss, samples=32, lr=0.1)
        w["W"][...] -= 0.1 * by["W"]
        w.stepped()

    psgd.trainer.client({"W": (784, 10)}, train, rows=n)  # a function, of which job_submit simulate runs many clients

job_submit --trainer train.py starts such a program on each worker. Started by hand it is one worker that exchanges nothing, and needs
nothing of psgd but this package. docs/trainer.md is the manual, shared/trainer/trainer_wire.h what is said to psgd.
"""
from __future__ import annotations

import fcntl
import json
import math
import mmap
import os
import random
import re
import sys
import zlib
from array import array
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Callable, ContextManager, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import trainer_wire as wire
from .trainer_vector import Frozen, Layout, Tensor, Vector, tensors_of
from .trainer_wire import Error, note

__all__ = ["Batches", "Error", "Info", "Vector", "Worker", "batches", "client", "info", "open", "shard", "steps", "worker", "wrap"]

Numbers = Tuple[int, float, float, float]  # samples, their mean loss, accuracy or nan, lr
Save, Restore = Callable[[], bytes], Callable[[bytes], None]
WATCHED = 10  # steps, in which an update has changed a parameter
STEPLESS = 1000  # batches without a step, beside whole passes over the loader

_worker: Optional["Worker"] = None
_beside: Any = None  # psgd's process beside this program, if a launcher has started it (trainer_launch.py)


class Info(NamedTuple):
    """is_alone: no job has started the program. describes: job_submit has, for its tensors and their values, before it ships it."""

    is_alone: bool
    describes: bool = False
    node: int = 0
    n_nodes: int = 1
    seed: int = 0
    n_steps: int = 0  # of the job, at most; 0: not known
    every: int = 1  # local steps between two exchanges
    takes_gradients: bool = False  # the rule combines or changes gradients, not only parameters
    is_resumed: bool = False
    simulates: bool = False  # job_submit simulate: this process computes for all workers of the job, or some of them, in turn


# Worker._state   who has the turn, and what is due
# "new"           the program, before its first next()
# "go"            the program, in a step: gradient(), or only stepped() where the rule takes no gradients
# "gradient"      the program, after gradient(): its update, then stepped()
# "evaluation"    the program: evaluated()
# "psgd"          psgd: next() waits
# "ended"         nobody: the job has ended
# "forked"        nobody: this process was forked by the program's own


class Worker:
    """open() makes it, one in a program. All vectors are psgd's: touch them only in your turn, from next() to stepped()."""

    def __init__(self, tensors: Sequence[Tensor], batches: int = 0, flags: int = 0, frozen: Sequence[Frozen] = ()) -> None:
        self._layout = Layout(tensors)
        self._flags = flags  # of OPEN
        self._turn: Optional[wire.Record] = None  # the last GO
        self._state = "new"
        os.register_at_fork(after_in_child=self._fork)
        self._batches = batches
        self._evaluate: Optional[Callable[[], Any]] = None
        self._asks = False  # evaluation_due was asked: the program evaluates
        self._finished = False
        self._has_told_finished = False  # and this step has no weight
        self._has_evaluated = False
        self._test_loss: Optional[float] = None
        self._metrics: List[Tuple[bytes, float, int]] = []
        self._numbers: Numbers = (0, 0.0, math.nan, 0.0)
        self._keeper: Optional[Tuple[Save, Restore]] = None
        self._passes: Optional[_Passes] = None
        self._whole: Any = None  # given to steps(): a loader
        self._part: Any = None  # the loader of this worker's part of its data
        self._has_divided = False  # shard() or batches() was called
        self._place: Optional[Dict[str, Any]] = None
        self._lr_factor = 1.0
        self._knows_factor = True
        self._is_read = True  # psgd reads the parameters after this step
        self._values_before = 0  # a checksum of the parameters before the program's first step
        self._first_loss = 0.0
        self._n_watched = 0  # steps since then; WATCHED and more: it is known whether they change
        self._failure: Optional[Error] = None  # the job has failed
        self.steps_done = 0
        self.takes_part = True
        self.why = ""  # the job has ended
        number = wire.connected()
        self._link = wire.Link(number, _beside.lost if _beside else None) if number else None
        if _beside:
            _beside.link = self._link
        self.info = Info(True)
        self._frozen_sums = frozen
        self._describes = False
        size, grads_at, combined_at, file = 12 * self._layout.n_params, 4 * self._layout.n_params, 8 * self._layout.n_params, -1
        if self._link:
            _report_failure(self)
            a, file = self._announce(self._link)
            size, grads_at, combined_at = a.bytes, a.grads_at, a.combined_at
        self._memory = mmap.mmap(file, size)
        if file >= 0:
            os.close(file)
        self.params = Vector(self._layout, self._memory, 0)
        self.grad = Vector(self._layout, self._memory, grads_at)
        self._combined = Vector(self._layout, self._memory, combined_at)
        # The program may set its initial values only after open(), but the job's count.
        self._given = self._memory[: 4 * self._layout.n_params] if self.has_values else None
        self._has_told_values = False

    def _announce(self, link: wire.Link) -> Tuple[wire.Accepted, int]:
        link.send(wire.OPEN, n=len(self._layout.tensors) + len(self._frozen_sums), flags=self._flags)
        for name, checksum in self._frozen_sums:
            link.send(wire.TENSOR, n=checksum, text=name.encode(), flags=wire.FROZEN)
        for t in self._layout.tensors:
            link.send(wire.TENSOR, shape=t.shape, text=t.name.encode(), flags=wire.STATISTIC if t.is_statistic else 0)
        r = link.receive(wire.ACCEPTED, wire.REFUSED)
        if r.kind == wire.REFUSED:
            note(r.text)
            raise SystemExit(1)
        if r.kind == wire.STOP:
            self._end(r)
            raise SystemExit(0)
        a = r.accepted
        page, size = wire.PAGE, 4 * self._layout.n_params
        ends = (0, size, a.grads_at, a.grads_at + size, a.combined_at, a.combined_at + size, a.bytes)
        if (
            (a.n_params, a.n_trained) != (self._layout.n_params, self._layout.n_trained)
            or list(ends) != sorted(ends)
            or a.grads_at % page
            or a.combined_at % page
            or os.fstat(r.file).st_size < a.bytes
        ):
            os.close(r.file)
            raise Error("psgd's memory for the tensors has another size than they: is this package as old as the agent?")
        self._describes, takes_gradients, *others = (
            bool(r.flags & f) for f in (wire.DESCRIBES, wire.TAKES_GRADIENTS, wire.IS_RESUMED, wire.SIMULATES)
        )
        self.info = Info(False, self._describes and _beside is None, a.node, a.n_nodes, a.seed, a.n_steps, a.every, takes_gradients, *others)
        self.steps_done = a.n_done
        return a, r.file

    # What the job is.

    @property
    def has_values(self) -> bool:
        """The parameters have the job's values; otherwise what the program gives them before the first next() become these."""
        return not (self.info.is_alone or self._describes)

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.params[name] = value

    def pull(self, tree: Any) -> Any:
        """A copy of the parameters as a tree like this one, whose leaves are numpy's or jax's arrays."""
        return self.params.pull(tree)

    def push(self, grads: Any) -> None:
        """Copies a tree of gradients to where gradient() takes them."""
        self.grad.push(grads)

    def shard(self, n: int, labels: Optional[Iterable[int]] = None, *, batch: int = 0, epoch: int = 0) -> List[int]:
        """This worker's part of n rows, by the job's --partition, in psgd's order of the epoch, from 0. labels: the rows' classes.
        batch: each so many of them are the mini-batch that psgd's own worker would take in that step, and all workers have as many; 0:
        all rows of the part. Alone: all rows, in their order."""
        self._has_divided = True
        return self._shard(n, labels, batch, epoch)

    def _shard(self, n: int, labels: Optional[Iterable[int]], batch: int, epoch: int) -> List[int]:
        self._check("shard()")
        r = self._divide(n, labels, batch, epoch)
        if r is None:
            return list(range(n))
        index = array("I")
        with os.fdopen(r.file, "rb") as f:
            index.frombytes(f.read(4 * r.n))
        if len(index) != r.n or any(i >= n for i in index):
            raise Error(f"psgd's shard of {n} rows is damaged")
        return index.tolist()

    def _divide(self, n: int, labels: Optional[Iterable[int]], batch: int = 0, epoch: int = 0) -> Optional[wire.Record]:
        """None: the worker is alone, or the job has ended."""
        if self._link is None or self._state == "ended":
            return None
        if self._state == "psgd":  # it answers in the program's turn only
            raise Error(self._misplaced("shard()"))
        file = -1
        if labels is not None:
            classes = array("i", (int(k) for k in labels))
            if len(classes) != n:
                raise Error(f"shard has {n} rows and {len(classes)} labels")
            file = _memory_file(classes.tobytes())
        self._tell_values()
        self._tell(wire.SHARD, n=n, step=epoch, shape=(batch,) if batch else (), flags=wire.HAS_LABELS if file >= 0 else 0, file=file)
        if file >= 0:
            os.close(file)
        r = self._link.receive(wire.SHARDED, wire.REFUSED)
        if r.kind == wire.REFUSED:
            raise Error(r.text)
        if r.kind == wire.STOP:
            self._end(r)
            return None
        return r

    def batches(self, n: int, size: int, labels: Optional[Iterable[int]] = None) -> "Batches":
        """For steps(), or as the batch_sampler of a DataLoader: lists of `size` of this worker's rows of n, in each pass in psgd's order
        of that epoch, and as many as all workers have. Alone: of all rows, in an order of their own in each pass."""
        self._has_divided = True
        return Batches(self, n, size, labels)

    # Turns.

    def next(self) -> bool:
        """Waits for the turn: a step, or an evaluation that evaluation_due says. False: the job has ended."""
        link = self._link
        if link is None or self._state != "psgd":
            self._check("next()")
            if self._state == "go" and self._finished and not self._follow() and link is None:
                self._state = "psgd"  # alone there are no others whom the step would have to follow
            if self._state in ("go", "gradient"):
                rest = ", and before it, as the rule takes gradients, gradient(samples=0)" if self._finished else ""
                raise Error(f"step {self.steps_done} has not ended: stepped() goes before next(){rest}")
            if self._state == "ended":
                return False
            if link is None:
                return self._next_alone()
            if self._state == "evaluation":
                self._answer(0, 0.0, math.nan)
            if self._state == "new":
                self._get_ready()
        while True:
            r = link.receive(wire.GO, wire.EVALUATE, wire.SAVE, wire.RESTORE, wire.STORE, wire.AGAIN)
            if r.kind == wire.GO:
                self._turn = r
                self.steps_done, self.takes_part = r.step, bool(r.flags & wire.TAKES_PART)
                self._is_read = bool(r.flags & wire.READS)
                self._take_factor(r.lr)
                if r.flags & wire.HAS_CHANGED:
                    self._load()
                self._state = "go"
                self._watch()
                if not self._finished:
                    return True
                self._tell_finished()
                if self.info.takes_gradients:
                    return True
                self._follow()
            elif r.kind == wire.EVALUATE:
                self.steps_done = r.step
                if r.flags & wire.HAS_CHANGED:
                    self._load()
                self._state = "evaluation"
                if self._evaluate is None and self._asks:
                    return True
                self._answer(*self._evaluated_by(self._evaluate))
            elif r.kind == wire.SAVE:
                with os.fdopen(r.file, "wb") as f:
                    f.write(self._saved())
                self._tell(wire.SAVED)
            elif r.kind == wire.RESTORE:
                with os.fdopen(r.file, "rb") as f:
                    self._restored(f.read())
                self._tell(wire.RESTORED)
            elif r.kind == wire.STORE:
                self._flush()
                self._tell(wire.STORED)
            elif r.kind == wire.AGAIN:
                self._begin_again(link)
            else:
                return self._end(r)

    def _get_ready(self) -> None:
        if self._given is not None:
            if self._memory[: len(self._given)] != self._given:
                self._memory[: len(self._given)] = self._given
            self._given = None
            self._load()
        self._state = "psgd"
        self._tell_values()
        self._tell(wire.READY, n=self._batches)

    def _begin_again(self, link: wire.Link) -> None:
        """The job is packed, by what this program has said of its tensors. Now its node is at the other end."""
        link.begin_again()
        _, file = self._announce(link)
        if os.fstat(file).st_size < len(self._memory):
            os.close(file)
            raise Error("psgd's memory for the job has another size than before it")
        self._map_over(file)
        os.close(file)
        self._load()
        self._has_told_values = False
        self._tell_values()
        self._tell(wire.READY, n=self._batches)

    def _map_over(self, file: int) -> None:
        from . import trainer_launch

        trainer_launch.map_over(self._memory, file)

    def _next_alone(self) -> bool:
        if self._finished or 0 < self._batches <= self.steps_done:
            is_due = (self._asks or self._evaluate is not None) and not self._has_evaluated
            self._state, self._has_evaluated = "evaluation" if is_due else "ended", True
            if is_due and self._evaluate is not None:
                self._answer(*self._evaluated_by(self._evaluate))
                self._state = "ended"
        else:
            self._state = "go"
            self._watch()
        return self._state != "ended"

    def _watch(self) -> None:
        if self._n_watched == 0:
            self._values_before = self._checksum()

    def gradient(self, *, loss: float, samples: int, lr: float, accuracy: Optional[float] = None) -> Any:
        """The gradient of so many samples, whose mean loss is `loss`, is in `grad`; lr: the rate of the update to come. Returns the
        gradient for that update: the workers' combined one, or the program's own."""
        if self._state != "go":
            self._check("gradient()")
            if self._state == "ended":
                return self.grad
            raise Error(self._misplaced("gradient()"))
        self._numbers = _checked_numbers(loss, 0 if self._has_told_finished else samples, lr, accuracy)
        self._state = "gradient"
        return self._combined if self._hand_over() else self.grad

    @property
    def lr_factor(self) -> float:
        """By which the job's rule wants the rate of this step's update multiplied: 1, except where a codec of yours sets lr_factor. Ask
        after gradient(), or before an update without it; the lr that you give is your own, without the factor."""
        self._knows_factor = True
        return self._lr_factor

    def _take_factor(self, factor: float) -> None:
        if factor == self._lr_factor == 1:
            return
        if not math.isfinite(factor):
            raise Error(f"psgd has sent the factor {factor} on the learning rate")
        self._lr_factor, self._knows_factor = factor, factor == 1

    def _hand_over(self) -> bool:
        """Whether the update is by the combined gradient."""
        if self._link is None or not self.info.takes_gradients:
            return False
        self._tell_numbers(wire.GRADIENT)
        if self._flags & wire.GIVES_GRADIENTS:
            self._state = "psgd"
            return False
        r = self._link.receive(wire.UPDATE)
        if r.kind == wire.STOP:
            return self._end(r)
        self._take_factor(r.lr)
        if r.flags & wire.HAS_CHANGED:
            self._load()
        return bool(r.flags & wire.COMBINED)

    def stepped(
        self, *, loss: float = 0.0, samples: int = 0, lr: float = 0.0, accuracy: Optional[float] = None
    ) -> None:
        """The update is made. The numbers are those of gradient(), which may be left out unless the rule takes gradients."""
        self._check("stepped()")
        if self._state == "ended":
            return
        if self._state == "go":
            if self.info.takes_gradients:
                raise Error("the job's rule combines or changes gradients: call gradient() before the update, and stepped() after it")
            self._numbers = _checked_numbers(loss, 0 if self._has_told_finished else samples, lr, accuracy)
        elif self._state != "gradient":
            raise Error(self._misplaced("stepped()"))
        if not self._knows_factor:
            raise Error(
                f"the job's rule changes the learning rate, here by {self._lr_factor:g}: multiply that of each update by Worker.lr_factor"
            )
        self._refuse_unchanged()
        self._state = "psgd"
        self.steps_done += 1
        if self._link:
            self._tell_numbers(wire.UPDATED)

    def _checksum(self) -> int:
        with memoryview(self._memory) as memory, memory[: 4 * self._layout.n_params] as values:
            return zlib.crc32(values)

    def _refuse_unchanged(self) -> None:
        """The first updates, if none of them has changed a parameter: `W = W - ...` makes an array of the program's own, and its loss
        falls while the job's model stays as it is. A loss that stays, too, is that of a program that computes nothing."""
        samples, loss, _, lr = self._numbers
        if self._n_watched >= WATCHED:
            return
        self._n_watched += 1
        if self._n_watched == 1:
            self._first_loss = loss
        if not (samples > 0 and lr > 0 and loss != 0):  # an update that need not change any
            self._n_watched = WATCHED
        elif self._n_watched == WATCHED and loss != self._first_loss and self._checksum() == self._values_before:
            raise Error(
                f"no parameter has changed in {WATCHED} steps: psgd's arrays are those of the worker that open() returns, and an "
                'update changes them in place, as w["W"][...] -= lr * by["W"]'
            )

    def sync(self, **numbers: Any) -> bool:
        """For a loop of your own, at the end of each step: stepped(), then next()."""
        self.stepped(**numbers)
        return self.next()

    def finish(self) -> None:
        """There is no more data: this worker's later steps have no weight. Then call next() until it is False: if the rule takes
        gradients (info), it goes on to give steps, whose calls with samples=0 have the parameters follow the other workers'."""
        self._check("finish()")
        self._finished = True
        if self._state == "go":
            self._tell_finished()

    def _tell_finished(self) -> None:
        self.takes_part = False
        if self._link and not self._has_told_finished:
            self._tell(wire.FINISHED)
        self._has_told_finished = True

    def _follow(self) -> bool:
        """Makes a step without a gradient of this worker, if it can: a rule may have an update by the others'."""
        if self.info.takes_gradients or self._link is None:
            return False
        self._knows_factor = True  # there is no update
        self.stepped(loss=0.0, samples=0, lr=0.0)
        return True

    # Evaluation and records.

    @property
    def evaluation_due(self) -> bool:
        """This turn is for an evaluation: `with w.model(): w.evaluated(...)`, then `continue`. Ask after each next()."""
        self._asks = True
        return self._state == "evaluation"

    @contextmanager
    def model(self) -> Iterator[None]:
        """While the parameters are the rule's model: nothing is to be trained in it."""
        with self._evaluating():
            yield

    def _evaluating(self) -> ContextManager[Any]:
        return nullcontext()

    def evaluated(self, *, loss: float, accuracy: Optional[float] = None, samples: int = 1) -> None:
        self._check("evaluated()")
        if self._state != "evaluation":
            raise Error("no evaluation is due: ask evaluation_due after next()")
        self._answer(samples, float(loss), math.nan if accuracy is None else float(accuracy))

    def _answer(self, samples: int, loss: float, accuracy: float) -> None:
        self._state = "psgd"
        self._test_loss = loss if samples else self._test_loss
        if self._link:
            self._tell(wire.EVALUATED, n=samples, loss=loss, accuracy=accuracy)
        elif samples:
            note(f"alone, after {self.steps_done} steps: loss {loss:g}" + ("" if math.isnan(accuracy) else f", accuracy {accuracy:g}"))

    def _evaluated_by(self, evaluate: Optional[Callable[[], Any]]) -> Tuple[int, float, float]:
        if evaluate is None:
            return 0, 0.0, math.nan
        with self._evaluating():
            return _evaluation(evaluate())

    def log(self, **metrics: float) -> None:
        """Rows of metrics.csv; a name that is no word of Python's: log(**{"top/5": 0.9})."""
        for name, value in metrics.items():
            if not re.fullmatch(r"[A-Za-z0-9_./:@%-]{1,64}", name):
                raise Error(f"the metric {name!r} has a name that is not 1 to 64 of a-z, A-Z, 0-9 and _./:@%-")
            try:
                number = float(value)
            except (TypeError, ValueError, RuntimeError):
                raise Error(f"log({name}=...) takes a number, not {value!r:.60}") from None
            if self._link and not self._describes:
                self._metrics.append((name.encode(), number, self.steps_done))

    # A checkpoint.

    def keep(self, save: Save, restore: Restore) -> None:
        """What the program needs to go on from a checkpoint: save() returns it, restore() gets it before the first step."""
        self._keeper = save, restore

    def _saved(self) -> bytes:
        kept = self._keeper[0]() if self._keeper else b""
        if not self._keeper and not self._passes:
            return b""
        return json.dumps(self._data_place()).encode() + b"\n" + kept

    def _restored(self, data: bytes) -> None:
        if not data:
            note("the checkpoint has nothing of the program's own: see Worker.keep()")
            return
        head, _, kept = data.partition(b"\n")
        self._place = json.loads(head)
        if self._keeper:
            self._keeper[1](kept)

    def _data_place(self) -> Optional[Dict[str, Any]]:
        return self._passes.place() if self._passes else None

    def _randomness(self) -> Dict[str, Any]:
        """The state of the program's random numbers, as JSON has it."""
        state: Dict[str, Any] = {"random": random.getstate()}
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            kind, key, *rest = numpy.random.get_state()
            state["numpy"] = [kind, key.tolist(), *rest]
        return state

    def _set_randomness(self, state: Dict[str, Any]) -> None:
        version, internal, gauss = state["random"]
        random.setstate((version, tuple(internal), gauss))
        numpy = sys.modules.get("numpy")
        if numpy is not None and "numpy" in state:
            numpy.random.set_state(tuple(state["numpy"]))

    # A loop over data.

    def _steps(
        self, loader: Any, evaluate: Optional[Callable[[], Any]], divide: Optional[bool], steps_per_epoch: int
    ) -> Iterator[Any]:
        if evaluate is not None and not callable(evaluate):
            raise Error(f"evaluate= takes a function, not {kind_of(evaluate)}")
        if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
            raise Error(f"steps() takes a loader or another iterable of batches, not {kind_of(loader)}")
        if steps_per_epoch < 0:
            raise Error(f"steps_per_epoch={steps_per_epoch} is less than 0")
        self._evaluate = evaluate
        if loader is not self._whole:
            self._whole, self._part = loader, self._part_of(loader, divide)
        self._passes = passes = _Passes(self, self._part, self._passes.n_begun if self._passes else 0)
        if self._link is None:
            return self._one_pass(loader)
        if self._state == "new" and steps_per_epoch:
            self._batches = steps_per_epoch
            if passes.loader is not loader:  # as many fewer as its part has fewer batches
                self._batches = max(1, steps_per_epoch * len(passes.loader) // max(1, len(loader)))
        if self._state == "new" and not self._batches:
            with suppress(TypeError):  # a DataLoader of a stream has a len() that fails
                self._batches = len(passes.loader)
        return self._all_steps(passes)

    def _part_of(self, loader: Any, divide: Optional[bool]) -> Any:
        if divide is False or self.info.n_nodes == 1 or self._state == "ended" or "torch" not in sys.modules:
            return loader
        from . import trainer_torch_data

        return trainer_torch_data.divided(self, loader, divide)

    def _one_pass(self, loader: Any) -> Iterator[Any]:
        """Alone."""
        self._finished = self._has_told_finished = self._has_evaluated = False
        self._state = "psgd"
        n_before, n_batches = self.steps_done, 0
        for batch in loader:
            if self._state == "psgd" and not self.next():
                return
            n_batches += 1
            yield from self._given_out(batch)
        self._state = "psgd"
        if n_batches > 0 and self.steps_done == n_before:
            note(_no_step(n_batches))
        if self._evaluate is not None:
            self._answer(*self._evaluated_by(self._evaluate))

    def _all_steps(self, passes: "_Passes") -> Iterator[Any]:
        last = _END
        while self.next():
            if not self.takes_part and self._follow():
                continue
            n_batches, n_begun = 0, passes.n_begun
            while self._state == "go":  # several times where gradients are accumulated
                batch = passes.next_batch()
                if batch is not _END:
                    # Gradients of all batches may be accumulated, and those of the loader before it was divided.
                    if n_batches >= STEPLESS and passes.n_begun - n_begun > self.info.n_nodes + 1:
                        raise Error(_no_step(n_batches))
                    n_batches += 1
                    last = batch
                    yield from self._given_out(batch)
                    continue
                self.finish()
                if self._follow():
                    continue
                # The loop makes the update, by the other workers' gradient; for its own one any batch will do.
                if last is _END:
                    raise Error("the loader has given no batch, and the job's rule takes gradients: begin with one batch at least")
                yield from self._given_out(last)

    def _given_out(self, batch: Any) -> Iterator[Any]:
        yield batch
        if self._state == "gradient":
            raise Error(f"step {self.steps_done} has not ended: stepped() goes after the update")

    # What a worker of torch adds.

    def _load(self) -> None:
        """The parameters are others than when the program had its last turn."""

    def _flush(self) -> None:
        """psgd is about to read the parameters, which may lie elsewhere."""

    def _pass_ended(self) -> None:
        """The loader has given its last batch, in a job."""

    # Records.

    def _tell_values(self) -> None:
        if self._link and not self._has_told_values:
            self._link.send(wire.VALUES)
        self._has_told_values = True

    def _tell(self, kind: int, **members: Any) -> None:
        link = self._link
        assert link is not None
        self._tell_metrics(link)
        link.send(kind, **members)

    def _tell_numbers(self, kind: int) -> None:
        link = self._link
        assert link is not None
        if self._metrics:
            self._tell_metrics(link)
        link.send_numbers(kind, *self._numbers)

    def _tell_metrics(self, link: wire.Link) -> None:
        for name, value, step in self._metrics:
            link.send(wire.METRIC, text=name, loss=value, step=step)
        self._metrics.clear()

    def _end(self, r: wire.Record) -> bool:
        self._state, self.why = "ended", r.text
        if r.flags & wire.DESCRIBES:
            raise SystemExit(0)
        if r.flags & wire.HAS_FAILED and _beside and _beside.stopped_by:
            _beside.end_stopped()
        if r.flags & wire.HAS_FAILED:
            self._failure = Error(f"the job has failed: {self.why}" if self.why else "the job has failed")
            raise self._failure
        return False

    def _fork(self) -> None:
        self._state = "forked"

    def _check(self, call: str) -> None:
        if self._state == "forked":
            raise Error(f"{call} was called in a process that the program has forked: only the process that called open() is a worker")

    def _misplaced(self, call: str) -> str:
        reason = {
            "new": "before the first next(): loop over psgd.trainer.steps(w.batches(n, size)), or call next() before each step",
            "evaluation": "in the turn for an evaluation, after which `continue` goes back to next()",
            "gradient": "twice in a step, which stepped() ends",
            "psgd": "after stepped(): next() waits for the next step",
        }
        return f"{call} was called {reason[self._state]}"


class Batches:
    """Of Worker.batches()."""

    def __init__(self, worker: Worker, n: int, size: int, labels: Optional[Iterable[int]]) -> None:
        if size < 1:
            raise Error(f"batches of {size} rows: at least 1 is needed")
        self._worker, self._n, self._size = worker, n, size
        self._labels = None if labels is None else [int(k) for k in labels]
        self._n_begun = 0
        self._length: Optional[int] = None
        if worker._state != "psgd":  # in its turn psgd does not say
            len(self)

    def _rows(self, epoch: int) -> List[int]:
        rows = self._worker._shard(self._n, self._labels, self._size, epoch)
        if self._worker.info.is_alone:
            random.Random(epoch).shuffle(rows)
        return rows

    def __len__(self) -> int:
        if self._length is None:
            self._length = len(self._rows(0)) // self._size
        return self._length

    def __iter__(self) -> Iterator[List[int]]:
        passes = self._worker._passes
        # A resumed job begins in the midst of a pass. Alone each call of steps() is a pass of its own.
        epoch = self._n_begun if passes is None or self._worker.info.is_alone else passes.n_begun - 1
        self._n_begun += 1
        rows = self._rows(epoch)
        for at in range(0, len(rows) // self._size * self._size, self._size):
            yield rows[at : at + self._size]


def _no_step(n_batches: int) -> str:
    return (
        f"the loop has taken {n_batches} batches and made no step: it calls neither step() of an optimizer that was given to wrap() "
        "nor stepped()"
    )


_END = object()


class _Passes:
    """The batches of a loader, which begins again after its last one, and the place in it."""

    def __init__(self, worker: Worker, loader: Any, n_begun: int) -> None:
        self.worker, self.loader = worker, loader
        self.batches: Optional[Iterator[Any]] = None
        self.began: Optional[Dict[str, Any]] = None  # the random numbers' state when the pass began
        self.drawn, self.n_begun = 0, n_begun  # batches of this pass; passes

    def next_batch(self) -> Any:
        if self.batches is None:
            place, self.worker._place = self.worker._place, None
            self._resume(place)
        batch = next(self.batches, _END)  # type: ignore[arg-type]
        if batch is _END:
            if self.batches is self.loader:  # a generator gives its batches once
                return _END
            if self.drawn:
                self.worker._pass_ended()
            self._begin()
            batch = next(self.batches, _END)  # type: ignore[arg-type]
        self.drawn += 1
        return batch

    def _begin(self) -> None:
        self.began, self.drawn = self._randomness(), 0
        self.n_begun += 1
        self.batches = iter(self.loader)

    def _resume(self, place: Optional[Dict[str, Any]]) -> None:
        if place is None or place["began"] is None:  # nothing was drawn
            if place is not None:
                self._set_randomness(place["now"])
                self.n_begun = place["passes"]
            self._begin()
            return
        self._set_randomness(place["began"])
        self.n_begun = place["passes"] - 1
        self._begin()
        for _ in range(place["drawn"]):
            next(self.batches, _END)  # type: ignore[arg-type]
        self.drawn = place["drawn"]
        self._set_randomness(place["now"])

    def place(self) -> Dict[str, Any]:
        return {"began": self.began, "drawn": self.drawn, "passes": self.n_begun, "now": self._randomness()}

    def _generator(self) -> Any:
        """A DataLoader's own random numbers."""
        generator = getattr(self.loader, "generator", None)
        return generator if hasattr(generator, "get_state") else None

    def _randomness(self) -> Dict[str, Any]:
        state, generator = self.worker._randomness(), self._generator()
        if generator is not None:
            state["loader"] = generator.get_state().tolist()
        return state

    def _set_randomness(self, state: Dict[str, Any]) -> None:
        self.worker._set_randomness(state)
        generator = self._generator()
        if generator is not None and "loader" in state:
            generator.set_state(sys.modules["torch"].tensor(state["loader"], dtype=sys.modules["torch"].uint8))


def _checked_numbers(loss: float, samples: int, lr: float, accuracy: Optional[float]) -> Numbers:
    if samples < 0:
        raise Error(f"samples={samples} is less than 0")
    return int(samples), float(loss), math.nan if accuracy is None else float(accuracy), float(lr)


def _evaluation(result: Any) -> Tuple[int, float, float]:
    """What evaluate() has returned: samples, loss, accuracy or nan."""
    loss, accuracy, samples, *more = (*result, *(None, 1)[len(result) - 1 :]) if isinstance(result, tuple) and result else (result, None, 1)
    try:
        numbers = int(samples), float(loss), math.nan if accuracy is None else float(accuracy)
        if numbers[0] >= 0 and not more:
            return numbers
    except (TypeError, ValueError, RuntimeError):
        pass
    raise Error(f"evaluate returned {kind_of(result)}: return the loss, (loss, accuracy) or (loss, accuracy, samples)")


def kind_of(what: Any) -> str:
    """Of a value that a program's function has returned, for a sentence."""
    return repr(what)[:60] if what is None or isinstance(what, (bool, int, float, str, tuple)) else type(what).__name__


def _memory_file(data: bytes) -> int:
    """Which psgd may map: it cannot become shorter."""
    file = os.memfd_create("psgd-labels", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(file), "wb") as f:
        f.write(data)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return file


def _report_failure(w: Worker) -> None:
    """An exception that ends the program tells psgd why, before its traceback."""
    others = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        if error is w._failure:  # elsewhere: no line of the program is at fault
            note(str(error))
            return
        if w._link and w._state not in ("ended", "forked"):
            w._link.fail(str(error) if isinstance(error, Error) else f"{_place_of(trace)}{kind.__name__}: {error}")
        others(kind, error, trace)

    sys.excepthook = hook


def _place_of(trace: Any) -> str:
    """The innermost line that is the program's own, in the file that was started or in another of its folder."""
    main, place = getattr(sys.modules["__main__"], "__file__", None), ""
    if not main:
        return place
    main, own = os.path.abspath(main), os.path.dirname(os.path.abspath(__file__))
    while trace is not None:
        file = os.path.abspath(trace.tb_frame.f_code.co_filename)
        if file == main:
            place = f"line {trace.tb_lineno}: "
        elif (file.startswith(os.path.dirname(main) + "/") and "site-packages" not in file and not file.endswith(">")
              and os.path.dirname(file) != own):
            place = f"{os.path.relpath(file, os.path.dirname(main))}, line {trace.tb_lineno}: "
        trace = trace.tb_next
    return place


def _set_worker(make: Callable[[], Worker], options: Mapping[str, Any]) -> Any:
    global _worker
    if _worker is not None:
        raise Error("this program has a worker: open() or wrap() is called once")
    _take_part(options)
    _worker = make()
    return _worker


def _take_part(options: Mapping[str, Any]) -> None:
    """Under a launcher starts psgd's process, unless a job has started the program."""
    global _beside
    if wire.connected() or _beside:
        return
    from . import trainer_launch

    _beside = trainer_launch.beside(options)
    if _beside:
        os.environ[wire.ENVIRONMENT] = _beside.number


def open(what: Any, *, statistics: Sequence[str] = (), batches: int = 0, **options: Any) -> Worker:
    """`what`: a torch.nn.Module; or a dict of shapes or arrays by name, or a tree of arrays as jax's. An array's values are the
    initial ones, of shapes zeros. statistics: names of tensors that have no gradient but are averaged. batches: in an epoch; alone
    the program ends after so many. options: of the job, as those of job_submit (codec="diloco", local_steps=10), where mpirun,
    torchrun or srun has started the program; PSGD_OPTIONS counts before them."""
    return _open(what, statistics, batches, 0, options)


def is_module(what: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(what, torch.nn.Module)


def _open(what: Any, statistics: Sequence[str], batches: int, flags: int, options: Mapping[str, Any]) -> Worker:
    if is_module(what):
        from .trainer_torch import TorchWorker

        return _set_worker(lambda: TorchWorker(what, batches=batches, flags=flags), options)
    tensors, values = tensors_of(what, statistics)
    w: Worker = _set_worker(lambda: Worker(tensors, batches, flags), options)
    if not w.has_values:
        for name, value in values.items():
            w[name] = value
    return w


def wrap(net: Any, opt: Any, scheduler: Any = None, scaler: Any = None, **options: Any) -> Any:
    """Makes the parameters of a torch.nn.Module those of the job's worker, and opt.step() a step of it; returns opt. Several
    optimizers: wrap(net, [a, b]). scheduler and scaler are saved with a checkpoint; a scheduler that the loop does not step is
    stepped after each pass over the loader. options: as of open()."""
    if not is_module(net):
        raise Error(f"wrap(net, optimizer): the first is {type(net).__name__}, not a module")
    from .trainer_torch import TorchWorker

    several = isinstance(opt, (list, tuple))
    _set_worker(lambda: TorchWorker(net, list(opt) if several else [opt], scheduler, scaler), options)
    return opt


def worker() -> Worker:
    """That of this program."""
    if _worker is None:
        raise Error("this program has no worker yet: call psgd.trainer.open() or wrap() first")
    return _worker


def steps(
    loader: Any, evaluate: Optional[Callable[[], Any]] = None, divide: Optional[bool] = None, steps_per_epoch: int = 0
) -> Iterator[Any]:
    """The batches of a loader, one or, while gradients are accumulated, several for each step, until the job ends: the loader begins
    again after its last batch. Alone it is one pass. evaluate(), which is called when an evaluation is due: the model's loss on
    data for testing, or (loss, accuracy), or (loss, accuracy, samples).

    divide: a torch DataLoader with a batch_size and without a sampler of its own gives each worker its part of the dataset, in the
    batches of batches(); None: unless the program has called shard() or batches(). Another loader gives each worker what it has.

    steps_per_epoch: those in a pass over the loader as the program has it, where they are not as many as its batches. An epoch of the
    job has as many; if the workers divide the loader, accordingly fewer."""
    return worker()._steps(loader, evaluate, divide, steps_per_epoch)


def client(
    tensors: Any,
    train: Optional[Callable[..., Any]] = None,
    *,
    gradient: Optional[Callable[..., Any]] = None,
    evaluate: Optional[Callable[..., Any]] = None,
    rows: int = 0,
    labels: Optional[Iterable[int]] = None,
    rounds: int = 1,
    lr: float = 0.0,
    **options: Any,
) -> None:
    """A program that is a function, in place of a loop, which job_submit simulate calls for many clients in turn; it returns when the
    job has ended. `tensors` is that of open().

    train(params, indices, round[, client]) trains one client for a round, and returns (params, loss, samples), or a fourth value, the
    accuracy. indices: the client's part of so many `rows`, by --partition; None: rows is 0. Each call is a step of the job.

    gradient(params, indices, step[, client]), in place of train, returns (gradients, loss, samples), of the mini-batch `indices`, and
    psgd updates. If `tensors` is a torch.nn.Module, it is passed as params, with the client's values, and params or gradients are left
    out of what is returned.

    evaluate(params) returns the model's loss on data for testing, or (loss, accuracy), or (loss, accuracy, samples). rounds: of the
    program alone. lr: of rules that divide by the sum of a round's learning rates, as slowmo: that sum."""
    from .trainer_client import Function, run

    _take_part(options)
    run(tensors, Function(train, gradient), evaluate, rows, labels, rounds, lr)


def shard(n: int, labels: Optional[Iterable[int]] = None, *, batch: int = 0, epoch: int = 0) -> List[int]:
    """Of the worker: Worker.shard."""
    return worker().shard(n, labels, batch=batch, epoch=epoch)


def batches(n: int, size: int, labels: Optional[Iterable[int]] = None) -> Batches:
    """Of the worker: Worker.batches."""
    return worker().batches(n, size, labels)


def info() -> Info:
    """What has started the program; after open() or wrap() also the job's numbers."""
    return _worker.info if _worker else Info(not (wire.connected() or _beside))
