"""psgd.trainer with torch: what a script in three lines does, for all that a module, an optimizer and a loop may have."""
import array
import os
import tempfile
import unittest

import scripted_psgd
import torch

try:
    import torch._dynamo  # torch 2 imports it for its first optimizer: here once, and not in each program
except ImportError:
    pass
from scripted_psgd import (
    COMBINED,
    DESCRIBES,
    EVALUATE,
    EVALUATED,
    FAILED,
    FINISHED,
    GRADIENT,
    HAS_CHANGED,
    IS_RESUMED,
    RESTORE,
    SAVE,
    SIMULATES,
    STATISTIC,
    TAKES_GRADIENTS,
    TAKES_PART,
    UPDATE,
    UPDATED,
    Psgd,
    alone,
)

scripted_psgd.forks = True
HEAD = """
import psgd.trainer, sys, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(1)
"""
# y = w x + b; of two samples x = 1, 2 the gradient of the mean of y: 1.5, 1.
NET = (
    HEAD
    + """
net = nn.Linear(1, 1)
"""
)
REST = """
opt = psgd.trainer.wrap(net, opt)
for x in psgd.trainer.steps([torch.tensor([[1.0], [2.0]])]):
    opt.zero_grad()
    net(x).mean().backward()
    opt.step()
"""
SGD = "opt = torch.optim.SGD(net.parameters(), lr=0.5)\n"
LINEAR = NET + SGD + REST
COPIES = "from psgd.trainer_torch import TorchWorker\nTorchWorker.copies = True\n"  # as if it were on a GPU


class Steps(unittest.TestCase):
    def each(self, program):
        """With views of psgd's memory, and with copies."""
        for copies in "", COPIES:
            with self.subTest(copies=bool(copies)), Psgd(program.replace("opt = psgd", copies + "opt = psgd", 1)) as p:
                yield p

    def test_the_optimizer_updates_by_the_combined_gradient(self):
        for p in self.each(LINEAR):
            self.assertEqual(p.begin(TAKES_GRADIENTS, [3, 4]), 1)
            self.assertEqual(p.shapes, {"weight": (1, 1), "bias": (1,)})
            r = p.step(0, [10, 20])
            self.assertEqual((r.grads, r.n, r.loss, r.lr), ([1.5, 1], 2, 3 * 1.5 + 4, 0.5))
            self.assertEqual(p.params.tolist(), [-2, -6])
            r = p.step(1)
            self.assertEqual((r.grads, p.params.tolist()), ([1.5, 1], [-2.75, -6.5]))
            r = p.step(2, [1, 1])
            self.assertEqual((r.grads, p.params.tolist()), ([1.5, 1], [-3.25, -7]))
            p.stop()

    def test_a_rule_of_parameters_changes_them_between_steps(self):
        for p in self.each(LINEAR):
            p.begin(0, [3, 4])
            r = p.local_step(0)
            self.assertEqual((r.n, r.loss, r.lr, p.params.tolist()), (2, 8.5, 0.5, [2.25, 3.5]))
            p.params[0] = 100
            self.assertEqual(p.local_step(1, TAKES_PART | HAS_CHANGED).loss, 153.5)
            self.assertEqual(p.params[0], 99.25)
            p.stop()

    def test_the_nets_own_values_are_described(self):
        program = LINEAR.replace("opt = psgd", "print(net.weight.item(), net.bias.item())\nopt = psgd") + "print('not reached')"
        for p in self.each(program):
            p.begin(DESCRIBES)
            p.stop(flags=DESCRIBES)
            values = p.params.tolist()
        self.assertEqual([float(x) for x in p.stdout.split()], values)

    def test_gradients_that_are_kept_or_set_to_none_are_the_same(self):
        for how in "set_to_none=True", "set_to_none=False":
            for p in self.each(LINEAR.replace("zero_grad()", f"zero_grad({how})")):
                p.begin(TAKES_GRADIENTS, [3, 4])
                for k in range(4):
                    self.assertEqual(p.step(k, [1, 1] if k % 2 else None).grads, [1.5, 1])
                p.stop()

    def test_a_tensor_without_gradient_is_zeros_and_said_once(self):
        program = NET + "net.unused = nn.Parameter(torch.ones(2))\nopt = torch.optim.SGD(net.parameters(), lr=0.5, weight_decay=1)\n" + REST
        for p in self.each(program):
            p.begin(TAKES_GRADIENTS, [3, 3, 3, 3])
            self.assertEqual(list(p.shapes), ["weight", "bias", "unused"])
            self.assertEqual(p.step(0).grads[2:], [0, 0])
            self.assertEqual(p.params.tolist()[2:], [3, 3])  # and torch does not shrink it
            p.step(1, [0, 0, 1, 0])
            self.assertEqual(p.params.tolist()[2:], [3 - 0.5 * (1 + 3), 3 - 0.5 * 3])
            p.stop()
        self.assertEqual(p.stderr, "psgd: 'unused' has no gradient: zeros are exchanged for it\n")

    def test_tensors_without_gradient_are_named_in_one_line(self):
        made = "for k in range(%d):\n    net.register_parameter(f'p{k}', nn.Parameter(torch.ones(1)))\n"
        # In the second step another one has none.
        later = REST.replace("    opt.step()", "    if psgd.trainer.worker().steps_done:\n        net.bias.grad = None\n    opt.step()")
        told = {
            2: "'p0' and 'p1' have no gradient: zeros are exchanged for them",
            11: "'p0', 'p1', 'p2', 'p3', 'p4', 'p5', 'p6', 'p7' and 3 more have no gradient: zeros are exchanged for them",
        }
        for n, sentence in told.items():
            with Psgd(NET + made % n + SGD + later) as p:
                p.begin(TAKES_GRADIENTS)
                for k in range(3):
                    p.step(k)
                p.stop()
            self.assertEqual(p.stderr, f"psgd: {sentence}\npsgd: 'bias' has no gradient: zeros are exchanged for it\n")

    def test_only_the_call_of_step_is_a_step_of_psgd(self):
        program = LINEAR.replace("opt.zero_grad()", "(net(x).mean() / 2).backward()").replace(
            "    net(x).mean().backward()\n    opt.step()",
            "    n += 1\n    if n % 2 == 0:\n        opt.step()\n        opt.zero_grad()",
        )
        for p in self.each(program.replace("for x", "n = 0\nfor x")):
            p.begin(TAKES_GRADIENTS, [3, 4])
            for k in range(2):
                r = p.step(k, [0, 0])
                self.assertEqual((r.grads, r.n, r.loss), ([1.5, 1], 4, 8.5))
            p.stop()

    def test_gradients_of_batches_after_which_the_data_ended_are_not_used(self):
        """Two batches make a step, and there are three."""
        program = LINEAR.replace("opt.zero_grad()", "net(x).mean().backward()").replace(
            "    net(x).mean().backward()\n    opt.step()", "    n += 1\n    if n % 2 == 0:\n        opt.step()\n        opt.zero_grad()"
        )
        for p in self.each(program.replace("for x", "n = 0\nfor x").replace("steps([torch.tensor([[1.0], [2.0]])])", "steps(iter(3 * [torch.ones(1, 1)]))")):
            p.begin(TAKES_GRADIENTS, [3, 4])
            r = p.step(0)
            self.assertEqual((r.grads, r.n), ([2, 2], 2))
            for k in 1, 2:
                r = p.step(k, [1, 0], flags=TAKES_PART * (k == 1))
                self.assertEqual((r.grads, r.n), ([0, 0], 0))
            self.assertEqual(p.params.tolist(), [1, 3])
            p.stop()

    def test_lbfgs_where_parameters_are_exchanged(self):
        step = """
    def closure():
        opt.zero_grad()
        loss = (net(x) - 1).square().mean()
        loss.backward()
        return loss
    opt.step(closure)"""
        program = LINEAR.replace("SGD", "LBFGS").replace("lr=0.5", "lr=0.5, max_iter=5")
        for p in self.each(program.replace("    opt.zero_grad()\n    net(x).mean().backward()\n    opt.step()", step)):
            p.begin(0, [3, 4])
            losses = [p.local_step(k).loss for k in range(3)]
            self.assertLess(losses[2], losses[0] / 100)
            p.params[:] = array.array("f", [3, 4])
            self.assertEqual(p.local_step(3, TAKES_PART | HAS_CHANGED).loss, losses[0])
            p.stop()

    def test_clipping_after_the_combination(self):
        clip = "    psgd.trainer.worker().gradient()\n    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n    opt.step()"
        for p in self.each(LINEAR.replace("    opt.step()", clip)):
            p.begin(TAKES_GRADIENTS, [0, 0])
            self.assertEqual(p.step(0, [30, 40]).n, 2)
            for got, due in zip(p.params.tolist(), [-0.3, -0.4]):
                self.assertAlmostEqual(got, due, 5)
            p.stop()

    def test_explicit_calls(self):
        program = (
            NET
            + SGD
            + """
w = psgd.trainer.open(net)
while w.next():
    opt.zero_grad()
    loss = net(torch.ones(3, 1)).mean()
    loss.backward()
    w.gradient(loss=loss, samples=3, lr=0.5, accuracy=0.5)
    opt.step()
    w.stepped()
"""
        )
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            r = p.step(0, [1, 2])
            self.assertEqual((r.loss, r.n, r.accuracy, p.params.tolist()), (7, 3, 0.5, [2.5, 3]))
            p.stop()

    def test_a_closure_runs_before_the_exchange(self):
        program = LINEAR.replace(
            "    opt.zero_grad()\n    net(x).mean().backward()\n    opt.step()",
            """
    def closure():
        opt.zero_grad()
        loss = net(x).mean()
        loss.backward()
        return loss
    print(float(opt.step(closure)))""",
        )
        for flags in 0, TAKES_GRADIENTS:
            for p in self.each(program):
                p.begin(flags, [3, 4])
                r = p.step(0) if flags else p.local_step(0)
                self.assertEqual((r.loss, p.params.tolist()), (8.5, [2.25, 3.5]))
                p.stop()
            self.assertEqual(p.stdout, "8.5\n")

    def test_a_loop_of_the_programs_own_ends_with_the_job(self):
        program = LINEAR.replace("for x in psgd.trainer.steps([torch.tensor([[1.0], [2.0]])]):", "while True:\n    x = torch.tensor([[1.0], [2.0]])")
        for p in self.each(program):
            p.begin(TAKES_GRADIENTS, [3, 4])
            self.assertEqual(p.step(0, [2, 2]).n, 1)
            p.params[0] = 9
            self.assertEqual(p.step(1, [2, 2], TAKES_PART | HAS_CHANGED).loss, 9 * 1.5 + 3)
            p.send(EVALUATE, step=2)
            self.assertEqual(p.take(EVALUATED).n, 0)
            p.stop()

    def test_a_loop_of_the_programs_own_is_resumed_before_its_first_step(self):
        program = LINEAR.replace("for x in psgd.trainer.steps([torch.tensor([[1.0], [2.0]])]):", "w = psgd.trainer.worker()\nw.keep(lambda: b'', lambda b: print('restored'))\nwhile True:\n    x = torch.tensor([[1.0], [2.0]])\n    print('a step')")
        with Psgd(program) as p:
            p.take_tensors()
            p.accept(TAKES_GRADIENTS | IS_RESUMED, [3, 4], n_done=2)
            self.assertEqual(
                p.take(FAILED).text,
                "the job is resumed, and this loop's first gradient was computed before the checkpoint's state was there: "
                "call psgd.trainer.worker().next() before the loop",
            )
            p.expects = 1
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            p.step(0)
            state = p.answer(SAVE, b"")
            p.stop()
        with Psgd(program.replace("while", "w.next()\nwhile")) as p:
            p.begin(TAKES_GRADIENTS | IS_RESUMED, [3, 4], n_done=1)
            p.answer(RESTORE, state)
            p.step(1)
            p.stop()
        self.assertEqual(p.stdout, "restored\na step\n")

    def test_samples_of_a_step_are_the_rows_of_its_batches(self):
        batches = {
            "w.batches(6, 3)": 3,
            "[torch.ones(4, 1)]": 4,
            "[(torch.ones(4, 1), 5)]": 4,
            "[{'y': 5, 'x': torch.ones(4, 1)}]": 4,
            "[7]": 1,
        }
        for batch, n in batches.items():
            program = LINEAR.replace("for x", "w = psgd.trainer.worker()\nfor batch").replace("[torch.tensor([[1.0], [2.0]])]", batch)
            with self.subTest(batch), Psgd(program.replace("net(x)", "net(torch.ones(1, 1))")) as p:
                p.rows = lambda r: range(6)
                p.begin(TAKES_GRADIENTS)
                self.assertEqual(p.step(0).n, n)
                p.stop()

    def test_a_worker_that_sits_out_follows_the_others(self):
        program = LINEAR.replace("    opt.zero_grad()", "    print('a batch')\n    opt.zero_grad()")
        for p in self.each(program):
            p.begin(TAKES_GRADIENTS, [3, 4])
            self.assertEqual(p.step(0, [2, 2], flags=0).n, 0)
            self.assertEqual(p.params.tolist(), [2, 3])
            self.assertEqual(p.step(1).n, 2)
            p.stop()
        self.assertEqual(p.stdout, "a batch\n")

    def test_a_gradient_is_not_added_to_that_by_which_a_worker_followed_the_others(self):
        """In a loop that clears gradients after the step."""
        program = LINEAR.replace("    opt.zero_grad()\n", "").replace("    opt.step()", "    opt.step()\n    opt.zero_grad(%s)")
        for how in "", "set_to_none=False":
            for p in self.each(program % how):
                p.begin(TAKES_GRADIENTS, [3, 4])
                self.assertEqual(p.step(0).grads, [1.5, 1])
                self.assertEqual(p.step(1, [2, 2], flags=0).n, 0)
                self.assertEqual(p.step(2, [2, 2], flags=0).n, 0)
                self.assertEqual(p.step(3).grads, [1.5, 1])
                p.stop()

    def test_a_worker_without_more_data_follows_the_others(self):
        for p in self.each(LINEAR.replace("steps([torch.tensor([[1.0], [2.0]])])", "steps(iter([torch.ones(1, 1)]))")):
            p.begin(TAKES_GRADIENTS, [3, 4])
            self.assertEqual(p.step(0).n, 1)
            p.go(1)
            p.take(FINISHED)
            self.assertEqual(p.take(GRADIENT).n, 0)
            p.combined[:] = array.array("f", [2, 0])
            p.send(UPDATE, flags=COMBINED)
            p.take(UPDATED)
            self.assertEqual(p.step(2, [2, 0], flags=0).n, 0)
            self.assertEqual(p.params.tolist(), [0.5, 3.5])
            p.stop()
        for p in self.each(LINEAR.replace("steps([torch.tensor([[1.0], [2.0]])])", "steps(iter([torch.ones(1, 1)]))")):
            p.begin(0, [3, 4])
            p.local_step(0)
            p.go(1)
            p.take(FINISHED)
            self.assertEqual(p.take(UPDATED).n, 0)
            self.assertEqual(p.local_step(2).n, 0)
            p.stop()

    def test_workers_of_a_data_loader_are_no_workers_of_the_job(self):
        program = LINEAR.replace(
            "steps([torch.tensor([[1.0], [2.0]])])",
            "steps(torch.utils.data.DataLoader(torch.arange(4.0).reshape(4, 1), batch_size=2, num_workers=2, persistent_workers=True))",
        )
        with Psgd(program) as p:
            self.assertEqual(p.begin(TAKES_GRADIENTS, [3, 4], n_nodes=1), 2)
            for k in range(5):
                self.assertEqual(p.step(k).n, 2)
            p.stop()


class Tensors(unittest.TestCase):
    def test_statistics_are_the_values_before_less_those_after(self):
        program = (
            HEAD
            + """
net = nn.Sequential(nn.BatchNorm1d(1, affine=False, momentum=0.5), nn.Linear(1, 1))
"""
            + SGD
            + "%s"
            + REST.replace("opt.step()", "opt.step()\n    print(net[0].running_mean.item(), net[0].num_batches_tracked.item())")
        )
        for copies in "", COPIES:
            with Psgd(program % copies) as p:
                p.begin(TAKES_GRADIENTS, [1, 1, 10, 2])
                self.assertEqual([(t.text, t.flags) for t in p.tensors][2:], [("0.running_mean", STATISTIC), ("0.running_var", STATISTIC)])
                # 10 goes half of the way to 1.5, and 2 half of the way to 0.5.
                self.assertEqual(p.step(0, [0, 0, 4, 1]).grads[2:], [4.25, 0.75])
                self.assertEqual(p.params.tolist()[2:], [6, 1])
                p.stop()
            self.assertEqual(p.stdout, "6.0 1\n")
            with Psgd(program % copies) as p:
                p.begin(0, [1, 1, 10, 2])
                p.local_step(0)
                self.assertEqual(p.params.tolist()[2:], [5.75, 1.25])
                p.params[2] = 3
                p.local_step(1, TAKES_PART | HAS_CHANGED)
                self.assertEqual(p.params[2], 2.25)
                p.stop()
            self.assertEqual(p.stdout.splitlines()[1], "2.25 2")

    def test_a_buffer_that_the_net_replaces_is_looked_up_by_its_name(self):
        program = NET.replace(
            "net = nn.Linear(1, 1)",
            """
class Net(nn.Linear):
    def forward(self, x):
        self.count = self.count + 1
        return super().forward(x)
net = Net(1, 1)
net.register_buffer("count", torch.zeros(()))
net.register_buffer("mask", torch.full((2,), float("-inf")))
net.register_buffer("table", torch.ones(2), persistent=False)
""",
        )
        with Psgd(program + SGD + REST) as p:
            p.begin(0, [1, 1, 0])
            self.assertEqual(list(p.shapes), ["weight", "bias", "count"])
            p.local_step(0)
            p.local_step(1)
            self.assertEqual(p.params[2], 2)
            p.stop()

    def test_tied_tensors_are_exchanged_once_and_frozen_ones_not(self):
        program = HEAD + "net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1))\nnet[1].weight = net[0].weight\n"
        program += "net[2].requires_grad_(False)\n" + SGD + REST.replace("    opt.step()", "    opt.step()\n    print(net[1].weight.item())")
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS, [1, 0, 0])
            self.assertEqual(list(p.shapes), ["0.weight", "0.bias", "1.bias"])
            p.step(0, [1, 0, 0])
            p.stop()
        self.assertEqual(p.stdout, "0.5\n")

    def test_frozen_tensors_have_checksums_of_kind_shape_and_values(self):
        def frozen(*values):
            lines = [f"net[1].weight = nn.Parameter(torch.tensor({value}), requires_grad=False)\n" for value in values]
            found = []
            for line in lines or [""]:
                program = HEAD + "net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))\nnet[1].requires_grad_(False)\n"
                with Psgd(program + line + SGD.replace("net.parameters()", "net[0].parameters()") + REST) as p:
                    p.begin(DESCRIBES)
                    p.stop(flags=DESCRIBES)
                found.append(p.frozen)
            return found

        (own,) = frozen()
        self.assertEqual(list(own), ["1.weight", "1.bias"])
        one, same, other, shape, half, empty = frozen("[[0.5]]", "[[0.5]]", "[[0.25]]", "[0.5]", "[[0.5]], dtype=torch.half", "[]")
        self.assertEqual(one, same)
        self.assertEqual(len({f["1.weight"] for f in (one, other, shape, half, empty)}), 5)
        self.assertEqual({f["1.bias"] for f in (own, one, other)}, {own["1.bias"]})

    def test_values_are_copied_where_psgd_reads_them(self):
        """The parameter of channels_last, and of bf16, is no view; on a GPU (COPIES) none is."""
        made = {"channels_last": "net = nn.Conv2d(2, 1, 2, bias=False).to(memory_format=torch.channels_last)\n",
                "bf16": "net = nn.Conv2d(2, 1, 2, bias=False).bfloat16()\n", "views": "net = nn.Conv2d(2, 1, 2, bias=False)\n"}  # fmt: skip
        for kind, make in made.items():
            for copies in "", COPIES:
                for flags in 0, TAKES_GRADIENTS:
                    program = HEAD + make + SGD + copies + "opt = psgd.trainer.wrap(net, opt)\n"
                    program += "for x in psgd.trainer.steps([0]):\n    net.weight.grad = torch.ones_like(net.weight)\n    opt.step()\n"
                    with self.subTest(kind, copies=bool(copies), flags=flags), Psgd(program) as p:
                        p.begin(flags, [4] * 8, every=9)
                        step = p.step if flags else p.local_step
                        is_view = kind == "views" and not copies
                        step(0, reads=False)
                        self.assertEqual(p.params[0], 3.5 if is_view else 4)
                        step(1)
                        self.assertEqual(p.params.tolist(), [3] * 8)
                        step(2, reads=False)
                        step(3, reads=False)
                        self.assertEqual(p.params[0], 2 if is_view else 3)
                        p.store()
                        self.assertEqual(p.params.tolist(), [2] * 8)
                        p.store()  # nothing is behind
                        step(4, reads=False)
                        p.store()
                        p.params[0] = 9  # an exchange
                        step(5, flags=TAKES_PART | HAS_CHANGED)
                        self.assertEqual(p.params.tolist(), [8.5] + [1] * 7)
                        p.stop()

    def test_statistics_are_copied_where_psgd_reads_them(self):
        program = HEAD + "net = nn.Sequential(nn.BatchNorm1d(1, affine=False, momentum=0.5), nn.Linear(1, 1))\n" + SGD + "%s" + REST
        for copies in "", COPIES:
            with Psgd(program % copies) as p:  # the mean goes half of the way to 1.5 in each step
                p.begin(0, [1, 1, 10, 2])
                p.local_step(0, reads=False)
                self.assertEqual(p.params[2], 10)
                p.local_step(1)
                self.assertEqual(p.params[2], 3.625)
                p.local_step(2, reads=False)
                p.store()
                self.assertEqual(p.params[2], 2.5625)
                p.stop()
            with Psgd(program % copies) as p:
                p.begin(TAKES_GRADIENTS, [1, 1, 10, 2])
                self.assertEqual(p.step(0, [0, 0, 4, 1], reads=False).grads[2], 4.25)
                self.assertEqual(p.step(1, [0, 0, 1, 0], reads=False).grads[2], 2.25)  # from 6 to 3.75
                p.store()
                self.assertEqual(p.params.tolist()[2:], [5, 1])
                p.stop()

    def test_the_vector_has_the_order_of_indices_and_channels_last_stays(self):
        program = HEAD + "net = nn.Conv2d(2, 1, 2).to(memory_format=torch.channels_last)\n"
        program += "with torch.no_grad():\n    net.weight.copy_(torch.arange(8.0).reshape(1, 2, 2, 2))\n    net.bias.zero_()\n" + SGD + "%s"
        program += REST.replace("[torch.tensor([[1.0], [2.0]])]", "[torch.arange(8.0).reshape(1, 2, 2, 2).to(memory_format=torch.channels_last)]")
        program = program.replace("    opt.step()", "    opt.step()\n    print(net.weight.is_contiguous(memory_format=torch.channels_last))")
        for copies in "", COPIES:
            with Psgd(program % copies) as p:
                p.begin(DESCRIBES)
                self.assertEqual(p.params.tolist(), [*range(8), 0])
                p.stop(flags=DESCRIBES)
            with Psgd(program % copies) as p:
                p.begin(TAKES_GRADIENTS, [*range(8), 0])
                self.assertEqual(p.step(0, [2 * k for k in range(9)]).grads, [*range(8), 1])
                self.assertEqual(p.params.tolist(), [0] * 8 + [-8])
                p.stop()
            self.assertEqual(p.stdout, "True\n")

    def test_the_vector_is_the_float32_master_of_parameters_of_fewer_bits(self):
        for kind in "bfloat16", "float16":
            program = HEAD + f"net = nn.Linear(1, 1).to(torch.{kind})\n" + SGD + "%s"
            program += f"""
opt = psgd.trainer.wrap(net, opt)
for x in psgd.trainer.steps([0]):
    print(net.weight.item())
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    opt.step()
"""
            for copies in "", COPIES:
                with Psgd(program % copies) as p:
                    p.begin(TAKES_GRADIENTS, [1 + 2**-20, 2])
                    self.assertEqual(p.step(0, [0, 0]).grads, [1, 1])
                    self.assertEqual(p.params.tolist(), [1 + 2**-20, 2])  # no bit is lost
                    p.step(1, [1, 1])
                    self.assertEqual(p.params.tolist(), [0.5 + 2**-20, 1.5])
                    p.stop()
                self.assertEqual(p.stdout, "1.0\n1.0\n")

    def test_float64_is_exchanged_as_float32_and_said(self):
        with Psgd(LINEAR.replace("nn.Linear(1, 1)", "nn.Linear(1, 1).double()").replace("net(x)", "net(x.double())")) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            self.assertEqual(p.step(0, [2, 2]).grads, [1.5, 1])
            self.assertEqual(p.params.tolist(), [2, 3])
            p.stop()
        self.assertEqual(p.stderr.count("is of float64: psgd exchanges float32"), 1)

    def test_a_net_that_moves_or_gets_other_tensors_after_wrap_is_copied_and_said_once(self):
        moves = {
            "net.double().float()": [7, 8],
            "net.weight.data = torch.full((1, 1), 7.0)": [7, 8],
            "net.load_state_dict({'weight': torch.full((1, 1), 7.0), 'bias': torch.full((1,), 8.0)})": [7, 8],
        }
        for move in moves:
            program = LINEAR.replace("    opt.zero_grad()", f"    if psgd.trainer.worker().steps_done == 1:\n        {move}\n    opt.zero_grad()")
            with self.subTest(move), Psgd(program) as p:
                p.begin(TAKES_GRADIENTS, [7, 8])
                p.step(0, [0, 0])
                p.step(1, [2, 2])
                self.assertEqual(p.params.tolist(), [6, 7])
                p.params[0] = 1
                p.step(2, [2, 2], TAKES_PART | HAS_CHANGED)
                self.assertEqual(p.params.tolist(), [0, 6])
                p.stop()
            self.assertEqual(p.stderr.count("was moved or replaced after wrap()"), 0 if "load_state" in move else 1)

    @unittest.skipIf(torch.__version__ < "2.1", "torch before 2.1 has no load_state_dict(assign=True)")
    def test_tensors_that_are_assigned_before_the_optimizer_is_made_anew(self):
        move = """
    if psgd.trainer.worker().steps_done == 1:
        net.load_state_dict({'weight': torch.full((1, 1), 7.0), 'bias': torch.full((1,), 8.0)}, assign=True)
        opt.param_groups[0]["params"] = list(net.parameters())
"""
        with Psgd(LINEAR.replace("    opt.zero_grad()", move + "    opt.zero_grad()")) as p:
            p.begin(TAKES_GRADIENTS, [0, 0])
            p.step(0, [0, 0])
            p.step(1, [2, 2])
            self.assertEqual(p.params.tolist(), [6, 7])
            p.stop()
        self.assertEqual(p.stderr.count("was moved or replaced after wrap()"), 1)

    def test_a_parameter_that_the_optimizer_does_not_know_is_refused(self):
        move = "    if psgd.trainer.worker().steps_done == 1:\n        net.weight = nn.Parameter(torch.ones(1, 1))\n"
        with Psgd(LINEAR.replace("    opt.zero_grad()", move + "    opt.zero_grad()")) as p:
            p.begin(TAKES_GRADIENTS)
            p.step(0)
            p.go(1)
            self.assertTrue(p.take(FAILED).text.startswith("SGD updates 1 tensors that are no parameters of the net"))
            p.expects = 1


class Scalers(unittest.TestCase):
    """torch's own scaler works on a GPU only before torch 2.3: this one has its calls, and its file's name."""

    SCALER = """
class GradScaler:
    scale_now, n_found = 4.0, None
    def is_enabled(self):
        return True
    def get_scale(self):
        return self.scale_now
    def scale(self, loss):
        return loss * self.scale_now
    def unscale_(self, opt):
        if self.n_found is not None:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        self.n_found = 0
        for group in opt.param_groups:
            for p in group["params"]:
                p.grad /= self.scale_now
                self.n_found += int(not p.grad.isfinite().all())
    def step(self, opt, *args, **kwargs):
        if self.n_found is None:
            self.unscale_(opt)
        if not self.n_found:
            return opt.step(*args, **kwargs)
    def update(self):
        self.scale_now /= 2 if self.n_found else 1
        self.n_found = None
    def state_dict(self):
        return {"scale": self.scale_now}
    def load_state_dict(self, state):
        self.scale_now = state["scale"]
"""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        with open(os.path.join(cls.folder.name, "grad_scaler.py"), "w") as f:
            f.write(cls.SCALER)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def program(self, step):
        loop = f"    scaler.scale(net(x).mean()).backward()\n    {step}\n    scaler.update()"
        text = LINEAR.replace("    net(x).mean().backward()\n    opt.step()", loop)
        # The first batch has a gradient that is not finite.
        text = text.replace("[torch.tensor([[1.0], [2.0]])]", "[torch.tensor([[float('inf')]]), torch.tensor([[1.0], [2.0]])]")
        return f"import sys\nsys.path.insert(0, {self.folder.name!r})\nfrom grad_scaler import GradScaler\nscaler = GradScaler()\n" + text

    def test_a_step_that_overflows_has_no_weight_but_is_taken(self):
        with Psgd(self.program("psgd.trainer.worker().step(opt, scaler=scaler)")) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            r = p.step(0, [2, 2])
            self.assertEqual((r.grads, r.n, r.loss, p.params.tolist()), ([0, 0], 0, 0, [2, 3]))
            r = p.step(1)
            self.assertEqual((r.grads, r.n, r.loss), ([1.5, 1], 2, 2 * 1.5 + 3))
            before = p.params.tolist()
            r = p.step(2)
            self.assertEqual((r.n, p.params.tolist()), (0, before))
            p.stop()

    def test_clipping_after_the_combination(self):
        clip = "w = psgd.trainer.worker()\n    w.gradient(scaler=scaler)\n    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n    w.step(opt, scaler=scaler)"
        with Psgd(self.program(clip)) as p:
            p.begin(TAKES_GRADIENTS, [0, 0])
            r = p.step(0, [30, 40])  # its own is not finite, but the others' is
            self.assertEqual((r.grads, r.n, r.loss), ([0, 0], 0, 0))
            for got, due in zip(p.params.tolist(), [-0.3, -0.4]):
                self.assertAlmostEqual(got, due, 5)
            r = p.step(1, [30, 40])
            self.assertEqual((r.grads, r.n), ([1.5, 1], 2))
            before = p.params.tolist()
            self.assertEqual(p.step(2).n, 0)
            self.assertEqual(p.params.tolist(), before)
            p.stop()

    @unittest.skipIf(torch.__version__ < "2.3", "torch before 2.3 has no torch.amp.GradScaler('cpu')")
    def test_torchs_own_scaler(self):
        own = "scaler = torch.amp.GradScaler('cpu', init_scale=4.0)\n"
        for flags, step in (TAKES_GRADIENTS, "psgd.trainer.worker().step(opt, scaler=scaler)"), (0, "scaler.step(opt)"):
            program = self.program(step).replace("from grad_scaler import GradScaler\nscaler = GradScaler()\n", "")
            with self.subTest(step), Psgd(program.replace("opt = psgd", own + "opt = psgd") + "print(scaler.get_scale())") as p:
                p.begin(flags, [3, 4])
                if flags:
                    r = p.step(0, [2, 2])
                    self.assertEqual((r.grads, r.n, p.params.tolist()), ([0, 0], 0, [2, 3]))
                    r = p.step(1)
                    self.assertEqual((r.grads, r.n, r.loss, p.params.tolist()), ([1.5, 1], 2, 6, [1.25, 2.5]))
                else:
                    r = p.local_step(0)  # the first batch makes none
                    self.assertEqual((r.n, r.loss, p.params.tolist()), (2, 8.5, [2.25, 3.5]))
                p.stop()
            self.assertIn(p.stdout, ("2.0\n", "1.0\n"))

    def test_the_bare_step_of_a_scaler_is_refused_where_the_others_would_wait(self):
        with Psgd(self.program("scaler.step(opt)")) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            p.go(0)
            self.assertTrue(p.take(FAILED).text.startswith("scaler.step(opt) may leave a step out, and the other workers would wait"))
            p.expects = 1

    def test_under_a_rule_of_parameters_a_step_that_is_left_out_is_none(self):
        with Psgd(self.program("scaler.step(opt)")) as p:
            p.begin(0, [3, 4])
            r = p.local_step(0)
            self.assertEqual((r.n, r.loss, p.params.tolist()), (2, 8.5, [2.25, 3.5]))
            p.stop()


class Factors(unittest.TestCase):
    """A codec's lr_factor."""

    GROUPS = NET + """
opt = torch.optim.SGD([{"params": [net.weight], "lr": 0.5}, {"params": [net.bias], "lr": 1.0}], lr=0.1)
"""

    def test_each_group_of_the_optimizer_has_its_rate_multiplied_for_one_step(self):
        program = self.GROUPS + REST + "print([g['lr'] for g in opt.param_groups])"
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            self.assertEqual(p.step(0, [2, 2], factor=0.25).lr, 0.5)
            self.assertEqual(p.params.tolist(), [3 - 0.25, 4 - 0.5])
            p.step(1, [2, 2])
            self.assertEqual(p.params.tolist(), [2.75 - 1, 3.5 - 2])
            p.stop()
        self.assertEqual(p.stdout, "[0.5, 1.0]\n")
        with Psgd(program) as p:
            p.begin(0, [3, 4])
            self.assertEqual(p.local_step(0, factor=0.25).lr, 0.5)
            self.assertEqual(p.params.tolist(), [3 - 0.125 * 1.5, 4 - 0.25])
            p.stop()
        self.assertEqual(p.stdout, "[0.5, 1.0]\n")

    def test_a_rate_that_is_a_tensor_is_multiplied_too(self):
        with Psgd(LINEAR.replace("lr=0.5", "lr=torch.tensor(0.5)") + "print(float(opt.param_groups[0]['lr']))") as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            p.step(0, [2, 2], factor=0.25)
            self.assertEqual(p.params.tolist(), [2.75, 3.75])
            p.stop()
        self.assertEqual(p.stdout, "0.5\n")

    def test_a_worker_that_sits_out_follows_the_others_at_this_rate(self):
        with Psgd(LINEAR) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            p.step(0, [2, 2], flags=0, factor=0.25)
            self.assertEqual(p.params.tolist(), [2.75, 3.75])
            p.stop()

    def test_an_optimizer_without_a_rate_is_refused(self):
        program = LINEAR.replace("opt = psgd", "del opt.param_groups[0]['lr']\nopt = psgd").replace("opt.step()", "psgd.trainer.worker().gradient(lr=1)\n    opt.step()")
        with Psgd(program) as p:
            p.begin(0)
            p.go(0, factor=0.5)
            self.assertEqual(p.take(FAILED).text, "the job's rule multiplies the learning rate by 0.5, and SGD has none")
            p.expects = 1

    def test_a_loop_of_the_programs_own_asks_for_it(self):
        program = NET + SGD + """
w = psgd.trainer.open(net)
while w.next():
    opt.zero_grad()
    loss = net(torch.ones(3, 1)).mean()
    loss.backward()
    w.gradient(loss=loss, samples=3, lr=0.5)
    opt.param_groups[0]["lr"] = 0.5 * %s
    opt.step()
    w.stepped()
"""
        with Psgd(program % "w.lr_factor") as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            self.assertEqual(p.step(0, [2, 2], factor=0.5).lr, 0.5)
            self.assertEqual(p.params.tolist(), [2.5, 3.5])
            p.stop()
        with Psgd(program % "1") as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            p.go(0)
            p.take(GRADIENT)
            p.send(UPDATE, lr=0.5)
            self.assertTrue(p.take(FAILED).text.startswith("the job's rule changes the learning rate, here by 0.5: multiply"))
            p.expects = 1


class Optimizers(unittest.TestCase):
    TWO = HEAD + """
net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
a = torch.optim.SGD(net[0].parameters(), lr=1)
b = torch.optim.SGD(net[1].parameters(), lr=1)
psgd.trainer.wrap(net, [a, b])
for x in psgd.trainer.steps([torch.ones(1, 1)]):
    net.zero_grad()
    net(x).sum().backward()
    a.step()
    b.step()
"""

    def test_each_of_several_has_a_step_of_its_own_where_gradients_are_combined(self):
        with Psgd(self.TWO) as p:
            p.begin(TAKES_GRADIENTS, [1, 0, 2, 0])
            self.assertEqual(p.step(0, [1, 1, 9, 9]).grads, [2, 2, 0, 0])
            self.assertEqual(p.params.tolist(), [0, -1, 2, 0])
            self.assertEqual(p.step(1, [9, 9, 1, 1]).grads, [0, 0, 1, 1])
            self.assertEqual(p.params.tolist(), [0, -1, 1, -1])
            p.stop()

    def test_the_program_goes_on_where_the_job_ends_before_the_last_of_several(self):
        with Psgd(self.TWO + "print('after the loop', net[1].weight.item())") as p:
            self.assertEqual(p.begin(TAKES_GRADIENTS, [1, 0, 2, 0]), 1)
            p.step(0)
            p.step(1)
            p.step(2)
            p.stop()
        self.assertEqual(p.stdout[:14], "after the loop")

    def test_steps_of_an_epoch_are_those_that_the_program_says(self):
        with Psgd(self.TWO.replace("1)]):", "1)], steps_per_epoch=2):")) as p:
            self.assertEqual(p.begin(TAKES_GRADIENTS), 2)
            p.stop()

    def test_gradients_that_are_kept_are_not_lost_where_another_optimizer_has_its_step(self):
        with Psgd(self.TWO.replace("net.zero_grad()", "net.zero_grad(set_to_none=False)")) as p:
            p.begin(TAKES_GRADIENTS, [1, 0, 2, 0])
            for k in range(4):  # the parameters stay as they are
                self.assertEqual(p.step(k, [0] * 4).grads, [[2, 2, 0, 0], [0, 0, 1, 1]][k % 2])
            p.stop()

    def test_the_last_of_several_ends_the_step_where_parameters_are(self):
        with Psgd(self.TWO) as p:
            p.begin(0, [1, 0, 2, 0])
            p.local_step(0)
            self.assertEqual(p.params.tolist(), [-1, -2, 1, -1])
            p.stop()

    def test_a_scheduler_that_the_loop_does_not_step_is_stepped_after_each_pass(self):
        made = "sched = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)\n"
        for own, due in ("", [0.5, 0.5, 0.25, 0.25]), ("\n    sched.step()", [0.5, 0.25, 0.125, 0.0625]):
            program = LINEAR.replace("wrap(net, opt)", "wrap(net, opt, sched)").replace("opt = psgd", made + "opt = psgd")
            program = program.replace("steps([", "steps(2 * [").replace("    opt.step()", "    opt.step()" + own)
            with self.subTest(own), Psgd(program) as p:
                p.begin(TAKES_GRADIENTS)
                self.assertEqual([p.step(k).lr for k in range(4)], due)
                p.stop()
            self.assertEqual(p.stderr, "")

    def test_a_plateau_is_seen_by_the_evaluations(self):
        made = "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)\n"
        program = LINEAR.replace("wrap(net, opt)", "wrap(net, opt, sched)").replace("opt = psgd", made + "opt = psgd")
        with Psgd(program.replace("]])])", "]])], evaluate=lambda: (1.0, 0.5, int(not net.training)))")) as p:
            p.begin(TAKES_GRADIENTS)
            rates = []
            for k in range(3):
                rates.append(p.step(k).lr)
                p.send(EVALUATE, step=k)
                r = p.take(EVALUATED)
                self.assertEqual((r.n, r.loss, r.accuracy), (1, 1, 0.5))
            self.assertEqual(rates[:2], [0.5, 0.5])
            self.assertAlmostEqual(rates[2], 0.05)
            p.stop()

    def test_a_plateau_has_its_evaluation_in_a_checkpoint(self):
        made = "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)\n"
        program = LINEAR.replace("wrap(net, opt)", "wrap(net, opt, sched)").replace("opt = psgd", made + "opt = psgd")
        program = program.replace("]])])", "]])], evaluate=lambda: 1.0)")

        def rates(p, steps, save_at=-1):
            found, state = [], b""
            for k in steps:
                found.append(p.step(k).lr)
                p.send(EVALUATE, step=k)
                p.take(EVALUATED)
                if k == save_at:
                    state = p.answer(SAVE, b"")
            p.stop()
            return found, state

        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS)
            due, state = rates(p, range(5), 1)
        self.assertEqual(len(set(due)), 4)
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS | IS_RESUMED, n_done=2)
            p.answer(RESTORE, state)
            self.assertEqual(rates(p, range(2, 5))[0], due[2:])
        self.assertEqual(p.stderr, "")

    def test_buffers_that_are_not_exchanged_are_in_a_checkpoint(self):
        program = NET.replace(
            "net = nn.Linear(1, 1)",
            """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(1, affine=False, momentum=None), nn.Linear(1, 1)
        self.register_buffer("own", torch.zeros(2), persistent=False)
        self.register_buffer("seen", torch.zeros(0), persistent=False)
        self.register_buffer("mask", torch.full((2,), float("-inf")))
        self.register_buffer("wide", torch.ones(1).expand(2))
        self.register_buffer("edges", torch.eye(2).to_sparse())
    def forward(self, x):
        self.own = self.own + 1
        self.mask[0] += 1
        self.mask[1] = len(self.seen)
        self.seen = torch.cat([self.seen, x[:1, 0]])
        return self.out(self.norm(x))
net = Net()
""",
        )
        shown = "    print([b.tolist() for name, b in net.named_buffers() if name != 'edges'])"
        program += SGD + REST.replace("    opt.step()", "    opt.step()\n" + shown)
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS)
            self.assertEqual(list(p.shapes), ["out.weight", "out.bias", "norm.running_mean", "norm.running_var"])
            p.step(0)
            p.step(1)
            state, params = p.answer(SAVE, b""), p.params.tolist()
            p.step(2)
            p.stop()
        with Psgd(program) as q:
            q.begin(TAKES_GRADIENTS | IS_RESUMED, params, n_done=2)
            q.answer(RESTORE, state)
            q.step(2)
            q.stop()
        self.assertEqual(q.stdout.splitlines(), p.stdout.splitlines()[2:])
        self.assertEqual(q.stdout, "[[3.0, 3.0], [1.0, 1.0, 1.0], [-inf, 2.0], [1.0, 1.0], [1.5], [0.5], 3]\n")

    def test_a_resumed_program_goes_on_to_the_bit(self):
        program = (
            HEAD
            + """
data = torch.utils.data.TensorDataset(torch.randn(24, 5), torch.randn(24, 1))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True%s)
net = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
torch.manual_seed(int(sys.argv[1]))
opt = torch.optim.Adam(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.%s
opt = psgd.trainer.wrap(net, opt, sched)
for x, y in psgd.trainer.steps(loader):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()%s
"""
        )
        cases = (
            ("", "MultiStepLR(opt, [1, 2], gamma=0.1)", ""),
            (", generator=torch.Generator().manual_seed(5)", "OneCycleLR(opt, 1.0, total_steps=99)", ""),
            (", num_workers=1", "LambdaLR(opt, lambda k: 1 / (1 + k))", ""),
            ("", "StepLR(opt, 1, gamma=0.5)", "; sched.step()"),
        )
        for case in cases:
            with Psgd(program % case, "1") as p:
                p.begin(DESCRIBES, n_nodes=1)
                first = p.params.tolist()
                p.stop(flags=DESCRIBES)
            for at in 2, 3, 4:
                with self.subTest(case=case, at=at):
                    with Psgd(program % case, "1") as p:
                        p.begin(TAKES_GRADIENTS, first, n_nodes=1)
                        for k in range(7):
                            if k == at:
                                state, params = p.answer(SAVE, b""), p.params.tolist()
                            p.step(k)
                        due = p.params.tolist()
                        p.stop()
                    with Psgd(program % case, "2") as q:
                        q.begin(TAKES_GRADIENTS, params, n_nodes=1, n_done=at)
                        q.answer(RESTORE, state)
                        for k in range(at, 7):
                            q.step(k)
                        self.assertEqual(due, q.params.tolist())
                        q.stop()

    def test_a_tensor_of_more_than_2_gib_has_all_its_bytes(self):
        program = HEAD + "from psgd.trainer_torch_state import memory_of\nprint(len(memory_of(torch.empty(1, dtype=torch.uint8).expand(2**31 + 8))))"
        self.assertEqual(alone(program), f"{2**31 + 8}\n")

    def test_a_checkpoint_in_which_code_hides_is_not_run(self):
        evil = b"\x80\x02cos\nsystem\nX\x0e\x00\x00\x00touch hacked  \x85R."
        with Psgd(LINEAR) as p:
            p.begin(TAKES_GRADIENTS)
            file = os.memfd_create("state")
            os.write(file, evil)
            os.lseek(file, 0, os.SEEK_SET)
            p.send(RESTORE, file=file)
            p.take(FAILED)
            os.close(file)
            p.expects = 1
        self.assertFalse(os.path.exists("hacked"))


class Refused(unittest.TestCase):
    def refused(self, program, sentence):
        text = alone(program.replace("opt = psgd.trainer.wrap(net, opt)", "try:\n    psgd.trainer.wrap(net, opt)\nexcept psgd.trainer.Error as e:\n    print(e)\n    sys.exit()"))
        self.assertIn(sentence, text)

    def test_nets_that_have_no_whole_dense_real_tensors(self):
        nets = {
            "nn.Embedding(3, 2, sparse=True)": "Embedding(sparse=True) has sparse gradients",
            "nn.LazyLinear(1)": "has no shape yet: call the net once with a batch before wrap()",
            "nn.Linear(1, 1, device='meta')": "is on the device meta and has no values",
            "nn.Linear(1, 1, dtype=torch.complex64)": "is of torch.complex64: psgd exchanges real floats",
            "type('DistributedDataParallel', (nn.Linear,), {})(1, 1)": "give net.module",
            "type('FullyShardedDataParallel', (nn.Linear,), {})(1, 1)": "a part of each parameter only: give wrap() the net itself, without FullySha",
            "type('FSDPLinear', (nn.Linear,), {})(1, 1)": "a part of each parameter only: give wrap() the net itself, without FSDPLinear",
            "type('DeepSpeedEngine', (nn.Linear,), {})(1, 1)": "which has a part of each parameter only",
            "nn.Linear(1, 1)\nnet.weight.ds_id = 0": "'weight' is in parts, by DeepSpeed's ZeRO-3",
            "nn.Linear(1, 1)\nnet.weight = type('DTensor', (nn.Parameter,), {})(torch.ones(1, 1))": "'weight' is a DTensor, of which each process has a part",
        }
        for net, sentence in nets.items():
            with self.subTest(net):
                made = "opt = None\n" if "Lazy" in net else SGD
                self.refused(HEAD + f"net = {net}\n" + made + REST, sentence)

    def test_gradients_that_are_sparse(self):
        with Psgd(LINEAR.replace("    opt.step()", "    net.weight.grad = net.weight.grad.to_sparse()\n    opt.step()")) as p:
            p.begin(TAKES_GRADIENTS)
            p.go(0)
            self.assertEqual(p.take(FAILED).text, "the gradient of 'weight' is sparse: psgd exchanges dense ones (sparse=False)")
            p.expects = 1

    def test_a_tensor_that_has_another_shape_than_at_wrap_or_is_gone(self):
        changes = {
            "net.weight = nn.Parameter(torch.ones(2, 1))": "'weight' had the shape (1, 1) at wrap(), and now (2, 1)",
            "net.weight.data = torch.ones(2, 1)": "'weight' had the shape (1, 1) at wrap(), and now (2, 1)",
            "net.bias = None": "the net has lost 'bias' since wrap()",
        }
        for change, sentence in changes.items():
            with self.subTest(change), Psgd(LINEAR.replace("    opt.step()", f"    {change}\n    opt.step()")) as p:
                p.begin(TAKES_GRADIENTS)
                p.go(0)
                self.assertEqual(p.take(FAILED).text, sentence)
                p.expects = 1

    def test_an_optimizer_of_other_tensors(self):
        program = LINEAR.replace("net.parameters()", "[*net.parameters(), nn.Parameter(torch.ones(1))]")
        self.refused(program, "SGD updates 1 tensors that are no parameters of the net")

    def test_lbfgs_where_gradients_are_combined(self):
        program = LINEAR.replace("SGD", "LBFGS")
        with Psgd(program) as p:
            p.take_tensors()
            p.accept(TAKES_GRADIENTS)
            self.assertTrue(p.take(FAILED).text.startswith("LBFGS computes several gradients in a step"))
            p.expects = 1

    def test_what_is_no_net_or_no_optimizer(self):
        self.refused(LINEAR.replace("opt = psgd", "net, opt = opt, net\nopt = psgd"), "wrap(net, optimizer): the first is SGD, not a module")
        self.refused(LINEAR.replace("opt = psgd", "opt = 3\nopt = psgd"), "wrap(net, optimizer): the second is int, not an optimizer of torch")

    def test_a_net_that_is_replaced_after_wrap(self):
        for flags in 0, TAKES_GRADIENTS:
            with Psgd(LINEAR.replace("for x", "net = nn.Linear(1, 1)\nfor x")) as p:
                p.begin(flags)
                p.go(0)
                self.assertEqual(
                    p.take(FAILED).text, "no parameter had a gradient in step 1: is the net that was given to wrap() the one that is trained?"
                )
                p.expects = 1

    def test_an_optimizer_that_was_not_given_to_wrap(self):
        with Psgd(LINEAR.replace("for x", SGD + "for x")) as p:
            p.begin()
            p.go(0)
            self.assertTrue(p.take(FAILED).text.startswith("the parameters change and no step is made: the loop calls step() of another"))
            p.expects = 1

    def test_several_optimizers_where_local_steps_are_changed(self):
        with Psgd(Optimizers.TWO) as p:
            p.take_tensors()
            p.accept(TAKES_GRADIENTS, every=10)
            self.assertTrue(p.take(FAILED).text.startswith("the job's rule changes the gradient of each local step"))
            p.expects = 1


@unittest.skipUnless(torch.cuda.is_available(), "there is no GPU")
class Gpu(unittest.TestCase):
    def test_parameters_and_gradients_go_through_pinned_memory(self):
        program = LINEAR.replace("nn.Linear(1, 1)", "nn.Linear(1, 1).cuda()").replace("net(x)", "net(x.cuda())")
        with Psgd(program + "print(psgd.trainer.worker()._shared[0].is_pinned())") as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            self.assertEqual(p.step(0, [10, 20]).grads, [1.5, 1])
            self.assertEqual(p.params.tolist(), [-2, -6])
            p.params[0] = 9
            self.assertEqual(p.step(1, [2, 2], TAKES_PART | HAS_CHANGED).loss, 9 * 1.5 - 6)
            self.assertEqual(p.params.tolist(), [8, -7])
            p.stop()
        self.assertEqual((p.stdout, p.stderr), ("True\n", ""))

    def test_a_net_that_moves_there_after_wrap(self):
        program = LINEAR.replace("    opt.zero_grad()", "    net.cuda()\n    x = x.cuda()\n    opt.zero_grad()")
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            for k in range(3):
                self.assertEqual(p.step(k, [2, 2]).grads, [1.5, 1])
            self.assertEqual(p.params.tolist(), [0, 1])
            p.stop()
        self.assertEqual(p.stderr.count("was moved or replaced after wrap()"), 1)

    def test_half_precision_under_autocast_with_torchs_own_scaler(self):
        program = LINEAR.replace("nn.Linear(1, 1)", "nn.Linear(1, 1).cuda()").replace("for x", "scaler = torch.cuda.amp.GradScaler()\nfor x")
        program = program.replace(
            "    net(x).mean().backward()\n    opt.step()",
            """
    with torch.autocast("cuda"):
        loss = net(x.cuda()).mean()
    scaler.scale(loss).backward()
    psgd.trainer.worker().step(opt, scaler=scaler)
    scaler.update()""",
        )
        with Psgd(program) as p:
            p.begin(TAKES_GRADIENTS, [3, 4])
            r = p.step(0, [2, 2])
            self.assertEqual((r.grads, r.loss, p.params.tolist()), ([1.5, 1], 8.5, [2, 3]))
            p.stop()


class Alone(unittest.TestCase):
    def test_the_script_trains_as_without_psgd(self):
        program = (
            HEAD
            + """
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.1)
x = torch.randn(5, 8, 3)
%s
for epoch in range(2):
    for batch in %s:
        opt.zero_grad()
        net(batch).square().mean().backward()
        opt.step()
print([p.tolist() for p in net.state_dict().values()])
"""
        )
        for copies in "", COPIES:
            self.assertEqual(
                alone(program % ("", "x")), alone(program % (copies + "opt = psgd.trainer.wrap(net, opt)", "psgd.trainer.steps(x)"))
            )


    def test_a_scheduler_is_stepped_once_after_each_pass_whoever_steps_it(self):
        text = LINEAR.replace("opt = psgd", "sched = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)\nopt = psgd")
        text = text.replace("wrap(net, opt)", "wrap(net, opt, sched)").replace("for x", "for epoch in range(3):\n  for x")
        text = text.replace("    opt.step()\n", "    print(opt.param_groups[0]['lr'])\n    opt.step()%s\n")
        for own in "", "\n    sched.step()", "\n  sched.step()":
            self.assertEqual(alone(text % own), "0.5\n0.25\n0.125\n", own)

    def test_a_plateau_is_seen_by_the_evaluation_after_each_pass(self):
        text = LINEAR.replace("opt = psgd", "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)\nopt = psgd")
        text = text.replace("wrap(net, opt)", "wrap(net, opt, sched)").replace("for x", "for epoch in range(3):\n  for x")
        text = text.replace("]])])", "]])], evaluate=lambda: 1.0)") + "print(round(opt.param_groups[0]['lr'], 6))"
        self.assertTrue(alone(text).startswith("0.05\n"))


class Clients(unittest.TestCase):
    BODY = """
def train(net, indices, round):
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    loss = net(torch.tensor([[1.0], [2.0]])).mean()
    loss.backward()
    opt.step()
    return loss.detach(), 2
def gradient(net, indices, step):
    loss = net(torch.tensor([[1.0], [2.0]])).mean()
    loss.backward()
    return loss.detach(), 2
"""

    def each(self, client):
        for copies in "", COPIES:
            with self.subTest(copies=bool(copies)), Psgd(NET + self.BODY + copies + client) as p:
                yield p

    def test_a_function_trains_the_net_with_the_values_of_the_client(self):
        for p in self.each("psgd.trainer.client(net, train)"):
            p.begin(SIMULATES, [3, 4])
            for values, expected in ([3, 4], [2.25, 3.5]), ([1, 1], [0.25, 0.5]):
                p.params[0], p.params[1] = values
                p.go_for(0, 0)
                self.assertEqual((p.take(UPDATED).n, p.params.tolist()), (2, expected))
            p.stop()

    def test_a_function_gives_the_gradient_of_the_net(self):
        for p in self.each("psgd.trainer.client(net, gradient=gradient)"):
            p.begin(SIMULATES | TAKES_GRADIENTS, [3, 4])
            for step in range(2):
                p.go_for(step, step)
                self.assertEqual((p.take(GRADIENT).loss, p.grads.tolist()), (8.5, [1.5, 1]))
            p.stop()

    def test_alone_it_trains(self):
        # The gradient is 1.5, 1, of which the evaluation's loss, weight + bias, is less by 2.5 times the rate in each round.
        for name, rate in ("train", 0.5), ("gradient=gradient", 0.01):
            begin = "with torch.no_grad():\n    net.weight.fill_(3), net.bias.fill_(4)\n"
            client = f"psgd.trainer.client(net, {name}, evaluate=lambda net: net(torch.ones(1, 1)).item(), rounds=2)"
            self.assertEqual(alone(NET + self.BODY + begin + client).split()[-1], f"{7 - 2 * 2.5 * rate:g}")


if __name__ == "__main__":
    unittest.main()
