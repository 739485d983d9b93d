"""Numbers that we tell in sentences: each is held against the cell that it comes from.

``config/cited/<paper>.yaml`` says which sentences tell a number of a table or figure, as
:class:`Cited` describes: of the README, of the paper's page, or of its explanations of verdicts. A
study of our own has such a file, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from pydantic import RootModel

from fedrepro.base.configfile import nearest, read_yaml
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.report.artefacts import frame, keys_of
from fedrepro.report.trace import find_cell
from fedrepro.runs.plan_files import plans
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.runset import RunSet

FIELDS = {
    "mean": "of our runs",
    "sd": "their sample standard deviation",
    "n": "how many they are",
    "low": "the lower end of the mean's 95 % interval",
    "high": "its upper end",
    "least": "the lowest of the runs",
    "most": "the highest",
    "published": "the paper's value",
    "gap": "our mean less the published value",
}
"""What of a cell can be cited."""
_OF_DIFFERENCES = ("mean", "published")
_COLUMNS = ("mean", "sd", "n", "low", "high", "values", "published", "unit")

_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_NUMBER = rf"(-?\d[\d,]*(?:\.\d+)?|\b(?:{'|'.join(_WORDS)})\b)"
_FIELD = re.compile(r"\{(-?)(\w+)\}")
_MINUS = " minus "


class Cited(RootModel[dict[Scale, dict[str, dict[str, list[str]]]]]):
    """Scale -> table or figure -> cell -> parts of sentences that cite it.

    A cell is named as for ``fedrepro why``; ``A minus B`` is the difference of two of one table. A
    sentence has ``{mean}``, or another one of :data:`FIELDS`, in place of the number; ``{-mean}``
    is the number with the other sign, for losses. Fractions are told in per cent.
    """


class Citation(NamedTuple):
    """A number in a sentence.

    Attributes:
        file: that has it.
        start: its place in the file's text.
        text: as it is written, ``2.1`` or ``nine``.
        value: what its cell has.
        source: scale, table or figure, cell and field.
    """

    file: Path
    start: int
    text: str
    value: float
    source: str

    @property
    def right(self) -> bool:
        """Whether the text is the value, rounded to as many decimals as the text has."""
        if self.text in _WORDS:
            return self.value == _WORDS.index(self.text)
        decimals = len(self.text.partition(".")[2])
        written = float(self.text.replace(",", ""))
        return abs(written - self.value) <= 0.5 * 10.0**-decimals + 1e-9


def wrong() -> list[str]:
    """Return the cited numbers that are not those of their cells, a line each.

    Raises:
        FedreproError: as :func:`citations`.
    """
    return [
        f"{found.file}: '{found.text}' is {found.value:.6g} by {found.source}"
        for paper in plans()
        if file_of(paper).exists()
        for found in citations(paper, texts_of(paper))
        if not found.right
    ]


def file_of(paper: str) -> Path:
    """Return the file that says where the numbers of a paper, or of a study, are from."""
    return root() / f"config/cited/{paper}.yaml"


def texts_of(paper: str) -> dict[Path, str]:
    """Return the files whose sentences cite cells of a paper or study, and their texts."""
    pages = ("README.md", f"docs/papers/{paper}.md", f"docs/{paper}.md")
    files = [root() / name for name in (*pages, f"config/expected/{paper}.yaml")]
    return {file: file.read_text(encoding="utf-8") for file in files if file.is_file()}


def citations(paper: str, texts: Mapping[Path, str]) -> Iterator[Citation]:
    """Yield the cited numbers of texts, with what their cells have.

    Args:
        paper: slug of the paper or study.
        texts: file -> its text.

    Raises:
        FedreproError: the file of the cells is invalid, it names an unknown cell or field, or no
            text has a sentence; names the file and the place in it.
    """
    file = file_of(paper)
    for scale, artefacts in read_yaml(file, Cited).root.items():
        runs = RunSet(paper, scale)
        for name, cells in artefacts.items():
            try:
                rows = frame(runs, name, partial=True)
            except FedreproError as error:
                raise FedreproError(f"{file}: {scale}: {error}") from error
            for cell, sentences in cells.items():
                source = f"{scale} {name} '{cell}'"
                values = _values(cell, rows, f"{file}: {scale} {name}")
                for sentence in sentences:
                    yield from _found(sentence, values, texts, source, f"{file}: {source}")


def _values(cell: str, rows: pd.DataFrame, where: str) -> dict[str, float]:
    """Return the fields of a cell, or of the difference of two."""
    if lacking := sorted({*_COLUMNS} - {*rows.columns}):
        raise FedreproError(f"{where} has no {', '.join(lacking)}; cite another table or figure")
    keys = ["/".join(key) for key in keys_of(rows)]
    found = []
    for name in cell.split(_MINUS):
        key = find_cell(name, keys, where)
        if keys.count(key) > 1:
            raise FedreproError(f"{where} has several rows '{key}'; cite another table or figure")
        found.append(_fields(rows.iloc[keys.index(key)]))
    first, *others = found
    for other in others:
        first = {name: first[name] - other[name] for name in _OF_DIFFERENCES}
    return first


def _fields(row: pd.Series) -> dict[str, float]:
    """Return what :data:`FIELDS` has of a cell, fractions in per cent."""
    values = row["values"] if row["n"] else (math.nan,)
    found = {name: row[name] for name in ("mean", "sd", "low", "high", "published")}
    found |= {"least": min(values), "most": max(values), "gap": row["mean"] - row["published"]}
    factor = 100 if row["unit"] in ("fraction", "points") else 1
    return {name: factor * float(value) for name, value in found.items()} | {"n": float(row["n"])}


def _found(
    sentence: str, values: Mapping[str, float], texts: Mapping[Path, str], source: str, where: str
) -> Iterator[Citation]:
    """Yield the numbers of a sentence, wherever the texts have it."""
    fields = [match.groups() for match in _FIELD.finditer(sentence)]
    if not fields:
        raise FedreproError(f"{where}: '{sentence}' has no number such as {{mean}}")
    for _, name in fields:
        if name not in values:
            raise FedreproError(f"{where}: no field {{{name}}} {nearest(name, list(values))}")
    pattern = re.compile(_NUMBER.join(map(_literally, _FIELD.split(sentence)[::3])))
    places = [(file, place) for file, text in texts.items() for place in pattern.finditer(text)]
    if not places:
        files = " or ".join(map(str, texts))
        raise FedreproError(f"{where}: no '{sentence}' in {files}; write it as it is there")
    for file, place in places:
        for group, (sign, name) in enumerate(fields, start=1):
            value = -values[name] if sign else values[name]
            yield Citation(file, place.start(group), place[group], value, f"{source} {name}")


def _literally(part: str) -> str:
    """Return a pattern of words that may be on several lines."""
    return r"\s+".join(map(re.escape, re.split(r"\s+", part)))
