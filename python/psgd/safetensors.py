"""Files of tensors, as psgd and others write them: eight bytes with the length of a JSON header, the header, the numbers.

Nothing in such a file is executed, and nothing in it is trusted: a header that is too long, that is no JSON, or whose tensors
overlap, leave gaps or end behind the file, is refused.
"""
from __future__ import annotations

import json
import os
import secrets
import struct
import sys
from array import array
from math import prod
from pathlib import Path
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Tuple

from .errors import Invalid
from .program import PathLike

HEADER_MAX = 16 << 20
RANK_MAX = 8
DIGITS_MAX = 19  # of an integer in the header

# dtype: format of struct, bytes. BF16 has no format: it is read as the F32 that it is the upper half of.
TYPES = {
    "BOOL": ("?", 1),
    "U8": ("B", 1),
    "I8": ("b", 1),
    "U16": ("H", 2),
    "I16": ("h", 2),
    "F16": ("e", 2),
    "BF16": ("", 2),
    "U32": ("I", 4),
    "I32": ("i", 4),
    "F32": ("f", 4),
    "U64": ("Q", 8),
    "I64": ("q", 8),
    "F64": ("d", 8),
}


def _numpy() -> Any:
    try:
        import numpy

        return numpy
    except ImportError:
        return None


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name occurs twice")
    return out


def _integer(text: str) -> int:
    if len(text) > DIGITS_MAX:
        raise ValueError("a number has too many digits")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _parse(raw: bytes) -> Dict[str, Any]:
    try:
        header = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_unique, parse_int=_integer, parse_constant=_no_number
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("it is no object")
    return header


def _is_size(v: Any) -> bool:
    return isinstance(v, int) and not isinstance(v, bool) and v >= 0


def _check_entry(name: str, entry: Any) -> Tuple[str, Tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f'"{name}" is no object of dtype, shape and data_offsets')
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in TYPES:
        raise ValueError(f'"{name}" has the type {dtype!r:.40}, which is none of {" ".join(TYPES)}')
    if not isinstance(shape, list) or len(shape) > RANK_MAX or not all(map(_is_size, shape)):
        raise ValueError(f'"{name}" has no shape of at most {RANK_MAX} sizes')
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise ValueError(f'"{name}" has no two data_offsets')
    begin, end = offsets
    if begin + prod(shape) * TYPES[dtype][1] != end:
        raise ValueError(f'"{name}" has another length than its shape')
    return dtype, tuple(shape), begin, end


def _check_metadata(metadata: Any) -> Dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("its metadata is no object of texts")
    return metadata


def _view(dtype: str, shape: Tuple[int, ...], data: memoryview) -> Any:
    """The numbers as a numpy array, or as a memoryview of that shape, whose tolist() is nested lists."""
    numpy = _numpy()
    if dtype == "BF16":
        halves = array("H", data.tobytes())
        data, dtype = memoryview(array("I", (h << 16 for h in halves))).cast("B"), "F32"
    if numpy:
        return numpy.frombuffer(data, numpy.dtype(TYPES[dtype][0]).newbyteorder("<")).reshape(shape)
    if dtype == "F16":  # a memoryview has no such numbers
        data, dtype = memoryview(array("f", struct.unpack(f"<{len(data) // 2}e", data))).cast("B"), "F32"
    if 0 in shape:
        return memoryview(array("f"))
    return data.cast(TYPES[dtype][0], shape)


def read(path: PathLike) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """The tensors of a file by name (numpy arrays; without numpy memoryviews with a shape), and its metadata."""
    if sys.byteorder != "little":
        raise Invalid("safetensors files are little-endian, and this machine is not")
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would wait for a writer
        raise Invalid(f"{path}: no regular file")
    try:
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            start = f.read(8)
            n = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= n <= min(HEADER_MAX, size - 8):
                raise Invalid(f"{path}: not a safetensors file: its first eight bytes are not the length of a header")
            metadata, entries = _entries(_parse(f.read(n)), size - 8 - n)
            data = bytearray(size - 8 - n)
            if f.readinto(data) != len(data):
                raise Invalid(f"{path}: shorter than it was a moment ago")
        view = memoryview(data)
        return {name: _view(dtype, shape, view[begin:end]) for name, (dtype, shape, begin, end) in entries.items()}, metadata
    except Invalid:  # a ValueError, too
        raise
    except ValueError as e:
        raise Invalid(f"{path}: not a safetensors file: its header: {e}") from None
    except OSError as e:
        raise Invalid(f"{path}: {e.strerror}", "", "NOT_FOUND" if isinstance(e, FileNotFoundError) else "IO") from None


def _entries(header: Dict[str, Any], size: int) -> Tuple[Dict[str, str], Dict[str, Tuple[str, Tuple[int, ...], int, int]]]:
    """The metadata, and the description of each tensor, which together have so many bytes."""
    metadata = _check_metadata(header.pop("__metadata__", {}))
    entries = {name: _check_entry(name, entry) for name, entry in header.items()}
    at = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda e: e[1][2:]):
        if begin != at:
            raise ValueError(f'"{name}" {"overlaps" if begin < at else "leaves a gap behind"} the tensor before it')
        at = end
    if at != size:
        raise ValueError(f"its tensors have {at} bytes and the file {size}")
    return metadata, entries


def _dtype_of(name: str, view: memoryview) -> str:
    kind = view.format.lstrip("<=@")
    kind = {"l": "q", "L": "Q"}.get(kind, kind) if view.itemsize == 8 else kind
    for dtype, (form, size) in TYPES.items():
        if form == kind and size == view.itemsize:
            return dtype
    raise Invalid(f"{name}: numbers of the format {view.format!r} have no type in a safetensors file")


def write(path: PathLike, tensors: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Writes numpy arrays, array.arrays or memoryviews with a shape. The file appears under its name when it is complete."""
    header: Dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    for key, said in (metadata or {}).items():
        if not isinstance(said, str):
            raise Invalid(f"metadata {key}: a {type(said).__name__}, where a text is needed", "", "USAGE")
    blobs, at = [], 0
    for name, tensor in tensors.items():
        try:
            view = memoryview(tensor)
        except (TypeError, ValueError):  # ValueError: of objects, or of times
            raise Invalid(f"{name}: a {type(tensor).__name__} is no array of numbers", "", "USAGE") from None
        blob = view.tobytes()
        header[name] = {"dtype": _dtype_of(name, view), "shape": list(view.shape or ()), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_MAX:
        raise Invalid(f"{os.fspath(path)}: a header of {len(text)} bytes is too long")
    write_whole(path, [struct.pack("<Q", len(text)), text, *blobs])


def write_whole(path: PathLike, parts: List[bytes]) -> None:
    """A file of these parts, under its name only when it is complete."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        try:
            with temporary.open("xb") as f:
                f.writelines(parts)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as e:
        raise Invalid(f"{target}: {e.strerror}", "", "IO") from None
