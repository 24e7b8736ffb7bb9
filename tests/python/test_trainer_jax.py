"""psgd.trainer with jax, whose arrays cannot be changed: trees of them are copied each way. The loop is that of docs/trainer.md; where jax
is missing it runs with a module that has the calls of jax's that it uses."""
import os
import pathlib
import unittest

from scripted_psgd import COMBINED, DESCRIBES, GRADIENT, TAKES_GRADIENTS, UPDATE, UPDATED, Psgd, alone

try:
    import jax
except ImportError:
    jax = None

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/trainer.md"

# Gradients by differences, in float64.
STAND_IN = """
import sys, types, numpy

class Array(numpy.ndarray):
    def __setitem__(self, key, value):
        raise TypeError("JAX arrays are immutable")

Array.__module__ = "jaxlib.stand_in"

def array(x, dtype=None, copy=True):
    return numpy.array(x, dtype).view(Array)

def value_and_grad(f):
    def both(tree, *data):
        def slope(name, k):
            def at(h):
                moved = {n: numpy.array(v, "f8") for n, v in tree.items()}
                moved[name].reshape(-1)[k] += h
                return f(moved, *data)
            return (at(1e-4) - at(-1e-4)) / 2e-4
        grads = {n: array(numpy.reshape([slope(n, k) for k in range(v.size)], v.shape), "f4") for n, v in tree.items()}
        return array(f(tree, *data), "f4"), grads
    return both

jax = types.ModuleType("jax")
jax.numpy, jax.tree_util = types.ModuleType("jax.numpy"), types.ModuleType("jax.tree_util")
jax.numpy.array, jax.numpy.mean = array, numpy.mean
jax.numpy.zeros = lambda shape: array(numpy.zeros(shape, "f4"))
jax.tree_util.tree_map = lambda f, *trees: {n: f(*(t[n] for t in trees)) for n in trees[0]}
jax.value_and_grad, jax.jit = value_and_grad, lambda f: f
sys.modules.update({"jax": jax, "jax.numpy": jax.numpy})
"""


def documented_loop():
    lines = DOCUMENT.read_text().splitlines()
    begin = lines.index("```python jax") + 1
    return "\n".join(lines[begin : lines.index("```", begin)]) + "\n"


class StandIn(unittest.TestCase):
    head = STAND_IN

    def test_the_documented_loop_trains_alone(self):
        said = alone(self.head + documented_loop()).split()
        self.assertEqual(said[:3], ["the", "last", "loss:"])
        self.assertLess(float(said[3]), 0.01)

    def test_the_documented_loop_updates_by_the_combined_gradient(self):
        program = self.head + documented_loop().replace("w.batches(2000, 20)", "[list(range(20))] * 5")
        with Psgd(program) as p:
            p.begin(DESCRIBES)
            self.assertEqual((p.shapes, p.params.tolist()), ({"W": (10,), "b": ()}, [0] * 11))
            p.stop(flags=DESCRIBES)
        with Psgd(program) as p:
            self.assertEqual(p.begin(TAKES_GRADIENTS, [1] * 11), 5)
            p.go(0)
            r = p.take(GRADIENT)
            self.assertEqual((r.n, r.lr), (20, 0.05))
            self.assertGreater(r.loss, 0)
            self.assertTrue(all(p.grads))
            for i in range(11):
                p.combined[i] = 20
            p.send(UPDATE, flags=COMBINED)
            p.take(UPDATED)
            for x in p.params:
                self.assertAlmostEqual(x, 0, 6)
            p.stop()


@unittest.skipUnless(jax, "there is no jax: pip install jax")
class Jax(StandIn):
    head = ""

    def setUp(self):
        os.environ["JAX_PLATFORMS"] = "cpu"

    def test_what_is_pulled_is_no_view_of_psgds_memory(self):
        program = """
import jax, jax.numpy as jnp, numpy, psgd.trainer
tree = {"layers": [(jnp.ones(4), jnp.zeros((), "bfloat16"))]}
w = psgd.trainer.open(tree)
pulled = w.pull(tree)
w.params.fill(7)
print(pulled["layers"][0][0].tolist(), w.pull(tree)["layers"][0][0].tolist(), pulled["layers"][0][1].dtype, type(pulled["layers"][0]).__name__)
"""
        self.assertEqual(alone(program), "[1.0, 1.0, 1.0, 1.0] [7.0, 7.0, 7.0, 7.0] bfloat16 tuple\n")


if __name__ == "__main__":
    unittest.main()
