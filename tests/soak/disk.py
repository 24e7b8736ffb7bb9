"""The log of disk_log.c: the contents of a folder, the files that are left when the power fails, and the answers that were sent."""

import bisect
import collections
import json
import re

# What a power failure does to bytes that were not synced: it loses them; it loses none; it loses the second half of the last write; it
# keeps names and lengths, with zeros for the bytes. Real file systems are between these.
LOSSES = ("dropped", "kept", "torn", "zeros")
UNSYNCED_EVENTS = ("progress", "eval", "log")  # protocol.md: a power failure may take the last ones of a job

Record = collections.namedtuple("Record", "call file number path bytes")


def read_log(path):
    with open(path, "rb") as f:
        data = f.read()
    records, at = [], 0
    while at < len(data):
        line = data.index(b"\n", at)
        call, file, number, length, name = data[at:line].decode().split("\t")
        at = line + 1 + int(length)
        records.append(Record(call, int(file), int(number), name, data[line + 1 : at]))
    return records


class File:
    def __init__(self):
        self.now, self.synced, self.torn = b"", b"", None

    def left(self, loss):
        if loss == "zeros":
            return self.synced[: len(self.now)].ljust(len(self.now), b"\0")
        if loss == "torn" and self.torn is not None:
            return self.torn
        return self.synced if loss == "dropped" else self.now

    def write(self, at, data):
        before = self.now.ljust(at, b"\0")
        self.now = before[:at] + data + before[at + len(data) :]
        half = data[: len(data) // 2]
        self.torn = before[:at] + half + before[at + len(half) :]


class Folder:
    def __init__(self):
        self.now, self.synced = {}, {}

    def left(self, loss):
        """{path: bytes}, a folder as "name/": None."""
        found = {}
        for name, what in (self.synced if loss == "dropped" else self.now).items():
            if isinstance(what, Folder):
                found[name + "/"] = None
                found.update({f"{name}/{k}": v for k, v in what.left(loss).items()})
            else:
                found[name] = what.left(loss)
        return found


class Disk:
    """A folder, empty at first. The strict model of POSIX: a sync of a file does not sync its name."""

    def __init__(self):
        self.root = Folder()
        self.files = {}  # by inode
        self.last = None  # written to in the last record

    def apply(self, record):
        if self.last:
            self.last.torn = None
        self.last = None
        what = getattr(self, record.call, None)
        if what:
            what(record)

    def find(self, path):
        here = self.root
        for part in path.split("/") if path else ():
            here = here.now[part]
        return here

    def place(self, path):
        """(folder, name)"""
        folder, _, name = path.rpartition("/")
        return self.find(folder), name

    def create(self, r):
        folder, name = self.place(r.path)
        self.files[r.file] = folder.now.setdefault(name, File())

    def write(self, r):
        self.last = self.files[r.file]
        self.last.write(r.number, r.bytes)

    def truncate(self, r):
        f = self.files[r.file]
        f.now = f.now[: r.number].ljust(r.number, b"\0")

    def sync(self, r):
        self.files[r.file].synced = self.files[r.file].now

    def sync_names(self, r):
        folder = self.find(r.path)
        folder.synced = dict(folder.now)

    def rename(self, r):
        folder, name = self.place(r.path)
        to, new = self.place(r.bytes.decode())
        if folder.now[name] is not to.now.get(new):  # a rename to another link of the same file leaves both
            to.now[new] = folder.now.pop(name)

    def link(self, r):
        folder, name = self.place(r.path)
        to, new = self.place(r.bytes.decode())
        to.now[new] = folder.now[name]

    def unlink(self, r):
        folder, name = self.place(r.path)
        folder.now.pop(name, None)  # node.log was created by a child, which is not logged

    rmdir = unlink

    def mkdir(self, r):
        folder, name = self.place(r.path)
        if name:  # not the folder itself
            folder.now[name] = Folder()

    def left(self, loss):
        return self.root.left(loss)


class Stream:
    """One direction of a connection; `positions` are those in the log."""

    def __init__(self):
        self.bytes, self.starts, self.positions = b"", [], []

    def add(self, data, position):
        self.starts.append(len(self.bytes))
        self.positions.append(position)
        self.bytes += data

    def position(self, at):
        return self.positions[bisect.bisect_right(self.starts, at) - 1]

    def head(self, at):
        """(first line, {name: value}, where the body begins); None at the end."""
        end = self.bytes.find(b"\r\n\r\n", at)
        if end < 0:
            return None
        first, *lines = self.bytes[at:end].decode("latin-1").split("\r\n")
        return first, {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}, end + 4


# `heard`: where the request was; `parts` of the body: [(position in the log, bytes)]
Answer = collections.namedtuple("Answer", "heard position method path status parts")


def connections(records):
    """[(heard, said)]; of one with TLS what was in it."""
    found = collections.defaultdict(lambda: (Stream(), Stream()))
    for n, r in enumerate(records):
        if r.call in ("heard", "said", "tls_heard", "tls_said"):
            found[r.number, r.call.startswith("tls_")][r.call.endswith("said")].add(r.bytes, n)
    return [pair for (port, is_tls), pair in found.items() if is_tls or (port, True) not in found]


def requests(heard):
    at = 0
    while True:
        head = heard.head(at)
        if not head:
            return
        line, fields, body = head
        yield heard.position(at), *line.split(" ")[:2]
        at = body + int(fields.get("content-length", 0))


def chunks(said, at):
    """([(position, bytes)], where the next answer begins)"""
    parts = []
    while True:
        end = said.bytes.find(b"\r\n", at)
        size = int(said.bytes[at:end], 16) if end >= 0 else 0
        at = end + 2
        if size == 0 or at + size > len(said.bytes):
            return parts, at + 2
        parts.append((said.position(at + size - 1), said.bytes[at : at + size]))
        at += size + 2


def answers(records):
    """All answers to requests, in any order."""
    for heard, said in connections(records):
        at = 0
        for asked, method, path in requests(heard):
            head = said.head(at)
            while head and head[0].split(" ")[1].startswith("1"):  # 100 Continue
                at = head[2]
                head = said.head(at)
            if not head:
                break
            line, fields, body = head
            position, at = said.position(at), body
            parts = []
            if fields.get("transfer-encoding") == "chunked":
                parts, at = chunks(said, body)
            elif method != "HEAD":
                at = body + int(fields.get("content-length", 0))
                parts = [(position, said.bytes[body:at])]
            yield Answer(asked, position, method, path, int(line.split(" ")[1]), parts)


def lines(parts):
    """(position, line) of each whole line."""
    rest = b""
    for position, data in parts:
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield position, line


def job_of(path):
    """None: it is not about a job."""
    found = re.match(r"/v1/jobs/(j-[a-z0-9]+)", path)
    return found and found[1]


def told(agent, answer):
    """[(position, entry of seen.jsonl)]: what this answer acknowledges."""
    found = []
    path = answer.path.partition("?")[0]
    job = job_of(path)
    blob = re.match(r"/v1/blobs/sha256/([0-9a-f]{64})$", path)

    def saw(position, kind, **what):
        found.append((position, {"seen": kind, "agent": agent, **what}))

    if answer.status >= 300:
        return found
    if blob:
        saw(answer.position, "blob", hex=blob[1])
    elif job and path.endswith("/events"):
        events = [(n, json.loads(line[line.index(b"{") :])) for n, line in lines(answer.parts) if b"{" in line]
        synced = [(n, e["seq"]) for n, e in events if e["event"] not in UNSYNCED_EVENTS]
        for n, e in events:  # one that is not synced is with the next that is
            at = next((max(n, m) for m, seq in synced if seq >= e["seq"]), None)
            if at is not None:
                saw(at, "event", job=job, line=e)
    elif job and answer.method == "DELETE":
        saw(answer.position, "forgotten", job=job)
    elif answer.parts and answer.parts[0][1].startswith(b"{"):
        body = json.loads(answer.parts[0][1])
        for j in body.get("jobs", [body]):
            if "state" in j and "attempt" in j:
                saw(answer.position, "state", job=j["id"], state=j["state"], attempt=j["attempt"])
    return found
