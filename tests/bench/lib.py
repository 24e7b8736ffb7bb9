"""Common code of the benchmarks: psgd's agents, and PyTorch in one or more processes."""
import csv
import datetime
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import urllib.request
import time

HERE = pathlib.Path(__file__).resolve().parent


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    return [s.getsockname()[1] for s in held]


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


class Agents:
    """Agents of one build, two or n, each pinned to a processor of its own as long as there are enough."""

    def __init__(self, build, folder, n=2):
        self.build, self.folder = build, folder
        folder.mkdir()
        self.ports = ports = free_ports(n)
        cpus = sorted(os.sched_getaffinity(0))
        self.running = [
            subprocess.Popen([build / "agent", "--port", str(port), "--dir", folder / f"a{port}"], stderr=subprocess.DEVNULL,
                             preexec_fn=lambda cpu=cpus[i % len(cpus)]: os.sched_setaffinity(0, {cpu}))
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

    @staticmethod
    def rows(path):
        with open(path) as f:
            return [r for r in csv.DictReader(f) if r["node"] == "0"]

    @staticmethod
    def events(path, began):
        with open(path) as f:
            events = [e for e in map(json.loads, f) if e["node"] == 0]
        return [e | {"s": datetime.datetime.fromisoformat(e["at"].replace("Z", "+00:00")).timestamp() - began} for e in events]


def torch_python():
    for python in ("/usr/bin/python3", sys.executable):
        if subprocess.run([python, "-c", "import torch.distributed"], capture_output=True).returncode == 0:
            return python
    return None


def peer(python, world, *args):
    """The number that rank 0 of torch_peer.py prints; each process is pinned to a processor of its own. None: not installed,
    or it failed."""
    if not python:
        return None
    command = [python, str(HERE / "torch_peer.py"), *map(str, args)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if world > 1:
        env |= {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "GLOO_SOCKET_IFNAME": "lo"}
    cpus = sorted(os.sched_getaffinity(0))
    running = [subprocess.Popen(command, env={**env, "RANK": str(r)} if world > 1 else env, stdout=subprocess.PIPE, text=True,
                                preexec_fn=lambda cpu=cpus[r % len(cpus)]: os.sched_setaffinity(0, {cpu}))
               for r in range(world)]
    outs = [p.communicate()[0] for p in running]
    return float(outs[0]) if all(p.returncode == 0 for p in running) else None


def median(values):
    return statistics.median(values) if values and None not in values else None


def ratio(a, b):
    return a / b if a is not None and b else None


def cell(value, width, form):
    return f"{format(value, form) if value is not None else '-':>{width}}"
