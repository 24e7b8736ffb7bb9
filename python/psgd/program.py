"""job_submit as a subprocess: where it is, its arguments, its answer."""
from __future__ import annotations

import json
import numbers
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence, Union

from .errors import Error, Invalid, UsageError, error_of

PathLike = Union[str, "os.PathLike[str]"]
Value = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[Union[int, float, str]]]

NAME_IT = "Name it by program= or PSGD_JOB_SUBMIT."
REPEATED = ("set", "tag")  # whose items are options of their own: those "may be repeated" in docs/reference/job_submit.md
STOP_SECONDS = 30  # after which an interrupted job_submit is killed


def find(program: Optional[PathLike] = None) -> str:
    """The path of job_submit: `program`, $PSGD_JOB_SUBMIT, the build or installation that this package is part of, or PATH."""
    named = program or os.environ.get("PSGD_JOB_SUBMIT")
    if named:
        path = shutil.which(os.fspath(named))
        if path:
            return path
        raise Invalid(f"{os.fspath(named)}: no such program", NAME_IT, "NOT_FOUND")
    here = Path(__file__).resolve().parent
    beside = [here.parents[1] / "build" / "job_submit"]  # of a source tree: python/psgd
    beside += [up / "bin" / "job_submit" for up in here.parents]  # of PREFIX/lib/.../psgd
    for candidate in beside:
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return str(candidate)
    path = shutil.which("job_submit")
    if path:
        return path
    raise Invalid("job_submit is not beside this package and not in PATH", NAME_IT, "NOT_FOUND")


def _refuse(name: str, value: Any) -> NoReturn:
    hint = ""
    if isinstance(value, Mapping):
        hint = "Pass its entries as arguments: **options."
    elif hasattr(value, "tolist"):  # of numpy, pandas or torch
        hint = "Pass single numbers, or a list of them: tolist()."
    raise UsageError(f"{name}: a {type(value).__name__} is not a value of an option", hint, "USAGE")


def plain(name: str, value: Any) -> Union[None, bool, int, float, str]:
    """The value as one of Python's own types, which has the same text on the command line and in JSON. Scalars of numpy,
    pandas and torch count as the number that they are; whatever holds several values, or none, is refused. UsageError."""
    if getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M"):  # a time, whose item() may be an int
        _refuse(name, value)
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        value = value.item()  # numpy's bool is no Number
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (str, os.PathLike)):
        return str.__str__(os.fsdecode(value))  # of an Enum the text, not its name
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (numbers.Real, Decimal)):
        return float(value)
    _refuse(name, value)


def text_of(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple, range)):
        return ",".join(text_of(name, v) for v in value)
    own = plain(name, value)
    if own is None:
        _refuse(name, value)
    return own if isinstance(own, str) else repr(own)


def arguments(options: Mapping[str, Value]) -> List[str]:
    """Options as on the command line: True is a flag; None and False are not given; a list is joined by commas, but of one
    of REPEATED each item is an option."""
    out = []
    for name, value in options.items():
        is_list = isinstance(value, (list, tuple, range))
        own = value if is_list else plain(name, value)
        if own is True:
            out.append(f"--{name}")
        elif name in REPEATED and is_list:
            out += [f"--{name}={text_of(name, item)}" for item in value]
        elif own is not None and own is not False:
            out.append(f"--{name}={text_of(name, own)}")
    return out


class Answer:
    """What job_submit printed. `data` is what --json has, {} if it printed none."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err
        self.data: Dict[str, Any] = {}
        self.problem: Dict[str, Any] = {}
        try:
            document = json.loads(out.splitlines()[-1]) if out.strip() else {}
        except ValueError:
            document = {}
        if isinstance(document, dict):
            self.data = document.get("data") or {}
            self.problem = document.get("error") or {}

    def error(self) -> Error:
        said = {"error": f"job_submit ended with status {self.status}", "hint": "", "code": "INTERNAL"}
        for line in self.err.splitlines():
            key, _, text = line.partition(": ")
            if key in said:
                said[key] = text
        return error_of(
            self.status,
            self.problem.get("detail") or said["error"],
            self.problem.get("hint") or said["hint"],
            self.problem.get("code") or said["code"],
        )


def _read(stream: IO[str], lines: List[str], show: bool) -> None:
    for line in stream:
        lines.append(line)
        if show:
            sys.stderr.write(line)


def _interrupt(child: "subprocess.Popen[str]") -> None:
    """Ends job_submit as Ctrl-C does: a running job goes on, a job that has not started is undone."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Delays Ctrl-C to the end of the block, so that a process that is being started is not lost."""
    noted: List[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if is_main else None
    if callable(before):
        signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt


def _start(words: Sequence[str]) -> "subprocess.Popen[str]":
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches it by _interrupt(), once: the second one ends it at once
        )
    except ValueError as e:  # a NUL, or half a surrogate pair, in a text
        raise UsageError(f"an argument cannot be passed on: {e}", "", "USAGE") from None


def run(program: Optional[PathLike], words: Sequence[str], show: bool = False) -> Answer:
    """Runs job_submit to its end. show: its messages also appear on sys.stderr."""
    path = find(program)
    child: Optional["subprocess.Popen[str]"] = None
    said: List[str] = []
    try:
        with _interrupts_later():
            child = _start([path, *words])
        assert child.stdout and child.stderr
        reader = threading.Thread(target=_read, args=(child.stderr, said, show), daemon=True)
        reader.start()
        out = child.stdout.read()
        reader.join()
        status = child.wait()
        child.stdout.close()
        child.stderr.close()
    except OSError as e:
        raise Invalid(f"{path}: {e.strerror}", "", "IO") from None
    except BaseException:
        if child:
            _interrupt(child)
        raise
    return Answer(status, out, "".join(said))


def call(
    program: Optional[PathLike],
    verb: str,
    operands: Sequence[Union[PathLike, float]] = (),
    options: Optional[Mapping[str, Value]] = None,
    *,
    show: bool = False,
    accepted: Sequence[int] = (0,),
) -> Answer:
    """Runs `job_submit VERB` with --json. Another exit status than `accepted` is raised as an error."""
    words = [verb, "--json", *arguments(options or {})]
    answer = run(program, [*words, "--", *(text_of(verb, o) for o in operands)] if operands else words, show)
    if answer.status not in accepted:
        raise answer.error()
    return answer
