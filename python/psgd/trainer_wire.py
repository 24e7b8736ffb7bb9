"""A training program's end of the records of shared/trainer/trainer_wire.h: a socket of packets, each of 256 bytes. What a
record of psgd's says is checked here; psgd checks what the program says."""
from __future__ import annotations

import array
import os
import socket
import struct
import sys
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

ENVIRONMENT = "PSGD_TRAINER_FD"
VERSION, TEXT, PARTS, DIMS, TENSORS_MAX, PAGE = 1, 128, 4, 8, 4096, 4096

OPEN, TENSOR, VALUES, SHARD, READY, GRADIENT, UPDATED, EVALUATED, METRIC, SAVED, RESTORED, FINISHED, FAILED, STORED = range(1, 15)
ACCEPTED, REFUSED, SHARDED, GO, UPDATE, EVALUATE, SAVE, RESTORE, STOP, STORE, AGAIN = range(64, 75)

STATISTIC, HAS_LABELS, TAKES_GRADIENTS, DESCRIBES, TAKES_PART, HAS_CHANGED, COMBINED, HAS_FAILED, IS_RESUMED = (
    1 << i for i in range(9)
)
IS_FUNCTION, GIVES_GRADIENTS, SIMULATES, READS, FROZEN, GOES_ON = (1 << i for i in range(9, 15))

_HEAD = struct.Struct("=IIQQQdddIi")  # kind, version, sequence, step, n, loss, accuracy, lr, flags, n_dims
_OF = struct.Struct(f"={DIMS}Q{TEXT}s")  # shape, text
_ACCEPTED = struct.Struct("=ii9Q")
_GO = struct.Struct("=i")
_BYTES = _HEAD.size + _OF.size  # 256
_NUMBERS = struct.Struct(f"{_HEAD.format}{_OF.size}x")  # of a record without shape and text
_NOTHING = bytes(_OF.size)
_CLOSES, _CUT = int(socket.MSG_CMSG_CLOEXEC), int(socket.MSG_TRUNC | socket.MSG_CTRUNC)  # enums are slow
_WITH_FILE = (ACCEPTED, SHARDED, SAVE, RESTORE)


class Error(RuntimeError):
    """One sentence: what psgd refuses, or that the job has failed."""


Error.__module__ = "psgd.trainer"  # as a traceback names it


class Lost(Error):
    """The other end has closed the socket."""


class Accepted(NamedTuple):
    node: int
    n_nodes: int
    n_params: int
    n_trained: int
    grads_at: int
    combined_at: int
    bytes: int
    seed: int
    n_steps: int
    every: int
    n_done: int


class Record(NamedTuple):
    kind: int
    step: int
    n: int
    lr: float
    flags: int
    body: bytes
    file: int  # a descriptor, which belongs to the receiver, or -1

    @property
    def text(self) -> str:
        """Why psgd refuses or stops."""
        return self._text.decode(errors="replace")

    @property
    def _text(self) -> bytes:
        return self.body[8 * DIMS :].partition(b"\0")[0]

    def joined(self, other: "Record") -> "Record":
        """With the text of the next record, in which that of this one goes on."""
        return other._replace(body=self.body[: 8 * DIMS] + self._text + other._text)

    @property
    def node(self) -> int:
        """In a simulation the worker of a GO; -1: none, as only the time of the step is wanted."""
        (node,) = _GO.unpack_from(self.body)
        return int(node)

    @property
    def accepted(self) -> Accepted:
        return Accepted._make(_ACCEPTED.unpack_from(self.body))


def note(text: str) -> None:
    print(f"psgd: {text}", file=sys.stderr, flush=True)


class Link:
    """The socket that the environment names. The environment loses its name, and a process that is forked its descriptor: neither
    a program that this one starts nor a DataLoader's worker takes part."""

    def __init__(self, number: str, lost: Optional[Callable[[], None]] = None) -> None:
        self.lost = lost  # knows why the other end has closed the socket
        os.environ.pop(ENVIRONMENT, None)
        try:
            self.socket = socket.socket(fileno=int(number))
            self.socket.set_inheritable(False)
            self.socket.setblocking(True)
        except (OSError, ValueError) as e:
            raise Error(f"{ENVIRONMENT}={number} is no socket of psgd ({e}): a program that is started by hand must not have it") from None
        self.sent = self.received = 0
        self.is_over = False  # psgd has sent STOP, or this program why it gives up
        self.room = socket.CMSG_SPACE(4 * 4)
        os.register_at_fork(after_in_child=self.socket.close)

    def send(
        self,
        kind: int,
        *,
        step: int = 0,
        n: int = 0,
        loss: float = 0.0,
        accuracy: float = 0.0,
        lr: float = 0.0,
        flags: int = 0,
        shape: Tuple[int, ...] = (),
        text: bytes = b"",
        file: int = -1,
    ) -> None:
        """Whether psgd still reads is said by the next receive: it may have sent the reason before it closed its end."""
        body = _OF.pack(*shape, *(0,) * (DIMS - len(shape)), text) if shape or text else _NOTHING
        record = _HEAD.pack(kind, VERSION, self.sent, step, n, loss, accuracy, lr, flags, len(shape)) + body
        self.sent += 1
        try:
            if file >= 0:
                socket.send_fds(self.socket, [record], [file])
            else:
                self.socket.send(record)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send_numbers(self, kind: int, n: int, loss: float, accuracy: float, lr: float) -> None:
        """send(), for the records of each step."""
        record = _NUMBERS.pack(kind, VERSION, self.sent, 0, n, loss, accuracy, lr, 0, 0)
        self.sent += 1
        try:
            self.socket.send(record)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def fail(self, why: str) -> None:
        """Sends why the program gives up."""
        self.is_over = True
        left = why.encode(errors="replace")
        for part in range(1, PARTS + 1):
            text = left[: TEXT - 1].decode(errors="ignore").encode()
            left = left[len(text) :]
            goes_on = len(left) > 0 and part < PARTS
            self.send(FAILED, text=text, flags=GOES_ON if goes_on else 0)
            if not goes_on:
                return

    def receive(self, *kinds: int) -> Record:
        """The next record, of one of these kinds, or a STOP."""
        r = self._receive(*kinds)
        while r.kind in (REFUSED, STOP) and r.flags & GOES_ON:
            r = r.joined(self._receive(r.kind))
        self.is_over |= r.kind == STOP
        return r

    def _receive(self, *kinds: int) -> Record:
        try:
            data, control, how, _ = self.socket.recvmsg(_BYTES, self.room, _CLOSES)
        except ConnectionResetError:
            # Linux reports once that psgd has ended with records of ours unread; its own still wait then.
            data, control, how, _ = self.socket.recvmsg(_BYTES, self.room, _CLOSES)
        files = _files(control) if control else []
        if not data:
            if self.lost:
                self.lost()
            raise Lost("psgd has ended without a word: the node's log says why")
        kind = 0
        if len(data) == _BYTES and not how & _CUT:
            kind, version, sequence, step, n, _, _, lr, flags, _ = _HEAD.unpack_from(data)
        if not (kind in kinds or kind == STOP) or version != VERSION or sequence != self.received or len(files) != (kind in _WITH_FILE):
            for file in files:
                os.close(file)
            raise Error(f"psgd sent record {self.received} of a kind that is not expected: is this package as old as the agent?")
        self.received += 1
        return Record(kind, step, n, lr, flags, data[_HEAD.size :], files[0] if files else -1)

    def begin_again(self) -> None:
        self.sent = self.received = 0

    def close(self) -> None:
        self.socket.close()


def _files(control: List[Tuple[int, int, bytes]]) -> List[int]:
    found: Any = array.array("i")
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % 4])
    return list(found)


def connected() -> Optional[str]:
    """What names the socket, if a job or job_submit has started this program."""
    return os.environ.get(ENVIRONMENT)
