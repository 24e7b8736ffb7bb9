"""What psgd writes for TensorBoard and MLflow, read back: the results in $RUN, their curves in $EVENTS, and MLflow's folder
$MLRUNS."""
import csv
import datetime
import json
import math
import os
import re
import struct
import unittest
from pathlib import Path

from tfevents import events

RUN = Path(os.environ["RUN"])
DOCUMENT = json.loads((RUN / "run.json").read_text())
CURVES = {
    "train": ("loss", "accuracy", "lr", "grad_norm", "compute_s", "wait_s", "sent_bytes", "recv_bytes"),
    "eval": ("loss", "accuracy", "sent_bytes_total", "recv_bytes_total"),
}


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def began(node):
    by_node = {n["node"]: n["started_at"] for n in DOCUMENT["nodes"]}
    return seconds(by_node[node] or DOCUMENT["submitted_at"])


def as_float32(text):
    return struct.unpack("<f", struct.pack("<f", float(text)))[0]


def rows(name, node):
    with (RUN / "records" / f"{name}.csv").open() as f:
        return [row for row in csv.DictReader(f) if int(row["node"]) == node]


def nodes():
    return [n["node"] for n in DOCUMENT["nodes"] if n["role"] == "worker"]


class TensorBoard(unittest.TestCase):
    def test_every_value_of_the_records_is_there(self):
        folder = Path(os.environ["EVENTS"])
        self.assertEqual(sorted(p.name for p in folder.iterdir()), sorted(f"worker-{n}" for n in nodes()))
        for node in nodes():
            (path,) = (folder / f"worker-{node}").iterdir()
            self.assertRegex(path.name, r"^events\.out\.tfevents\.\d{10}\.psgd$")
            expected = []
            for name, columns in CURVES.items():
                for row in rows(name, node):
                    values = {f"{name}/{c}": as_float32(row[c]) for c in columns if row[c]}
                    expected.append((began(node) + float(row["time_s"]), int(row["step"]), values))
            got = events(path)
            self.assertEqual([e[1:] for e in got], [e[1:] for e in expected])
            self.assertTrue(all(abs(a[0] - b[0]) < 1e-6 for a, b in zip(got, expected)))
            self.assertGreater(len(got), 10)

    def test_tensorboards_own_reader_agrees(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("tensorboard is not installed")
        reader = EventAccumulator(str(Path(os.environ["EVENTS"], "worker-0")), size_guidance={"scalars": 0})
        reader.Reload()
        got = [(e.step, e.value) for e in reader.Scalars("train/loss")]
        self.assertEqual(got, [(int(r["step"]), as_float32(r["loss"])) for r in rows("train", 0)])


def yaml(path):
    """The flat mappings that these files are: KEY: a JSON value."""
    lines = path.read_text().splitlines()
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines)}


class MLflow(unittest.TestCase):
    """The keys are those that mlflow.store.tracking.file_store reads."""

    def setUp(self):
        self.dir = Path(os.environ["MLRUNS"]).resolve()
        (self.experiment,) = [p for p in self.dir.iterdir() if p.name != "0"]
        self.run = next(p.parent.parent for p in self.experiment.glob("*/tags/psgd.job") if p.read_text() == DOCUMENT["id"])

    def test_the_experiment_and_the_run_say_where_and_when(self):
        about = yaml(self.experiment / "meta.yaml")
        self.assertRegex(about["experiment_id"], r"^\d{18}$")
        self.assertEqual(about["experiment_id"], self.experiment.name)
        self.assertEqual((about["name"], about["lifecycle_stage"]), ("digits mlp-tutorial", "active"))
        self.assertEqual(about["artifact_location"], f"file://{self.experiment}")
        run = yaml(self.run / "meta.yaml")
        self.assertTrue(re.fullmatch("[0-9a-f]{32}", run["run_id"]) and run["run_id"] == run["run_uuid"] == self.run.name)
        self.assertEqual(run["experiment_id"], self.experiment.name)
        self.assertEqual(run["artifact_uri"], f"file://{self.run}/artifacts")
        self.assertEqual((run["run_name"], run["status"], run["lifecycle_stage"]), (DOCUMENT["name"], 3, "active"))
        self.assertEqual(run["start_time"], round(began(0) * 1000))
        ends = [seconds(n["finished_at"]) for n in DOCUMENT["nodes"] if n["finished_at"]]
        self.assertEqual(run["end_time"], round(max(ends) * 1000) if ends else None)
        self.assertEqual((run["source_type"], run["tags"]), (4, []))

    def test_options_are_params_and_curves_are_metrics(self):
        params = {p.name: p.read_text() for p in (self.run / "params").iterdir()}
        self.assertEqual(params, DOCUMENT["facts"]["options"])
        for node in nodes():
            for name, columns in CURVES.items():
                for column in columns:
                    lines = (self.run / "metrics" / name / column / f"worker-{node}").read_text().splitlines()
                    expected = [r for r in rows(name, node) if r[column]]
                    self.assertEqual(len(lines), len(expected))
                    for line, row in zip(lines, expected):
                        ms, value, step = line.split(" ")
                        self.assertEqual(int(step), int(row["step"]))
                        self.assertLess(abs(int(ms) - 1000 * (began(node) + float(row["time_s"]))), 1)
                        a, b = float(value), float(row[column])
                        self.assertTrue(a == b or (math.isnan(a) and math.isnan(b)))
        accuracy = (self.run / "metrics" / "accuracy").read_text().split()
        self.assertEqual(float(accuracy[1]), DOCUMENT["mean_over_workers"]["eval_accuracy"])
        self.assertEqual((self.run / "tags" / "mlflow.runName").read_text(), DOCUMENT["name"])

    def test_artifacts_are_copies(self):
        for name in "run.json", "records/train.csv", "records/eval.csv", "model/final.safetensors":
            self.assertEqual((self.run / "artifacts" / name).read_bytes(), (RUN / name).read_bytes())


if __name__ == "__main__":
    unittest.main()
