#!/usr/bin/env python3
"""Lets the n-th call of a function fail, in one program of a three-node job, for all n, and checks the files after each.

    faults.py BUILD FOLDER REPORT [--roles agent,runner,submitter] [--calls stacks,write,...] [--every K] [--seconds S]

Each case is a job of two workers and a server, in which call n of agent 0, of its runner or of job_submit fails once, or from
then on. Afterwards the agent must answer the next request, no program may hang, and an agent that is started again must have everything
that was acknowledged (tests/tool/check_history.py). malloc is called some 30,000 times: `stacks` is one call from each chain of
callers, `malloc` all of them. --every K takes each K-th n, --seconds ends after that time and prints the number of cases left
out. REPORT is JSON: per role, call and mode the cases, and the violations.
"""

import argparse
import errno
import json
import os
import random
import shutil
import signal
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "tool"))

import check_history  # noqa: E402
from cluster import Hung, PreloadedCluster, within  # noqa: E402
from jobs import write_inputs  # noqa: E402

CALLS = ("malloc", "write", "sync", "rename", "open", "accept", "fork", "pipe", "connect")
ERRNOS = {
    "malloc": (errno.ENOMEM,),
    "write": (errno.EIO, errno.ENOSPC),
    "sync": (errno.EIO,),
    "rename": (errno.EIO, errno.ENOSPC),
    "open": (errno.EMFILE, errno.ENOSPC),
    "accept": (errno.EMFILE, errno.ECONNABORTED),
    "fork": (errno.EAGAIN,),
    "pipe": (errno.EMFILE,),
    "connect": (errno.ECONNREFUSED,),
    "stacks": (errno.ENOMEM,),
}
JOB = ("--workers", "servers.json", "--codec", "fedavg", "--local-steps", "5", "--node_count", "2", "--epochs", "2",
       "--checkpoint-every", "1", "--dataset", "csv:test_file=test.csv", "--data", "train.csv", "--model", "model.json",
       "--batch_size", "16", "--no-queue", "-q", "--agent-timeout", "3", "--round-timeout", "8")
TERMINAL = ("succeeded", "failed", "cancelled")
LIBRARIES_END_BY = ("GNU MP: Cannot allocate memory", "load.c:")  # GMP's and jansson's own abort without memory


def ended_by_library(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return any(text in line for line in f for text in LIBRARIES_END_BY)


def plan(cluster, call=None, n=0, error=0, mode="once"):
    """n: the number of the call; of stacks, the chain's hash, of which the first call fails."""
    wanted = f"malloc:1:{error}:{mode}:{n:x}" if call == "stacks" else f"{call}:{n}:{error}:{mode}"
    planned = {"PSGD_FAIL_CALL": wanted} if call else {"PSGD_FAIL_COUNT": cluster.path("counts")}
    return {"LD_PRELOAD": os.path.join(cluster.build, "tests", "soak", "fail_call.so"), **planned}


def counts(cluster):
    """{call: n}, and the hashes of malloc's chains of callers: struct found of fail_call.c."""
    with open(cluster.path("counts"), "rb") as f:
        numbers = [n for n, in struct.iter_unpack("=Q", f.read())]
    n = len(CALLS)
    return dict(zip(CALLS, numbers)), sorted(set(numbers[n + 1:n + 1 + numbers[n]]))


def remember(cluster, seen):
    with open(cluster.path("seen.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps(seen) + "\n")


def state_of(agent, job):
    """What it answers of the job; None: nothing that can be read."""
    try:
        status, body = agent.request("GET", "/v1/jobs/" + job, 10)
        return json.loads(body) if status == 200 else None
    except (OSError, ValueError):
        return None


def end_of_submit(job, mode):
    """A fault that stays may keep a job from ending, as its end cannot be written: then Ctrl-C ends job_submit."""
    if mode == "on":
        try:
            within("end of job_submit", lambda: job.poll() is not None, 30)
            return
        except Hung:
            job.send_signal(signal.SIGINT)
    within("end of job_submit", lambda: job.poll() is not None, 120)


def run_case(cluster, role, point, mode, what):
    """One job with a fault; returns the violations."""
    first = cluster.agents[0]
    bad = []
    out = "out-case"
    if role == "agent":
        first.stop()
        first.spawn(point)
        try:
            within("start of the agent", lambda: first.answers() or first.has_ended(), 60 if mode == "once" else 5)
        except Hung:
            if mode == "once":  # without memory it answers nobody
                raise
    elif role == "runner":
        first.set_runner_point(point)
    with open(cluster.path("case.txt"), "wb") as output:
        job = cluster.submit(*JOB, "-o", out, point=point if role == "submitter" else None, output=output)
    try:
        end_of_submit(job, mode)
        if job.returncode < 0 and not ended_by_library(cluster.path("case.txt")):
            bad.append(f"job_submit died of signal {-job.returncode}")
    except Hung as e:
        job.kill()
        job.wait()
        bad.append(str(e))
    if not first.has_ended():
        # A fault may cost the request in which it occurs, and one that stays any of them; the agent lives.
        try:
            within("answer", first.answers, 20 if mode == "once" else 1)
        except Hung as e:
            if mode == "once":
                bad.append(str(e))
        if not first.has_ended():
            for name in os.listdir(os.path.join(first.home, "jobs")):
                view = state_of(first, name)
                if view and view["state"] != "pending":  # of which the journal has the reservation, and no event
                    remember(cluster, {"seen": "state", "agent": first.name, "job": name, "state": view["state"],
                                       "attempt": view["attempt"]})
    if first.has_ended() and first.process.returncode < 0 and not ended_by_library(cluster.path(first.name + ".log")):
        bad.append(f"the agent died of signal {-first.process.returncode}")
    if role == "agent":
        if not first.has_ended():
            first.stop()
        first.start()
    elif role == "submitter" and mode == "on":
        # Without memory it cannot list its temporary folder in order to remove it; the next one does.
        cluster.submit("codecs", "show", "plain").wait()
    first.set_runner_point({})
    for agent in cluster.agents:
        try:
            within(f"idle {agent.name}", lambda a=agent: all(j["state"] in TERMINAL for j in a.jobs()), 150)
        except (Hung, OSError) as e:
            bad.append(f"{e}: {[(j['state'], j['reason'], j['message']) for j in agent.jobs()]}")
    bad += [f"{v.invariant}: {v.path}:{v.line}: {v.text}" for v in check_history.check(cluster.folder)]
    for agent in cluster.agents:
        for name in [j["id"] for j in agent.jobs() if j["state"] in TERMINAL]:
            agent.request("DELETE", "/v1/jobs/" + name)
    if bad:
        keep = cluster.path("violation-" + what)
        for name in ("case.txt", first.name + ".log"):
            with open(cluster.path(name), "rb") as f, open(keep + "-" + name, "wb") as to:
                to.write(f.read()[-20000:])
    shutil.rmtree(cluster.path(out), ignore_errors=True)
    for name in ("seen.jsonl", first.name + ".log"):
        open(cluster.path(name), "wb").close()
    return bad


def count_calls(cluster, role):
    """counts() of a run without a fault."""
    first, point = cluster.agents[0], plan(cluster)
    if role == "agent":
        first.stop()
        first.start(point)
    elif role == "runner":
        first.set_runner_point(point)
    job = cluster.submit(*JOB, "-o", "out-count", point=point if role == "submitter" else None)
    within("end of the job", lambda: job.poll() is not None, 120)
    if job.returncode != 0:
        raise Hung(f"without a fault the job ended with status {job.returncode}")
    first.set_runner_point({})
    if role == "agent":
        first.stop()
        first.start()
    for agent in cluster.agents:
        for name in [j["id"] for j in agent.jobs()]:
            agent.request("DELETE", "/v1/jobs/" + name)
    shutil.rmtree(cluster.path("out-count"))
    found = counts(cluster)
    os.unlink(cluster.path("counts"))
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("folder")
    p.add_argument("report")
    p.add_argument("--roles", default="agent,runner,submitter")
    p.add_argument("--calls", default=",".join(("stacks",) + CALLS[1:]))
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--seconds", type=float, default=1e9)
    a = p.parse_args()
    seed = int(os.environ.get("PSGD_FAULT_SEED", "1"))
    draw = random.Random(seed)
    cluster = PreloadedCluster(a.build, a.folder, 2, 1)
    report = {"seed": seed, "calls": {}, "cases": 0, "left_out": 0, "violations": {}}
    write_inputs(cluster)
    cluster.start()
    cases = []
    for role in a.roles.split(","):
        found, stacks = count_calls(cluster, role)
        report["calls"][role] = {**found, "stacks": len(stacks)}
        for call in a.calls.split(","):
            points = stacks if call == "stacks" else range(1, found[call] + 1)
            for n in points[draw.randrange(a.every)::a.every]:
                cases += [(role, call, n, draw.choice(ERRNOS[call]), mode) for mode in ("once", "on")]
    if a.seconds < 1e9:
        draw.shuffle(cases)
    end = time.monotonic() + a.seconds
    for role, call, n, error, mode in cases:
        if time.monotonic() > end:
            report["left_out"] += 1
            continue
        what = f"{role}-{call}-{n:{'x' if call == 'stacks' else 'd'}}-{errno.errorcode[error]}-{mode}"
        try:
            bad = run_case(cluster, role, plan(cluster, call, n, error, mode), mode, what)
        except Hung as e:
            bad = [str(e)]
        report["cases"] += 1
        if bad:
            report["violations"][what] = bad
            print(what, *bad, sep="\n    ", flush=True)
    remember(cluster, cluster.stop())
    with open(a.report, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
    print(f"{report['cases']} cases, {report['left_out']} left out, {len(report['violations'])} with a violation; calls: "
          f"{report['calls']}")
    return 1 if report["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
