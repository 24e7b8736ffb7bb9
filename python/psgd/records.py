"""The CSV records of a job: as pandas DataFrames, and without pandas as columns of numbers, a row as a dict."""
from __future__ import annotations

import csv
import math
from array import array
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from .errors import Invalid

CHUNK = 1 << 14  # rows that are converted at once, so that a long file is never all text in memory

Column = Union["array[int]", "array[float]", List[str]]


class Table:
    """A CSV file. `table["loss"]` is a column: an array of integers or of floats (an empty cell is nan), or a list of texts.
    `table[3]`, and iteration, give rows as dicts. `where(node=0)` selects rows."""

    def __init__(self, columns: Dict[str, Column]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def __getitem__(self, key: Union[str, int]) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        if not -len(self) <= key < len(self):
            raise IndexError(f"row {key} of {len(self)}")
        return {name: column[key] for name, column in self.columns.items()}

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def where(self, **equal: Any) -> "Table":
        """The rows whose columns have these values."""
        unknown = set(equal) - set(self.columns)
        if unknown:
            raise KeyError(", ".join(sorted(unknown)))
        kept = [i for i in range(len(self)) if all(self.columns[k][i] == v for k, v in equal.items())]
        return Table({name: _take(column, kept) for name, column in self.columns.items()})

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"


def _take(column: Column, rows: List[int]) -> Column:
    if isinstance(column, array):
        return array(column.typecode, (column[i] for i in rows))
    return [column[i] for i in rows]


def _integers(cells: Sequence[str]) -> "array[int]":
    return array("q", map(int, cells))


def _floats(cells: Sequence[str]) -> "array[float]":
    try:
        return array("d", map(float, cells))
    except ValueError:  # perhaps an empty cell
        return array("d", (float(c) if c else math.nan for c in cells))


def _convert(cells: Sequence[str]) -> Column:
    try:
        return _integers(cells)
    except (ValueError, OverflowError):
        pass
    try:
        return _floats(cells)
    except ValueError:
        return list(cells)


def _join(before: Optional[Column], more: Column) -> Column:
    """Both parts of a column, as the more general type of the two."""
    if before is None:
        return more
    if isinstance(before, array) and isinstance(more, array):
        if before.typecode == more.typecode:
            before.extend(more)
            return before
        return array("d", before) + array("d", more)
    if isinstance(before, array):
        before = [_text(c) for c in before]
    before.extend(_text(c) for c in more)
    return before


def _text(cell: Any) -> str:
    return "" if isinstance(cell, float) and math.isnan(cell) else str(cell)


def _broken(path: Path, names: List[str], chunk: List[List[str]]) -> Invalid:
    row = next(row for row in chunk if len(row) != len(names))
    return Invalid(f"{path}: a row of {len(row)} cells under {len(names)} columns: {','.join(row)[:80]}")


def _read_table(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8") as f:
        rows = csv.reader(f)
        names: List[str] = next(rows, [])
        columns: List[Optional[Column]] = [None] * len(names)
        while True:
            chunk = list(islice(rows, CHUNK))
            if not chunk:
                break
            if set(map(len, chunk)) != {len(names)}:
                raise _broken(path, names, chunk)
            for i, cells in enumerate(zip(*chunk)):
                columns[i] = _join(columns[i], _convert(cells))
    return Table({name: [] if column is None else column for name, column in zip(names, columns)})


def read(path: Path, pandas: Optional[bool] = None) -> Any:
    """The file as a pandas DataFrame, or as a Table where pandas is not installed, or pandas=False."""
    if not path.is_file():  # opening a pipe would wait for a writer
        raise Invalid(f"{path}: no regular file")
    if pandas is not False:
        try:
            import pandas as pd

            return pd.read_csv(path)
        except ImportError:
            if pandas:
                raise
    try:
        return _read_table(path)
    except Invalid:  # a ValueError, too
        raise
    except (csv.Error, ValueError) as e:
        raise Invalid(f"{path}: {e}") from None
