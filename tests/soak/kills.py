#!/usr/bin/env python3
"""Kills one program repeatedly, and checks after each kill that nothing acknowledged is lost, and no file or process left.

    kills.py ROLE KILLS REPORT     with BUILD; PSGD_FAULT_SEED to repeat the choices of an earlier run, from kill PSGD_FIRST_KILL;
                                   PSGD_POINTS="POINT ..." for these points, one after the other

ROLE is agent, runner, starting (a runner before its first steps), server or submitter. Half of the kills are at a random time, half at a
named point (fail_point.c), chosen among all that such a program passes in a job without a fault. After each kill the agent is
started again, or the job is resumed, waited for or fetched, as a user would do; then the history checker reads all folders, the job is
deleted, and the next job must be accepted at once. REPORT is a JSON file with the counts so far, written anew after each kill; histories with a violation are kept
beside it.
"""

import collections
import json
import os
import random
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
from observer import BEFORE_START, Observer  # noqa: E402

TERMINAL = check_history.TERMINAL
BUSY = 4  # exit status of job_submit: an agent refused
ROLES = ("agent", "runner", "starting", "server", "submitter")
STEADY = ("fds", "sockets", "threads")
KEPT_MAX = 20


class Plan:
    """When to kill: at `point`, or `after` seconds, if that is None."""

    def __init__(self, rng, seconds, points):
        self.point, self.after = None, rng.uniform(0, seconds)
        if points and rng.random() < 0.5:
            name = rng.choice(sorted(points))
            moments = ("before", "half", "after") if name.split("/")[0] in ("write", "writev", "pwrite", "send") else ("before", "after")
            self.point = f"{name}@{rng.choice(moments)}:{rng.randint(1, points[name])}"

    def __str__(self):
        return self.point or f"after {self.after:.3f} s"


class Loop:
    def __init__(self, role, build, seed):
        self.role, self.seed = role, seed
        self.points = os.environ.get("PSGD_POINTS", "").split()
        self.folder = tempfile.mkdtemp(prefix="psgd-soak-")
        self.cluster = Cluster(build, os.path.join(self.folder, "history"), jobs.N_WORKERS, jobs.N_SERVERS)
        self.counts = collections.Counter()
        self.found = []
        self.slowest = 0.0
        self.baseline = {}

    def open(self):
        jobs.write_inputs(self.cluster)
        self.cluster.start()
        self.variants = [v for v in jobs.VARIANTS if self.role != "server" or v.n_servers]
        self.control = {}

    def control_of(self, variant):
        if variant not in self.control:
            self.control[variant] = jobs.measure(self.cluster, variant)
            self.forget_jobs()
            for name in os.listdir(self.cluster.folder):
                if name.startswith("out"):
                    self.remove(name)
        return self.control[variant]

    def close(self):
        end = self.cluster.stop()
        self.write_seen([end])
        self.note_violations("end", check_history.check(self.cluster.folder))
        shutil.rmtree(self.folder)

    def remove(self, name):
        path = self.cluster.path(name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def write_seen(self, entries):
        with open(self.cluster.path("seen.jsonl"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(o) + "\n" for o in entries)

    # One kill.

    def kill_once(self, number):
        self.rng = random.Random(f"{self.seed}/{self.role}/{number}")
        variant = self.rng.choice(self.variants)
        control = self.control_of(variant)
        # The submitter and an agent are killed at any time of a job, a runner while it trains.
        seconds = control.training if self.role in ("runner", "server") else control.duration
        self.plan = Plan(self.rng, 1.1 * seconds, control.points.get(self.role))
        if self.points:
            self.plan.point = self.points[number % len(self.points)]
        self.seen, self.problems, self.outs = [], [], []
        self.look_before()
        observers = [Observer(a) for a in self.cluster.agents]
        for o in observers:
            o.start()
        try:
            killed = getattr(self, "kill_" + self.role)(variant)
            self.settle()
            self.fetch_rest(variant)
        except Hung as e:
            killed = True
            self.problems.append(("hung", str(e)))
        finally:
            for o in observers:
                o.end()
                self.seen += o.seen
        self.counts["kills"] += killed
        self.counts["at_points"] += bool(killed and self.plan.point)
        self.count_acknowledged()
        for out in self.outs:
            self.expect_weights(out, control)
        self.write_seen(self.seen)
        self.sweep()
        violations = check_history.check(self.cluster.folder)
        violations += self.forget_and_look()
        violations += [check_history.Violation(kind, "", 0, text) for kind, text in self.problems]
        self.note_violations(f"{number} ({variant.name}, {self.plan})", violations)
        self.clean()

    def submit(self, variant, *options, out="out", **how):
        self.outs.append(out)
        with open(self.cluster.path(out + ".txt"), "wb") as output:
            return self.cluster.submit(*jobs.job_options(variant), *options, "-o", out, output=output, **how)

    def finish(self, process, what):
        status = jobs.finish(process, what)
        if status == BUSY:
            self.problems.append(("slot", f"{what}: an agent refused, although the previous job has ended"))
        return status

    def wait_for(self, process, is_dead):
        """Until the time of the plan, the death of the target, or the end of job_submit."""
        end = time.monotonic() + (600 if self.plan.point else self.plan.after)
        while time.monotonic() < end and process.poll() is None and not is_dead():
            time.sleep(0.002)

    def kill_agent(self, variant):
        """The agent is started again; a job that runs on all nodes goes on."""
        target = self.rng.choice(self.agents_of(variant))
        if self.plan.point:
            target.kill()
            target.start(self.plan.point)
            if target.has_ended():
                target.start()
        process = self.submit(variant, "--agent-timeout", "30")
        self.wait_for(process, target.has_ended)
        target.kill()
        runs = self.runs_everywhere(variant)
        time.sleep(self.rng.choice((0, self.rng.uniform(0, 0.3))))
        target.start()
        status = self.finish(process, "job_submit")
        if runs and status != 0:
            self.problems.append(("outcome", f"the job ran on all nodes, {target.name} was killed, and it ended with {status}"))
        self.counts["went_on"] += bool(runs and status == 0)
        return True

    def kill_runner(self, variant, targets=None):
        """The job fails, its results are fetched; it is resumed from its checkpoints and ends with the same bits."""
        target = self.rng.choice(targets or self.cluster.agents[: jobs.N_WORKERS])
        pid = None
        if self.plan.point:
            target.set_runner_point(self.cluster.preload(self.plan.point))
        process = self.submit(variant)
        if not self.plan.point:
            pid = self.wait_for_runner(target, process)
            self.wait_for(process, lambda: False)
        killed = self.kill_pid(pid, target) if pid else bool(self.plan.point)
        status = self.finish(process, "job_submit")
        target.set_runner_point({})
        self.resume(variant)
        return killed and (pid is not None or status != 0)

    def kill_starting(self, variant):
        """A runner that loads, is ready, or is told to start: the job fails with the reason of one that is killed while it trains."""
        target = self.rng.choice(self.agents_of(variant))
        process = self.submit(variant)
        pid = self.wait_for_runner(target, process, ("preparing", "ready", "running"))
        time.sleep(self.rng.uniform(0, self.rng.choice((0.05, 0.3))))
        killed = pid and self.kill_pid(pid, target)
        status = self.finish(process, "job_submit")
        if killed and status != 0:
            self.expect_cause(target, status)
        return killed and status != 0

    def expect_cause(self, target, status):
        try:
            with open(self.cluster.path("out", "run.json"), encoding="utf-8") as f:
                node = next(n for n in json.load(f)["nodes"] if n["address"].endswith(f":{target.port}"))
            what = node["state"], node["reason"]
            with open(self.cluster.path("out.txt"), encoding="utf-8", errors="replace") as f:
                named = f"failed: node({node['node']}), RunnerDied" in f.read()
        except (OSError, ValueError, KeyError, StopIteration) as e:
            what, named = repr(e), False
        if status != 1 or what != ("failed", "RunnerDied") or not named:
            self.problems.append(("outcome", f"a runner was killed before its first steps: status {status}, {what}: {self.text_of('out.txt')}"))

    def kill_server(self, variant):
        return self.kill_runner(variant, self.cluster.agents[jobs.N_WORKERS :])

    def wait_for_runner(self, agent, process, states=("running",)):
        """The pid of the agent's runner once its job is in one of these states; None if the job has ended before."""
        while process.poll() is None:
            newest = next(iter(agent.jobs()), None)
            if newest and newest["state"] in states and newest["pid"]:
                return newest["pid"]
            time.sleep(0.005)
        return None

    def kill_pid(self, pid, agent):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(agent.home + "/"):
                os.kill(pid, signal.SIGKILL)
                return True
        except OSError:
            pass
        return False

    def resume(self, variant):
        epochs = jobs.checkpoint_epochs(self.cluster, "out")
        nodes = {name.removesuffix(".safetensors").removesuffix("-previous") for name in epochs}
        if len(nodes) < jobs.N_WORKERS + variant.n_servers or max(epochs.values()) >= jobs.EPOCHS:
            return  # no checkpoint yet, or nothing left to do
        self.settle()
        self.counts["checkpoints"] += 1
        with open(self.cluster.path("out-resumed.txt"), "wb") as output:
            process = self.cluster.submit(
                "--resume", "out", "--workers", variant.list, "--no-queue", "-q", "-o", "out-resumed", output=output
            )
        self.outs.append("out-resumed")
        status = self.finish(process, "job_submit --resume")
        if status != 0:
            text = self.text_of("out-resumed.txt")
            self.problems.append(("checkpoint", f"resuming from epochs {epochs} ended with status {status}: {text}"))

    def kill_submitter(self, variant):
        """A job that runs is waited for, any other gives its agents free."""
        process = self.submit(variant, point=self.plan.point)
        self.wait_for(process, lambda: False)
        process.kill()
        status = process.wait()
        return status == -signal.SIGKILL

    # What a user does then, and what must hold.

    def agents_of(self, variant):
        return self.cluster.agents[: jobs.N_WORKERS + variant.n_servers]

    def text_of(self, name):
        with open(self.cluster.path(name), encoding="utf-8", errors="replace") as f:
            return " ".join(f.read().split())[-400:]

    def journals(self):
        return check_history.History(self.cluster.folder).journals.values()

    def runs_everywhere(self, variant):
        """Every node of a job is in the state running, by the journals."""
        running = [j for j in self.journals() if j.states() and j.states()[-1][1]["state"] == "running"]
        return len(running) == jobs.N_WORKERS + variant.n_servers

    def reservations(self):
        """[(agent, job)] of the jobs that have not started."""
        return [(a, j["id"]) for a in self.cluster.agents for j in a.jobs() if j["state"] in BEFORE_START]

    def end_reservations(self):
        """A reservation ends soon after its submitter, and after a restart of its agent within 30 s, in which the submitter may return.
        Most of the latter are cancelled here, as a user in a hurry would."""
        restarted = self.role == "agent"
        if not restarted or self.rng.random() < 0.05:
            try:
                within("end of the reservations", lambda: not self.reservations(), 60)
            except Hung as e:
                self.problems.append(("slot", str(e)))
        for a, job in self.reservations():
            self.counts["reservations"] += 1
            a.request("POST", f"/v1/jobs/{job}/cancel")

    def settle(self):
        """Waits until no agent has a job that has not ended, and no runner."""
        self.end_reservations()
        began = time.monotonic()
        for a in self.cluster.agents:
            within(f"end of the jobs of {a.name}", lambda a=a: all(j["state"] in TERMINAL for j in a.jobs()), 120)
        self.slowest = max(self.slowest, time.monotonic() - began)
        try:
            within("end of the runners", lambda: not any(a.runners() for a in self.cluster.agents), 10)
        except Hung:
            left = {a.name: a.runners() for a in self.cluster.agents if a.runners()}
            self.problems.append(("orphan", f"runners without a job: {left}"))

    def fetch_rest(self, variant):
        """Fetches a job that has succeeded and of which job_submit has not brought all results."""
        ended = [j for j in self.journals() if (j.end() or {}).get("state") == "succeeded"]
        complete = {r.run.get("id") for r in map(check_history.Results, map(self.cluster.path, self.outs)) if r.is_final()}
        for job in {j.job for j in ended} - complete:
            known = os.path.exists(self.cluster.path("state", "psgd", "jobs", job + ".json"))
            if sum(j.job == job for j in ended) < jobs.N_WORKERS + variant.n_servers or not known:
                continue
            for verb, out in (("wait", "out-waited"), ("fetch", "out-fetched")):
                self.outs.append(out)
                with open(self.cluster.path(out + ".txt"), "wb") as output:
                    process = self.cluster.submit(verb, job, "-q", "-o", out, output=output)
                status = jobs.finish(process, f"job_submit {verb}")
                if status != 0:
                    self.problems.append(("outcome", f"{verb} of a job that has succeeded ended with {status}: {self.text_of(out + '.txt')}"))

    def sweep(self):
        """A killed job_submit leaves its folder for temporary files; the next one removes it."""
        if self.role == "submitter" and os.listdir(self.cluster.path("tmp")):
            variant = self.variants[0]
            options = [o for o in jobs.job_options(variant) if o not in ("--no-queue", "-q")]
            jobs.finish(self.cluster.submit("validate", *options), "job_submit validate")

    def expect_weights(self, out, control):
        results = check_history.Results(self.cluster.path(out))
        if results.is_final() and results.run["state"] == "succeeded":
            self.counts["compared"] += 1
            self.seen.append({"seen": "weights", "job": results.run["id"], "out": out, "sha256": control.weights})

    def count_acknowledged(self):
        rows = collections.Counter()
        for o in self.seen:
            if o["seen"] == "rows":
                rows[o["agent"], o["job"]] = max(rows[o["agent"], o["job"]], o["rows"])
        self.counts["rows"] += sum(rows.values())
        self.counts["events"] += sum(o["seen"] == "event" for o in self.seen)

    def forget_jobs(self):
        forgotten = []
        for a in self.cluster.agents:
            for job in a.jobs():
                status, _ = a.request("DELETE", "/v1/jobs/" + job["id"])
                if status == 204:
                    forgotten.append({"seen": "forgotten", "agent": a.name, "job": job["id"]})
        return forgotten

    def forget_and_look(self):
        """Deletes the jobs. Then each agent has what it had before its first one."""
        try:
            forgotten = self.forget_jobs()
            looks = [self.look(a) for a in self.cluster.agents]
        except (OSError, Hung) as e:
            return [check_history.Violation("hung", "", 0, f"an agent does not answer: {e}")]
        self.write_seen(forgotten + [o for pair in looks for o in pair])
        return [v for v in check_history.check(self.cluster.folder) if v.invariant in ("I3", "I9", "I11", "I12")]

    def look_before(self):
        """What each agent has without a job, once the connections of the last one are closed."""
        for a in self.cluster.agents:
            key = a.name, a.process.pid
            before = None
            while key not in self.baseline:
                now = a.look()
                if before and all(now[k] == before[k] for k in STEADY):
                    self.baseline[key] = now
                before = now
                time.sleep(0.03)

    def look(self, agent):
        """(what the agent had before its first job, what it has). Connections take a moment to close."""
        first = self.baseline.get((agent.name, agent.process.pid)) or agent.look()

        def is_back():
            now = agent.look()
            return all(now[k] <= first[k] for k in STEADY) and now

        try:
            return first, within("as before", is_back, 10)
        except Hung:
            return first, agent.look()

    def note_violations(self, what, violations):
        unique = sorted(set(violations))
        for v in unique:
            self.counts[category(v)] += 1
        if not unique:
            return
        texts = [f"{v.invariant}: {v.path}{':' + str(v.line) if v.line else ''}: {v.text}" for v in unique]
        self.found.append({"role": self.role, "seed": self.seed, "kill": what, "violations": texts})
        if len(self.found) <= KEPT_MAX:
            kept = f"{REPORT}-{len(self.found)}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self.cluster.folder, kept, symlinks=True, ignore=shutil.ignore_patterns("bin", "blobs", "token"))

    def clean(self):
        for name in os.listdir(self.cluster.folder):
            if name.startswith("out") or name == "seen.jsonl":
                self.remove(name)
        for folder in ("tmp", "state/psgd/jobs"):
            for name in os.listdir(self.cluster.path(folder)) if os.path.isdir(self.cluster.path(folder)) else []:
                self.remove(os.path.join(folder, name))
        for a in self.cluster.agents:  # what a violation has left must not be counted again
            for job in os.listdir(os.path.join(a.home, "jobs")):
                if not any(job == j["id"] for j in a.jobs()):
                    shutil.rmtree(os.path.join(a.home, "jobs", job))

    def report(self):
        with open(REPORT + ".new", "w", encoding="utf-8") as f:
            json.dump({"role": self.role, "seed": self.seed, "slowest_s": self.slowest, **self.counts, "found": self.found}, f, indent=1)
        os.rename(REPORT + ".new", REPORT)


def category(v):
    """The column of the closing table in which a violation counts."""
    if v.invariant == "I1":
        return "lost"
    if v.invariant == "checkpoint":
        return "unloadable"
    if v.invariant in ("orphan", "I3") or (v.invariant == "I11" and "process" in v.text):
        return "orphans"
    if v.invariant == "I9" or (v.invariant == "I11" and v.path.startswith("tmp/")):
        return "files"
    if v.invariant == "I11":
        return "ports"
    if v.invariant == "slot":
        return "slots"
    return "other"


def main():
    global REPORT
    if len(sys.argv) != 4 or sys.argv[1] not in ROLES:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    role, kills, REPORT = sys.argv[1], int(sys.argv[2]), os.path.abspath(sys.argv[3])
    loop = Loop(role, os.environ.get("BUILD", "build"), int(os.environ.get("PSGD_FAULT_SEED", "1")))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        loop.open()
        number = int(os.environ.get("PSGD_FIRST_KILL", "0"))
        while loop.counts["kills"] < kills:
            loop.kill_once(number)
            number += 1
            loop.report()
        loop.close()
        loop.report()
    finally:
        loop.cluster.stop()
        shutil.rmtree(loop.folder, ignore_errors=True)
    return 1 if loop.found else 0


if __name__ == "__main__":
    sys.exit(main())
