#!/usr/bin/env python3
"""Kills or stops a training program, its runner or its monitor, and checks that the job ends, that a sentence says why, and that nothing
is left.

    strikes.py STRIKES REPORT     with BUILD; PSGD_FAULT_SEED to repeat the choices of an earlier run, from strike PSGD_FIRST_STRIKE

The program is tests/trainers/struck.c, and strikes itself before or after the n-th call by which it exchanges a record with psgd, each
of which has its turn; one strike of four is made from here, at a random time. Then the node must end with the reason and the sentence
that KINDS names, and the job with it; no process, temporary file or port is left, nor memory, which has no name and ends with the
processes and descriptors that have it; and the agents' folders pass the history checker. A job that has failed is sometimes resumed:
its weights must be those of a job without a strike. REPORT is a JSON file with the counts so far, written anew after each strike. Times
are counted, and are no violation.
"""

import collections
import datetime
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tool"))

import check_history  # noqa: E402
import jobs  # noqa: E402
from cluster import Cluster, Hung, within  # noqa: E402

EPOCHS, BATCHES = 2, 4  # of struck.c
ROUND_TIMEOUT_S = 3
STEADY = ("fds", "sockets", "threads")

# Who is struck, by which signal, and what its node, or the one that waits for it, then says. {node}: the struck node.
Kind = collections.namedtuple("Kind", "whom signal reason sentence within_s")
NAMES_PROGRAM = r"struck on node {node} computes|node {node} holds up the job.*training program computes"
KINDS = (
    Kind("program", signal.SIGKILL, "TrainerFailed", r"struck was killed by signal 9", 1),
    Kind("runner", signal.SIGKILL, "RunnerDied", r"job_runner was killed by signal 9", 1),
    Kind("monitor", signal.SIGKILL, "RunnerDied", r"this node's monitor process has ended", 1),
    Kind("program", signal.SIGSTOP, "RoundTimeout", NAMES_PROGRAM, ROUND_TIMEOUT_S + 1),
    Kind("runner", signal.SIGSTOP, "RoundTimeout", r"node {node}\b", ROUND_TIMEOUT_S + 1),
    # It is found when the runner asks it for something, as at the end of the job; after 180 s, if it has just asked for that end.
    Kind("monitor", signal.SIGSTOP, "RunnerDied", r"this node's monitor process has not answered", 190),
)
ORDER = (0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5)  # the last one takes a minute each time

Variant = collections.namedtuple("Variant", "name list options every n_servers goes_on")
VARIANTS = (
    Variant("allreduce", "workers.json", ("--codec", "allreduce"), 1, 0, False),
    Variant("fedavg", "workers.json", ("--codec", "fedavg", "--local-steps", "2", "--local-path", "off"), 2, 0, False),
    Variant("servers", "servers.json", ("--codec", "fedavg", "--local-steps", "2"), 2, 1, False),
    Variant(
        "continue",
        "workers.json",
        ("--codec", "fedavg", "--local-steps", "2", "--path", "gather", "--on-node-loss", "continue", "--min-nodes", "1"),
        2,
        0,
        True,
    ),
)

Control = collections.namedtuple("Control", "weights moments seconds")


def at(event):
    return datetime.datetime.fromisoformat(event["at"].replace("Z", "+00:00")).timestamp()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


class Loop:
    def __init__(self, build, seed, folder):
        self.seed = seed
        self.cluster = Cluster(build, os.path.join(folder, "history"), 2, 1)
        shutil.copy(os.path.join(build, "tests", "trainers", "struck"), self.cluster.path("struck"))
        self.counts = collections.Counter()
        self.slowest = collections.defaultdict(float)
        self.found = []
        self.control = {}

    # Jobs.

    def job(self, variant, out, *strike, options=()):
        """Starts a job; strike: struck's arguments."""
        run = ("--node_count", "2", "--epochs", str(EPOCHS), "--checkpoint-every", "1", "--record-every", "1")
        limits = ("--round-timeout", str(ROUND_TIMEOUT_S), "--no-queue", "--workers", variant.list)
        with open(self.cluster.path(out + ".txt"), "wb") as output:
            return self.cluster.submit(
                "--trainer", "struck", *run, *limits, *variant.options, *options, "-o", out, "--", *map(str, strike), output=output
            )

    def control_of(self, variant):
        """The weights, moments and seconds of a job without a strike."""
        if variant.name not in self.control:
            began = time.monotonic()
            status = jobs.finish(self.job(variant, "out", "/nowhere", "program", 0, 0), "a job without a strike")
            if status != 0:
                raise Hung(f"without a strike, job {variant.name} ended with status {status}: {self.text_of('out.txt')}")
            with open(self.cluster.path("out", "logs", "worker-0.log"), encoding="utf-8", errors="replace") as f:
                moments = int(re.search(r"^(\d+) moments$", f.read(), re.M).group(1))
            weights = check_history.weights_digest(self.cluster.path("out", "model", "final.safetensors"))
            self.control[variant.name] = Control(weights, moments, time.monotonic() - began)
            self.clean(self.cluster.agents)
        return self.control[variant.name]

    def text_of(self, name):
        with open(self.cluster.path(name), encoding="utf-8", errors="replace") as f:
            return " ".join(f.read().split())[-600:]

    # One strike.

    def strike_once(self, number):
        rng = random.Random(f"{self.seed}/{number}")
        kind = KINDS[ORDER[number % len(ORDER)]]
        variant = VARIANTS[number // len(ORDER) % len(VARIANTS)]
        control = self.control_of(variant)
        self.problems = []
        self.node = rng.randrange(2)
        target = self.cluster.agents[self.node]
        moment = -1 if rng.random() < 0.25 else number * 7 % control.moments
        after = rng.uniform(0, 1.2 * control.seconds)
        self.what = f"{number} ({variant.name}, {kind.whom}, signal {kind.signal:d}, node {self.node}, "
        self.what += f"moment {moment} of {control.moments})" if moment >= 0 else f"after {after:.3f} s)"
        process = self.job(variant, "out", target.home, kind.whom, int(kind.signal), moment)
        if moment < 0:
            self.strike_from_here(target, kind, process, after)
        self.await_end(process, target, kind, variant)
        if self.struck:
            self.counts["strikes"] += 1
            self.counts["at_moments"] += moment >= 0
            self.expect_reason(kind, may_be_done=moment < 0 or moment >= control.moments - 3)
        if rng.random() < 0.3:
            self.resume(variant, control)
        self.look(variant)

    def strike_from_here(self, target, kind, process, after):
        """At a random time of the job, if the process is there by then."""
        end = time.monotonic() + after
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.005)
        pid = next((j["pid"] for j in target.jobs() if j["pid"]), None)
        try:
            for whom in ("monitor", "program"):
                pid = pid if kind.whom == "runner" else children(pid)[0]
                if kind.whom == whom:
                    break
            if os.readlink(f"/proc/{pid}/cwd").startswith(target.home + "/"):
                os.kill(pid, kind.signal)
                with open(target.home + ".struck", "w", encoding="ascii") as f:
                    f.write(f"{time.time():.3f} {pid} -1\n")
        except (OSError, IndexError, TypeError):
            return

    def await_end(self, process, target, kind, variant):
        """Waits for the job. self.struck: the time of the strike and the steps done then (-1: not known); None: there was none."""
        # Up to its first exchange a program has minutes, after the last one no node waits for it, and a job that goes on without a node
        # waits for its end: a user who sees that nothing happens cancels the job.
        def may_wait(steps):
            is_waited_for = variant.every < steps < EPOCHS * BATCHES and not variant.goes_on
            return kind.signal == signal.SIGSTOP and kind.whom != "monitor" and not is_waited_for

        def ends_or_hangs():
            self.struck = self.struck or self.read_strike(target)
            if self.struck and may_wait(self.struck[1]) and not self.cancelled and time.time() > self.struck[0] + 8:
                self.cancelled = True
                self.counts["cancelled"] += 1
                self.cancel_jobs([target])
            return process.poll() is not None

        self.struck, self.cancelled = None, False
        try:
            within("end of job_submit", ends_or_hangs, 300)
        except Hung as e:
            self.problems.append(("hung", f"{e}: {self.text_of('out.txt')}"))
            process.kill()
            process.wait()
            self.cancel_jobs(self.cluster.agents)

    def read_strike(self, target):
        try:
            with open(target.home + ".struck", encoding="ascii") as f:
                text = f.read()
        except FileNotFoundError:
            return None
        return (float(text.split()[0]), int(text.split()[2])) if text.endswith("\n") else None

    def cancel_jobs(self, agents):
        for a in agents:
            for job in a.jobs():
                a.request("POST", f"/v1/jobs/{job['id']}/cancel")

    def expect_reason(self, kind, may_be_done):
        if self.cancelled or any(k == "hung" for k, _ in self.problems):
            return
        with open(self.cluster.path("out", "run.json"), encoding="utf-8") as f:
            run = json.load(f)
        sentence = re.compile(kind.sentence.format(node=self.node))
        said = [n for n in run["nodes"] if n["reason"] == kind.reason and sentence.search(n["message"])]
        if may_be_done and run["state"] == "succeeded":
            self.counts["done"] += 1
            return
        told = [n["message"] for n in said if n["message"] in self.text_of_job()]
        if not told or "\n" in told[0]:
            nodes = [(n["node"], n["state"], n["reason"], n["message"]) for n in run["nodes"]]
            self.problems.append(("outcome", f"no sentence of {kind.reason}, but {nodes}: {self.text_of('out.txt')}"))
            return
        ends = [o for _, j in self.journals() for _, o in j.events if o.get("event") == "end" and o.get("message") in told]
        seconds = min((at(o) for o in ends), default=0) - self.struck[0]
        name = f"{kind.whom} {kind.signal.name}"
        self.slowest[name] = max(self.slowest[name], seconds)
        self.counts["late"] += seconds > kind.within_s

    def text_of_job(self):
        with open(self.cluster.path("out.txt"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def journals(self):
        return check_history.History(self.cluster.folder).journals.items()

    def resume(self, variant, control):
        """As a user would, with a program that strikes no more, if all nodes have a checkpoint."""
        try:
            with open(self.cluster.path("out", "run.json"), encoding="utf-8") as f:
                state = json.load(f)["state"]
        except (OSError, ValueError):
            return
        kept = jobs.checkpoint_epochs(self.cluster, "out")
        if state != "failed" or len({name.replace("-previous", "") for name in kept}) < 2 + variant.n_servers:
            return  # no checkpoint yet of each node
        if max(kept.values()) >= EPOCHS:
            return  # nothing is left to do
        self.settle()
        self.counts["resumed"] += 1
        with open(self.cluster.path("out-resumed.txt"), "wb") as output:
            process = self.cluster.submit("--resume", "out", "--workers", variant.list, "-q", "-o", "out-resumed", output=output)
        status = jobs.finish(process, "job_submit --resume")
        results = check_history.Results(self.cluster.path("out-resumed"))
        if status != 0:
            self.problems.append(("checkpoint", f"resuming ended with status {status}: {self.text_of('out-resumed.txt')}"))
        elif check_history.weights_digest(self.cluster.path("out-resumed", "model", "final.safetensors")) != control.weights:
            self.problems.append(("checkpoint", f"resumed from step {results.run['facts'].get('start')}, the weights differ"))

    # What must hold after it.

    def settle(self):
        for a in self.cluster.agents:
            within(f"end of the jobs of {a.name}", lambda a=a: all(j["state"] in check_history.TERMINAL for j in a.jobs()), 120)
        try:
            within("end of the processes", lambda: not any(a.runners() for a in self.cluster.agents), 10)
        except Hung:
            self.problems.append(("orphan", f"processes without a job: {[a.runners() for a in self.cluster.agents]}"))

    def look(self, variant):
        self.settle()
        for a in self.cluster.agents:
            for job in os.listdir(os.path.join(a.home, "jobs")):
                if os.path.exists(os.path.join(a.home, "jobs", job, "trainer", "tmp")):
                    self.problems.append(("file", f"{a.name}: the temporary files of job {job} are left"))
        violations = check_history.check(self.cluster.folder)
        violations += self.clean(self.cluster.agents)
        texts = sorted({f"{k}: {text}" for k, text in self.problems} | {f"{v.invariant}: {v.path}:{v.line}: {v.text}" for v in violations})
        self.counts["violations"] += len(texts)
        if texts:
            self.found.append({"seed": self.seed, "strike": self.what, "violations": texts})

    def clean(self, agents):
        """Deletes the jobs. Then each agent has what it had before."""
        problems = []
        for a in agents:
            for job in a.jobs():
                a.request("DELETE", "/v1/jobs/" + job["id"])
            if os.listdir(os.path.join(a.home, "jobs")):
                problems.append(check_history.Violation("I9", a.name, 0, f"jobs are left: {os.listdir(os.path.join(a.home, 'jobs'))}"))
            try:
                within("as before", lambda a=a: all(a.look()[k] <= self.baseline[a.name][k] for k in STEADY), 10)
            except Hung:
                problems.append(check_history.Violation("I11", a.name, 0, f"had {self.baseline[a.name]}, has {a.look()}"))
        for name in os.listdir(self.cluster.folder):
            path = self.cluster.path(name)
            if name.startswith("out") and os.path.isdir(path):
                shutil.rmtree(path)
            elif name.startswith("out") or name.endswith("struck") and name != "struck":
                os.unlink(path)
        return problems

    def measure(self):
        time.sleep(0.5)  # connections of the start take a moment to close
        self.baseline = {a.name: a.look() for a in self.cluster.agents}

    def report(self, path):
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump({"seed": self.seed, **self.counts, "slowest_s": self.slowest, "found": self.found}, f, indent=1)
        os.rename(path + ".new", path)


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    strikes, path = int(sys.argv[1]), os.path.abspath(sys.argv[2])
    folder = tempfile.mkdtemp(prefix="psgd-soak-")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    loop = Loop(os.environ.get("BUILD", "build"), int(os.environ.get("PSGD_FAULT_SEED", "1")), folder)
    number = int(os.environ.get("PSGD_FIRST_STRIKE", "0"))
    try:
        loop.cluster.start()
        loop.measure()
        while loop.counts["strikes"] < strikes:
            loop.strike_once(number)
            number += 1
            loop.report(path)
        end = loop.cluster.stop()
        if end["processes"] or end["listening"]:
            loop.found.append({"seed": loop.seed, "strike": "end", "violations": [str(end)]})
        loop.report(path)
    finally:
        loop.cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if loop.found else 0


if __name__ == "__main__":
    sys.exit(main())
