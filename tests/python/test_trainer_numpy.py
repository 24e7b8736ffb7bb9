"""psgd.trainer with numpy: tensors are arrays, and trees of arrays are copied, as jax needs it."""
import unittest

from scripted_psgd import DESCRIBES, RESTORE, SAVE, TAKES_GRADIENTS, Psgd, alone


class Arrays(unittest.TestCase):
    def test_tensors_are_views_of_the_vectors(self):
        program = """
import numpy as np, psgd.trainer
w = psgd.trainer.open({"W": (2, 3), "b": (3,), "t": ()})
while w.next():
    w.grad["W"][...] = np.arange(6).reshape(2, 3)
    w.grad["b"] = np.float64([7, 8, 9])
    w.grad["t"] = 5
    by = w.gradient(loss=np.float32(2), samples=np.int64(3), lr=np.float64(0.5), accuracy=np.float32(0.25))
    for name in w.params:
        w[name][...] -= by[name]
    w.stepped()
"""
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS)
            r = p.step(0, range(10))
            self.assertEqual(r.grads, [0, 1, 2, 3, 4, 5, 7, 8, 9, 5])
            self.assertEqual((r.loss, r.n, r.lr, r.accuracy), (2, 3, 0.5, 0.25))
            self.assertEqual(p.params.tolist(), [-k for k in range(10)])
            p.stop()

    def test_arrays_are_initial_values_where_the_job_has_none(self):
        program = """
import numpy as np, psgd.trainer
w = psgd.trainer.open({"W": np.ones((2, 2)), "b": np.full(1, 7, "f4")})
while w.next():
    print(w["W"].sum())
    w.stepped(loss=0, samples=1, lr=1)
"""
        with Psgd(program) as p:
            p.begin(DESCRIBES)
            self.assertEqual(p.params.tolist(), [1, 1, 1, 1, 7])
            p.stop(flags=DESCRIBES)
        with Psgd(program) as p:
            p.begin(0, [2, 2, 2, 2, 0])
            p.local_step(0)
            p.stop()
        self.assertEqual(p.stdout, "8.0\n")

    def test_what_is_no_array_of_floats_of_the_same_shape_is_refused(self):
        head = "import numpy as np, psgd.trainer\ntry:\n    w = psgd.trainer.open({'w': "
        tail = "except psgd.trainer.Error as e:\n    print(e)"
        for what, sentence in {
            "np.arange(3)})\n": "'w' is an array of int64: parameters are floats",
            "np.zeros(3, complex)})\n": "'w' is an array of complex128: parameters are floats",
            "np.zeros(3, bool)})\n": "'w' is an array of bool: parameters are floats",
            "(3,)})\n    w['w'] = np.zeros(4)\n": "'w' has the shape (3,), the array (4,)",
        }.items():
            self.assertEqual(alone(head + what + tail), sentence + "\n")

    def test_the_seed_of_numpys_random_numbers_goes_on_after_a_checkpoint(self):
        program = """
import numpy as np, psgd.trainer
w = psgd.trainer.open({"w": (1,)})
for x in psgd.trainer.steps(np.arange(4)):
    print(x, np.random.rand())
    w.gradient(loss=0, samples=1, lr=1)
    w.stepped()
"""
        with Psgd("import numpy; numpy.random.seed(3)\n" + program) as p:
            p.begin()
            for k in range(6):
                if k == 3:
                    state = p.answer(SAVE, b"")
                p.local_step(k)
            p.stop()
        with Psgd(program) as q:
            q.begin(n_done=3)
            q.answer(RESTORE, state)
            for k in range(3, 6):
                q.local_step(k)
            q.stop()
        self.assertEqual(p.stdout.splitlines()[3:], q.stdout.splitlines())


class Trees(unittest.TestCase):
    def test_a_tree_is_copied_each_way(self):
        program = """
import numpy as np, psgd.trainer
from collections import namedtuple
Pair = namedtuple("Pair", "a b")
params = {"layers": [{"w": np.zeros((1, 2)), "b": np.zeros(1)}, {"w": np.zeros((1, 2)), "b": None}], "p": Pair(np.zeros(()), (np.zeros(2, "f4"),))}
w = psgd.trainer.open(params)
while w.next():
    params = w.pull(params)
    before = params["layers"][0]["w"].copy()
    w.push(params)
    by = w.gradient(loss=0, samples=1, lr=1)
    grads = by.pull(params)
    w.params.push({"p": Pair(grads["p"].a, (grads["p"].b[0] * 2,))})
    assert (params["layers"][0]["w"] == before).all(), "a copy"
    print(type(params["p"]).__name__, params["layers"][1]["b"], params["p"].b[0].dtype, params["layers"][0]["w"].dtype)
    w.stepped()
"""
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS, range(8))
            self.assertEqual(list(p.shapes), ["layers.0.w", "layers.0.b", "layers.1.w", "p.a", "p.b.0"])
            r = p.step(0, [10] * 8)
            self.assertEqual(r.grads, list(range(8)))
            self.assertEqual(p.params.tolist(), [0, 1, 2, 3, 4, 10, 20, 20])
            p.stop()
        self.assertEqual(p.stdout, "Pair None float32 float64\n")

    def test_leaves_of_jax_are_made_by_jax_with_a_copy(self):
        program = """
import sys, types, numpy as np
jax = types.ModuleType("jax")
jax.numpy = types.ModuleType("jax.numpy")
class Array:  # immutable, and of numpy's interface
    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype
    def __array__(self, dtype=None, copy=None):
        return np.array(self.x, dtype)
Array.__module__ = "jaxlib.xla_extension"
copied = []
jax.numpy.array = lambda x, dtype, copy: copied.append(copy) or Array(np.array(x, dtype))
sys.modules["jax"] = jax
import psgd.trainer
tree = {"w": Array(np.ones(2, "f4"))}
w = psgd.trainer.open(tree)
print(w["w"], type(w.pull(tree)["w"]).__name__, copied)
"""
        self.assertEqual(alone(program), "[1. 1.] Array [True]\n")


if __name__ == "__main__":
    unittest.main()
