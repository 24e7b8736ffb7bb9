"""A thread that follows an agent, and records what the agent has acknowledged: entries of seen.jsonl."""

import hashlib
import http.client
import json
import threading
import time

PAUSE_S = 0.02
BEFORE_START = ("pending", "preparing", "ready")


class Observer(threading.Thread):
    """Follows the newest job of one agent: its events as they come, its state and its rows at each of them."""

    def __init__(self, agent):
        super().__init__(daemon=True)
        self.agent = agent
        self.seen = []
        self.is_over = threading.Event()
        self.after = {}  # job: number of the last event seen
        self.state = {}  # job: the state seen last

    def run(self):
        while not self.is_over.is_set():
            try:
                self.follow()
            except (OSError, http.client.HTTPException, ValueError):
                pass  # the agent is killed, or has removed the job: another request follows
            time.sleep(PAUSE_S)

    def note(self, kind, job, **what):
        self.seen.append({"seen": kind, "agent": self.agent.name, "job": job, **what})

    def follow(self):
        jobs = self.agent.get("/v1/jobs?limit=1", timeout=5)["jobs"]
        if not jobs:
            return
        job = jobs[0]["id"]
        self.see_state(jobs[0])
        if jobs[0]["state"] in BEFORE_START:
            return  # a stream would keep the reservation of a submitter that was killed
        connection = self.agent.connect(timeout=5)
        try:
            path = f"/v1/jobs/{job}/events?after={self.after.get(job, 0)}"
            connection.request("GET", path, headers={**self.agent.headers(), "Accept": "application/x-ndjson"})
            answer = connection.getresponse()
            while not self.is_over.is_set() and answer.status == 200:
                line = answer.readline()
                if not line.endswith(b"\n"):
                    return
                if line.strip():
                    self.see_event(job, json.loads(line))
        finally:
            connection.close()

    def see_event(self, job, event):
        self.note("event", job, line=event)
        self.after[job] = max(self.after.get(job, 0), event["seq"])
        if event["event"] in ("state", "end", "progress"):
            self.see_rows(job)
            self.see_state(self.agent.get(f"/v1/jobs/{job}", timeout=5))

    def see_state(self, answer):
        job, state = answer["id"], answer["state"]
        if self.state.get(job) != (state, answer["attempt"]):
            self.state[job] = state, answer["attempt"]
            self.note("state", job, state=state, attempt=answer["attempt"])

    def see_rows(self, job):
        status, rows = self.agent.request("GET", f"/v1/jobs/{job}/records.csv", timeout=5)
        if status == 200 and rows.endswith(b"\n"):
            sum_ = hashlib.sha256(rows).hexdigest()
            self.note("rows", job, file="train.csv", bytes=len(rows), sha256=sum_, rows=rows.count(b"\n") - 1)

    def end(self):
        self.is_over.set()
        self.join()
