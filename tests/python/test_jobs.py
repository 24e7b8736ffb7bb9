"""Jobs on two agents, whose list is in $WORKERS."""
import json
import math
import os
import tempfile
import unittest
from pathlib import Path

import psgd

WORKERS = os.environ["WORKERS"]
DATASET = "digits:train=2560,test=400"


class Jobs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def submit(self, **options):
        defaults = {"codec": "fedavg", "node_count": 2, "dataset": DATASET, "workers": WORKERS, "output": self.folder / "out"}
        return psgd.submit(**{**defaults, **options})

    def test_a_job_from_its_submission_to_its_model(self):
        job = self.submit(epochs=2, name="mine", batch_size=256)
        self.assertIn(job.state, ("queued", "pending", "preparing", "ready", "running", "succeeded"))
        self.assertIs(job.wait(tensorboard=True), job)
        self.assertTrue(list((job.folder / "tensorboard").glob("worker-1/*.psgd")))
        self.assertEqual((job.state, job.name), ("succeeded", "mine"))
        self.assertEqual((job.settings["codec"], job.options["epochs"]), ("fedavg", "2"))
        self.assertEqual(job.folder, self.folder / "out")
        table = job.records("eval", pandas=False)
        self.assertEqual(len(table), 4)
        self.assertAlmostEqual(job.accuracy, table.where(node=0)["accuracy"][-1], places=6)
        self.assertGreater(job.sent_bytes, 0)
        self.assertEqual(len(job.records(pandas=False).where(node=1)), 2 * 5)
        with self.assertRaisesRegex(psgd.Invalid, "no records/loss.csv\nIt has comm, eval, train."):
            job.records("loss")
        self.assertIn("worker-1 | ", job.logs())
        self.assertNotIn("worker-1 | ", job.logs(node=0))
        weight = job.load_model()["layer0.dense.weight"]
        self.assertEqual(tuple(weight.shape), (784, 128))
        found = job.predict(self.folder / "predictions.csv")
        self.assertAlmostEqual(found["loss"], job.loss, places=6)
        # Its folder alone has the same, and its id finds it again.
        run = psgd.open(self.folder / "out")
        self.assertEqual((run.id, run.state, run.accuracy), (job.id, "succeeded", job.accuracy))
        self.assertEqual(psgd.job(job.id).records("eval", pandas=False)["loss"], table["loss"])
        self.assertIn(str(self.folder / "out"), repr(run))

    def test_a_running_job_has_records_and_can_be_cancelled(self):
        job = self.submit(epochs=100000, record_every=1, batch_size=256, no_queue=True)
        with self.assertRaises(psgd.Timeout):
            job.wait(timeout=0.2)
        while len(job.records(pandas=False)) < 2:
            pass
        self.assertEqual(job.state, "running")
        self.assertIn("worker-0 | ", job.logs(node=0))
        job.cancel("enough")
        self.assertEqual(job.state, "cancelled")
        with self.assertRaisesRegex(psgd.Cancelled, "enough"):
            job.wait()
        job.cancel()  # it has ended: nothing is left to do

    def test_a_job_that_fails_says_why(self):
        with self.assertRaisesRegex(psgd.JobFailed, "the loss is nan"):
            self.submit(epochs=1, codec="plain", learn_rate=1e30, model="mlp-relu", node_count=1).wait()

    def test_errors_have_job_submits_sentence(self):
        for options, kind, sentence in (
            ({"epoch": 2}, psgd.UsageError, "unknown option --epoch\nDid you mean --epochs?"),
            ({"epochs": "two"}, psgd.UsageError, "--epochs"),
            ({"codec": "fedavgg"}, psgd.Invalid, 'unknown codec "fedavgg"'),
            ({"node_count": 3}, psgd.Invalid, "3"),
            ({"workers": self.folder / "none.json"}, psgd.Invalid, "none.json"),
        ):
            with self.subTest(options), self.assertRaises(kind) as raised:
                self.submit(**options)
            self.assertIn(sentence, str(raised.exception))
        with self.assertRaisesRegex(psgd.Invalid, "no job j-none"):
            psgd.job("j-none")
        with self.assertRaisesRegex(psgd.Invalid, "run.json"):
            psgd.open(self.folder)

    def test_a_simulation_gives_a_run(self):
        run = psgd.simulate(codec="fedavg", node_count=4, epochs=4, batch_size=16, dataset=DATASET, output=self.folder / "sim")
        self.assertEqual(run.state, "succeeded")
        self.assertGreater(run.accuracy, 0.3)
        self.assertIn("sim_time_s", run.records("eval", pandas=False).columns)
        record = run.preprocessing()
        self.assertEqual((record["type"], record["shape"], record["n_classes"]), ("bytes", [28, 28, 1], 10))
        self.assertEqual(psgd.load_preprocessing(run.folder), run.document["facts"]["preprocessing"])
        self.assertIsNone(record["words"])
        with self.assertRaisesRegex(psgd.JobFailed, "node"):
            psgd.simulate(codec="plain", epochs=1, learn_rate=1e30, model="mlp-relu", dataset=DATASET, output=self.folder / "bad")
        self.assertTrue(math.isnan(psgd.open(self.folder / "bad").accuracy))
    def test_what_was_learned_from_the_data_is_used_for_new_data(self):
        rows = [f"{i % 2 + 0.001 * i},{'ant' if i % 2 else 'bee'},{i}" for i in range(40)]
        data, model = self.folder / "train.csv", self.folder / "model.json"
        data.write_text("\n".join(["a,kind,b", *rows, ""]))
        layers = [{"kind": "dense", "units": 2}]
        model.write_text(json.dumps({"version": 1, "name": "m", "input": [2], "layers": layers, "loss": "softmax_cross_entropy"}))
        run = psgd.simulate(codec="plain", epochs=20, batch_size=8, learn_rate=0.5, transform="standard", dataset="csv:label=kind",
                            data=data, model=model, output=self.folder / "sim")
        record = run.preprocessing()
        self.assertEqual((record["columns"], record["class_names"]), (["a", "kind", "b"], ["ant", "bee"]))
        self.assertEqual(len(record["mean"]), 2)
        new = self.folder / "new.csv"
        new.write_text("b,a\n3,0.9\n4,0.1\n")
        found = run.predict(self.folder / "new.out.csv", data=new)
        self.assertEqual(found, {})  # no labels, no metrics
        names = [line.split(",")[-1] for line in (self.folder / "new.out.csv").read_text().split()]
        self.assertEqual(names, ["predicted_name", "ant", "bee"])
        psgd.write_safetensors(self.folder / "bare.safetensors", run.load_model())
        self.assertIsNone(psgd.load_preprocessing(self.folder / "bare.safetensors"))
        psgd.write_safetensors(self.folder / "bad.safetensors", run.load_model(), {"preprocessing": '{"version": 2}'})
        with self.assertRaisesRegex(psgd.Invalid, "not a preprocessing record: version 2"):
            psgd.load_preprocessing(self.folder / "bad.safetensors")
        psgd.write_safetensors(self.folder / "latin.safetensors", {}, {"preprocessing": '{"version": 1, "words": {"bytes": "a \u00e9"}}'})
        self.assertEqual(psgd.load_preprocessing(self.folder / "latin.safetensors")["words"], [b"a", b"\xe9"])


if __name__ == "__main__":
    unittest.main()
