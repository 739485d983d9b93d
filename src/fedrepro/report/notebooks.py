"""What notebooks show: verdicts, figures and tables of a paper, made from records."""

from __future__ import annotations

import pandas as pd
from IPython.display import HTML, Image, Markdown

from fedrepro.report import score, style
from fedrepro.report.artefacts import frame, markdown
from fedrepro.report.checks import DECIDED, Check, remarks, shown, tolerance
from fedrepro.report.drawings import draw_figure
from fedrepro.runs.runset import MissingRunsError, RunSet

COLOURS = {
    "reproduced": "#0f7a55",
    "close": "#0b5cad",
    "deviates": "#b23c00",
    "inconclusive": "#7a5900",
}
"""Of verdicts; others are grey."""

_RECORDS = "../../runs"
"""Where records lie, seen from ``results/<scale>/notebooks``."""
_MOST = 100
"""Published numbers that a notebook shows."""
_LINKED = 3
"""Runs of a row that it leads to."""
_ORDER = {verdict: place for place, verdict in enumerate(["deviates", "inconclusive", "close"])}


def show_scale(runs: RunSet) -> Markdown:
    """Say at which scale the notebook is, and what that changes."""
    note = runs.plan.at(runs.scale).note
    return Markdown(f"**Scale: {runs.scale}**" + (f" ({note})." if note else "."))  # type: ignore[no-untyped-call]


def show_score(checks: list[Check]) -> HTML:
    """Show how many targets of each kind were tried, and how they came out."""
    rows = [
        {"targets": item.what, "reading": score.in_words(item.reading), **item.counts()}
        for item in score.scores(checks)
    ]
    return _html(pd.DataFrame(rows), "score")


def show_claims(checks: list[Check]) -> HTML:
    """Show the claims that were decided, those that fail first, with what decided them."""
    rows = [
        {
            "claim": item.id,
            "statement": item.statement,
            "verdict": item.verdict,
            "evidence": remarks(item),
            "runs": _links(item.runs),
        }
        for item in _decided(checks, "claim")
    ]
    return _html(pd.DataFrame(rows), "claims")


def show_numbers(checks: list[Check]) -> HTML:
    """Show published numbers that were tried, those that fail first."""
    tried = _decided(checks, "number")
    if not tried:
        return HTML("<p>Published numbers are judged at the published scale only.</p>")  # type: ignore[no-untyped-call]
    rows = [
        {
            "published": item.where,
            "reading": score.in_words(item.reading),
            "value": shown(item.published or 0, item.unit),
            "ours": shown(item.ours or 0, item.unit),
            "tolerance": tolerance(item),
            "verdict": item.verdict,
            "runs": _links(item.runs),
        }
        for item in tried[:_MOST]
    ]
    more = f"{len(tried) - _MOST} more." if len(tried) > _MOST else ""
    return _html(pd.DataFrame(rows), "numbers", more)


def _decided(checks: list[Check], kind: str) -> list[Check]:
    decided = [item for item in checks if item.kind == kind and item.verdict in DECIDED]
    return sorted(decided, key=lambda item: _ORDER.get(item.verdict, len(_ORDER)))


def _links(ids: list[str]) -> str:
    """Return links to the records of runs, the first few of them."""
    links = [f'<a href="{_RECORDS}/{name}.json">{name}</a>' for name in ids[:_LINKED]]
    return " ".join(links) + (f" and {len(ids) - _LINKED} more" if len(ids) > _LINKED else "")


def _html(table: pd.DataFrame, name: str, below: str = "") -> HTML:
    """Lay a table out, verdicts in their colours; all but the links to runs is plain text."""
    texts = [column for column in table if column != "runs"]
    style = table.style.hide(axis="index").set_uuid(name).format(escape="html", subset=texts)
    style = style.set_properties(None, **{"text-align": "left", "vertical-align": "top"})
    style = style.set_table_styles([{"selector": "th", "props": "text-align: left"}])
    if "verdict" in table:
        style = style.map(lambda v: f"color: {COLOURS.get(v, '#6a737d')}", subset=["verdict"])
    return HTML(style.to_html() + f"<p>{below}</p>" * bool(below))  # type: ignore[no-untyped-call]


def show_figure(runs: RunSet, name: str) -> Image | Markdown:
    """Draw one figure of the plan from the runs that are recorded; say why, if that cannot be."""
    try:
        figure, _ = draw_figure(runs, name, partial=True)
    except MissingRunsError as error:
        return Markdown(str(error))  # type: ignore[no-untyped-call]
    return Image(  # type: ignore[no-untyped-call]
        style.rendered(figure, "png")["png"], width=760, alt=runs.plan.artefact(name).title
    )


def show_table(runs: RunSet, name: str) -> Markdown:
    """Lay one table of the plan out likewise; the notebook says once what the scale changes."""
    try:
        text = markdown(runs, name, frame(runs, name, partial=True), note=False)
    except MissingRunsError as error:
        text = str(error)
    return Markdown(text)  # type: ignore[no-untyped-call]
