"""psgd.trainer under a launcher: how a program starts psgd's process beside itself, and ends. tests/e2e/launchers.bats runs jobs."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from psgd import trainer_launch

ROOT = Path(__file__).resolve().parents[2]
# As job_submit run-ranks: it ends when the program has closed its end of the socket.
BESIDE = """#!/bin/bash
while [ "$1" != --program-fd ]; do shift; done
exec cat <&"$2"
"""


class Launch(unittest.TestCase):
    def run_program(self, text, beside=BESIDE):
        with tempfile.TemporaryDirectory() as folder:
            program, submit = Path(folder, "program.py"), Path(folder, "job_submit")
            program.write_text("import psgd.trainer\n" + text)
            submit.write_text(beside)
            submit.chmod(0o755)
            env = {**os.environ, "PSGD_OPTIONS": "--codec fedavg", "PSGD_JOB_SUBMIT": str(submit)}
            return subprocess.run([sys.executable, program], env=env, stderr=subprocess.PIPE, text=True, timeout=60)

    def test_a_program_that_fails_before_it_has_a_worker_ends(self):
        result = self.run_program('psgd.trainer.open({"W" * 200: (4,)})\n')
        self.assertEqual(result.returncode, 1)
        self.assertIn("psgd.trainer.Error", result.stderr)

    def test_a_program_may_open_its_worker_in_any_thread(self):
        result = self.run_program(
            "import threading\n"
            "from psgd import trainer_launch\n"
            "thread = threading.Thread(target=trainer_launch.Beside, args=[{}])\n"
            "thread.start()\n"
            "thread.join()\n"
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_job_submit_that_cannot_be_started_is_an_error_with_its_name(self):
        result = self.run_program('psgd.trainer.open({"W": (4,)})\n', beside="no program")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"psgd.trainer.Error: /.*/job_submit, which runs this program's node, cannot be started \(.*\)")

    def test_launchers_are_those_that_psgd_knows(self):
        launcher = re.compile(r'^    \{"[^"]*", "(\w+)", (?:"(\w+)"|NULL), (?:"\w+"|NULL), (?:true|false)', re.M)
        known = launcher.findall((ROOT / "shared/job/launch_rank.c").read_text())
        sizes = {rank: size or None for rank, size in known}
        self.assertEqual(set(trainer_launch.RANKS), set(sizes))
        # The batch script has SLURM_NTASKS, too.
        self.assertEqual(trainer_launch.RANKS, {**sizes, trainer_launch.BATCH_RANK: "SLURM_STEP_NUM_TASKS"})
        variable = re.compile(r'^    \{"(\w+)", (?:"(\w+)"|NULL), (?:true|false)\}', re.M)
        in_c = variable.findall((ROOT / "shared/trainer/trainer_launch.h").read_text())
        self.assertEqual({rank: size or None for rank, size in in_c}, trainer_launch.RANKS)

    def test_a_process_is_one_of_several_if_its_launcher_says_so_or_says_no_number(self):
        for environment, rank in (
            ({}, None),
            ({"RANK": "0", "WORLD_SIZE": "2"}, "RANK"),
            ({"RANK": "0", "WORLD_SIZE": "1"}, None),
            ({"PMIX_RANK": "0"}, "PMIX_RANK"),
            ({"SLURM_PROCID": "0"}, None),
            ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, "SLURM_PROCID"),
        ):
            with self.subTest(environment), unittest.mock.patch.dict(os.environ, environment, clear=True):
                self.assertEqual(trainer_launch.rank(), rank)
