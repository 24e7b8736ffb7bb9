"""psgd.trainer.client: a function that computes for many clients in turn, in Python alone."""
import mmap
import os
import struct
import unittest

import scripted_psgd
from scripted_psgd import (
    EVALUATE,
    EVALUATED,
    FAILED,
    GIVES_GRADIENTS,
    GRADIENT,
    HAS_CHANGED,
    IS_FUNCTION,
    READY,
    SHARD,
    SHARDED,
    SIMULATES,
    TAKES_GRADIENTS,
    UPDATED,
    VALUES,
    Psgd,
    alone,
)

scripted_psgd.forks = True

# Each call doubles w, and adds the number of the client's calls.
TRAIN = """
import random, psgd.trainer
def train(params, indices, round, client):
    client.state["n"] = client.state.get("n", 0) + 1
    params["w"][0] = 2 * params["w"][0] + client.state["n"]
    client.log(drawn=random.random())
    return params, 0.5, 3, 0.75
def evaluate(params):
    return params["w"][0], 0.25, 10
psgd.trainer.client({"w": (1,)}, train, evaluate=evaluate)
"""


def given(result, function="train(params, indices, round)", client="train"):
    return f"import psgd.trainer\ndef {function}:\n    return {result}\npsgd.trainer.client({{'w': (2,), 'b': ()}}, {client})\n"


class Clients(unittest.TestCase):
    def turn(self, p, node, step, value):
        p.params[0] = value
        p.go_for(node, step)
        return p.take(UPDATED)

    def test_each_client_has_its_own_state_and_random_numbers(self):
        with Psgd(TRAIN) as p:
            self.assertEqual(p.begin(SIMULATES, [0], n_nodes=3), 1)
            self.assertEqual(p.opened, IS_FUNCTION)
            drawn = []
            for node, step, value, expected in (0, 0, 5, 11), (2, 0, 5, 11), (0, 1, 7, 16), (-1, 1, 1, 3), (-1, 1, 1, 3), (2, 1, 1, 4):
                r = self.turn(p, node, step, value)
                self.assertEqual((p.params[0], r.n, r.loss, r.accuracy), (expected, 3, 0.5, 0.75))
                drawn.append(r.metrics["drawn"])
            self.assertEqual(len(set(drawn)), 5)
            self.assertEqual(drawn[3], drawn[4])
            p.send(EVALUATE, step=2, flags=HAS_CHANGED)
            r = p.take(EVALUATED)
            self.assertEqual((r.n, r.loss, r.accuracy), (10, 4, 0.25))
            p.stop()
        with Psgd(TRAIN) as q:  # another process, in which client 2 comes first
            q.begin(SIMULATES, [0], n_nodes=3)
            self.assertEqual(self.turn(q, 2, 0, 5).metrics["drawn"], drawn[1])
            q.stop()

    def test_the_rows_of_each_turn_are_psgds(self):
        program = """
import psgd.trainer
def gradient(params, indices, step):
    print(list(indices), step)
    return {"w": [sum(indices)]}, 0, len(indices)
psgd.trainer.client({"w": (1,)}, gradient=gradient, rows=9)
"""
        with Psgd(program) as p:
            p.take_tensors()
            self.assertEqual(p.opened, IS_FUNCTION | GIVES_GRADIENTS)
            p.accept(SIMULATES | TAKES_GRADIENTS, [0])
            p.take(VALUES)
            self.assertEqual(p.take(SHARD).n, 9)
            file = os.memfd_create("rows")
            os.ftruncate(file, 12)
            memory = mmap.mmap(file, 12)
            p.send(SHARDED, n=3, file=file)
            os.close(file)
            self.assertEqual(p.take(READY).n, 0)
            for step, rows in (0, (4, 8, 1)), (1, (2,)):
                memory[: 4 * len(rows)] = struct.pack(f"{len(rows)}I", *rows)
                p.go_for(1, step, len(rows))
                self.assertEqual((p.take(GRADIENT).n, p.grads[0]), (len(rows), sum(rows)))
            p.stop()
        self.assertEqual(p.stdout, "[4, 8, 1] 0\n[2] 1\n")

    def test_what_a_function_returns_is_checked(self):
        for result, text in (
            ("params", "train() returned Vector, and not (params, loss, samples) or (params, loss, samples, accuracy)"),
            ("None", "train() returned None, and not (params, loss, samples) or (params, loss, samples, accuracy)"),
            ("params, 1", "train() returned 2 values, and not (params, loss, samples) or (params, loss, samples, accuracy)"),
            ("{'w': [1, 2]}, 0, 1", "train() returned params without 'b'"),
            ("{'w': [1, 2], 'b': 1, 'c': 1}, 0, 1", "train() returned params with 'c', which is no tensor"),
            ("{'w': [1, 2, 3], 'b': 1}, 0, 1", "'w' has 2 numbers, the value 3"),
            ("params, 0, -1", "samples=-1 is less than 0"),
        ):
            with Psgd(given(result)) as p:
                p.begin(SIMULATES)
                p.go_for(0, 0)
                self.assertEqual(p.take(FAILED).text, text)
                p.expects = 1

    def test_other_trees_than_a_dict_come_back_as_they_were(self):
        program = """
import psgd.trainer
def train(params, indices, round):
    first, second = params
    return [[first[0] + 1], [second[0] + 2, 9]], 0, 1
psgd.trainer.client([(1,), (2,)], train)
"""
        with Psgd(program) as p:
            p.begin(SIMULATES, [5, 6, 7])
            self.assertEqual(p.shapes, {"0": (1,), "1": (2,)})
            self.turn(p, 0, 0, 5)
            self.assertEqual(p.params.tolist(), [6, 8, 9])
            p.stop()

    def test_on_an_agent_it_is_one_client(self):
        with Psgd(TRAIN) as p:
            p.begin(0, [1], node=1)
            for step, expected in (0, 3), (1, 8), (2, 19):
                p.local_step(step)
                self.assertEqual(p.params[0], expected)
            p.stop()
        with Psgd(TRAIN) as p:
            p.take_tensors()
            p.accept(TAKES_GRADIENTS, [0])
            p.expects = 1
            self.assertIn("use a rule of rounds", p.take(FAILED).text)

    def test_it_needs_one_function(self):
        for client in "", "1", "train, gradient=train":
            with Psgd(given("None", client=client)) as p:
                p.expects = 1
            self.assertIn("client() needs one function", p.stderr)


class Alone(unittest.TestCase):
    def test_it_is_one_client_with_all_rows_for_so_many_rounds(self):
        program = TRAIN.replace("evaluate=evaluate", "evaluate=evaluate, rounds=3")
        self.assertIn("alone, after 3 steps: loss 11, accuracy 0.25", alone(program))
        program = given("print(indices) or (params, 0, 1)").replace("train)", "train, rows=3)")
        self.assertEqual(alone(program), "[0, 1, 2]\n")

    def test_gradients_are_followed_by_a_step(self):
        program = given("{'w': [100, -100], 'b': 0}, 0, 1", "gradient(params, indices, step)", "gradient=gradient, rounds=2")
        program += "print(psgd.trainer.worker()['w'].tolist())"
        self.assertEqual(alone(program), "[-2.0, 2.0]\n")


if __name__ == "__main__":
    unittest.main()
