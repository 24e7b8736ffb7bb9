"""A training program that mpirun, torchrun or srun has started with the options of a job: it starts the process of psgd's that runs
its node, job_submit run-ranks, and is its worker from then on. Which process of the launcher this is, and in which folder the job lies,
is found there (submit/verbs/verb_run_ranks.c)."""
from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from typing import Any, Dict, Mapping, Optional

from . import errors, program
from .trainer_wire import Error, Link, note

OPTIONS, JOB = "PSGD_OPTIONS", "PSGD_JOB"
BATCH_RANK = "SLURM_PROCID"  # a batch script of Slurm's has it, too, but not the number of a step's processes
# Of launchers, in each process they start (shared/job/launch_rank.c).
RANKS: Dict[str, Optional[str]] = {  # the variable with the number of processes; None: the launcher sets none
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
    "PMIX_RANK": None,
    "RANK": "WORLD_SIZE",
    BATCH_RANK: "SLURM_STEP_NUM_TASKS",
    "JOB_COMPLETION_INDEX": None,
}
MAP_FIXED = 0x10


def rank() -> Optional[str]:
    """The variable of the launcher that has started this process; None: none has, or it is the only process."""
    for name, size in RANKS.items():
        number = os.environ.get(size, "") if size else ""
        is_alone = number == "1" or (not number and name == BATCH_RANK)
        if name in os.environ and not is_alone:
            return name
    return None


def find() -> str:
    try:
        return program.find()
    except errors.Error as e:
        raise Error(f"{e.message}; it runs this program's node: name it by PSGD_JOB_SUBMIT, or have it in PATH") from None


def main_file() -> str:
    file = getattr(sys.modules["__main__"], "__file__", None)
    if not file or not os.path.isfile(file):
        raise Error("psgd keeps a copy of the program with the job, and this one has no file: start it as python FILE")
    return os.path.abspath(file)


class Beside:
    """psgd's process beside this program. Its messages go to this program's stderr."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        submit = find()
        try:
            words = program.arguments({name.replace("_", "-"): value for name, value in options.items()})
        except errors.Error as e:
            raise Error(str(e)) from None
        command = [submit, "run-ranks", "--trainer", main_file(), "--trainer-python", sys.executable]
        rest = ["--", *sys.argv[1:]] if sys.argv[1:] else []
        given = " ".join([*map(shlex.quote, words), os.environ.get(OPTIONS, "")])  # of an option given twice the last one counts
        own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with own, its:
            try:
                self.process = subprocess.Popen([*command, "--program-fd", str(its.fileno()), *rest], env={**os.environ, OPTIONS: given},
                                                pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, stdout=2)
            except OSError as e:
                raise Error(f"{submit}, which runs this program's node, cannot be started ({e.strerror}): name another by PSGD_JOB_SUBMIT"
                            ) from None
            self.number = str(own.detach())
        self.owner = os.getpid()
        self.link: Optional[Link] = None  # the worker's, by the socket `number`, once it has one
        self.stopped_by = 0  # a signal
        atexit.register(self._leave)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._pass_on)

    def _leave(self) -> None:
        """At the program's end. The node would wait for a program that ends before its job."""
        if os.getpid() != self.owner:
            return
        if self.link is None:
            os.close(int(self.number))
        elif not self.link.is_over:
            self.link.fail("the program has ended, and the job has not")
        self.wait()

    def _pass_on(self, number: int, frame: Any) -> None:
        """A launcher that ends its job tells each program: the node ends after the present step, with its records, and this
        program with it."""
        if self.process.poll() is None:
            self.stopped_by = number
            self.process.send_signal(number)
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def wait(self) -> int:
        """Until the node's records are written, and in process 0 until all nodes have ended. Returns the exit status."""
        return self.process.wait()

    def lost(self) -> None:
        """It has ended, or ends now, and has said why."""
        status = self.wait()
        if self.stopped_by:
            self.end_stopped()
        if status == 0:
            note("this process was a parameter server of the job, which has ended")
        raise SystemExit(status if status >= 0 else 1)

    def end_stopped(self) -> None:
        """The launcher wants this program to end: it does, as a program that ends by the signal, but with its own clean-up."""
        raise SystemExit(128 + self.stopped_by)


def beside(options: Mapping[str, Any]) -> Optional[Beside]:
    """None: the program is alone."""
    of = rank()
    if OPTIONS in os.environ or (of and (options or JOB in os.environ)):
        return Beside(options)
    if of:
        note(f"alone: {of} is set, but no {OPTIONS}: each process trains by itself, and exchanges nothing. "
             f"{OPTIONS}=\"--codec fedavg ...\", the options of job_submit, makes them one job")
    return None


def map_over(memory: mmap.mmap, file: int) -> None:
    """Puts the file in the place of the memory, so that all views of it are of the file."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if libc.mmap(at, len(memory), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, file, 0) != at:
        raise Error(f"psgd's memory for the vectors cannot be mapped: {os.strerror(ctypes.get_errno())}")
