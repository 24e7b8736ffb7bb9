"""The history checker reports each invariant that is violated on purpose, and nothing for a correct history."""

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tool"))
import check_history  # noqa: E402

JOB = "j-abc123"
TRAIN = "time_s,node,step,loss\n0.1,{0},1,2.5\n0.2,{0},2,2.4\n"
COMM = "time_s,round,node,peer,direction,messages\n0.1,1,{0},{1},sent,3\n0.1,1,{0},{1},received,3\n"
NUMBERS = b"final weights"
WEIGHTS = (2).to_bytes(8, "little") + b"{}" + NUMBERS


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def journal(node):
    at = "2026-01-01T00:00:0{}.000Z"
    return [
        {"note": "reserve", "at": at.format(0), "request": {"id": JOB, "attempt": 1, "node": node}},
        {"seq": 1, "at": at.format(1), "event": "state", "state": "preparing"},
        {"seq": 2, "at": at.format(2), "event": "state", "state": "running"},
        {"seq": 3, "at": at.format(3), "event": "progress", "step": 2},
        {"seq": 4, "at": at.format(4), "event": "end", "state": "succeeded"},
    ]


class Breaks(unittest.TestCase):
    """Each test writes a healthy history, breaks it in one way, and names the invariant."""

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.home = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.seen = []
        for node in (0, 1):
            agent = f"agent{node}"
            run = f"{agent}/jobs/{JOB}/run/"
            self.write(f"{agent}/token", b"0123456789abcdefghij" + str(node).encode())
            self.write(f"{agent}/id", b"a-1")
            self.write(f"{agent}/blobs/{sha256(b'blob')}", b"blob")
            self.write_journal(node, journal(node))
            self.write(run + "train.csv", TRAIN.format(node).encode())
            self.write(run + "comm.csv", COMM.format(node, 1 - node).encode())
            self.write(run + "final.safetensors", WEIGHTS)
            self.write(run + "checkpoint.safetensors", b"checkpoint %d" % node)
            self.write(f"out/checkpoints/node-{node}.safetensors", b"checkpoint %d" % node)
            rows = TRAIN.format(node)[: TRAIN.index("0.2")].encode()
            self.saw("event", agent, line=journal(node)[2])
            self.saw("state", agent, state="running", attempt=1)
            self.saw("rows", agent, file="train.csv", bytes=len(rows), sha256=sha256(rows))
            self.saw("blob", agent, hex=sha256(b"blob"))
            self.seen.append({"seen": "file", "agent": agent, "job": None, "path": "id", "sha256": sha256(b"a-1")})
            self.idle(agent)
        for name, text in (("train.csv", TRAIN), ("comm.csv", COMM)):
            both = [text.format(n, 1 - n) for n in (0, 1)]
            self.write("out/records/" + name, (both[0] + both[1][both[1].index("\n") + 1 :]).encode())
        self.write("out/model/final.safetensors", WEIGHTS)
        self.seen.append({"seen": "weights", "job": JOB, "out": "out", "sha256": sha256(NUMBERS)})
        self.seen.append({"seen": "end", "processes": [], "listening": []})
        self.result = {"id": JOB, "state": "succeeded", "is_complete": True, "models_agree": True, "settings": {"sync": "ssgd"}}
        os.mkdir(os.path.join(self.home, "tmp"))

    def tearDown(self):
        self.stack.close()

    def write(self, name, data):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)

    def write_journal(self, node, lines, tail=""):
        text = "".join(json.dumps(o) + "\n" for o in lines) + tail
        self.write(f"agent{node}/jobs/{JOB}/journal.jsonl", text.encode())

    def saw(self, kind, agent, **what):
        self.seen.append({"seen": kind, "agent": agent, "job": JOB, **what})

    def idle(self, agent, **what):
        plain = {"pid": 7, "fds": 9, "threads": 1, "sockets": 1, "rss_bytes": 9 << 20, "runners": []}
        self.seen.append({"seen": "idle", "agent": agent, **plain, **what})

    def found(self):
        self.write("seen.jsonl", "".join(json.dumps(o) + "\n" for o in self.seen).encode())
        files = [
            {"name": name, "sha256": check_history.digest(os.path.join(self.home, "out", name))}
            for name in ("records/train.csv", "records/comm.csv")
        ]
        self.write("out/run.json", json.dumps({"files": files, **self.result}).encode())
        return check_history.check(self.home)

    def breaks(self, *invariants):
        violations = self.found()
        self.assertEqual(set(invariants), {v.invariant for v in violations}, violations)

    def test_a_healthy_history_has_no_violation(self):
        self.breaks()

    def test_a_torn_tail_of_a_journal_is_no_violation(self):
        self.write_journal(0, journal(0), tail='{"seq":5,"at')
        self.breaks()

    def test_I1_an_event_that_was_seen_is_missing(self):
        self.write_journal(0, journal(0)[:2])
        self.result["is_complete"] = False
        self.breaks("I1")

    def test_I1_an_event_differs_from_what_was_seen(self):
        self.saw("event", "agent0", line={**journal(0)[2], "at": "2026-01-01T00:00:09.000Z"})
        self.breaks("I1")

    def test_I1_a_state_that_was_answered_is_missing(self):
        self.saw("state", "agent0", state="ready", attempt=1)
        self.breaks("I1")

    def test_I1_a_row_that_was_seen_is_missing(self):
        self.write(f"agent0/jobs/{JOB}/run/train.csv", TRAIN.format(0)[:30].encode())
        self.result["is_complete"] = False
        self.breaks("I1")

    def test_I1_an_upload_that_was_acknowledged_is_missing(self):
        os.unlink(os.path.join(self.home, "agent0", "blobs", sha256(b"blob")))
        self.breaks("I1")

    def test_I1_a_file_that_was_acknowledged_is_another(self):
        self.write("agent0/id", b"a-2")
        self.breaks("I1")

    def test_a_journal_whose_reservation_was_damaged_is_kept_as_it_was(self):
        path = os.path.join(self.home, f"agent1/jobs/{JOB}/journal.jsonl")
        with open(path, "rb") as f:
            first, *others = f.read().split(b"\n")
        self.write(f"agent1/jobs/{JOB}/journal.jsonl", b"\n".join(others))
        self.write(f"agent1/jobs/{JOB}/journal.jsonl.damaged", b"\n".join([first[1:], *others]))
        self.breaks()

    def test_a_job_that_was_deleted_need_not_be_present(self):
        for node in (0, 1):
            self.write(f"agent{node}/jobs/gone", b"")  # keeps the folder
            os.unlink(os.path.join(self.home, f"agent{node}/jobs/gone"))
            os.rename(os.path.join(self.home, f"agent{node}/jobs/{JOB}"), os.path.join(self.home, f"deleted{node}"))
            self.saw("forgotten", f"agent{node}")
        self.breaks()

    def test_I2_a_number_is_missing(self):
        self.write_journal(0, journal(0)[:3] + journal(0)[4:])
        self.breaks("I2")

    def test_I2_a_number_occurs_twice(self):
        self.write_journal(0, journal(0)[:4] + journal(0)[3:])
        self.breaks("I2")

    def test_I2_a_line_of_a_journal_is_garbage(self):
        self.write_journal(0, [], tail="\n".join(map(json.dumps, journal(0)[:1])) + "\ngar\n" + "\n".join(map(json.dumps, journal(0)[1:])) + "\n")
        self.breaks("I2")

    def test_I2_a_step_is_recorded_twice(self):
        rows = TRAIN.format(0) + "0.3,0,2,2.4\n"
        self.write(f"agent0/jobs/{JOB}/run/train.csv", rows.encode())
        self.result["is_complete"] = False
        self.breaks("I2")

    def test_I2_a_result_ends_within_a_row(self):
        with open(os.path.join(self.home, "out/records/train.csv"), "ab") as f:
            f.write(b"0.3,1,")
        self.breaks("I2")

    def test_I3_a_job_starts_twice(self):
        lines = journal(0)
        again = {**lines[2], "seq": 3}
        self.write_journal(0, lines[:3] + [again] + [{**o, "seq": o["seq"] + 1} for o in lines[3:]])
        self.breaks("I3")

    def test_I3_two_agents_run_the_same_node(self):
        self.write_journal(1, journal(0))
        self.result["is_complete"] = False
        self.breaks("I3")

    def test_I3_a_runner_has_no_job(self):
        self.idle("agent0", runners=[4711])
        self.breaks("I3")

    def test_I4_an_event_follows_the_end(self):
        lines = journal(0)
        self.write_journal(0, lines + [{**lines[3], "seq": 5}])
        self.breaks("I4")

    def test_I4_a_job_that_had_succeeded_has_failed(self):
        lines = journal(0)
        self.saw("state", "agent0", state="succeeded", attempt=1)
        self.saw("state", "agent0", state="running", attempt=1)
        self.write_journal(0, lines)
        self.breaks("I4")

    def test_I5_the_weights_differ_from_those_without_a_fault(self):
        self.seen.append({"seen": "weights", "job": JOB, "out": "out", "sha256": sha256(b"other")})
        self.breaks("I5")

    def test_I5_the_workers_end_with_different_weights(self):
        self.result["models_agree"] = False
        self.breaks("I5")

    def test_I6_a_round_is_counted_twice(self):
        for name in ("out/records/comm.csv", f"agent1/jobs/{JOB}/run/comm.csv"):
            with open(os.path.join(self.home, name), "ab") as f:
                f.write(b"0.2,1,1,0,sent,3\n")
        self.breaks("I6")

    def test_I6_a_message_was_received_that_was_not_sent(self):
        for name in ("out/records/comm.csv", f"agent1/jobs/{JOB}/run/comm.csv"):
            path = os.path.join(self.home, name)
            text = check_history.read(path).decode()
            self.write(name, text.replace("1,1,0,received,3", "1,1,0,received,4").encode())
        self.breaks("I6")

    def test_I7_an_earlier_attempt_is_accepted_after_a_later_one(self):
        lines = journal(0)
        second = {**lines[0], "request": {**lines[0]["request"], "attempt": 2}}
        self.write_journal(0, [second] + lines)
        self.breaks("I7")

    def test_I7_an_agent_answers_with_an_earlier_attempt(self):
        self.saw("state", "agent0", state="running", attempt=2)
        self.saw("state", "agent0", state="running", attempt=1)
        self.breaks("I7")

    def test_I8_a_fetched_row_differs_from_the_agents(self):
        path = os.path.join(self.home, "out/records/train.csv")
        self.write("out/records/train.csv", check_history.read(path).replace(b"2.4", b"2.5"))
        self.breaks("I8")

    def test_I8_a_fetched_checkpoint_differs_from_the_agents(self):
        self.write("out/checkpoints/node-1.safetensors", b"checkpoint 2")
        self.breaks("I8")

    def test_I8_the_fetched_weights_are_no_nodes(self):
        self.write("out/model/final.safetensors", WEIGHTS + b"more")
        self.breaks("I5", "I8")

    def test_I9_a_temporary_file_is_in_a_run_folder(self):
        self.write(f"agent0/jobs/{JOB}/run/checkpoint.safetensors.tmp.12", b"")
        self.breaks("I9")

    def test_I9_an_upload_that_was_not_finished_is_kept(self):
        self.write("agent0/blobs/upload-3", b"")
        self.breaks("I9")

    def test_I9_a_deleted_job_is_still_there(self):
        self.saw("forgotten", "agent0")
        self.breaks("I9")

    def test_I10_a_token_is_in_a_log(self):
        self.write("out/logs/submit.log", b"Bearer 0123456789abcdefghij0\n")
        self.breaks("I10")

    def test_I11_a_descriptor_leaks(self):
        self.idle("agent0", fds=10)
        self.breaks("I11")

    def test_I11_a_process_and_its_port_are_left(self):
        self.seen.append({"seen": "end", "processes": [{"pid": 9, "command": "job_runner"}], "listening": [40001]})
        self.breaks("I11")

    def test_I11_a_temporary_folder_is_left(self):
        self.write("tmp/psgd-x/file", b"")
        self.breaks("I11")

    def test_I12_an_agent_grows(self):
        self.idle("agent0", rss_bytes=check_history.RSS_MAX + 1)
        self.breaks("I12")


if __name__ == "__main__":
    unittest.main()
