"""Common code of the benchmarks: psgd's agents, and PyTorch in one or more processes."""
import csv
import datetime
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import urllib.request
import time

HERE = pathlib.Path(__file__).resolve().parent


def free_ports(n):
    """Below those that the kernel gives to connections: one of these could have an agent's port before the agent binds it, or be
    a connection to itself, of somebody who asks whether the agent answers yet."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    held = []
    for port in random.sample(range(10000, end), end - 10000):
        s = socket.socket()
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            s.close()
            continue
        held.append(s)
        if len(held) == n:
            break
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def await_agent(process, port):
    """Waits until the agent answers: it listens before it has written the token that job_submit needs. Fails if it has ended, or
    after a minute."""
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{process.args[0]} does not answer on port {port}") from None
            time.sleep(0.02)


def to_processor(i):
    """For preexec_fn: pins the i-th of several processes to a processor of its own as long as there are enough."""
    cpus = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {cpus[i % len(cpus)]})


class Agents:
    """Agents of one build, two or n, each pinned to a processor of its own unless is_pinned is False. options(i): of the i-th."""

    def __init__(self, build, folder, n=2, is_pinned=True, options=lambda i: ()):
        self.build, self.folder = build, folder
        folder.mkdir()
        self.ports = ports = free_ports(n)
        self.running = [
            subprocess.Popen([build / "agent", "--port", str(port), "--dir", folder / f"a{port}", *options(i)],
                             stderr=subprocess.DEVNULL, preexec_fn=to_processor(i) if is_pinned else None)
            for i, port in enumerate(ports)]
        (folder / "worker.json").write_text(json.dumps({"Worker": [f"127.0.0.1:{p}" for p in ports]}))
        try:
            for a, port in zip(self.running, ports):
                await_agent(a, port)
        except (RuntimeError, OSError):
            self.stop()
            raise

    def stop(self):
        for a in self.running:
            a.terminate()
        for a in self.running:
            try:
                a.wait(timeout=60)
            except subprocess.TimeoutExpired:
                a.kill()
                a.wait()

    def submit(self, nodes, model, batch, descent, rate, epochs, *more):
        """Runs a job. Returns node 0's rows of train.csv and of eval.csv, the seconds from the command to its end, and the
        events, each with `s`, its seconds since the command."""
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            began, start = time.time(), time.perf_counter()
            subprocess.run([self.build / "job_submit", "-q", "--workers", self.folder / "worker.json", "--codec", "allreduce",
                            "--node_count", str(nodes), "--model", model, "--batch_size", str(batch), "--gradient-descent",
                            descent, "--learn_rate", str(rate), "--epochs", str(epochs), "-o", f"{out}/job", *more],
                           check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - start
            return (*(self.rows(f"{out}/job/records/{name}.csv") for name in ("train", "eval")), seconds,
                    self.events(f"{out}/job/events.jsonl", began))

    def train(self, nodes, program, arguments, *options, limit_s=None):
        """Runs a job of a training program, which is cancelled after limit_s. Returns node 0's metrics, {name: [value, ...]}."""
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            command = [self.build / "job_submit", "-q", "--workers", self.folder / "worker.json", "--trainer", program,
                       "--node_count", str(nodes), "-o", f"{out}/job", *map(str, options), "--", *map(str, arguments)]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as job:
                try:
                    status = job.wait(limit_s)
                except subprocess.TimeoutExpired:
                    job.terminate()
                    raise
            if status:
                raise subprocess.CalledProcessError(status, command)
            metrics = {}
            for r in self.rows(f"{out}/job/records/metrics.csv"):
                metrics.setdefault(r["metric"], []).append(float(r["value"]))
            return metrics

    @staticmethod
    def rows(path):
        with open(path) as f:
            return [r for r in csv.DictReader(f) if r["node"] == "0"]

    @staticmethod
    def events(path, began):
        with open(path) as f:
            events = [e for e in map(json.loads, f) if e["node"] == 0]
        return [e | {"s": datetime.datetime.fromisoformat(e["at"].replace("Z", "+00:00")).timestamp() - began} for e in events]


def python_with(module):
    """An interpreter that has the module: $PYTHON, the system's, or this one. None: there is none."""
    for python in filter(None, (os.environ.get("PYTHON"), "/usr/bin/python3", sys.executable)):
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    return None


def torch_python():
    return python_with("torch.distributed")


def mpirun_of(mpi):
    """The mpirun of openmpi or mpich; None: it is not installed."""
    found = subprocess.run([pathlib.Path(__file__).resolve().parent.parent / "lib/mpirun_of", mpi], capture_output=True, text=True)
    return found.stdout.strip() or None


def rendezvous(world):
    """The environments of so many processes of torch.distributed on this machine, as torchrun sets them; one process has none."""
    if world == 1:
        return [{}]
    common = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]),
              "GLOO_SOCKET_IFNAME": "lo"}
    return [common | {"RANK": str(rank)} for rank in range(world)]


def peer(python, world, *args, environment=()):
    """The number that rank 0 of torch_peer.py prints; each process is pinned to a processor of its own. None: not installed,
    or it failed."""
    if not python:
        return None
    command = [python, str(HERE / "torch_peer.py"), *map(str, args)]
    running = [subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1", **dict(environment), **env},
                                stdout=subprocess.PIPE, text=True, preexec_fn=to_processor(rank))
               for rank, env in enumerate(rendezvous(world))]
    outs = [p.communicate()[0] for p in running]
    return float(outs[0]) if all(p.returncode == 0 for p in running) else None


def median(values):
    return statistics.median(values) if values and None not in values else None


def ratio(a, b):
    return a / b if a is not None and b else None


def cell(value, width, form):
    return f"{format(value, form) if value is not None else '-':>{width}}"
