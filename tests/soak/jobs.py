"""The small jobs of the kill loops, and the weights, duration and named points of each without a fault."""

import collections
import json
import os
import time

from check_history import weights_digest
from cluster import Hung, within

EPOCHS = 30
N_WORKERS, N_SERVERS = 2, 1

MODEL = {
    "version": 1,
    "name": "small",
    "input": [3],
    "layers": [{"kind": "dense", "units": 16}, {"kind": "relu"}, {"kind": "dense", "units": 2}],
    "loss": "softmax_cross_entropy",
}

Variant = collections.namedtuple("Variant", "name list options n_servers")
VARIANTS = (
    Variant("allreduce", "workers.json", ("--codec", "plain"), 0),
    Variant("gather", "workers.json", ("--codec", "plain", "--path", "gather"), 0),
    Variant("servers", "servers.json", ("--codec", "fedavg", "--local-steps", "5"), N_SERVERS),
)

# Results of a run without a fault: points[program] = {point: how often one process came to it}.
Control = collections.namedtuple("Control", "weights duration training points")


def write_inputs(cluster):
    """A data set of 256 rows and a model: a job of a second whose work is mostly files and messages."""
    rows = [f"{i % 7},{i % 5},{i % 3},{int(i % 7 > 3)}\n" for i in range(256)]
    for name, part in (("train.csv", rows), ("test.csv", rows[:64])):
        with open(cluster.path(name), "w", encoding="ascii") as f:
            f.writelines(part)
    with open(cluster.path("model.json"), "w", encoding="ascii") as f:
        json.dump(MODEL, f)


def job_options(variant):
    data = ("--dataset", "csv:test_file=test.csv", "--data", "train.csv", "--model", "model.json", "--batch_size", "16")
    run = ("--node_count", str(N_WORKERS), "--epochs", str(EPOCHS), "--checkpoint-every", "1", "--no-queue", "-q")
    return ("--workers", variant.list, *variant.options, *data, *run)


def finish(process, what):
    """The exit status of a program; kills and reports one that hangs."""
    try:
        within(f"end of {what}", lambda: process.poll() is not None, 120)
    except Hung:
        process.kill()
        process.wait()
        raise
    return process.returncode


def run_job(cluster, variant, out, log=None):
    with open(cluster.path(out + ".txt"), "wb") as output:
        job = cluster.submit(*job_options(variant), "-o", out, log=log, output=output)
    status = finish(job, f"job {variant.name}")
    if status != 0:
        with open(cluster.path(out + ".txt"), encoding="utf-8", errors="replace") as f:
            raise Hung(f"without a fault, job {variant.name} ended with status {status}: {f.read()}")


def read_points(path):
    try:
        with open(path, encoding="utf-8") as f:
            return dict(collections.Counter(f.read().split("\n")[:-1]))
    except FileNotFoundError:
        return {}


def measure(cluster, variant):
    """Runs the job twice without a fault: once with all points logged, once for its time."""
    out = "out-control-" + variant.name
    points = {}
    if cluster.can_preload():
        logs = {name: cluster.path(f"points-{name}-{variant.name}") for name in ("agent", "runner", "server", "submitter")}
        first, last = cluster.agents[0], cluster.agents[-1]
        first.stop()
        first.start(log=logs["agent"])
        first.set_runner_point(cluster.preload(log=logs["runner"]))
        last.set_runner_point(cluster.preload(log=logs["server"]))
        run_job(cluster, variant, out + "-logged", log=logs["submitter"])
        first.stop()
        first.start()
        for agent in (first, last):
            agent.set_runner_point({})
        points = {name: read_points(log) for name, log in logs.items()}
    began = time.monotonic()
    run_job(cluster, variant, out)
    duration = time.monotonic() - began
    with open(cluster.path(out, "run.json"), encoding="utf-8") as f:
        training = max(n["elapsed_s"] for n in json.load(f)["nodes"])
    return Control(weights_digest(cluster.path(out, "model", "final.safetensors")), duration, training, points)


def checkpoint_epochs(cluster, out):
    """{file: epoch} of the checkpoints in a result folder."""
    found = {}
    folder = cluster.path(out, "checkpoints")
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name), "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        found[name] = int(header["__metadata__"]["epoch"])
    return found
