"""What notebooks show: figures and tables of a paper, made from records."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from IPython.display import Image, Markdown

from fedrepro.report.artefacts import frame, markdown, write_figure
from fedrepro.runs.runset import RunSet


def show_figure(runs: RunSet, name: str) -> Image:
    """Draw one figure of the plan."""
    with TemporaryDirectory() as folder:
        write_figure(runs, name, Path(folder) / name)
        return Image((Path(folder) / f"{name}.png").read_bytes(), width=760)  # type: ignore[no-untyped-call]


def show_table(runs: RunSet, name: str) -> Markdown:
    """Lay one table of the plan out."""
    return Markdown(markdown(runs, name, frame(runs, name)))  # type: ignore[no-untyped-call]
