"""psgd.trainer in a program of Python alone: turns, evaluations, checkpoints, shards, and what is refused."""
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import psgd

import scripted_psgd
from scripted_psgd import (
    ACCEPTED,
    DESCRIBES,
    EVALUATE,
    EVALUATED,
    FAILED,
    FINISHED,
    GO,
    GOES_ON,
    GRADIENT,
    HAS_CHANGED,
    HAS_FAILED,
    HAS_LABELS,
    READY,
    REFUSED,
    RESTORE,
    SAVE,
    SHARD,
    SHARDED,
    STATISTIC,
    TAKES_GRADIENTS,
    TAKES_PART,
    UPDATE,
    UPDATED,
    VALUES,
    Psgd,
    alone,
)

scripted_psgd.forks = True

# w (2) and b, a number; the gradient of each is its value plus 1, and the rate 0.5.
DESCENT = """
import psgd.trainer
w = psgd.trainer.open({"w": (2,), "b": ()})
while w.next():
    for i in range(2):
        w.grad["w"][i] = w["w"][i] + 1
    w.grad["b"][()] = w["b"][()] + 1
    by = w.gradient(loss=w["b"][()], samples=4, lr=0.5)
    for i in range(2):
        w["w"][i] -= 0.5 * by["w"][i]
    w["b"][()] -= 0.5 * by["b"][()]
    w.stepped()
print("the end")
"""
LOOP = """
import psgd.trainer
w = psgd.trainer.open({"w": (1,)})
for batch in psgd.trainer.steps([10, 11, 12]):
    print(batch, w["w"][0])
    w.gradient(loss=0, samples=1, lr=1)
    w.stepped()
"""
UPDATES = """
import psgd.trainer
w = psgd.trainer.open({"w": (2,)})
while w.next():
    w.gradient(loss=%s, samples=4, lr=%s)
    for name, i in ("w", 0), ("w", 1):
        %s
    w.stepped()
"""


def stopped_at_once(p):
    p.begin()
    p.stop()


class Turns(unittest.TestCase):
    def test_the_update_is_by_the_combined_gradient_or_by_the_programs_own(self):
        with Psgd(DESCENT) as p:
            p.begin(TAKES_GRADIENTS, [1, 2, 3])
            self.assertEqual(p.shapes, {"w": (2,), "b": ()})
            r = p.step(0, [10, 20, 30])
            self.assertEqual((r.grads, r.n, r.loss, r.lr), ([2, 3, 4], 4, 3, 0.5))
            self.assertNotEqual(r.accuracy, r.accuracy)
            self.assertEqual(p.params.tolist(), [-4, -8, -12])
            r = p.step(1)
            self.assertEqual((r.grads, p.params.tolist()), ([-3, -7, -11], [-2.5, -4.5, -6.5]))
            p.stop()
        self.assertEqual(p.stdout, "the end\n")

    def test_a_rule_of_parameters_gets_the_steps_numbers_with_the_update(self):
        with Psgd(DESCENT) as p:
            p.begin(0, [1, 2, 3])
            r = p.local_step(0)
            self.assertEqual((r.n, r.loss, r.lr, p.params.tolist()), (4, 3, 0.5, [0, 0.5, 1]))
            p.params[0] = 7
            p.local_step(1, TAKES_PART | HAS_CHANGED)
            self.assertEqual(p.params[0], 3)
            p.stop()

    def test_the_job_has_its_values_whatever_the_program_sets_before_the_first_step(self):
        program = DESCENT.replace("while", 'w["w"] = [5, 6]\nprint(w.has_values)\nwhile', 1)
        with Psgd(program) as p:
            p.begin(0, [1, 2, 3])
            self.assertEqual(p.params.tolist(), [1, 2, 3])
            p.stop()
        with Psgd(program) as q:
            q.begin(DESCRIBES)
            self.assertEqual(q.params.tolist(), [5, 6, 0])
            q.stop(flags=DESCRIBES)
        self.assertEqual((p.stdout, q.stdout), ("True\nthe end\n", "False\n"))

    def test_job_submit_gets_tensors_values_and_batches_and_the_program_ends_there(self):
        program = LOOP.replace('{"w": (1,)}', '{"w": (1,), "m": (2, 1)}, statistics=["m"]') + "print('not reached')"
        with Psgd(program) as p:
            self.assertEqual(p.begin(DESCRIBES), 3)
            self.assertEqual([(t.text, t.shape, t.flags) for t in p.tensors], [("w", (1,), 0), ("m", (2, 1), STATISTIC)])
            p.stop(flags=DESCRIBES)
        self.assertEqual(p.stdout, "")

    def test_statistics_lie_behind_the_trained_tensors(self):
        program = 'import psgd.trainer\nw = psgd.trainer.open({"m": (1,), "w": (1,)}, statistics=["m"])\nprint(w["m"][0])'
        with Psgd(program + "\nw.next()") as p:
            p.begin(0, [1, 2])
            p.stop()
        self.assertEqual(p.stdout, "2.0\n")

    def test_steps_begin_the_loader_again_until_the_job_ends(self):
        with Psgd(LOOP) as p:
            self.assertEqual(p.begin(), 3)
            for k in range(4):
                p.local_step(k)
            p.stop()
        self.assertEqual(p.stdout, "10 0.0\n11 0.0\n12 0.0\n10 0.0\n")

    def test_a_worker_that_sits_out_a_round_draws_no_batch(self):
        with Psgd(LOOP) as p:
            p.begin()
            self.assertEqual(p.local_step(0, flags=0).n, 0)
            self.assertEqual(p.local_step(1).n, 1)
            p.stop()
        self.assertEqual(p.stdout, "10 0.0\n")

    def test_a_loader_that_cannot_begin_again_ends_the_workers_part(self):
        with Psgd(LOOP.replace("[10, 11, 12]", "iter([10])")) as p:
            self.assertEqual(p.begin(), 0)
            p.local_step(0)
            p.go(1)
            p.take(FINISHED)
            self.assertEqual(p.take(UPDATED).n, 0)
            self.assertEqual(p.local_step(2, flags=0).n, 0)
            p.stop()
        self.assertEqual(p.stdout, "10 0.0\n")

    def test_a_worker_without_more_data_follows_the_others_by_its_last_batch(self):
        with Psgd(LOOP.replace("[10, 11, 12]", "iter([10, 11])")) as p:
            p.begin(TAKES_GRADIENTS)
            for k in range(2):
                self.assertEqual(p.step(k).n, 1)
            p.go(2)
            p.take(FINISHED)
            self.assertEqual(p.take(GRADIENT).n, 0)
            p.send(UPDATE)
            p.take(UPDATED)
            self.assertEqual(p.step(3, flags=0).n, 0)
            p.stop()
        self.assertEqual([int(line.split()[0]) for line in p.stdout.splitlines()], [10, 11, 11, 11])
        with Psgd(LOOP.replace("[10, 11, 12]", "iter([])")) as p:
            p.expects = 1
            p.begin(TAKES_GRADIENTS)
            p.go(0)
            p.take(FINISHED)
            self.assertIn("given no batch", p.take(FAILED).text)

    def test_a_loop_of_its_own_is_told_how_to_follow_the_others(self):
        program = "import psgd.trainer\nw = psgd.trainer.open({'a': ()})\nwhile w.next():\n    w.finish()\n"
        with Psgd(program + "    w.gradient(loss=1, samples=8, lr=0.1)\n    w.stepped()") as p:
            p.begin(TAKES_GRADIENTS)
            p.go(0)
            p.take(FINISHED)
            self.assertEqual(p.take(GRADIENT).n, 0)
            p.send(UPDATE)
            p.take(UPDATED)
            self.assertEqual(p.step(1, flags=0).n, 0)
            p.stop()
        with Psgd(program) as p:
            p.expects = 1
            p.begin(TAKES_GRADIENTS)
            p.go(0)
            p.take(FINISHED)
            self.assertIn("gradient(samples=0)", p.take(FAILED).text)
        with Psgd(program) as p:
            p.begin()
            p.go(0)
            p.take(FINISHED)
            self.assertEqual(p.take(UPDATED).n, 0)
            p.local_step(1, flags=0)
            p.stop()

    def test_batches_are_accumulated_until_the_step(self):
        program = LOOP.replace("    w.gradient", "    if batch % 2:\n        continue\n    w.gradient")
        with Psgd(program) as p:
            p.begin()
            p.local_step(0)
            p.local_step(1)
            p.stop()
        self.assertEqual(p.stdout.split()[::2], ["10", "11", "12"])

    def test_the_job_may_end_instead_of_an_update(self):
        with Psgd(DESCENT) as p:
            p.begin(TAKES_GRADIENTS, [1, 2, 3])
            p.go(0)
            p.take(GRADIENT)
            p.stop()
        self.assertEqual(p.stdout, "the end\n")

    def test_a_loop_of_its_own_has_two_calls(self):
        program = """
import psgd.trainer
w = psgd.trainer.open({"w": (1,)})
w.next()
while True:
    w["w"][0] += 1
    if not w.sync(loss=2, samples=3, lr=4):
        break
print(w.steps_done, w.why)
"""
        with Psgd(program) as p:
            p.begin()
            r = p.local_step(0)
            self.assertEqual((r.loss, r.n, r.lr, p.params[0]), (2, 3, 4, 1))
            p.local_step(1)
            p.stop("enough")
        self.assertEqual(p.stdout, "2 enough\n")


class Evaluations(unittest.TestCase):
    def test_a_program_evaluates_where_it_asks_whether_one_is_due(self):
        program = """
import psgd.trainer
w = psgd.trainer.open({"w": (1,)})
while w.next():
    if w.evaluation_due:
        with w.model():
            w.evaluated(loss=w["w"][0], accuracy=0.5, samples=9)
        continue
    w.gradient(loss=0, samples=1, lr=1)
    w.stepped()
"""
        with Psgd(program) as p:
            p.begin()
            p.local_step(0)
            p.params[0] = 4
            p.send(EVALUATE, step=1, flags=HAS_CHANGED)
            r = p.take(EVALUATED)
            self.assertEqual((r.n, r.loss, r.accuracy), (9, 4, 0.5))
            p.local_step(1)
            p.send(EVALUATE, step=2)
            p.take(EVALUATED)
            p.stop()

    def test_a_program_that_never_asks_does_not_see_an_evaluation(self):
        with Psgd(LOOP) as p:
            p.begin()
            p.send(EVALUATE)
            self.assertEqual(p.take(EVALUATED).n, 0)
            p.local_step(0)
            p.stop()
        self.assertEqual(p.stdout, "10 0.0\n")

    def test_a_function_evaluates(self):
        for result, n, loss, accuracy in ("2.5", 1, 2.5, None), ("(1, 0.25)", 1, 1, 0.25), ("(1, 0.25, 7)", 7, 1, 0.25), ("(1, None, 0)", 0, 1, None):
            with Psgd(LOOP.replace("[10, 11, 12]", f"[10, 11, 12], evaluate=lambda: {result}")) as p:
                p.begin()
                p.local_step(0)
                p.send(EVALUATE, step=1)
                r = p.take(EVALUATED)
                self.assertEqual((r.n, r.loss), (n, loss))
                self.assertTrue(r.accuracy == accuracy or accuracy is None and r.accuracy != r.accuracy)
                p.stop()

    def test_what_a_function_returns_is_a_loss_or_a_tuple(self):
        cases = {"None": "None", "{'loss': 1}": "dict", "'a'": "'a'"}
        cases.update((k, k) for k in ("(1, 'a')", "()", "(1, 2, 3, 4)", "(1, 2, -3)"))
        program = LOOP.replace("[10, 11, 12]", "[], evaluate=lambda: eval(sys.argv[1])").replace("import psgd", "import sys, psgd")
        for result, said in cases.items():
            with self.subTest(result), Psgd(program, result) as p:
                p.begin()
                p.send(EVALUATE)
                self.assertEqual(p.take(FAILED).text, f"evaluate returned {said}: return the loss, (loss, accuracy) or (loss, accuracy, samples)")
                p.expects = 1

    def test_metrics_go_before_the_next_record(self):
        program = LOOP.replace("    w.stepped()", '    w.stepped()\n    w.log(f1=0.5, **{"top/5": 2})')
        with Psgd(program) as p:
            p.begin()
            p.local_step(0)
            p.go(1)
            self.assertEqual(p.take(UPDATED).metrics, {"f1": 0.5, "top/5": 2})
            p.stop()


class Checkpoints(unittest.TestCase):
    LOOP = """
import psgd.trainer, random
w = psgd.trainer.open({"w": (1,)})
n = 0
def restore(data):
    global n
    n = int(data)
w.keep(lambda: b"%d" % n, restore)
class Shuffled:
    def __len__(self):
        return 3
    def __iter__(self):
        return iter(random.sample(range(10, 13), 3))
random.seed(1)
for batch in psgd.trainer.steps(Shuffled()):
    n += 1
    print(n, batch, random.random())
    w.gradient(loss=0, samples=1, lr=1)
    w.stepped()
"""

    def test_a_resumed_program_goes_on_with_its_own_state_its_data_and_its_random_numbers(self):
        for at in range(8):
            with Psgd(self.LOOP) as p:
                p.begin()
                for k in range(8):
                    if k == at:
                        state = p.answer(SAVE, b"")
                    p.local_step(k)
                p.stop()
            with Psgd(self.LOOP.replace("seed(1)", "seed(2)")) as q:
                q.begin(n_done=at)
                q.answer(RESTORE, state)
                for k in range(at, 8):
                    q.local_step(k)
                q.stop()
            self.assertEqual(p.stdout.splitlines()[at:], q.stdout.splitlines())

    def test_a_checkpoint_without_the_programs_state_is_said(self):
        with Psgd(DESCENT) as p:
            p.begin()
            p.answer(RESTORE, b"")
            p.stop()
        self.assertIn("psgd: the checkpoint has nothing of the program's own", p.stderr)


class Shards(unittest.TestCase):
    PROGRAM = """
import psgd.trainer
w = psgd.trainer.open({"w": (1,)})
print(w.shard(5, %s))
while w.next():
    w.stepped(loss=0, samples=1, lr=1)
"""

    def shard(self, p):
        p.take_tensors()
        p.accept(0, [0])
        p.take(VALUES)
        return p.take(SHARD)

    def test_rows_are_the_jobs(self):
        with Psgd(self.PROGRAM % "[3, 1, 3, 1, 2]") as p:
            r = self.shard(p)
            self.assertEqual((r.n, r.flags, r.step, r.shape), (5, HAS_LABELS, 0, ()))
            self.assertEqual(struct.unpack("5i", os.pread(r.files[0], 99, 0)), (3, 1, 3, 1, 2))
            self.assertTrue(fcntl.fcntl(r.files[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
            os.close(r.files[0])
            p.answer(SHARDED, struct.pack("2I", 4, 0), n=2)
            p.take(READY)
            p.stop()
        self.assertEqual(p.stdout, "[4, 0]\n")

    BATCHES = """
import psgd.trainer
w = psgd.trainer.open({"w": (1,)})
for rows in psgd.trainer.steps(w.batches(5, 2, [3, 1, 3, 1, 2])):
    print(rows)
    w.stepped(loss=0, samples=2, lr=1)
"""

    def give_rows(self, p, epoch, *rows):
        r = p.take(SHARD)
        self.assertEqual((r.n, r.flags, r.step, r.shape), (5, HAS_LABELS, epoch, (2,)))
        os.close(r.files[0])
        p.answer(SHARDED, struct.pack("4I", *rows), n=4)

    def start_batches(self, p, **plan):
        p.take_tensors()
        p.accept(0, [0], **plan)
        p.take(VALUES)
        self.give_rows(p, 0, 4, 0, 2, 1)
        self.assertEqual(p.take(READY).n, 2)

    def test_batches_have_the_order_of_each_epoch_also_after_a_checkpoint(self):
        with Psgd(self.BATCHES) as p:
            self.start_batches(p)
            p.go(0)
            self.give_rows(p, 0, 4, 0, 2, 1)
            p.take(UPDATED)
            p.local_step(1)
            p.go(2)
            self.give_rows(p, 1, 1, 2, 3, 4)
            p.take(UPDATED)
            state = p.answer(SAVE, b"")
            p.local_step(3)
            p.stop()
        self.assertEqual(p.stdout, "[4, 0]\n[2, 1]\n[1, 2]\n[3, 4]\n")
        with Psgd(self.BATCHES) as q:
            self.start_batches(q, n_done=3)
            q.answer(RESTORE, state)
            q.go(3)
            self.give_rows(q, 1, 1, 2, 3, 4)
            q.take(UPDATED)
            q.go(4)
            self.give_rows(q, 2, 0, 1, 2, 3)
            q.take(UPDATED)
            q.stop()
        self.assertEqual(q.stdout, "[3, 4]\n[0, 1]\n")

    def test_batches_alone_are_of_all_rows(self):
        said = alone("""
import psgd.trainer
w = psgd.trainer.open({"w": (1,)})
batches = w.batches(6, 2)
for epoch in range(2):
    for rows in psgd.trainer.steps(batches):
        print(*rows)
        w.stepped(loss=0, samples=2, lr=1)
""").split()
        self.assertEqual([sorted(said[:6]), sorted(said[6:])], [list("012345")] * 2)
        self.assertNotEqual(said[:6], said[6:])

    def test_why_there_is_no_shard_is_an_error(self):
        with Psgd(self.PROGRAM % None) as p:
            self.assertEqual(self.shard(p).flags, 0)
            p.send(REFUSED, text="dirichlet needs labels: shard(n, labels)")
            self.assertEqual(p.take(FAILED).text, "dirichlet needs labels: shard(n, labels)")
            p.expects = 1
        self.assertIn("psgd.trainer.Error: dirichlet needs labels: shard(n, labels)", p.stderr)

    def test_a_text_that_a_record_has_no_room_for_takes_several(self):
        why = "ä" * 100 + " needs labels" * 10
        with Psgd(self.PROGRAM % None) as p:
            self.shard(p)
            for part in range(0, len(why), 50):
                p.send(REFUSED, text=why[part : part + 50], flags=GOES_ON if part + 50 < len(why) else 0)
            self.assertEqual(p.take(FAILED).text, why)
            p.expects = 1
        self.assertTrue(p.stderr.endswith(f"psgd.trainer.Error: {why}\n"))

    def test_rows_that_there_are_not_are_refused(self):
        for rows, n in (struct.pack("2I", 4, 5), 2), (struct.pack("I", 4), 2):
            with Psgd(self.PROGRAM % None) as p:
                self.shard(p)
                p.answer(SHARDED, rows, n=n)
                self.assertEqual(p.take(FAILED).text, "psgd's shard of 5 rows is damaged")
                p.expects = 1


class Ends(unittest.TestCase):
    def failing(self, p, text):
        self.assertEqual(p.take(FAILED).text, text)
        p.expects = 1

    def test_a_refused_layout_is_a_sentence_and_status_1(self):
        with Psgd(DESCENT) as p:
            p.take_tensors()
            p.send(REFUSED, text="'w' is (2) in train.py on node 1 and (3) in the job")
            p.expects = 1
        self.assertEqual(p.stderr, "psgd: 'w' is (2) in train.py on node 1 and (3) in the job\n")

    def test_a_failed_job_is_an_error(self):
        with Psgd(DESCENT) as p:
            p.begin()
            p.stop("node 1 was lost", HAS_FAILED)
            p.expects = 1
        self.assertEqual(p.stderr, "psgd: the job has failed: node 1 was lost\n")

    def test_an_update_of_other_arrays_is_an_error_after_ten_steps(self):
        for change in "x = w[name][i] - 0.5", "w[name][i] -= 0.5":
            with self.subTest(change), Psgd(UPDATES % ("1 + w.steps_done", 0.1, change)) as p:
                p.begin()
                for k in range(9):
                    p.local_step(k)
                if "x =" in change:
                    p.go(9)
                    self.assertTrue(p.take(FAILED).text.startswith("no parameter has changed in 10 steps: psgd's arrays are those"))
                    p.expects = 1
                else:
                    p.local_step(9)
                    p.stop()

    def test_updates_at_the_rate_0_and_of_a_program_that_computes_nothing_may_leave_all_as_it_is(self):
        for loss, lr in ("1 + w.steps_done", 0), ("1", 0.1):
            with Psgd(UPDATES % (loss, lr, "pass")) as p:
                p.begin()
                for k in range(12):
                    p.local_step(k)
                p.stop()

    def test_a_loop_that_makes_no_step_is_an_error(self):
        with Psgd('import psgd.trainer\npsgd.trainer.open({"w": (1,)})\nfor batch in psgd.trainer.steps([1, 2]):\n    pass') as p:
            p.begin()
            p.go(0)
            self.assertTrue(p.take(FAILED).text.startswith("the loop has taken 1000 batches and made no step: it calls neither"))
            p.expects = 1

    def test_the_end_of_psgd_is_an_error(self):
        for turns in range(3):
            with Psgd(DESCENT) as p:
                p.begin(TAKES_GRADIENTS)
                if turns > 0:
                    p.go(0)
                    p.take(GRADIENT)
                if turns > 1:
                    p.send(UPDATE)
                p.expects = 1
            self.assertTrue(p.stderr.endswith("Lost: psgd has ended without a word: the node's log says why\n"), p.stderr)

    def test_a_reason_sent_before_psgd_ended_is_read_though_records_were_lost(self):
        with Psgd("import time; time.sleep(0.1)\n" + DESCENT) as p:
            p.send(REFUSED, text="no memory")
            p.expects = 1
        self.assertEqual(p.stderr, "psgd: no memory\n")

    def test_an_exception_is_told(self):
        with Psgd(DESCENT.replace("while", "1 / 0\nwhile", 1)) as p:
            p.take_tensors()
            p.accept()
            self.failing(p, "ZeroDivisionError: division by zero")
        self.assertIn("Traceback", p.stderr)
        with Psgd(DESCENT.replace("while", "raise ValueError('ä' * 300)\nwhile", 1)) as p:
            p.take_tensors()
            p.accept()
            self.failing(p, "ValueError: " + "ä" * 246)  # four records

    def test_an_exception_is_told_with_the_line_of_the_program(self):
        cases = {
            "late.read()": "late.py, line 3: ValueError: bad row 7",
            "json.loads('')": "line 7: JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "w.stepped()": "stepped() was called before the first next(): " + Calls.NEXT,
        }
        with tempfile.TemporaryDirectory() as folder:
            main = os.path.join(folder, "main.py")
            with open(os.path.join(folder, "late.py"), "w") as f:
                f.write("def read():\n    rows = 7\n    raise ValueError('bad row 7')\n")
            for last, due in cases.items():
                with open(main, "w") as f:
                    f.write(f"import json\nimport psgd.trainer\nimport late\n\nw = psgd.trainer.open({{'w': (1,)}})\n\n{last}\n")
                start = f"import sys\n__file__ = {main!r}\nsys.path.insert(0, {folder!r})\nexec(compile(open(__file__).read(), __file__, 'exec'))"
                with self.subTest(last), Psgd(start) as p:
                    p.take_tensors()
                    p.accept()
                    self.failing(p, due)

    def test_a_forked_process_is_no_worker_and_does_not_keep_the_socket(self):
        program = DESCENT.replace(
            "while",
            """
import os, sys, time
r, s = os.pipe()
if os.fork() == 0:
    try:
        w.next()
    except psgd.trainer.Error as e:
        os.write(s, str(e).encode())
    time.sleep(30)
    os._exit(0)
print(os.read(r, 200).decode())
os._exit(0)
while""",
            1,
        )
        with Psgd(program) as p:
            p.take_tensors()
            p.accept()
            self.assertEqual(p.socket.recv(256), b"")
        self.assertEqual(p.stdout[:75], "next() was called in a process that the program has forked: only the proces")

    def test_a_program_that_this_one_starts_is_alone(self):
        program = 'import subprocess, sys, psgd.trainer\nw = psgd.trainer.open({"w": (1,)})\n'
        program += 'subprocess.run([sys.executable, "-c", "import psgd.trainer; print(psgd.trainer.info().is_alone)"])\nw.next()'
        with Psgd(program) as p:
            stopped_at_once(p)
        self.assertEqual(p.stdout, "True\n")

    def test_records_that_are_none_of_psgds_are_refused(self):
        not_expected = "psgd sent record {} of a kind that is not expected: is this package as old as the agent?"
        wrong = (
            lambda p: p.send(GO, version=2),
            lambda p: p.send(GO, sequence=5),
            lambda p: p.send(ACCEPTED),
            lambda p: p.send(UPDATE),
            lambda p: p.send(1),
            lambda p: p.send(GO, file=p.socket.fileno()),
            lambda p: p.send(SAVE),
            lambda p: p.socket.send(b"short"),
            lambda p: p.socket.send(bytes(300)),
        )
        for send in wrong:
            with Psgd(DESCENT) as p:
                p.begin()
                send(p)
                self.failing(p, not_expected.format(1))

    def test_the_rules_factor_on_the_learning_rate(self):
        program = self.FACTOR.format("w.lr_factor")
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS, [3])
            self.assertEqual(p.step(0, [2], factor=0.25).lr, 0.5)  # the program's own: psgd knows the factor
            self.assertEqual(p.params[0], 2.75)
            p.step(1, [2])
            self.assertEqual(p.params[0], 1.75)
            p.stop()
        with Psgd(program) as p:
            p.begin(0, [3])
            p.local_step(0, factor=0.25)
            self.assertEqual(p.params[0], 2.875)
            p.stop()

    def test_a_program_that_does_not_ask_for_the_factor_fails_where_it_counts(self):
        with Psgd(self.FACTOR.format("1")) as p:
            p.begin(TAKES_GRADIENTS, [3])
            p.step(0, [2])
            p.go(1)
            p.take(GRADIENT)
            p.send(UPDATE, lr=0.25)
            self.failing(p, "the job's rule changes the learning rate, here by 0.25: multiply that of each update by Worker.lr_factor")
        with Psgd(self.FACTOR.format("1")) as p:
            p.begin()
            p.go(0, factor=float("nan"))
            self.failing(p, "psgd has sent the factor nan on the learning rate")

    FACTOR = """
import psgd.trainer
w = psgd.trainer.open({{"w": (1,)}})
while w.next():
    w.grad["w"][0] = 1
    by = w.gradient(loss=0, samples=1, lr=0.5)
    w["w"][0] -= 0.5 * {} * by["w"][0]
    w.stepped()
"""

    def test_parameters_in_psgds_memory_are_always_where_it_reads_them(self):
        with Psgd(self.FACTOR.format("1")) as p:
            p.begin(0, [3])
            p.local_step(0, reads=False)
            self.assertEqual(p.params[0], 2.5)
            p.store()
            p.stop()

    def test_memory_of_another_size_is_refused(self):
        for wrong in {"n_params": 4}, {"n_trained": 2}, {"grads_at": 4}, {"grads_at": 0}, {"combined_at": 4096}, {"bytes": 1 << 40}, {"bytes": 8192}:
            with Psgd(DESCENT) as p:
                p.take_tensors()
                p.accept(**wrong)
                self.failing(p, "psgd's memory for the tensors has another size than they: is this package as old as the agent?")


class Calls(unittest.TestCase):
    """Sentences for what a program does wrong."""

    HEAD = 'import psgd.trainer\nw = psgd.trainer.open({"w": (1,)})\n'
    NEXT = "loop over psgd.trainer.steps(w.batches(n, size)), or call next() before each step"
    G, S = "w.gradient(loss=0, samples=1, lr=1)\n", "w.stepped()\n"

    def test_calls_at_the_wrong_time(self):
        cases = {
            self.G: "gradient() was called before the first next(): " + self.NEXT,
            self.S: "stepped() was called before the first next(): " + self.NEXT,
            "w.next()\nw.next()": "step 0 has not ended: stepped() goes before next()",
            "w.next()\n" + self.G + self.G: "gradient() was called twice in a step, which stepped() ends",
            "w.next()\n" + self.G + self.S + self.S: "stepped() was called after stepped(): next() waits for the next step",
            "w.next()\n" + self.G + self.S + "w.shard(3)": "shard() was called after stepped(): next() waits for the next step",
            "w.evaluated(loss=1)": "no evaluation is due: ask evaluation_due after next()",
            "psgd.trainer.open({'w': (1,)})": "this program has a worker: open() or wrap() is called once",
            "w.next()\nw.gradient(loss=0, samples=-1, lr=1)": "samples=-1 is less than 0",
            "w.shard(2, [1])": "shard has 2 rows and 1 labels",
            "w.batches(2, 0)": "batches of 0 rows: at least 1 is needed",
            "w.log(top3='high')": "log(top3=...) takes a number, not 'high'",
            "psgd.trainer.steps([1], evaluate=0.5)": "evaluate= takes a function, not 0.5",
            "psgd.trainer.wrap(3, 4)": "wrap(net, optimizer): the first is int, not a module",
            "w.log(**{'a b': 1})": "the metric 'a b' has a name that is not 1 to 64 of a-z, A-Z, 0-9 and _./:@%-",
        }
        for program, sentence in cases.items():
            with self.subTest(program), self.assertRaisesRegex(AssertionError, ""):
                said = ""
                try:
                    alone(self.HEAD + program)
                except AssertionError as e:
                    said = str(e)
                    raise
                finally:
                    self.assertTrue(said.endswith(f"psgd.trainer.Error: {sentence}\n"), said)

    def test_an_update_without_the_gradient_that_a_rule_combines(self):
        with Psgd(self.HEAD + "w.next()\nw.stepped(loss=0, samples=1, lr=1)") as p:
            p.begin(TAKES_GRADIENTS)
            p.go(0)
            self.assertTrue(p.take(FAILED).text.startswith("the job's rule combines or changes gradients: call gradient() before"))
            p.expects = 1

    def test_a_gradient_in_the_turn_for_an_evaluation(self):
        with Psgd(self.HEAD + "w.evaluation_due\nw.next()\n" + self.G) as p:
            p.begin()
            p.send(EVALUATE)
            self.assertTrue(p.take(FAILED).text.startswith("gradient() was called in the turn for an evaluation"))
            p.expects = 1

    def test_tensors_that_cannot_be_exchanged(self):
        cases = {
            "{}": "there is no tensor to train",
            "{'w': (1,)}, statistics=['w']": "there is no tensor to train",
            "{'w': (0,)}": "'w' has the shape (0,): 0 to 8 dimensions, each of 1 at least, are exchanged",
            "{'w': (1,) * 9}": "'w' has the shape (1, 1, 1, 1, 1, 1, 1, 1, 1): 0 to 8 dimensions, each of 1 at least, are exchanged",
            "{'w' * 128: (1,)}": f"the name '{'w' * 128}' of a tensor is empty or longer than 127 bytes",
            "{'w': 3}": "'w' is 3, which is neither a shape, as (784, 10), nor an array",
            "{'a': {'b': (1,)}, 'a.b': (1,)}": "two tensors have the name 'a.b'",
            "{'w': (1,)}, statistics=['m']": "statistics has 'm', which is none of the tensors",
            "{str(k): (1,) for k in range(4097)}": "there are 4097 tensors, more than 4096",
        }
        for what, sentence in cases.items():
            with self.subTest(what):
                text = alone(f"import psgd.trainer\ntry:\n    psgd.trainer.open({what})\nexcept psgd.trainer.Error as e:\n    print(e)")
                self.assertEqual(text, sentence + "\n")

    def test_a_socket_that_is_none(self):
        program = "import os, psgd.trainer\nos.environ['PSGD_TRAINER_FD'] = '%s'\ntry:\n    psgd.trainer.open({'w': (1,)})\n"
        for fd in "77", "no", "0":
            self.assertIn(f"PSGD_TRAINER_FD={fd} is no socket of psgd", alone(program % fd + "except psgd.trainer.Error as e:\n    print(e)"))


class Alone(unittest.TestCase):
    def test_a_pass_without_a_step_is_said(self):
        program = LOOP.replace("    w.gradient(loss=0, samples=1, lr=1)\n    w.stepped()\n", "")
        self.assertIn("psgd: the loop has taken 3 batches and made no step: it calls neither", alone(program))

    def test_steps_of_what_has_no_batches(self):
        program = LOOP.replace("for batch", "try:\n    psgd.trainer.steps(3)\nexcept psgd.trainer.Error as e:\n    print(e)\nfor batch")
        self.assertEqual(alone(program).splitlines()[0], "steps() takes a loader or another iterable of batches, not 3")

    def test_steps_are_one_pass_and_the_evaluation_is_printed(self):
        self.assertEqual(alone(LOOP), "10 0.0\n11 0.0\n12 0.0\n")
        program = LOOP.replace("[10, 11, 12]", "[10, 11, 12], evaluate=lambda: (0.25, 0.5)")
        self.assertEqual(alone(program).splitlines()[-1], "psgd: alone, after 3 steps: loss 0.25, accuracy 0.5")

    def test_each_call_of_steps_is_a_pass(self):
        program = LOOP.replace("for batch", "for epoch in range(2):\n  for batch")
        self.assertEqual(alone(program).split()[::2], ["10", "11", "12"] * 2)

    def test_the_own_gradient_is_the_one_of_the_update(self):
        program = DESCENT.replace("()})", '()}, batches=2)\nw["w"] = [1, 2]\nw["b"] = 3') + "print(w.params.flat.tolist())"
        self.assertEqual(alone(program), "the end\n[-0.5, -0.25, 0.0]\n")

    def test_info_says_so(self):
        program = 'import psgd.trainer\nprint(psgd.trainer.info().is_alone)\nw = psgd.trainer.open({"w": (1,)})\nprint(w.info)'
        lines = alone(program).splitlines()
        self.assertEqual(lines[0], "True")
        self.assertTrue(lines[1].startswith("Info(is_alone=True, describes=False, node=0, n_nodes=1,"))
        with Psgd(program.replace("print(w", "w.next()\nprint(w")) as p:
            p.begin(TAKES_GRADIENTS, node=1, n_nodes=4, every=5, n_steps=100)
            p.stop()
        self.assertEqual(p.stdout.splitlines()[0], "False")
        self.assertIn("node=1, n_nodes=4, seed=7, n_steps=100, every=5, takes_gradients=True", p.stdout)

    def test_rows_are_all_of_them(self):
        self.assertEqual(alone('import psgd.trainer\nprint(psgd.trainer.open({"w": (1,)}).shard(3))'), "[0, 1, 2]\n")

    def test_a_copy_of_the_package_is_enough(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.dirname(psgd.__file__), f"{folder}/psgd", ignore=shutil.ignore_patterns("__pycache__"))
            with open(f"{folder}/train.py", "w") as f:
                f.write(LOOP + "print(psgd.__file__, psgd.trainer.info().is_alone)")
            said = subprocess.run([sys.executable, "train.py"], cwd=folder, env={}, stdout=subprocess.PIPE, text=True, check=True).stdout
            self.assertEqual(said.splitlines()[-1], f"{os.path.realpath(folder)}/psgd/__init__.py True")

    def test_nothing_of_a_build_is_needed(self):
        program = "import sys, os\nos.environ['PATH'] = ''\nimport psgd.trainer\nprint(sorted({'numpy', 'torch', 'pandas'} & set(sys.modules)))"
        self.assertEqual(alone(program), "[]\n")


if __name__ == "__main__":
    unittest.main()
