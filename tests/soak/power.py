#!/usr/bin/env python3
"""Cuts the power at every moment of a job: an agent must start on the files that are left, with everything that it acknowledged.

    power.py BUILD FOLDER REPORT [--sample N]

Two agents, a worker's and a server's, each with its runner, log every change of their folder from their first start on: a job,
which is then deleted, a second one, and a drain. The power fails before each change of the folder and after the last one; of
what was not synced remains what LOSSES says, each in turn (disk.py). An agent is started on that, as after a boot, and stopped;
then its history is checked with what its answers before that moment had acknowledged. --sample takes N moments, chosen by
PSGD_FAULT_SEED. REPORT is JSON with the counts, and the violations; their folders are kept in FOLDER.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tool"))

import check_history  # noqa: E402
import disk  # noqa: E402
from cluster import Cluster, Hung, PreloadedCluster  # noqa: E402
from jobs import finish, write_inputs  # noqa: E402

JOB = ("--workers", "servers.json", "--codec", "fedavg", "--local-steps", "5", "--node_count", "1", "--epochs", "2",
       "--checkpoint-every", "1", "--dataset", "csv:test_file=test.csv", "--data", "train.csv", "--model", "model.json",
       "--batch_size", "32", "-q")
BOOT = "/proc/sys/kernel/random/boot_id"
ANOTHER_BOOT = b"00000000-0000-4000-8000-000000000000"
RESULTS = ("train.csv", "eval.csv", "comm.csv", "final.safetensors", "best.safetensors")
COMPLAINTS = ("is damaged", "is not restored")  # of an agent that has found something impossible


def logging(cluster, agent, hears):
    return {
        "LD_PRELOAD": os.path.join(cluster.build, "tests", "soak", "disk_log.so"),
        "PSGD_DISK_LOG": cluster.path(agent.name + ".disk"),
        "PSGD_DISK_ROOT": agent.home,
        **({"PSGD_DISK_TALK": "1"} if hears else {}),
    }


def run_job(cluster):
    with open(cluster.path("submit.txt"), "ab") as output:
        status = finish(cluster.submit(*JOB, output=output), "the job")
    if status != 0:
        raise Hung(f"without a fault the job ended with status {status}: see {cluster.path('submit.txt')}")


def record(cluster):
    """{agent's name: the records of its disk}"""
    write_inputs(cluster)
    for a in cluster.agents:
        a.start(logging(cluster, a, True))
        a.set_runner_point(logging(cluster, a, False))
    run_job(cluster)
    for a in cluster.agents:
        a.request("DELETE", "/v1/jobs/" + a.jobs()[0]["id"])
    run_job(cluster)
    for a in cluster.agents:
        a.jobs()
        a.request("POST", "/v1/agent/drain")
    cluster.stop()
    return {a.name: disk.read_log(cluster.path(a.name + ".disk")) for a in cluster.agents}


def file_promises(answer, seen):
    """(folder, names): the files that an answer promises to keep; None: any name."""
    if answer.method == "PUT" and "/packages/" in answer.path:
        return answer.path[len("/v1/") :].rpartition("/")[0], None
    if answer.method == "PUT" and answer.path.endswith("/packages") and not json.loads(answer.parts[0][1])["lacks"]:
        return answer.path[len("/v1/") :], None
    if answer.path == "/v1/agent/drain":
        return "", ("draining",)
    ended = [e["job"] for _, e in seen if e["seen"] == "event" and e["line"].get("state") == "succeeded"]
    return (f"jobs/{ended[0]}/run", RESULTS) if ended else None


def acknowledged(agent, records):
    """[(position, entry of seen.jsonl)], in the order of the log."""
    found, wanted = [], []
    for answer in disk.answers(records):
        seen = disk.told(agent, answer)
        found += seen
        promise = answer.status < 300 and file_promises(answer, seen)
        if promise:
            wanted.append((max([n for n, _ in seen], default=answer.position), *promise))
    now, applied = disk.Disk(), 0
    for position, folder, names in sorted(wanted, key=lambda w: w[0]):
        for r in records[applied:position]:
            now.apply(r)
        applied = position
        for name, what in now.find(folder).now.items():
            if isinstance(what, disk.File) and (names is None or name in names):
                job = folder.split("/")[1] if folder else None
                path = os.path.join(folder, name)
                entry = {"seen": "file", "agent": agent, "job": job, "path": path, "sha256": hashlib.sha256(what.now).hexdigest()}
                found.append((position, entry))
    return sorted(found, key=lambda f: f[0])


def write_folder(home, left):
    shutil.rmtree(home, ignore_errors=True)
    os.mkdir(home, 0o700)
    with open(BOOT, "rb") as f:
        boot = f.read().strip()
    for name, data in left.items():
        path = os.path.join(home, name)
        if data is None:
            os.mkdir(path, 0o700)
            continue
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(data.replace(boot, ANOTHER_BOOT) if name.endswith("journal.jsonl") else data)


def start_and_check(cluster, seen):
    """The violations in what is left, after an agent has run on it."""
    agent = cluster.agents[0]
    log = agent.home + ".log"
    open(log, "wb").close()
    with open(cluster.path("seen.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(entry) + "\n" for entry in seen)
    bad = []
    try:
        agent.start()
        for job in agent.jobs():
            agent.get("/v1/jobs/" + job["id"])
        agent.stop()
    except (Hung, OSError, ValueError) as e:
        bad.append(f"{type(e).__name__}: {e}")
    with open(log, encoding="utf-8", errors="replace") as f:
        said = f.read()
    bad += [line for line in said.split("\n") if any(c in line for c in COMPLAINTS) or (bad and line)]
    return bad + [f"{v.invariant}: {v.path}:{v.line}: {v.text}" for v in check_history.check(cluster.folder)]


class Replay:
    def __init__(self, build, folder, name, records):
        self.cluster = Cluster(build, os.path.join(folder, "replay-" + name), 1, 0)
        self.cluster.agents[0].name = name
        self.cluster.agents[0].home = self.cluster.path(name)
        self.name, self.records = name, records
        self.seen = acknowledged(name, records)
        self.deletions = [(a.heard, a.position, disk.job_of(a.path)) for a in disk.answers(records) if a.method == "DELETE"]
        self.tried = set()

    def moments(self):
        """How many records there are before each change, and all."""
        changes = [n for n, r in enumerate(self.records) if hasattr(disk.Disk, r.call)]
        return [*changes, len(self.records)]

    def fail_at(self, moment, now, report):
        """The power fails after `moment` records, of which `now` is the disk."""
        going = {job for asked, told, job in self.deletions if asked < moment <= told}  # it may be there or not
        seen = [entry for n, entry in self.seen if n < moment and entry.get("job") not in going]
        for loss in disk.LOSSES:
            left = now.left(loss)
            key = hash((len(seen), tuple(sorted((k, v or b"") for k, v in left.items()))))
            if key in self.tried:
                continue
            self.tried.add(key)
            write_folder(self.cluster.agents[0].home, left)
            bad = start_and_check(self.cluster, seen)
            report["starts"] += 1
            if bad:
                what = f"{self.name}-{moment}-{loss}"
                report["violations"][what] = [str(self.records[moment - 1])[:200], *bad]
                print(what, *report["violations"][what], sep="\n    ", flush=True)
                shutil.copytree(self.cluster.agents[0].home, os.path.join(os.path.dirname(self.cluster.folder), what), symlinks=True)

    def run(self, moments, report):
        now, applied = disk.Disk(), 0
        for moment in moments:
            for r in self.records[applied:moment]:
                now.apply(r)
            applied = moment
            report["moments"] += 1
            self.fail_at(moment, now, report)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("folder")
    p.add_argument("report")
    p.add_argument("--sample", type=int)
    a = p.parse_args()
    seed = int(os.environ.get("PSGD_FAULT_SEED", "1"))
    cluster = PreloadedCluster(a.build, os.path.join(a.folder, "record"), 1, 1)
    try:
        logs = record(cluster)
    finally:
        cluster.stop()
    report = {"seed": seed, "moments": 0, "starts": 0, "acknowledged": 0, "violations": {}}
    replays = [Replay(a.build, a.folder, name, records) for name, records in logs.items()]
    chosen = [(r, m) for r in replays for m in r.moments()]
    if a.sample and a.sample < len(chosen):
        chosen = random.Random(seed).sample(chosen, a.sample)
    for r in replays:
        report["acknowledged"] += len(r.seen)
        try:
            r.run(sorted(m for other, m in chosen if other is r), report)
        finally:
            r.cluster.stop()
    with open(a.report, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
    print(f"power: {report['moments']} moments, {report['starts']} starts, {report['acknowledged']} acknowledged, "
          f"{len(report['violations'])} with a violation")
    return 1 if report["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
