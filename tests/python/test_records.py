"""Records without pandas, and with it."""
import math
import os
import tempfile
import unittest
from pathlib import Path

import psgd
from psgd import records

TEXT = "time_s,node,role,loss,step\n0.5,0,worker,nan,1\n1.5,1,worker,,18446744073709551615\n2,-2,server,inf,3\n"


class Records(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "train.csv")

    def table(self, text):
        self.path.write_text(text)
        return psgd.records.read(self.path, pandas=False)

    def test_columns_have_types(self):
        t = self.table(TEXT)
        self.assertEqual(len(t), 3)
        self.assertEqual(list(t["node"]), [0, 1, -2])
        self.assertEqual(t["node"].typecode, "q")
        self.assertEqual(list(t["time_s"]), [0.5, 1.5, 2.0])
        self.assertEqual(t["role"], ["worker", "worker", "server"])
        self.assertTrue(math.isnan(t["loss"][0]) and math.isnan(t["loss"][1]))
        self.assertEqual(t["loss"][2], math.inf)
        self.assertEqual(t["step"][1], 2.0**64)  # more than an int64 holds
        self.assertEqual(t[-1], {"time_s": 2.0, "node": -2, "role": "server", "loss": math.inf, "step": 3.0})
        self.assertEqual([row["node"] for row in t], [0, 1, -2])
        self.assertEqual(list(t.where(role="worker", node=1)["time_s"]), [1.5])
        self.assertRaises(KeyError, t.where, nod=1)
        self.assertRaises(IndexError, t.__getitem__, 3)
        self.assertIn("3 rows", repr(t))

    def test_a_later_part_of_a_long_file_may_change_a_columns_type(self):
        n = records.CHUNK
        t = self.table("a,b,c\n" + "1,1,1\n" * n + "2,2.5,\n" + "3,3,x\n" * n + "4,4,\n")
        self.assertEqual(len(t), 2 * n + 2)
        self.assertEqual(t["a"].typecode, "q")
        self.assertEqual((t["b"].typecode, t["b"][0], t["b"][n], t["b"][-1]), ("d", 1.0, 2.5, 4.0))
        self.assertEqual((t["c"][0], t["c"][n], t["c"][n + 1], t["c"][-1]), ("1", "", "x", ""))

    def test_a_file_without_rows_and_a_broken_row(self):
        self.assertEqual(list(self.table("a,b\n").columns), ["a", "b"])
        self.assertEqual(len(self.table("")), 0)
        with self.assertRaisesRegex(psgd.Invalid, "a row of 1 cells under 2 columns: 7"):
            self.table("a,b\n1,2\n7\n")

    def test_what_is_no_csv_file_is_refused(self):
        for raw in (b"a,b\n1,\xff\n", b"a,b\n1," + b"2" * 200000 + b"\n"):
            self.path.write_bytes(raw)
            with self.assertRaisesRegex(psgd.Invalid, "train.csv: "):
                records.read(self.path, pandas=False)
        self.path.unlink()
        os.mkfifo(self.path)
        with self.assertRaisesRegex(psgd.Invalid, "train.csv: no regular file"):  # nobody writes into it
            records.read(self.path, pandas=False)

    def test_a_run_json_that_is_none_is_refused(self):
        run = self.path.with_name("run.json")
        run.write_text("[" * 100000)
        with self.assertRaisesRegex(psgd.Invalid, "run.json: no JSON object"):
            psgd.open(run.parent)
        run.unlink()
        os.mkfifo(run)
        with self.assertRaisesRegex(psgd.Invalid, "run.json: no JSON object"):
            psgd.open(run.parent)

    def test_pandas_has_the_same_columns(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        self.path.write_text(TEXT)
        frame = psgd.records.read(self.path)
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual(list(frame.columns), ["time_s", "node", "role", "loss", "step"])
        self.assertEqual(list(frame["node"]), [0, 1, -2])


if __name__ == "__main__":
    unittest.main()
