"""job_submit as a subprocess: where it is found, what it is told, and how its answers become errors."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from unittest import mock

import psgd
from psgd import program

ECHO = """#!/bin/sh
printf '%s\\n' "$@" >&2
"""


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        clean = {k: v for k, v in os.environ.items() if k != "PSGD_JOB_SUBMIT"}
        patch = mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def script(self, name, text=ECHO):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def test_the_argument_comes_before_the_environment_then_the_package_then_the_path(self):
        argument, named, beside = self.script("a"), self.script("b"), self.script("tree/build/job_submit")
        in_path = self.script("bin/job_submit")
        os.environ["PSGD_JOB_SUBMIT"] = named
        self.assertEqual(program.find(argument), argument)
        self.assertEqual(program.find(), named)
        del os.environ["PSGD_JOB_SUBMIT"]
        os.environ["PATH"] = str(self.folder / "bin")
        with mock.patch.object(program, "__file__", str(self.folder / "tree/python/psgd/program.py")):
            self.assertEqual(program.find(), str(Path(beside).resolve()))
            os.unlink(beside)
            self.assertEqual(program.find(), in_path)
            os.unlink(in_path)
            with self.assertRaisesRegex(psgd.Invalid, "not in PATH\nName it by program="):
                program.find()
        with mock.patch.object(program, "__file__", str(self.folder / "usr/lib/python3/psgd/program.py")):
            installed = self.script("usr/bin/job_submit")
            self.assertEqual(program.find(), str(Path(installed).resolve()))
        with self.assertRaisesRegex(psgd.Invalid, "nowhere: no such program"):
            program.find("nowhere")

    def test_options_that_may_be_repeated_are_those_of_the_reference(self):
        reference = Path(__file__).parents[2] / "docs/reference/job_submit.md"
        rows = re.findall(r"^\| `--([a-z_]+)` .*may be repeated", reference.read_text(), re.MULTILINE)
        self.assertEqual(sorted(set(rows)), sorted(program.REPEATED))

    def test_keyword_arguments_become_options(self):
        given = {
            "node_count": 2, "learn_rate": 1e-05, "epochs": None, "detach": False, "json": True, "name": "--a b;c",
            "data": Path("x y"), "block_ratio": (2, 1, 1),
        }  # fmt: skip
        self.assertEqual(
            program.arguments(given),
            ["--node_count=2", "--learn_rate=1e-05", "--json", "--name=--a b;c", "--data=x y", "--block_ratio=2,1,1"],
        )
        self.assertEqual(
            program.arguments({"tag": ["a", "b,c"], "set": ("lr=1",), "note": None}), ["--tag=a", "--tag=b,c", "--set=lr=1"]
        )
        with self.assertRaisesRegex(psgd.UsageError, "codec: a dict is not a value of an option"):
            psgd.submit(codec={}, program=self.script("a"))

    def test_numbers_of_other_packages_are_the_numbers_that_they_are(self):
        class Float64(float):  # numpy 2's float64 is a float with such a repr()
            def __repr__(self):
                return f"np.float64({float.__repr__(self)})"

        class Rule(str, Enum):
            FEDAVG = "fedavg"

        class Scalar:  # numpy's bool, and torch's tensor of no dimension, are no numbers.Number
            shape = ()

            def __init__(self, value):
                self.item = lambda: value

        given = {
            "lr": Float64(0.1), "momentum": Decimal("0.9"), "decay": Fraction(1, 4), "epochs": Scalar(3), "json": Scalar(True),
            "detach": Scalar(False), "block_ratio": [Float64(2), Scalar(1)], "local_steps": range(2, 4),
            "tag": (Scalar(7), Path("x")), "codec": Rule.FEDAVG,
        }  # fmt: skip
        self.assertEqual(
            program.arguments(given),
            ["--lr=0.1", "--momentum=0.9", "--decay=0.25", "--epochs=3", "--json", "--block_ratio=2.0,1", "--local_steps=2,3",
             "--tag=7", "--tag=x", "--codec=fedavg"],
        )  # fmt: skip
        for value in [None], [[1], None], {1}, b"x", 1j, object():
            with self.subTest(value), self.assertRaisesRegex(psgd.UsageError, "lr: a .* is not a value of an option"):
                program.arguments({"lr": value})
        with self.assertRaisesRegex(psgd.UsageError, r"config: a dict is not a value of an option\nPass its entries .*\*\*options"):
            program.arguments({"config": {"lr": 1}})
        with self.assertRaisesRegex(psgd.UsageError, "cannot be passed on"):
            psgd.submit(name="a\0b", program=self.script("a"))

    def test_the_values_of_a_sweep(self):
        said = self.folder / "said"
        fake = self.script("a", f"#!/bin/sh\nprintf '%s\\n' \"$@\" >'{said}'\necho '{{}}'\n")
        psgd.sweep({"lr": iter([0.1, True, Path("x")]), "epochs": range(2)}, "out", program=fake, tag=["a"], simulate=True)
        self.assertEqual(
            [word for word in said.read_text().split("\n") if word.startswith("--set")],
            ['--set=lr=[0.1, true, "x"]', "--set=epochs=[0, 1]"],
        )
        for values in "fedavg", 5, None, {"a": 1}, [[1]], [{}]:
            with self.subTest(values), self.assertRaisesRegex(psgd.UsageError, "^codec: a "):
                psgd.sweep({"codec": values}, "out", program=fake)
        for values in [("codec", ["fedavg"])], None, "codec=[1]":
            with self.subTest(values), self.assertRaisesRegex(psgd.UsageError, "is not a dict of lists"):
                psgd.sweep(values, "out", program=fake)

    def test_what_names_no_run_is_an_error_of_psgd(self):
        fake = self.script("a")
        for asks in (lambda: psgd.job(None, fake), lambda: psgd.compare({}, program=fake), lambda: psgd.predict(b"x", "o", program=fake)):
            with self.assertRaisesRegex(psgd.UsageError, "is not a value of an option"):
                asks()

    def test_numpys_and_pandas_values(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("numpy is not installed")
        given = {
            "lr": np.float64(0.1), "momentum": np.float32(0.5), "epochs": np.int64(3), "batch_size": np.uint8(32),
            "json": np.bool_(True), "detach": np.bool_(False), "seed": np.array(7), "block_ratio": list(np.arange(2)),
            "name": np.str_("n"),
        }  # fmt: skip
        self.assertEqual(
            program.arguments(given),
            ["--lr=0.1", "--momentum=0.5", "--epochs=3", "--batch_size=32", "--json", "--seed=7", "--block_ratio=0,1", "--name=n"],
        )
        for value in np.zeros(2), np.zeros((2, 2)), np.complex64(1), np.timedelta64(5, "ns"), np.datetime64("2026-01-01", "ns"):
            with self.subTest(value), self.assertRaisesRegex(psgd.UsageError, "lr: a .* is not a value of an option"):
                program.arguments({"lr": value})
        said = self.folder / "said"
        fake = self.script("a", f"#!/bin/sh\nprintf '%s\\n' \"$@\" >'{said}'\necho '{{}}'\n")
        values = {"lr": np.linspace(0.25, 0.75, 3), "batch_size": [np.int64(32)]}
        try:
            import pandas as pd

            values = pd.DataFrame({"lr": values["lr"], "batch_size": [32, 64, 96]})
        except ImportError:
            pass
        psgd.sweep(values, "out", program=fake)
        self.assertIn("--set=lr=[0.25, 0.5, 0.75]\n--set=batch_size=[32", said.read_text())
        with self.assertRaisesRegex(psgd.UsageError, "lr: a ndarray is not a value of an option\n.*tolist"):
            psgd.sweep({"lr": np.zeros((2, 2))}, "out", program=fake)

    def test_arguments_of_a_training_program_follow_the_options(self):
        said, answer = self.folder / "said", '{"data": {"id": "j", "folder": "f"}}'
        fake = self.script("a", f"#!/bin/sh\nprintf '%s\\n' \"$@\" >'{said}'\necho '{answer}'\n")
        psgd.submit(trainer=Path("train.py"), codec="diloco", arguments=["--rate", 0.1, Path("a b")], program=fake)
        self.assertEqual(
            said.read_text().splitlines(),
            ["submit", "--json", "--trainer=train.py", "--codec=diloco", "--detach", "--", "--rate", "0.1", "a b"],
        )

    def test_a_failing_program_is_an_error_with_its_sentence(self):
        said = "echo 'error: no such codec' >&2\necho 'hint: Try.' >&2\necho 'code: CODEC' >&2\n"
        failing = self.script("a", f"#!/bin/sh\n{said}exit 6\n")
        with self.assertRaises(psgd.Invalid) as raised:
            psgd.submit(codec="x", program=failing)
        e = raised.exception
        self.assertEqual((e.message, e.hint, e.code, e.exit_status), ("no such codec", "Try.", "CODEC", 6))
        self.assertEqual(str(e), "no such codec\nTry.")
        self.assertIsInstance(e, ValueError)
        for status, kind in {1: psgd.JobFailed, 2: psgd.UsageError, 3: ConnectionError, 4: psgd.Refused, 5: TimeoutError,
                             7: PermissionError, 8: psgd.Cancelled, 9: psgd.Incomplete, 70: psgd.Error}.items():  # fmt: skip
            with self.assertRaises(kind):
                psgd.job("j", program=self.script("b", f"#!/bin/sh\nexit {status}\n"))
        with self.assertRaisesRegex(psgd.Invalid, "Exec format error"):
            psgd.job("j", program=self.script("c", "\0"))

    def test_much_output_and_progress_on_stderr(self):
        text = "import sys\nsys.stderr.write('line\\n' * 200000)\nprint('{\"data\": {\"state\": \"running\"}}')\n"
        noisy = self.script("a", f"#!{sys.executable}\n{text}")
        with tempfile.TemporaryFile("w+") as shown, mock.patch.object(sys, "stderr", shown):
            answer = program.call(noisy, "status", show=True)
            self.assertEqual(shown.tell(), 5 * 200000)
        self.assertEqual(answer.data["state"], "running")

    def test_ctrl_c_reaches_job_submit_once(self):
        seen = self.folder / "seen"
        text = f"""#!{sys.executable}
import pathlib, signal, sys, time
seen, until = pathlib.Path({str(seen)!r}), time.monotonic() + 60
signal.signal(signal.SIGINT, lambda *_: seen.open("a").write("INT\\n"))
seen.with_name("ready").touch()
while not seen.exists() and time.monotonic() < until:
    time.sleep(0.05)
time.sleep(0.5)
sys.exit(130)
"""
        fake = self.script("a", text)
        call = f"from psgd import program; program.run({fake!r}, ['wait'])"
        # A session of its own, so that the signal reaches this process group, as a terminal's does, and not the tests;
        # which may have been started by a shell in the background, which ignores the signal.
        python = subprocess.Popen(
            [sys.executable, "-c", call], stderr=subprocess.PIPE, start_new_session=True, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        while not (self.folder / "ready").exists() and python.poll() is None:
            time.sleep(0.01)
        os.killpg(python.pid, signal.SIGINT)
        self.assertIn("KeyboardInterrupt", python.communicate()[1])
        self.assertEqual(seen.read_text(), "INT\n")

    def test_every_kind_of_layer_has_a_module_of_torch_and_back(self):
        root = Path(__file__).resolve().parents[2]
        kinds = re.findall(r"^    LAYER\((\w+),", (root / "shared/job/layer_kinds.h").read_text(), re.MULTILINE)
        self.assertGreater(len(kinds), 20)
        layers = (root / "python/psgd/torch_layers.py").read_text()
        layers = layers[layers.index("ELEMENTWISE") :]  # no document has a sum
        for name in "torch_load.py", "torch_save.py":
            text = layers + (root / "python/psgd" / name).read_text()
            self.assertEqual([kind for kind in kinds if f'"{kind}"' not in text and kind != "sum"], [], name)

    def test_the_version_is_that_of_the_programs(self):
        root = Path(__file__).resolve().parents[2]
        version = re.search(r"^VERSION *:?= *(\S+)$", (root / "Makefile").read_text(), re.MULTILINE).group(1)
        project = re.search(r'^version = "(.*)"$', (root / "python/pyproject.toml").read_text(), re.MULTILINE).group(1)
        self.assertEqual((psgd.__version__, project), (version, version))

    def test_the_package_parses_as_python_3_9_and_imports_only_the_standard_library(self):
        import ast

        own = Path(psgd.__file__).parent
        for path in own.glob("*.py"):
            tree = ast.parse(path.read_text(), feature_version=(3, 9))
            imported = [n for node in tree.body if isinstance(node, ast.Import) for n in (a.name for a in node.names)]
            outside = [n for n in imported if n.split(".")[0] in ("numpy", "pandas", "torch")]
            self.assertTrue(not outside or "torch" in path.stem.split("_"), (path.name, outside))
        self.assertTrue((own / "py.typed").exists())


if __name__ == "__main__":
    unittest.main()
