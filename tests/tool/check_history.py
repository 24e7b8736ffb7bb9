#!/usr/bin/env python3
"""Checks the invariants I1 to I12 of docs/reliability.md in the files of a cluster.

    check_history.py HISTORY

HISTORY is a folder. Its agents' folders (--dir) have a name that begins with "agent", result folders of job_submit one that
begins with "out"; tmp/ was the TMPDIR of all programs, and must be empty. seen.jsonl has what clients received before a fault, one
JSON object per line, in this order; each has "seen", and most have "agent" (a folder's name) and "job":

    event      "line": an event of the job's stream
    state      "state", "attempt": of a job that the agent has answered with
    rows       "file", "bytes", "sha256": the first bytes of one of the job's CSV files, whole rows
    blob       "hex": an upload that was acknowledged
    file       "path" in the agent's folder, "sha256"; "job" is null of a file without a job
    forgotten  the agent has acknowledged that it deletes the job
    weights    "out", "sha256": weights_digest() of the same job without a fault
    idle       "pid", "fds", "sockets" (how many of them), "threads", "rss_bytes", "runners" (pids): an agent without a job
    end        "processes": [{"pid", "command"}], "listening": ports, of the cluster after its agents have ended

Prints one line per violation, INVARIANT: FILE[:LINE]: SENTENCE, and exits with status 1 if there is one.
"""

import collections
import csv
import hashlib
import json
import os
import re
import sys

# A sanitizer keeps what is freed, to find later uses of it: no limit holds for its builds.
RSS_MAX = 1 << 40 if os.path.basename(os.environ.get("BUILD", "")) in ("asan", "tsan") else 64 << 20
TERMINAL = ("succeeded", "failed", "cancelled")
# What an agent's folder may hold. A temporary file of its own is not among it.
AGENT_FILES = re.compile(
    r"(lock|id|token|tls\.key|tls\.crt|members\.json|members\.lock|address|draining|forgotten\.json|codecs\.allow|blobs/[0-9a-f]{64}"
    r"|jobs/j-[a-z0-9]+(?:\.[0-9]+)?/(journal\.jsonl(\.damaged)?|packages/[a-z]+\.(json|so|c|safetensors)"
    r"|trainer/program/.+|run/(node\.log|events\.jsonl|trace\.bin|codec\.so|[a-z]+\.csv|(final|best|checkpoint|checkpoint-previous)\.safetensors)))"
)
SECRETS = ("token", "tls.key")

Violation = collections.namedtuple("Violation", "invariant path line text")


class Journal:
    """One job's journal on one agent: [(line number, object)] of the whole lines; `torn` are the bytes behind them."""

    def __init__(self, agent, job, path):
        self.agent, self.job, self.path = agent, job, path
        self.lines, self.bad = [], []
        with open(path, "rb") as f:
            text = f.read()
        *whole, self.torn = text.split(b"\n")
        for n, line in enumerate(whole, 1):
            try:
                self.lines.append((n, json.loads(line)))
            except ValueError:
                self.bad.append(n)
        self.events = [(n, o) for n, o in self.lines if "seq" in o]
        self.by_seq = {o["seq"]: (n, o) for n, o in self.events}
        reserved = [o["request"] for _, o in self.lines if o.get("note") == "reserve"]
        self.node = reserved[-1].get("node") if reserved else None
        self.attempts = [(n, o["request"]["attempt"]) for n, o in self.lines if o.get("note") == "reserve"]
        self.run = os.path.join(os.path.dirname(path), "run")

    def states(self):
        return [(n, o) for n, o in self.events if o.get("event") in ("state", "end")]

    def end(self):
        return next((o for _, o in self.events if o.get("event") == "end"), None)


class Results:
    """One result folder; `run` is its run.json, {} where there is none."""

    def __init__(self, folder):
        self.folder = folder
        try:
            with open(os.path.join(folder, "run.json"), encoding="utf-8") as f:
                self.run = json.load(f)
        except FileNotFoundError:
            self.run = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def is_final(self):
        return self.run.get("state") in TERMINAL and self.run.get("is_complete") is True


class History:
    def __init__(self, folder):
        self.folder = folder
        self.violations = []
        names = sorted(os.listdir(folder))
        self.agents = {n: os.path.join(folder, n) for n in names if n.startswith("agent") and self.is_folder(n)}
        self.results = [Results(os.path.join(folder, n)) for n in names if n.startswith("out") and self.is_folder(n)]
        self.seen = []
        path = os.path.join(folder, "seen.jsonl")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.seen = [(n, json.loads(line)) for n, line in enumerate(f, 1)]
        self.journals = {}
        for agent, home in self.agents.items():
            jobs = os.path.join(home, "jobs")
            for job in sorted(os.listdir(jobs)) if os.path.isdir(jobs) else []:
                path = os.path.join(jobs, job, "journal.jsonl")
                if os.path.exists(path):
                    self.journals[agent, job] = Journal(agent, job, path)
        self.forgotten = {(o["agent"], o["job"]) for _, o in self.of("forgotten")}

    def is_folder(self, name):
        return os.path.isdir(os.path.join(self.folder, name))

    def of(self, kind):
        return [(n, o) for n, o in self.seen if o["seen"] == kind]

    def kept(self, kind):
        """What was seen of jobs that no client has asked to forget."""
        return [(n, o) for n, o in self.of(kind) if (o["agent"], o["job"]) not in self.forgotten]

    def violated(self, invariant, path, line, text):
        path = os.path.relpath(path, self.folder)
        self.violations.append(Violation(invariant, path, line, text))

    def unseen(self, line, text):
        """I1 is broken by what line `line` of seen.jsonl says."""
        self.violated("I1", os.path.join(self.folder, "seen.jsonl"), line, text)


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def digest(path):
    data = read(path)
    return None if data is None else hashlib.sha256(data).hexdigest()


def weights_digest(path):
    """Of the numbers in a safetensors file, without its header, which names the job."""
    data = read(path)
    return None if data is None else hashlib.sha256(data[8 + int.from_bytes(data[:8], "little") :]).hexdigest()


def files_below(folder):
    for root, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(root, name), folder)


def whole_rows(path):
    """Rows of a CSV file, without a torn last one; [] where there is no file."""
    data = read(path) or b""
    return data[: data.rfind(b"\n") + 1].decode(errors="replace").splitlines()


def table(path):
    return list(csv.DictReader(whole_rows(path)))


def acknowledged_is_present(h):
    """I1: what was acknowledged is present after a restart."""
    for n, o in h.kept("event"):
        j = h.journals.get((o["agent"], o["job"]))
        line = o["line"]
        if not j:
            h.unseen(n, f"event {line['seq']} of {o['job']} was seen, and {o['agent']} has no journal of that job")
        elif line["seq"] not in j.by_seq:
            h.unseen(n, f"event {line['seq']} of {o['job']} was seen, and the journal of {o['agent']} ends before it")
        elif j.by_seq[line["seq"]][1] != line:
            h.violated("I1", j.path, j.by_seq[line["seq"]][0], f"was another event when it was seen: seen.jsonl:{n}")
    for n, o in h.kept("state"):
        j = h.journals.get((o["agent"], o["job"]))
        if not j:
            h.unseen(n, f"{o['job']} was seen {o['state']}, and {o['agent']} has no journal of it")
        elif o["state"] not in [s.get("state") for _, s in j.states()]:
            h.unseen(n, f"{o['job']} was seen {o['state']}, and the journal of {o['agent']} does not have that state")
    for n, o in h.kept("rows"):
        path = os.path.join(h.agents[o["agent"]], "jobs", o["job"], "run", o["file"])
        data = read(path)
        if data is None or hashlib.sha256(data[: o["bytes"]]).hexdigest() != o["sha256"]:
            h.unseen(n, f"the first {o['bytes']} bytes of {o['file']} were seen, and the file does not begin with them")
    for n, o in h.of("blob"):
        path = os.path.join(h.agents[o["agent"]], "blobs", o["hex"])
        if digest(path) != o["hex"]:
            h.unseen(n, f"blob {o['hex'][:12]} was acknowledged, and {o['agent']} has no file of that digest")
    for n, o in h.kept("file"):
        if digest(os.path.join(h.agents[o["agent"]], o["path"])) != o["sha256"]:
            h.unseen(n, f"{o['path']} was acknowledged, and {o['agent']} has not that file")


def numbered_without_gaps(h):
    """I2: numbers without gaps or duplicates; at most one unterminated tail."""
    for j in h.journals.values():
        for n in j.bad:
            h.violated("I2", j.path, n, "is not a JSON object")
        expected = 1
        for n, o in j.events:
            if o["seq"] != expected:
                h.violated("I2", j.path, n, f"has seq {o['seq']}, where {expected} is due")
            expected = o["seq"] + 1
        check_rows(h, os.path.join(j.run, "train.csv"), ("step",))
        check_rows(h, os.path.join(j.run, "eval.csv"), ("step",))
    for r in h.results:
        if not r.is_final():
            continue  # job_submit was killed while it wrote
        check_rows(h, r.path("records/train.csv"), ("node", "step"))
        for name in ("records/train.csv", "records/eval.csv", "records/comm.csv"):
            data = read(r.path(name))
            if data and not data.endswith(b"\n"):
                h.violated("I2", r.path(name), 0, "ends within a row")


def check_rows(h, path, key):
    """Each row has the header's number of cells, and each key occurs once, the last part of it rising."""
    rows = whole_rows(path)
    if not rows:
        return
    names = rows[0].split(",")
    at = {}
    for n, row in enumerate(rows[1:], 2):
        cells = row.split(",")
        if len(cells) != len(names):
            h.violated("I2", path, n, f"has {len(cells)} cells, the header has {len(names)}")
            continue
        *who, number = (cells[names.index(k)] for k in key)
        if int(number) <= at.get(tuple(who), -1):
            h.violated("I2", path, n, f"{key[-1]} {number} comes after {at[tuple(who)]}")
        at[tuple(who)] = int(number)


def one_attempt_runs(h):
    """I3: at most one attempt of a job runs, and of an attempt one process per node."""
    running = collections.defaultdict(list)  # (job, node): (from, to, attempt, journal)
    for j in h.journals.values():
        attempt = j.attempts[-1][1] if j.attempts else 1
        began = [o for _, o in j.states() if o.get("state") == "running"]
        if len(began) > 1:
            h.violated("I3", j.path, 0, f"entered the state running {len(began)} times")
        if began:
            end = j.end()
            running[j.job].append((began[0]["at"], end["at"] if end else "9999", attempt, j))
    for job, spans in running.items():
        for i, (_, to, attempt, j) in enumerate(spans):
            for since, _, other, k in spans[i + 1 :]:
                same_node = attempt == other and j.node == k.node
                overlap = attempt != other and min(to, spans[i][1]) > since
                if same_node or overlap:
                    h.violated("I3", k.path, 0, f"attempt {other} of {job} runs beside attempt {attempt} on {j.agent}")
    for n, o in h.of("idle"):
        if o["runners"]:
            h.violated("I3", os.path.join(h.folder, "seen.jsonl"), n, f"{o['agent']} had no job, and runners {o['runners']}")


def terminal_states_stay(h):
    """I4: a terminal state never changes."""
    for j in h.journals.values():
        ends = [n for n, o in j.events if o.get("event") == "end"]
        if ends and ends[0] != j.events[-1][0]:
            h.violated("I4", j.path, ends[0], f"{len(j.events)} events, and this end is not the last one")
        for n, o in j.states():
            if o.get("event") == "state" and o.get("state") in TERMINAL:
                h.violated("I4", j.path, n, f"is {o['state']} without being an end")
    ended = {}
    for n, o in h.of("state"):
        key = o["agent"], o["job"], o["attempt"]
        if key in ended and o["state"] != ended[key]:
            h.violated("I4", os.path.join(h.folder, "seen.jsonl"), n, f"{o['job']} was {ended[key]} before, and is {o['state']}")
        if o["state"] in TERMINAL:
            ended[key] = o["state"]


def weights_are_the_controls(h):
    """I5: a synchronous job ends with the bits of one without a fault."""
    for n, o in h.of("weights"):
        path = os.path.join(h.folder, o["out"], "model", "final.safetensors")
        if weights_digest(path) != o["sha256"]:
            h.violated("I5", path, 0, f"differs from the weights without a fault: seen.jsonl:{n}")
    for r in h.results:
        if r.is_final() and r.run["state"] == "succeeded" and r.run["settings"].get("sync") == "ssgd":
            if r.run.get("models_agree") is False:
                h.violated("I5", r.path("run.json"), 0, "models_agree is false, and the job was synchronous")


def each_contribution_counts_once(h):
    """I6: every contribution is applied once: a round has one row per node, peer and direction, both ends count the same."""
    for r in h.results:
        path = r.path("records/comm.csv")
        counts = {}
        for n, row in enumerate(table(path), 2):
            key = row["round"], row["node"], row["peer"], row["direction"]
            if key in counts:
                h.violated("I6", path, n, "the second row of round {}, node {}, peer {}, {}".format(*key))
            counts[key] = n, row["messages"]
        whole = r.is_final() and r.run["state"] == "succeeded" and r.run["settings"].get("sync") == "ssgd"
        whole = whole and all(n["state"] == "succeeded" for n in r.run.get("nodes", ()))  # and not without a lost one
        for (rnd, node, peer, way), (n, messages) in counts.items() if whole else ():
            other = counts.get((rnd, peer, node, "received" if way == "sent" else "sent"))
            if not other or other[1] != messages:
                there = other[1] if other else "none"
                h.violated("I6", path, n, f"round {rnd}: node {node} {way} {messages} messages, node {peer} counts {there}")


def attempts_only_grow(h):
    """I7: nothing of an earlier attempt is accepted after a later one."""
    for j in h.journals.values():
        for (_, a), (n, b) in zip(j.attempts, j.attempts[1:]):
            if b < a:
                h.violated("I7", j.path, n, f"attempt {b} was reserved after attempt {a}")
    latest = {}
    for n, o in h.of("state"):
        key = o["agent"], o["job"]
        if o["attempt"] < latest.get(key, 0):
            h.violated("I7", os.path.join(h.folder, "seen.jsonl"), n, f"{o['job']} was at attempt {latest[key]} before")
        latest[key] = o["attempt"]


def results_are_the_agents_bytes(h):
    """I8: the submitter's bytes are the agents'."""
    for r in h.results:
        if not r.is_final():
            continue
        for f in r.run.get("files", []):
            if digest(r.path(f["name"])) != f["sha256"]:
                h.violated("I8", r.path(f["name"]), 0, "does not have the digest that run.json states")
        journals = {j.node: j for (_, job), j in h.journals.items() if job == r.run["id"] and j.node is not None}
        for name in ("train.csv", "eval.csv", "comm.csv"):
            path = r.path("records/" + name)
            fetched = collections.defaultdict(list)
            rows = whole_rows(path)
            at = rows[0].split(",").index("node") if rows else 0
            for row in rows[1:]:
                fetched[int(row.split(",")[at])].append(row)
            for node, j in journals.items():
                if fetched[node] != whole_rows(os.path.join(j.run, name))[1:]:
                    h.violated("I8", path, 0, f"has other rows of node {node} than {j.agent}")
        for node, j in journals.items():
            name = f"checkpoints/node-{node}.safetensors" if node >= 0 else f"checkpoints/ps-{-2 - node}.safetensors"
            fetched = digest(r.path(name))
            if fetched and fetched != digest(os.path.join(j.run, "checkpoint.safetensors")):
                h.violated("I8", r.path(name), 0, f"differs from the checkpoint of {j.agent}")
        finals = {digest(os.path.join(j.run, "final.safetensors")) for j in journals.values()}
        fetched = digest(r.path("model/final.safetensors"))
        if journals and fetched and fetched not in finals:
            h.violated("I8", r.path("model/final.safetensors"), 0, "differs from the weights of every node")


def files_are_where_they_belong(h):
    """I9: no file outside the folders of jobs and results, and none without a name of its own there."""
    for home in h.agents.values():
        for name in files_below(home):
            if not AGENT_FILES.fullmatch(name):
                h.violated("I9", os.path.join(home, name), 0, "does not belong into an agent's folder")
    for (agent, job) in h.forgotten:
        if os.path.exists(os.path.join(h.agents[agent], "jobs", job)):
            h.violated("I9", os.path.join(h.agents[agent], "jobs", job), 0, "the job was deleted, and its folder is there")


def no_secret_is_written(h):
    """I10: no secret in any output."""
    secrets = []
    for home in h.agents.values():
        secrets += [(os.path.join(home, name), (read(os.path.join(home, name)) or b"").strip()) for name in SECRETS]
    secrets = [(path, text) for path, text in secrets if len(text) >= 16]
    own = {os.path.realpath(path) for path, _ in secrets}
    for name in files_below(h.folder):
        path = os.path.join(h.folder, name)
        if os.path.realpath(path) in own or re.search(r"/packages/|/blobs/|^bin/", name):
            continue
        data = read(path) or b""
        for secret, text in secrets:
            if text in data:
                h.violated("I10", path, 0, f"contains {os.path.relpath(secret, h.folder)}")


def nothing_is_left(h):
    """I11: no process, descriptor, temporary file or port is left."""
    first = {}
    for n, o in h.of("idle"):
        before = first.setdefault((o["agent"], o["pid"]), o)
        for what in ("fds", "sockets", "threads"):
            if o[what] > before[what]:
                text = f"{o['agent']} without a job has {what} {o[what]}, and had {before[what]}"
                h.violated("I11", os.path.join(h.folder, "seen.jsonl"), n, text)
    for n, o in h.of("end"):
        for p in o["processes"]:
            h.violated("I11", os.path.join(h.folder, "seen.jsonl"), n, f"process {p['pid']} is left: {p['command']}")
        for port in o["listening"]:
            h.violated("I11", os.path.join(h.folder, "seen.jsonl"), n, f"port {port} is still listened on")
    if h.is_folder("tmp"):
        for name in sorted(os.listdir(os.path.join(h.folder, "tmp"))):
            h.violated("I11", os.path.join(h.folder, "tmp", name), 0, "is left in the folder for temporary files")


def agents_stay_small(h):
    """I12: an agent's memory is bounded."""
    for n, o in h.of("idle"):
        if o["rss_bytes"] > RSS_MAX:
            text = f"{o['agent']} has {o['rss_bytes']} bytes in memory, of at most {RSS_MAX}"
            h.violated("I12", os.path.join(h.folder, "seen.jsonl"), n, text)


INVARIANTS = (
    acknowledged_is_present,
    numbered_without_gaps,
    one_attempt_runs,
    terminal_states_stay,
    weights_are_the_controls,
    each_contribution_counts_once,
    attempts_only_grow,
    results_are_the_agents_bytes,
    files_are_where_they_belong,
    no_secret_is_written,
    nothing_is_left,
    agents_stay_small,
)


def check(folder):
    """The violations in the history in `folder`."""
    h = History(folder)
    for invariant in INVARIANTS:
        invariant(h)
    return h.violations


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    violations = check(sys.argv[1])
    for v in violations:
        print(f"{v.invariant}: {v.path}{':' + str(v.line) if v.line else ''}: {v.text}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
