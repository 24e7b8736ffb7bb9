"""job_submit as a subprocess: where it is, its arguments, its answer."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from .errors import Error, Invalid, UsageError, error_of

PathLike = Union[str, "os.PathLike[str]"]
Value = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[Union[int, float, str]]]

NAME_IT = "Name it by program= or PSGD_JOB_SUBMIT."
REPEATED = ("set", "tag")  # whose items are options of their own: those "may be repeated" in docs/reference/job_submit.md
STOP_SECONDS = 30  # that an interrupted job_submit has to leave its job in order


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


def text_of(name: str, value: Any) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(name, v) for v in value)
    raise UsageError(f"{name}: a {type(value).__name__} is no value of an option", "", "USAGE")


def arguments(options: Mapping[str, Value]) -> List[str]:
    """Options as on the command line: True is a flag; None and False are not given; a list is joined by commas, but of one
    of REPEATED each item is an option."""
    out = []
    for name, value in options.items():
        if value is True:
            out.append(f"--{name}")
        elif name in REPEATED and isinstance(value, (list, tuple)):
            out += [f"--{name}={text_of(name, item)}" for item in value]
        elif value is not None and value is not False:
            out.append(f"--{name}={text_of(name, value)}")
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
    """Ends it as Ctrl-C does: a job that runs goes on, one that has not started is undone."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C within it is raised at its end: a process that is being started would be known to nobody."""
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
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C reaches it by _interrupt(), once: the second one ends it at once
    )


def run(program: Optional[PathLike], words: Sequence[str], show: bool = False) -> Answer:
    """Runs job_submit to its end. show: what it says meanwhile also appears on sys.stderr."""
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
    operands: Sequence[str] = (),
    options: Optional[Mapping[str, Value]] = None,
    *,
    show: bool = False,
    accepted: Sequence[int] = (0,),
) -> Answer:
    """Runs `job_submit VERB` with --json. Another exit status than `accepted` is raised as an error."""
    words = [verb, "--json", *arguments(options or {})]
    answer = run(program, [*words, "--", *operands] if operands else words, show)
    if answer.status not in accepted:
        raise answer.error()
    return answer
