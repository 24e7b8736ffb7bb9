#!/usr/bin/env python3
"""Runs small jobs without a pause under random faults, and measures whether agents grow.

    steady.py MINUTES REPORT     with BUILD, and PSGD_FAULT_SEED

Every job but one in four has a fault: a killed agent, runner, server or submitter, a program that stands still for a while, broken
connections (as root), a full disk (where a file system can be mounted). agent1 has the faults, agent0 and agent2 run on for the
whole time. Every 10 s memory, descriptors, threads and disk of these are measured; the slope of each, by least squares with its
95 % confidence interval, must not be above zero beyond noise. Every job must end, each failed node with a reason.
"""

import collections
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tool"))

import jobs  # noqa: E402
from check_history import TERMINAL  # noqa: E402
from cluster import Cluster, Hung, within  # noqa: E402

SAMPLE_S = 10
WARM_UP = 0.4  # of the samples, left out: until then lists of the last jobs have filled
SMALL_PER_HOUR = 0.01  # of the mean: a slope below this is none
DISK_MB = 160  # of agent1; more than an agent reserves
# Ended jobs that an agent keeps: few, so that it soon deletes as many as it adds.
KEEP = "8"


def slope(samples):
    """(slope per hour, half of its 95 % confidence interval, mean) of [(seconds, value)], by least squares."""
    n = len(samples)
    mean_t, mean_v = (sum(s[i] for s in samples) / n for i in (0, 1))
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    rise = sum((t - mean_t) * (v - mean_v) for t, v in samples) / spread
    rest = sum((v - mean_v - rise * (t - mean_t)) ** 2 for t, v in samples)
    error = math.sqrt(rest / max(n - 2, 1) / spread)
    return 3600 * rise, 3600 * 1.96 * error, mean_v


def disk_used(folder):
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                s = os.lstat(os.path.join(root, name))
                total += s.st_size // s.st_nlink
            except OSError:
                continue
    return total


class Sampler(threading.Thread):
    def __init__(self, agents):
        super().__init__(daemon=True)
        self.agents, self.began = agents, time.monotonic()
        self.samples = collections.defaultdict(list)
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.wait(SAMPLE_S):
            for a in self.agents:
                look = a.look()
                look["disk_bytes"] = disk_used(a.home)
                for what in ("rss_bytes", "fds", "threads", "disk_bytes"):
                    self.samples[a.name, what].append((time.monotonic() - self.began, look[what]))


class Steady:
    def __init__(self, build, seed):
        self.rng = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="psgd-soak-")
        self.cluster = Cluster(build, os.path.join(self.folder, "history"), jobs.N_WORKERS, jobs.N_SERVERS)
        for a in self.cluster.agents:
            a.options = ("--keep", KEEP)
        self.target = self.cluster.agents[1]
        self.outcomes = collections.Counter()
        self.problems = []
        self.faults = [self.no_fault, self.kill_agent, self.kill_runner, self.stop_agent, self.stop_runner, self.kill_submitter]
        os.mkdir(self.target.home)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=700", "tmpfs", self.target.home]
        self.has_disk = subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode == 0
        if self.has_disk:
            self.faults.append(self.fill_disk)
        if os.geteuid() == 0 and shutil.which("ss"):
            self.faults.append(self.break_connections)

    def open(self):
        jobs.write_inputs(self.cluster)
        self.cluster.start()

    def close(self):
        end = self.cluster.stop()
        self.problems += [f"process {p['pid']} is left: {p['command']}" for p in end["processes"]]
        if self.has_disk:
            subprocess.run(["umount", "-l", self.target.home], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def one_job(self, number):
        variant = self.rng.choice(jobs.VARIANTS)
        fault = self.no_fault if number % 4 == 0 else self.rng.choice(self.faults)
        out = "out"
        with open(self.cluster.path("out.txt"), "wb") as output:
            process = self.cluster.submit(*jobs.job_options(variant), "-o", out, output=output)
        try:
            time.sleep(self.rng.uniform(0, 0.6))
            fault(process)
            status = jobs.finish(process, f"job_submit, with {fault.__name__}")
            self.settle()
            self.count(fault, status)
        except Hung as e:
            self.problems.append(f"{fault.__name__}: {e}")
        self.clean()

    def settle(self):
        for a in self.cluster.agents:
            within(f"end of the jobs of {a.name}", lambda a=a: all(j["state"] in TERMINAL for j in a.jobs()), 120)

    def count(self, fault, status):
        newest = [a.jobs()[:1] for a in self.cluster.agents]
        for job in (j[0] for j in newest if j):
            if job["state"] == "failed" and not job["reason"]:
                self.problems.append(f"{fault.__name__}: {job['id']} has failed without a reason")
        self.outcomes[fault.__name__, self.cause(status)] += 1

    def cause(self, status):
        """The reason that job_submit gives for the job, else its exit status."""
        try:
            with open(self.cluster.path("out", "run.json"), encoding="utf-8") as f:
                run = json.load(f)
            return run["state"] if run["state"] == "succeeded" else f"{run['state']}: {run['reason']}"
        except (FileNotFoundError, KeyError):
            return f"ended with status {status}"

    def clean(self):
        for name in os.listdir(self.cluster.folder):
            if name == "out":
                shutil.rmtree(self.cluster.path(name))
        shutil.rmtree(self.cluster.path("state", "psgd", "jobs"), ignore_errors=True)
        for name in os.listdir(self.cluster.path("tmp")):
            shutil.rmtree(self.cluster.path("tmp", name))

    # The faults. Each is over when it returns.

    def no_fault(self, process):
        pass

    def kill_agent(self, process):
        self.target.kill()
        time.sleep(self.rng.uniform(0, 0.5))
        self.target.start()

    def runner(self):
        pids = self.rng.choice(self.cluster.agents).runners()
        return pids[0] if pids else None

    def signal_runner(self, *signals):
        pid = self.runner()
        for n, s in enumerate(signals if pid else ()):
            try:
                os.kill(pid, s)
            except ProcessLookupError:
                return
            time.sleep(self.rng.uniform(0, 1) if n + 1 < len(signals) else 0)

    def kill_runner(self, process):
        self.signal_runner(signal.SIGKILL)

    def stop_runner(self, process):
        self.signal_runner(signal.SIGSTOP, signal.SIGCONT)

    def stop_agent(self, process):
        self.target.process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0, 2))
        self.target.process.send_signal(signal.SIGCONT)

    def kill_submitter(self, process):
        process.kill()

    def fill_disk(self, process):
        ballast = os.path.join(self.target.home, "ballast")
        try:
            with open(ballast, "wb") as f:
                while True:
                    f.write(bytes(1 << 20))
        except OSError:
            pass
        try:
            within("end of job_submit", lambda: process.poll() is not None)
        finally:
            os.unlink(ballast)

    def break_connections(self, process):
        """Of the job's nodes with each other, and of job_submit with an agent."""
        ports = [j["data_port"] for a in self.cluster.agents for j in a.jobs()[:1] if j.get("data_port")]
        for port in (*ports, self.target.port):
            subprocess.run(["ss", "-K", "-t", "-H", f"sport = :{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def slopes_of(samples):
    """[{"of", "what", "slope_per_hour", "plus_minus", "mean", "grows"}]"""
    slopes = []
    for (agent, what), values in sorted(samples.items()):
        values = values[int(WARM_UP * len(values)) :]
        if len(values) < 3:
            continue
        rise, error, mean = slope(values)
        grows = rise > max(error, SMALL_PER_HOUR * mean)
        slopes.append({"of": agent, "what": what, "slope_per_hour": rise, "plus_minus": error, "mean": mean, "grows": grows})
    return slopes


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    minutes, path = float(sys.argv[1]), os.path.abspath(sys.argv[2])
    seed = int(os.environ.get("PSGD_FAULT_SEED", "1"))
    steady = Steady(os.environ.get("BUILD", "build"), seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sampler = Sampler([a for a in steady.cluster.agents if a is not steady.target])
    n = 0
    try:
        steady.open()
        sampler.start()
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            steady.one_job(n)
            n += 1
        sampler.is_over.set()
        sampler.join()
    finally:
        steady.close()
    slopes = slopes_of(sampler.samples)
    outcomes = [{"fault": f, "outcome": o, "jobs": k} for (f, o), k in sorted(steady.outcomes.items())]
    report = {"seed": seed, "minutes": minutes, "jobs": n, "outcomes": outcomes, "problems": steady.problems, "slopes": slopes}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
    print(f"{n} jobs in {minutes:g} minutes, {len(steady.problems)} problems")
    for o in outcomes:
        print(f"  {o['fault']:18} {o['outcome']:34} {o['jobs']:5}")
    for v in slopes:
        trend = "GROWS" if v["grows"] else "does not grow"
        print(f"  {v['of']} {v['what']:10} {v['mean']:14.1f} {v['slope_per_hour']:+14.1f} +- {v['plus_minus']:.1f} per hour: {trend}")
    for p in steady.problems:
        print(f"  PROBLEM: {p}")
    return 1 if steady.problems or any(v["grows"] for v in slopes) else 0


if __name__ == "__main__":
    sys.exit(main())
