"""psgd's end of shared/trainer/trainer_wire.h as a script: a test starts a training program, and says what psgd sends it. The records
are written here once more, so that the package's own are compared with the header."""
import array
import atexit
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import warnings
from types import ModuleType, SimpleNamespace

OPEN, TENSOR, VALUES, SHARD, READY, GRADIENT, UPDATED, EVALUATED, METRIC, SAVED, RESTORED, FINISHED, FAILED, STORED = range(1, 15)
ACCEPTED, REFUSED, SHARDED, GO, UPDATE, EVALUATE, SAVE, RESTORE, STOP, STORE = range(64, 74)
STATISTIC, HAS_LABELS, TAKES_GRADIENTS, DESCRIBES, TAKES_PART, HAS_CHANGED, COMBINED, HAS_FAILED, IS_RESUMED = (
    1 << k for k in range(9)
)
IS_FUNCTION, GIVES_GRADIENTS, SIMULATES, READS, FROZEN, GOES_ON = (1 << k for k in range(9, 15))
HEAD, TEXT, PLAN = struct.Struct("=IIQQQdddIi"), struct.Struct("=8Q128s"), struct.Struct("=ii9Q")
WAIT = 60  # for each record

# A program is a process of its own; where this is True, one that is forked from this one, and has its imports: a new python3 takes a
# tenth of a second, and to import torch takes seconds. This process must not have computed anything by torch, whose threads a fork does
# not get.
forks = False


class Forked:
    """As subprocess.Popen of `python3 -c PROGRAM`."""

    def __init__(self, program, arguments, stdout, stderr, env, keeps=()):
        self.pid = os.fork()
        if self.pid:
            self.end = os.pidfd_open(self.pid)
            return
        status = 1
        atexit._clear()  # what this process cleans up at its end
        try:
            os.dup2(stdout.fileno(), 1)
            os.dup2(stderr.fileno(), 2)
            for fd in map(int, os.listdir("/proc/self/fd")):
                if fd > 2 and fd not in keeps and os.path.exists(f"/proc/self/fd/{fd}"):
                    os.close(fd)
            os.environ.clear()
            os.environ.update(env)
            sys.stdout, sys.stderr = (open(fd, "w", buffering=1, closefd=False) for fd in (1, 2))
            sys.argv = ["-c", *arguments]
            for category in DeprecationWarning, ResourceWarning:  # unittest has them shown
                warnings.simplefilter("ignore", category)
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(program, "<string>", "exec"), main.__dict__)
            status = 0
        except SystemExit as e:
            status = e.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            atexit._run_exitfuncs()
            if "multiprocessing.util" in sys.modules:
                sys.modules["multiprocessing.util"]._exit_function()  # ends a DataLoader's workers
            os._exit(status)

    def wait(self, timeout):
        if not select.select([self.end], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("fork", timeout)
        os.close(self.end)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


def start(program, arguments, stdout, stderr, env, keeps=()):
    env = {**os.environ, "PYTHONUNBUFFERED": "1", **env}
    if forks:
        return Forked(program, arguments, stdout, stderr, env, keeps)
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, pass_fds=keeps, env=env
    )


class Psgd:
    """with Psgd(text of a program) as p: ... The program must have ended well at the end, unless `p.expects` says otherwise."""

    def __init__(self, program, *arguments):
        own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own.settimeout(WAIT)
        self.socket, self.sent, self.received = own, 0, 0
        self.out = tempfile.TemporaryFile("w+")
        self.err = tempfile.TemporaryFile("w+")
        self.expects = 0
        self.rows = None  # a function of SHARD's record: the rows with which take() answers one that it did not expect
        self.shards = []  # these records
        self.process = start(program, arguments, self.out, self.err, {"PSGD_TRAINER_FD": str(its.fileno())}, [its.fileno()])
        its.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.socket.close()
        try:
            status = self.process.wait(1 if kind else WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "none: it hangs"
        self.stdout, self.stderr = text_of(self.out), text_of(self.err)
        if kind or status != self.expects:
            sys.stderr.write(self.stderr)
        assert kind or status == self.expects, f"the program ended with status {status}"

    def send(self, kind, *, step=0, n=0, lr=1, flags=0, text="", body=None, file=None, version=1, sequence=None):
        head = HEAD.pack(kind, version, self.sent if sequence is None else sequence, step, n, 0, 0, lr, flags, 0)
        record = head + (body or TEXT.pack(*[0] * 8, text.encode()))
        if file is None:
            self.socket.send(record)
        else:
            socket.send_fds(self.socket, [record], [file])
        self.sent += 1

    def take(self, kind):
        """The program's next record, which must be of this kind. `metrics`: those before it. Of a text that goes on, all of it."""
        metrics, before = {}, ""
        while True:
            data, files, flags, _ = socket.recv_fds(self.socket, 257, 2)
            assert data, f"the program has ended, and not sent {kind}"
            assert len(data) == 256 and not flags & socket.MSG_TRUNC
            got, version, sequence, step, n, loss, accuracy, lr, flags, n_dims = HEAD.unpack_from(data)
            *shape, text = TEXT.unpack_from(data, HEAD.size)
            assert (version, sequence) == (1, self.received), (version, sequence)
            assert text.endswith(b"\0")
            text = text.rstrip(b"\0").decode()
            self.received += 1
            if got == FINISHED and kind != FINISHED:  # a notice before an answer
                continue
            if got == METRIC and kind != METRIC:
                metrics[text] = loss
                continue
            if got == SHARD and kind != SHARD and self.rows:
                r = SimpleNamespace(n=n, epoch=step, batch=shape[0], labels=None)
                for file in files:
                    r.labels = array.array("i", os.pread(file, 4 * n, 0)).tolist()
                    os.close(file)
                self.shards.append(r)
                rows = array.array("I", self.rows(r))
                self.answer(SHARDED, rows.tobytes(), n=len(rows))
                continue
            assert got == kind, f"the program sent {got} {text!r}, and not {kind}"
            if flags & GOES_ON:
                before += text
                continue
            text = before + text
            return SimpleNamespace(
                step=step, n=n, loss=loss, accuracy=accuracy, lr=lr, flags=flags, shape=tuple(shape[:n_dims]), text=text,
                files=files, metrics=metrics,
            )  # fmt: skip

    # The usual course of things.

    def take_tensors(self):
        opened = self.take(OPEN)
        self.opened = opened.flags
        announced = [self.take(TENSOR) for _ in range(opened.n)]
        self.frozen = {t.text: t.n for t in announced if t.flags & FROZEN}
        self.tensors = [t for t in announced if not t.flags & FROZEN]
        sizes = [(bool(t.flags & STATISTIC), self._size(t)) for t in self.tensors]
        self.n_trained = sum(n for is_statistic, n in sizes if not is_statistic)
        self.n_params = sum(n for _, n in sizes)
        return {t.text: t.shape for t in self.tensors}

    def _size(self, t):
        n = 1
        for k in t.shape:
            n *= k
        return n

    def accept(self, flags=0, values=None, node=0, n_nodes=2, every=1, n_done=0, n_steps=0, **wrong):
        vector = -(-4 * self.n_params // 4096) * 4096
        file = os.memfd_create("vectors")
        os.ftruncate(file, 3 * vector)
        self.memory = mmap.mmap(file, 3 * vector)
        size = 4 * self.n_params
        floats = memoryview(self.memory)
        self.params, self.grads, self.combined = (floats[k * vector : k * vector + size].cast("f") for k in range(3))
        if values is not None:
            self.params[:] = array.array("f", values)
        plan = dict(node=node, n_nodes=n_nodes, n_params=self.n_params, n_trained=self.n_trained, grads_at=vector,
                    combined_at=2 * vector, bytes=3 * vector, seed=7, n_steps=n_steps, every=every, n_done=n_done)  # fmt: skip
        plan.update(wrong)
        self.send(ACCEPTED, flags=flags, body=PLAN.pack(*plan.values()) + bytes(TEXT.size - PLAN.size), file=file)
        os.close(file)

    def begin(self, flags=0, values=None, **plan):
        """Up to READY, whose batches it returns."""
        shapes = self.take_tensors()
        if values is None and not flags & DESCRIBES:
            values = [0] * self.n_params
        self.accept(flags, values, **plan)
        self.take(VALUES)
        self.shapes = shapes
        return self.take(READY).n

    def go(self, step, flags=TAKES_PART, reads=True, factor=1):
        self.send(GO, step=step, flags=flags | READS * reads, lr=factor)

    def go_for(self, node, step, n=0):
        """In a simulation."""
        body = struct.pack("=i", node)
        self.send(GO, step=step, n=n, flags=TAKES_PART | HAS_CHANGED | READS, body=body + bytes(TEXT.size - len(body)))

    def step(self, step, combined=None, flags=TAKES_PART, reads=True, factor=1):
        """A step of a rule that combines gradients; returns GRADIENT, with the gradient as `grads`."""
        self.go(step, flags, reads)
        r = self.take(GRADIENT)
        r.grads = self.grads.tolist()
        if combined is None:
            self.send(UPDATE, lr=factor)
        else:
            self.combined[:] = array.array("f", combined)
            self.send(UPDATE, lr=factor, flags=COMBINED)
        self.take(UPDATED)
        return r

    def local_step(self, step, flags=TAKES_PART, reads=True, factor=1):
        self.go(step, flags, reads, factor)
        return self.take(UPDATED)

    def store(self):
        self.send(STORE)
        self.take(STORED)

    def stop(self, why="as many steps as asked", flags=0):
        self.send(STOP, text=why, flags=flags)

    def answer(self, kind, data, **members):
        """SAVE, RESTORE or SHARDED with a file of these bytes; returns what the file has after the answer."""
        file = os.memfd_create("file")
        os.write(file, data)
        os.lseek(file, 0, os.SEEK_SET)
        self.send(kind, file=file, **members)
        result = self.take({SAVE: SAVED, RESTORE: RESTORED}[kind]) if kind != SHARDED else None
        data = os.pread(file, 1 << 24, 0)
        os.close(file)
        return data if result else None


def text_of(file):
    file.seek(0)
    text = file.read()
    file.close()
    return text


def alone(program, *arguments):
    """What it has printed; it must end well."""
    out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
    status = start(program, arguments, out, err, {}).wait(5 * WAIT)
    said, errors = text_of(out), text_of(err)
    assert status == 0, errors
    return said + errors
