"""The reader and writer of safetensors files; hostile files."""
import json
import os
import random
import struct
import tempfile
import unittest
from array import array
from pathlib import Path

import psgd
from psgd import safetensors


def file_of(header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(dtype="F32", shape=(1,), begin=0, end=4):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "m.safetensors")

    def without_numpy(self):
        was, safetensors._numpy = safetensors._numpy, lambda: None
        self.addCleanup(setattr, safetensors, "_numpy", was)


class Files(InFolder):
    def test_what_was_written_is_read(self):
        self.without_numpy()
        b = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
        psgd.write_safetensors(self.path, {"b": b, "a": array("d", [1.5]), "i": array("q", [-7])}, {"arch": "ä"})
        raw = self.path.read_bytes()
        self.assertEqual((8 + struct.unpack("<Q", raw[:8])[0]) % 8, 0)
        tensors, metadata = psgd.read_safetensors(self.path)
        self.assertEqual(metadata, {"arch": "ä"})
        self.assertEqual(tensors["b"].tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(tensors["b"].shape, (2, 3))
        self.assertEqual((tensors["a"].tolist(), tensors["i"].tolist()), ([1.5], [-7]))
        self.assertEqual([p.name for p in self.path.parent.iterdir()], ["m.safetensors"])

    def test_half_precision_scalars_and_empty_tensors(self):
        self.without_numpy()
        halves = struct.pack("<e", 1.5) + struct.pack("<H", 0x3FC0) + struct.pack("<f", 2.5)  # 0x3FC0: 1.5 in BF16
        header = {
            "half": entry("F16", (1,), 0, 2),
            "brain": entry("BF16", (1, 1), 2, 4),
            "scalar": entry("F32", (), 4, 8),
            "none": entry("F32", (0, 3), 8, 8),
        }
        self.path.write_bytes(file_of(header, halves))
        t = psgd.read_safetensors(self.path)[0]
        self.assertEqual((t["half"].tolist(), t["brain"].tolist(), t["scalar"].tolist()), ([1.5], [[1.5]], 2.5))
        self.assertEqual(len(t["none"]), 0)

    def test_with_numpy_tensors_are_arrays_that_may_be_changed(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        a = numpy.arange(6, dtype="f4").reshape(2, 3)
        psgd.write_safetensors(self.path, {"a": a.T, "b": numpy.float16([1, 2])})
        t = psgd.read_safetensors(self.path)[0]
        self.assertEqual(t["a"].tolist(), a.T.tolist())
        self.assertEqual((t["b"].dtype, t["b"].tolist()), (numpy.dtype("f2"), [1, 2]))
        t["a"][0, 0] = 9
        self.path.write_bytes(file_of({"b": entry("BF16", (2,), 0, 4)}, struct.pack("<HH", 0x3FC0, 0xC000)))
        self.assertEqual(psgd.read_safetensors(self.path)[0]["b"].tolist(), [1.5, -2.0])

    def test_what_is_no_array_or_no_text_is_an_error_of_psgd(self):
        for tensors, metadata, words in (
            ({"w": [1.0, 2.0]}, {}, "w: a list is no array of numbers"),
            ({"w": None}, {}, "w: a NoneType"),
            ({"w": array("f", [1])}, {"epoch": 3}, "metadata epoch: a int, where a text is needed"),
        ):
            with self.subTest(words), self.assertRaisesRegex(psgd.Invalid, words):
                psgd.write_safetensors(self.path, tensors, metadata)
            self.assertFalse(Path(self.path).exists())

    def test_what_cannot_be_written_is_refused_and_leaves_no_file(self):
        with self.assertRaisesRegex(psgd.Invalid, "have no type"):
            psgd.write_safetensors(self.path, {"a": memoryview(b"abc").cast("c")})
        with self.assertRaisesRegex(psgd.Invalid, "No such file or directory"):
            psgd.write_safetensors(self.path.parent / "none" / "x", {"a": array("f", [1])})
        self.assertEqual(list(self.path.parent.iterdir()), [])


HOSTILE = {
    "shorter than eight bytes": b"abc",
    "a header longer than the file": struct.pack("<Q", 100) + b"{}",
    "a header of 2^63 bytes": struct.pack("<Q", 1 << 63) + b"{}",
    "an empty header": struct.pack("<Q", 0),
    "no JSON": file_of(b"{]"),
    "a list": file_of(b"[1]"),
    "no UTF-8": file_of(b'{"\xff": 1}'),
    "nested deeply": file_of(b"[" * 500000),
    "NaN": file_of(b'{"a": NaN}'),
    "a name twice": file_of(b'{"a": 1, "a": 2}'),
    "a number of many digits": file_of(b'{"a": ' + b"9" * 100000 + b"}"),
    "no object": file_of({"a": 3}, bytes(4)),
    "a key too many": file_of({"a": {**entry(), "x": 1}}, bytes(4)),
    "an unknown type": file_of({"a": entry("F31")}, bytes(4)),
    "a type that is a list": file_of({"a": entry(["F32"])}, bytes(4)),
    "a negative size": file_of({"a": entry(shape=(-1,))}, bytes(4)),
    "a size that is true": file_of({"a": entry(shape=(True,))}, bytes(4)),
    "a size that is a fraction": file_of({"a": entry(shape=(1.0,))}, bytes(4)),
    "sizes whose product is large": file_of({"a": entry(shape=(2**62, 2**62))}, bytes(4)),
    "nine dimensions": file_of({"a": entry(shape=(1,) * 9)}, bytes(4)),
    "the end before the begin": file_of({"a": entry(begin=4, end=0)}, bytes(4)),
    "an end behind the file": file_of({"a": entry(shape=(2,), end=8)}, bytes(4)),
    "a shorter range than the shape": file_of({"a": entry(shape=(2,))}, bytes(4)),
    "tensors that overlap": file_of({"a": entry(), "b": entry()}, bytes(4)),
    "a gap": file_of({"a": entry(begin=4, end=8)}, bytes(8)),
    "more bytes than tensors": file_of({"a": entry()}, bytes(5)),
    "metadata of numbers": file_of({"__metadata__": {"a": 1}}),
    "metadata that is a text": file_of({"__metadata__": "x"}),
}


class Hostile(InFolder):
    def test_each_is_refused_with_the_files_name(self):
        for what, raw in HOSTILE.items():
            with self.subTest(what):
                self.path.write_bytes(raw)
                with self.assertRaisesRegex(psgd.Invalid, "m.safetensors: not a safetensors file"):
                    psgd.read_safetensors(self.path)
        with self.assertRaisesRegex(psgd.Invalid, "No such file"):
            psgd.load_model(self.path.with_name("none"))
        self.path.write_bytes(file_of({"a": entry()}, bytes(4)))
        with self.assertRaises((psgd.Invalid, ImportError)):
            psgd.to_torch(self.path)

    def test_a_header_is_refused_before_the_numbers_are_read(self):
        with self.path.open("wb") as f:
            f.write(file_of({}))
            f.truncate(1 << 40)  # takes no room on the disk
        with self.assertRaisesRegex(psgd.Invalid, "its tensors have 0 bytes and the file 10995116"):
            psgd.read_safetensors(self.path)

    def test_a_pipe_is_not_waited_for(self):
        os.mkfifo(self.path)
        with self.assertRaisesRegex(psgd.Invalid, "no regular file"):
            psgd.read_safetensors(self.path)

    def test_changed_bytes_are_refused_or_read_and_never_another_error(self):
        rng = random.Random(7)
        good = file_of({"__metadata__": {"k": "v"}, "a": entry(), "bc": entry("U8", (2, 2), 4, 8)}, bytes(8))
        n_read = 0
        for _ in range(2000):
            raw = bytearray(good)
            for _ in range(rng.randint(1, 3)):
                raw[rng.randrange(len(raw))] = rng.choice(b'{}[]",:0123456789FUx\x00\xff')
            self.path.write_bytes(raw[: rng.choice([len(raw)] * 9 + [rng.randrange(len(raw))])])
            try:
                psgd.read_safetensors(self.path)
                n_read += 1
            except psgd.Invalid:
                pass
        self.assertGreater(n_read, 0)


if __name__ == "__main__":
    unittest.main()
