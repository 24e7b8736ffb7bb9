"""A module of torch as a worker: its parameters are views of psgd's vector where they can be (float32, in the processor's memory, dense in
the order of their indices), else copies of it, on their device through one flat buffer. Buffers of floats, as batch norm's, are
statistics."""
from __future__ import annotations

import ctypes
import functools
import json
import math
import sys
import types
import warnings
import zlib
from contextlib import contextmanager, suppress
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor, nn

from . import trainer_torch_state
from . import trainer_vector as vector
from . import trainer_wire as wire
from .trainer import WATCHED, Worker
from .trainer_wire import Error, note

NAMED_MAX = 8  # tensors in a line
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_copy_each = getattr(torch, "_foreach_copy_", None)  # since torch 2.1


class Slot:
    """A parameter or a buffer, which is looked up by its path in each step: a program may replace it."""

    def __init__(self, name: str, place: vector.Place) -> None:
        self.name, self.at, self.n, self.shape = name, place.at, place.n, place.shape
        *self.path, self.key = name.split(".")
        self.now: Tensor  # the parameter
        self.pointer = 0  # of its memory
        self.is_view = False
        self.has_view = False  # .grad can be one, of the vectors of gradients
        self.has_none = False  # .grad was None
        self.value: Tensor  # the place in the vector of parameters, and in others
        self.grad: Tensor
        self.combined: Tensor

    def find(self, net: nn.Module) -> Tensor:
        module: Any = net
        for key in self.path:
            module = module._modules.get(key)
            if module is None:
                raise Error(f"the net has lost {self.name!r} since wrap()")
        found = module._parameters.get(self.key)
        if found is None:
            found = module._buffers.get(self.key)
        if found is None:
            raise Error(f"the net has lost {self.name!r} since wrap()")
        if found.shape != self.shape:
            raise Error(f"{self.name!r} had the shape {self.shape} at wrap(), and now {tuple(found.shape)}")
        return found


class Vectors:
    """Values, gradients and the combined gradient, on the parameters' device: psgd's memory itself, or copies."""

    def __init__(self, shared: Sequence[Tensor], device: torch.device, is_copy: bool) -> None:
        self.is_copy, self.device = is_copy, device
        self.values, self.grads, self.combined = [torch.zeros_like(v, device=device) for v in shared] if is_copy else shared

    def copy(self, to: Tensor, of: Tensor) -> None:
        """From psgd's memory or to it, in which nothing is under way when this returns: psgd may have the next turn."""
        if self.is_copy:
            to.copy_(of, non_blocking=True)
            if self.device.type == "cuda":
                torch.cuda.current_stream(self.device).synchronize()


class TorchWorker(Worker):
    """wrap() and open(net) make it. `.grad` of the parameters is the gradient, before gradient() and after it."""

    copies = False  # a test sets it, where there is no GPU: as if the parameters were on one

    def __init__(
        self,
        net: nn.Module,
        optimizers: Sequence[Any] = (),
        scheduler: Any = None,
        scaler: Any = None,
        batches: int = 0,
        flags: int = 0,
    ) -> None:
        net = getattr(net, "_orig_mod", net)  # of torch.compile
        _refuse_net(net)
        self.net, self.optimizers, self.scheduler, self.scaler = net, list(optimizers), scheduler, scaler
        tensors = _tensors(net)
        self._frozen = [(name, p) for name, p in net.named_parameters() if not p.requires_grad]
        frozen = [(name, _checksum(p)) for name, p in self._frozen] if wire.connected() else ()
        super().__init__(tensors, batches, flags, frozen)
        _refuse_optimizers(self)
        n = self._layout.n_params
        self._shared = [torch.frombuffer(self._memory, dtype=torch.float32, count=n, offset=v._at) for v in self._vectors()]
        slots = [Slot(t.name, self._layout.places[t.name]) for t in tensors]
        self._slots = [s for s, t in zip(slots, tensors) if not t.is_statistic]
        self._statistics = [s for s, t in zip(slots, tensors) if t.is_statistic]
        self._has_gradients = False  # a step has had one
        self._copied: List[Slot] = []  # of the slots those that are no views
        self._watched: List[Tuple[Dict[str, Any], str, Any]] = []  # what the net has where: modules, parameters
        self._n_trained = self._layout.n_trained
        self._on: Vectors
        self._noted: Set[str] = set()
        self._without: Set[str] = set()  # parameters of which a line has said that they have no gradient
        self._loss: Optional[Tensor] = None
        self._samples = 0  # that steps() has given since the last step
        self._new_samples = 0  # of these since the last backward()
        self._is_driven = self._is_pinned = False
        self._n_watched = WATCHED  # the net's tensors are psgd's, or copied; what is watched here is:
        self._n_changed = 0  # batches before the first step after which the parameters were others
        self._has_passed = False  # alone: the last pass was whole
        self._overflows = False  # the gradient that was handed over is not finite
        self._is_behind = False  # psgd's parameters are older than the net's, ...
        self._follows = False  # ... but not the statistics, which follow the combined ones
        self._by: Optional[Tensor] = None  # in a step: the gradient for the update, where gradients are exchanged
        self._counted = getattr(scheduler, "last_epoch", 0)  # the scheduler's steps when the pass over the loader began
        self._bind(keeps_own=not self.has_values)
        self._originals = {id(opt): opt.step for opt in self.optimizers}
        for opt in self.optimizers:
            _replace_step(self, opt)
        _see_losses(self)

    def _vectors(self) -> Tuple[vector.Vector, ...]:
        return self.params, self.grad, self._combined

    # Parameters, buffers and gradients, to and from the vectors.

    @torch.no_grad()
    def _bind(self, keeps_own: bool) -> None:
        """The net's own values go to the vector, or the vector's to the net."""
        found = [s.find(self.net) for s in self._slots]
        devices = {p.device for p in found}
        device = devices.pop() if len(devices) == 1 else torch.device("cpu")
        self._on = on = Vectors(self._shared, device, device.type != "cpu" or self.copies)
        if device.type == "cuda" and self._link is not None and not self._is_pinned:
            self._pin(device)
        if not keeps_own:
            on.copy(on.values, self._shared[0])
        for s, p in zip(self._slots, found):
            s.value, s.grad, s.combined = (v.narrow(0, s.at, s.n).view(s.shape) for v in (on.values, on.grads, on.combined))
            s.has_view = p.dtype == torch.float32 and p.device == device
            s.is_view = s.has_view and p.is_contiguous()
            if p.dtype == torch.float64:
                self._note_once("float64", f"{s.name!r} is of float64: psgd exchanges float32")
            if keeps_own:
                s.value.copy_(p.detach())
            if s.is_view:  # with its strides: by those of dimensions of 1, too, a convolution chooses channels_last
                p.data = s.value.as_strided(p.shape, p.stride(), s.value.storage_offset())
            elif not keeps_own:
                p.data.copy_(s.value)
            s.now, s.pointer = p, p.data_ptr()
        self._copied = [s for s in self._slots if not s.is_view]
        self._watch()
        for s in self._statistics:
            s.value, s.grad, s.combined = (v.narrow(0, s.at, s.n).view(s.shape) for v in (on.values, on.grads, on.combined))
            b = s.find(self.net)
            if keeps_own:
                s.value.copy_(b)
            else:
                b.copy_(s.value)
        if keeps_own:
            on.copy(self._shared[0], on.values)

    def _pin(self, device: torch.device) -> None:
        """Copies between the device and pinned memory are several times faster."""
        self._is_pinned = True
        error = torch.cuda.cudart().cudaHostRegister(self._shared[0].data_ptr(), len(self._memory), 1)  # portable: of all GPUs
        if int(error) != 0:
            note(f"the memory of the vectors cannot be pinned (CUDA's error {int(error)}): copies to the GPU are slower")
            with suppress(RuntimeError):  # the next kernel's launch reports the error once more
                torch.zeros(1, device=device).add_(1)

    def _watch(self) -> None:
        self._watched = [(m._modules, key, m._modules[key]) for m in self.net.modules() for key in m._modules]
        self._watched += [(m._parameters, key, m._parameters[key]) for m in self.net.modules() for key in m._parameters]

    def _moved(self) -> Optional[str]:
        for of, key, found in self._watched:
            if of.get(key) is not found:
                return self._found_moved()
        for s in self._slots:
            if s.now.data_ptr() != s.pointer:
                return s.name
        return None

    def _found_moved(self) -> Optional[str]:
        """The net has other modules or parameters; perhaps none that is exchanged."""
        for s in self._slots:
            p = s.find(self.net)
            if p is not s.now or p.data_ptr() != s.pointer:
                return s.name
        self._watch()
        return None

    def _follow_moves(self) -> None:
        """After net.to(), or load_state_dict(assign=True)."""
        name = self._moved()
        if name is None:
            return
        self._note_once("moved", f"{name!r} was moved or replaced after wrap(): its values are copied; move the net before wrap()")
        self._bind(keeps_own=True)
        _refuse_others(self)

    @torch.no_grad()
    def _load(self) -> None:
        self._is_behind = False
        if self._moved() is not None:
            self._bind(keeps_own=False)
            return
        self._on.copy(self._on.values, self._shared[0])
        for s in self._slots:
            if not s.is_view:
                s.now.data.copy_(s.value)
        for s in self._statistics:
            s.find(self.net).copy_(s.value)

    def _store(self, statistics: Optional[Tensor]) -> None:
        """After an update. statistics: their gradient for it, or None: they are the net's."""
        if not (self._statistics or self._copied or self._on.is_copy):
            return
        if self._statistics and statistics is not None:
            self._follow_statistics(statistics)
        self._is_behind, self._follows = True, statistics is not None
        if self._is_read:
            self._flush()

    @torch.no_grad()
    def _follow_statistics(self, by: Tensor) -> None:
        self._on.values[self._n_trained :].sub_(by[self._n_trained :])
        for s in self._statistics:
            s.find(self.net).copy_(s.value)

    @torch.no_grad()
    def _flush(self) -> None:
        if not self._is_behind:
            return
        self._is_behind = False
        for s in self._copied:
            # The vector is the float32 master of a parameter of fewer bits: it keeps what these bits have no room for.
            p = s.now.detach()
            if p.dtype in (torch.float16, torch.bfloat16):
                s.value.add_(p.float() - s.value.to(p.dtype).float())
            else:
                s.value.copy_(p)
        if self._statistics and not self._follows:
            self._on.values[self._n_trained :].copy_(self._buffers())
        if self._link is not None:
            self._on.copy(self._shared[0], self._on.values)

    def _buffers(self) -> Tensor:
        device = self._on.values.device
        return torch.cat([s.find(self.net).detach().reshape(-1).to(device, torch.float32) for s in self._statistics])

    def _gather(self, of: Optional[Set[int]] = None) -> None:
        """`.grad` of the parameters (of an optimizer, those of the others are zero) to the vector of gradients."""
        to: List[Tensor] = []
        found: List[Tensor] = []
        without: List[str] = []
        for s in self._slots:
            g = s.now.grad if of is None or id(s.now) in of else None
            s.has_none = g is None
            if g is None:
                if of is None and s.name not in self._without:
                    without.append(s.name)
                s.grad.zero_()
                continue
            if g is s.grad:
                continue
            if g.layout is not torch.strided:
                raise Error(f"the gradient of {s.name!r} is sparse: psgd exchanges dense ones (sparse=False)")
            if s.has_view and g.dtype is torch.float32 and g.device.type == "cpu" and g.stride() == s.grad.stride():
                # Quicker than copy_() by a fifth for large tensors, as the C library does not read what it overwrites.
                ctypes.memmove(s.grad.data_ptr(), g.data_ptr(), 4 * s.n)
                continue
            to.append(s.grad)
            found.append(g.detach() if g.requires_grad else g)
        if without:
            self._without.update(without)
            note(_without_gradient(without))
        if _copy_each is not None and found:
            _copy_each(to, found)
        else:
            for grad, g in zip(to, found):
                grad.copy_(g)
        for name, p in self._frozen:
            if p.grad is not None:
                self._note_once("frozen", f"{name!r} had no requires_grad at wrap(): its gradient is not exchanged")
        if self._statistics:
            before, after = self._on.values[self._n_trained :], self._buffers()
            self._on.grads[self._n_trained :] = torch.where(before == after, torch.zeros_like(before), before - after)

    def _point(self, is_combined: bool, of: Optional[Set[int]] = None) -> None:
        """`.grad` of the parameters to the gradient for the update. Of one of several optimizers it is a copy: the step of another one
        would overwrite what a program keeps in the vectors."""
        for s in self._slots:
            if of is None or id(s.now) in of:
                by = s.combined if is_combined else s.grad
                if s.has_none and not by.any():
                    continue  # an optimizer leaves it as it is, and by zeros would shrink it
                by = by if of is None else by.clone()
                s.now.grad = by if s.has_view else by.to(s.now.device, s.now.dtype)

    def _note_once(self, what: str, text: str) -> None:
        if what not in self._noted:
            self._noted.add(what)
            note(text)

    # Steps.

    def gradient(  # type: ignore[override]
        self,
        *,
        loss: Optional[float] = None,
        samples: Optional[int] = None,
        lr: Optional[float] = None,
        accuracy: Optional[float] = None,
        scaler: Any = None,
    ) -> None:
        """`.grad` becomes the gradient for the update to come. loss: if None the sum of those whose backward() has run since the last
        step; samples: of the batches since then that steps() has given; lr: the first optimizer's. scaler: the gradient is first
        unscaled, and has no weight if it is not finite; then call step(opt, scaler)."""
        scale = 1.0
        if scaler is not None and scaler.is_enabled():
            for opt in self.optimizers:
                _unscale(opt, scaler)
            scale = float(scaler.get_scale())
            self._overflows = not all(self._is_finite(opt) for opt in self.optimizers)
            if self._overflows:
                loss, samples = 0.0, 0
        if self._exchange(loss, samples, lr, accuracy, None, scale):
            self._overflows = False  # the others' gradient is

    def _exchange(
        self,
        loss: Optional[float],
        samples: Optional[int],
        lr: Optional[float],
        accuracy: Optional[float],
        opt: Any,
        scale: float = 1.0,
    ) -> bool:
        """Whether the update is by the combined gradient."""
        if self._state == "ended":
            return False
        if loss is None:
            loss = math.nan if self._loss is None else float(self._loss) / scale
            if self._loss is None:
                self._note_once("loss", "the loss is not known, as no backward() of a tensor has run: give it to gradient(loss=)")
        if samples is None:
            samples = self._samples or 1
        if self._has_told_finished:
            samples = 0
        if lr is None:
            lr = float((opt or self.optimizers[0]).param_groups[0]["lr"]) if self.optimizers else 0.0
        self._loss, self._samples, self._new_samples = None, 0, 0
        self._follow_moves()
        self._by = None
        exchanges = self.info.takes_gradients and self._link is not None
        of = self._parameters_of(opt)
        if exchanges and self._state == "go":
            if samples == 0:  # its numbers are not used, and need not be finite
                self._on.grads.zero_()
            else:
                self._gather(of)
            self._on.copy(self._shared[1], self._on.grads)
        by = super().gradient(loss=loss, samples=samples, lr=lr, accuracy=accuracy)
        if not exchanges or self._state == "ended":
            return False
        is_combined = by is self._combined
        self._by = self._on.combined if is_combined else self._on.grads
        self._on.copy(self._by, self._shared[2 if is_combined else 1])
        self._point(is_combined, of)
        return is_combined

    def stepped(self, **numbers: Any) -> None:
        if self._state in ("go", "gradient"):
            if self._state == "go" and not self.info.takes_gradients:
                self.gradient(**numbers)
            if self._state == "gradient":
                self._store(self._by)
            self._overflows = False
        super().stepped(**numbers)

    def _parameters_of(self, opt: Any) -> Optional[Set[int]]:
        if opt is None or len(self.optimizers) < 2:
            return None
        return {id(p) for group in opt.param_groups for p in group["params"]}

    def _step(self, opt: Any, closure: Optional[Callable[[], Any]], scaler: Any = None, scale: float = 1.0) -> Any:
        """opt.step(), of an optimizer that is wrapped."""
        closures = () if closure is None else (closure,)
        if self._state == "ended":
            return self._update(opt, *closures)
        if self._state == "new" and self.info.is_resumed:
            raise Error(
                "the job is resumed, and this loop's first gradient was computed before the checkpoint's state was there: "
                "call psgd.trainer.worker().next() before the loop"
            )
        if self._state not in ("go", "gradient") and not self.next():
            if self._is_driven:  # by steps(), which ends
                return self._update(opt, *closures)
            raise SystemExit(0)  # the job has ended, and the program's own loop does not ask
        is_finite = not self._overflows and (scaler is None or self._is_finite(opt))
        loss = samples = None
        if not is_finite:
            loss, samples = 0.0, 0
        # Of several optimizers the last one ends the step, unless gradients are combined: then each makes a step of its own.
        is_last = self.info.takes_gradients or opt is self.optimizers[-1]
        if self.info.takes_gradients:
            result = None
            if closure is not None:
                with torch.enable_grad():
                    result = closure()
            if self._state == "go":
                self._refuse_no_gradient()
                is_finite = self._exchange(loss, samples, None, None, opt, scale) or is_finite
            if is_finite:
                self._update(opt)
        else:
            result = self._update(opt, *closures) if is_finite else None
            if is_last and self._state == "go":
                self._refuse_no_gradient()
                self._exchange(loss if result is None else float(result), samples, None, None, opt, scale)
        if is_last:
            self.stepped()
            if not self._is_driven and self._state != "ended" and not self.next():
                raise SystemExit(0)
        return result

    def _refuse_no_gradient(self) -> None:
        """In the first step. Later a loop may leave them out."""
        if not self._has_gradients and all(s.find(self.net).grad is None for s in self._slots):
            raise Error(f"no parameter had a gradient in step {self.steps_done + 1}: is the net that was given to wrap() the one that is trained?")
        self._has_gradients = True

    def _update(self, opt: Any, *closures: Any) -> Any:
        """torch's own step, at the rate that the job's rule wants for this one."""
        original = self._originals[id(opt)]
        factor = self.lr_factor
        if factor == 1:
            return original(*closures)
        rates = [group.get("lr") for group in opt.param_groups]
        if any(rate is None for rate in rates):
            raise Error(f"the job's rule multiplies the learning rate by {factor:g}, and {type(opt).__name__} has none")
        for group, rate in zip(opt.param_groups, rates):
            group["lr"] = rate * factor
        try:
            return original(*closures)
        finally:
            for group, rate in zip(opt.param_groups, rates):
                group["lr"] = rate

    def step(self, opt: Any, scaler: Any = None) -> None:
        """In place of scaler.step(opt): a step whose gradient is not finite has no weight, but the worker takes part in it, as the others
        wait for it. scaler.update() comes after it, as always."""
        scaler = scaler or self.scaler
        if scaler is None or not scaler.is_enabled():
            opt.step()
            return
        _unscale(opt, scaler)
        self._step(opt, None, scaler, float(scaler.get_scale()))

    @torch.no_grad()
    def _is_finite(self, opt: Any) -> bool:
        grads = [p.grad for group in opt.param_groups for p in group["params"] if p.grad is not None]
        sums = [g.detach().float().sum().to(self._on.device) for g in grads]
        return not sums or bool(torch.isfinite(torch.stack(sums)).all())

    def _follow(self) -> bool:
        if not self.info.takes_gradients:
            return super()._follow()
        if len(self.optimizers) != 1:
            return False
        opt = self.optimizers[0]
        if self._exchange(0.0, 0, None, None, opt):
            self._update(opt)
        self.stepped()
        for s in self._slots:  # a loop that clears gradients after step() would add its next one to the combined one
            s.now.grad = None
        return True

    def _all_steps(self, passes: Any) -> Iterator[Any]:
        self._is_driven = True
        try:
            yield from super()._all_steps(passes)
        finally:
            self._is_driven = False

    def _one_pass(self, loader: Any) -> Iterator[Any]:
        self._is_driven = True
        try:
            if self._has_passed:  # only now: the program may have stepped its scheduler after the pass
                self._pass_ended()
            self._has_passed = False
            yield from super()._one_pass(loader)
            self._has_passed = True
        finally:
            self._is_driven = False

    def _given_out(self, batch: Any) -> Iterator[Any]:
        n = _samples_of(batch)
        self._samples += n
        self._new_samples += n
        before = None if self.steps_done or self._state != "go" else self._versions()
        yield from super()._given_out(batch)
        if before is not None and self._state == "go" and self._versions() != before:
            self._n_changed += 1
            if self._n_changed == 3:  # one change may be initial values that depend on the data
                raise Error(
                    "the parameters change and no step is made: the loop calls step() of another optimizer than that which was given "
                    "to wrap(), or updates them itself"
                )

    def _versions(self) -> List[int]:
        """Each change in place has torch count one."""
        return [s.find(self.net)._version for s in self._slots]

    def _pass_ended(self) -> None:
        if self.scheduler is None:
            return
        # One that the program steps itself, in its loop, has counted since the pass began.
        if getattr(self.scheduler, "last_epoch", 0) == self._counted:
            arguments = ()
            if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                arguments = (self._test_loss,)
            if arguments == (None,):
                self._note_once("plateau", "ReduceLROnPlateau waits for an evaluation: give steps() an evaluate()")
                return
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch counts the calls of its own opt.step()
                self.scheduler.step(*arguments)
        self._counted = getattr(self.scheduler, "last_epoch", 0)

    # Evaluation and checkpoints.

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        was_training = [m for m in self.net.modules() if m.training]
        self.net.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for m in was_training:
                m.training = True

    def _saved(self) -> bytes:
        return trainer_torch_state.to_bytes(
            {
                "optimizers": [opt.state_dict() for opt in self.optimizers],
                "scheduler": _plain(self.scheduler),
                "counted": self._counted,
                "test loss": self._test_loss,
                "scaler": _plain(self.scaler),
                "buffers": {name: b for name, b in self._own_buffers()},
                "place": json.dumps(self._data_place()),
                "random": json.dumps(self._randomness()),
                "kept": self._keeper[0]() if self._keeper else b"",
            }
        )

    def _restored(self, data: bytes) -> None:
        if not data:
            note("the checkpoint has no state of the optimizer, which begins anew")
            return
        state = trainer_torch_state.of_bytes(data)
        for opt, of in zip(self.optimizers, state["optimizers"]):
            opt.load_state_dict(of)
        for owner, of in (self.scheduler, state["scheduler"]), (self.scaler, state["scaler"]):
            if owner is not None and of is not None:
                owner.load_state_dict(_as_in(owner, of))
        self._set_randomness(json.loads(state["random"]))
        self._place = json.loads(state["place"])
        self._counted, self._test_loss = state["counted"], state["test loss"]
        self._restore_buffers(state["buffers"])
        if self._keeper:
            self._keeper[1](state["kept"])

    def _own_buffers(self) -> Iterator[Tuple[str, Tensor]]:
        """Which are not exchanged. A sparse one has no bytes in one piece: the program makes it anew."""
        exchanged = {s.name for s in self._statistics}
        for name, b in self.net.named_buffers():
            if name not in exchanged and b.layout is torch.strided and not b.is_meta:
                yield name, b

    @torch.no_grad()
    def _restore_buffers(self, values: Dict[str, Tensor]) -> None:
        for name, b in self._own_buffers():
            value = values.get(name)
            if value is None:
                continue
            if value.shape == b.shape and not _is_expanded(b):
                b.copy_(value)
            else:
                path, _, key = name.rpartition(".")
                self.net.get_submodule(path)._buffers[key] = value.to(b.device, b.dtype)

    def _randomness(self) -> Dict[str, Any]:
        state = super()._randomness()
        state["torch"] = torch.get_rng_state().tolist()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = [s.tolist() for s in torch.cuda.get_rng_state_all()]
        return state

    def _set_randomness(self, state: Dict[str, Any]) -> None:
        super()._set_randomness(state)
        torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state_all([torch.tensor(s, dtype=torch.uint8) for s in state["cuda"]])


def _plain(owner: Any) -> Any:
    """The state of a scheduler or a scaler without functions, which the program has made anew."""
    if owner is None:
        return None
    return {key: dict(v) if isinstance(v, dict) else v for key, v in owner.state_dict().items() if not callable(v)}


def _as_in(owner: Any, state: Dict[str, Any]) -> Dict[str, Any]:
    """The dicts are what they are in the owner, as MultiStepLR's Counter."""
    now = vars(owner)
    return {key: type(now[key])(v) if isinstance(v, dict) and isinstance(now.get(key), dict) else v for key, v in state.items()}


def _unscale(opt: Any, scaler: Any) -> None:
    try:
        scaler.unscale_(opt)
    except RuntimeError as e:
        if "already been called" not in str(e):
            raise


# What a net has.


def _tensors(net: nn.Module) -> List[vector.Tensor]:
    """Trained parameters, each once; then buffers of floats that are saved with the net."""
    tensors = [vector.Tensor(name, tuple(p.shape)) for name, p in net.named_parameters() if p.requires_grad]
    saved = {
        f"{prefix}.{key}" if prefix else key
        for prefix, module in net.named_modules()
        for key in module._buffers
        if key not in module._non_persistent_buffers_set
    }
    for name, b in net.named_buffers():
        # One with infinities, as a mask, has no mean, and one that is expanded cannot be written.
        is_one = name in saved and b.dtype in FLOATS and b.numel() and b.layout is torch.strided and not _is_expanded(b)
        if is_one and bool(torch.isfinite(b).all()):
            tensors.append(vector.Tensor(name, tuple(b.shape), True))
    return tensors


def _is_expanded(b: Tensor) -> bool:
    return any(n > 1 and stride == 0 for n, stride in zip(b.shape, b.stride()))


def _checksum(p: Tensor) -> int:
    """Of its kind, shape and values."""
    values = p.detach().cpu()
    values = (values if values.layout is torch.strided else values.to_dense()).contiguous()
    head = zlib.crc32(f"{values.dtype} {tuple(values.shape)}".encode())
    return zlib.crc32(trainer_torch_state.memory_of(values), head)


def _refuse_net(net: nn.Module) -> None:
    for module in net.modules():
        kind = type(module).__name__
        if kind == "DistributedDataParallel":
            raise Error("the net is wrapped in DistributedDataParallel, which exchanges gradients itself: give net.module")
        if kind in ("FullyShardedDataParallel", "DeepSpeedEngine") or kind.startswith("FSDP"):
            raise Error(f"the net is wrapped in {kind}, which has a part of each parameter only: give wrap() the net itself, without {kind}")
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse:
            raise Error(f"{kind}(sparse=True) has sparse gradients: psgd exchanges dense ones (sparse=False)")
    for name, p in net.named_parameters():
        if isinstance(p, nn.parameter.UninitializedParameter):
            raise Error(f"{name!r} has no shape yet: call the net once with a batch before wrap()")
        if "DTensor" in (type(p).__name__, type(p.data).__name__):
            raise Error(f"{name!r} is a DTensor, of which each process has a part: psgd exchanges whole tensors")
        if hasattr(p, "ds_id"):
            raise Error(f"{name!r} is in parts, by DeepSpeed's ZeRO-3: psgd exchanges whole tensors")
        if p.is_meta:
            raise Error(f"{name!r} is on the device meta and has no values: make them before wrap()")
        if p.requires_grad and p.dtype not in FLOATS:
            raise Error(f"{name!r} is of {p.dtype}: psgd exchanges real floats")


def _refuse_optimizers(w: TorchWorker) -> None:
    _refuse_others(w)
    if w.info.takes_gradients:
        if any(isinstance(opt, torch.optim.LBFGS) for opt in w.optimizers):
            raise Error("LBFGS computes several gradients in a step, and the job's rule combines one: use a rule of rounds, as fedavg")
        if w.info.every > 1 and len(w.optimizers) > 1:
            raise Error("the job's rule changes the gradient of each local step, of which several optimizers make several: use one, with groups")


def _refuse_others(w: TorchWorker) -> None:
    """An optimizer has the net's parameters only: others would be trained, but not exchanged."""
    own = {id(p) for p in w.net.parameters()}
    for opt in w.optimizers:
        if not hasattr(opt, "param_groups"):
            raise Error(f"wrap(net, optimizer): the second is {type(opt).__name__}, not an optimizer of torch, or a list of them")
        n = sum(id(p) not in own for group in opt.param_groups for p in group["params"])
        if n:
            raise Error(
                f"{type(opt).__name__} updates {n} tensors that are no parameters of the net: give one net that has all, as nn.ModuleList, "
                "and make the optimizer after load_state_dict(assign=True)"
            )


def _without_gradient(names: List[str]) -> str:
    several = [*map(repr, names[:NAMED_MAX]), *([f"{len(names) - NAMED_MAX} more"] if len(names) > NAMED_MAX else [])]
    if len(several) == 1:
        return f"{several[0]} has no gradient: zeros are exchanged for it"
    return f"{', '.join(several[:-1])} and {several[-1]} have no gradient: zeros are exchanged for them"


def _samples_of(batch: Any) -> int:
    """The first dimension of the first tensor in it, or the length of a list of indices, or 0."""
    if hasattr(batch, "shape"):
        return int(batch.shape[0]) if len(batch.shape) else 0
    if isinstance(batch, dict) or hasattr(batch, "values"):
        batch = list(batch.values())
    if isinstance(batch, list) and batch and all(isinstance(k, int) for k in batch):
        return len(batch)
    if isinstance(batch, (list, tuple)):
        return next((n for n in map(_samples_of, batch) if n), 0)
    return 0


# What is put into torch.


def _replace_step(w: TorchWorker, opt: Any) -> None:
    """On the instance, since torch 1.13 has no hooks of a step: a bound method, as schedulers and scalers expect."""
    original = opt.step

    @functools.wraps(getattr(original, "__func__", original))
    def step(opt: Any, closure: Optional[Callable[[], Any]] = None) -> Any:
        scale = 1.0
        scaler = _calling_scaler()
        if scaler is not None:
            if w.info.takes_gradients:
                raise Error(
                    "scaler.step(opt) may leave a step out, and the other workers would wait for its gradient: "
                    "call psgd.trainer.worker().step(opt, scaler=scaler)"
                )
            scale = float(scaler.get_scale())
        return w._step(opt, closure, scale=scale)

    opt.step = types.MethodType(step, opt)
    if len(w.optimizers) > 1:
        return
    zero = opt.zero_grad

    @functools.wraps(getattr(zero, "__func__", zero))
    def zero_grad(opt: Any, *args: Any, **kw: Any) -> None:
        # What a scaler has left out, as its gradient was not finite, is no part of the step.
        w._loss, w._samples = None, w._new_samples
        zero(*args, **kw)

    opt.zero_grad = types.MethodType(zero_grad, opt)


def _calling_scaler() -> Any:
    """The GradScaler that has called opt.step(), some frames above."""
    frame = sys._getframe(2)
    for _ in range(6):
        if frame is None:
            return None
        if frame.f_code.co_filename.endswith("grad_scaler.py"):
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def _see_losses(w: TorchWorker) -> None:
    """The loss of a step, whose gradient `.grad` is: the sum of the numbers whose backward() runs."""
    original = torch.Tensor.backward

    @functools.wraps(original)
    def backward(loss: Tensor, *args: Any, **kw: Any) -> Any:
        result = original(loss, *args, **kw)
        w._new_samples = 0
        if loss.numel() == 1:
            value = loss.detach().reshape(())
            w._loss = value if w._loss is None else w._loss.to(value.device) + value
        return result

    torch.Tensor.backward = backward  # type: ignore[method-assign]
