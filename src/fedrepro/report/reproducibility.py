"""Blocks of the documentation on how far a run moves when it is trained again otherwise.

They show what ``benchmarks/reproducibility.py`` measured, beside the spread of the recorded seeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

import numpy as np
import pandas as pd

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.runs import measured
from fedrepro.runs.measured import Change
from fedrepro.runs.plan_files import papers
from fedrepro.runs.runset import RunSet


def _moves() -> str:
    """One row a network: how far its test accuracy moves with each change, and with the seed."""
    spreads = _seed_spreads()
    rows = []
    for network, found in measured.read(root()).networks.items():
        changes = {name: _apart(change) for name, change in found.changes.items()}
        spread = spreads.get(network)
        sd = "" if spread is None else f"{100 * spread:.2f}"
        own = {"network": f"`{network}`", "accuracy, %": f"{100 * found.accuracy:.1f}"}
        rows.append(own | changes | {"sd of seeds": sd})
    return str(pd.DataFrame(rows).fillna("").to_markdown(index=False))


def _apart(change: Change) -> str:
    return "equal" if change.equal else f"{change.most_points:g}"


def _seed_spreads() -> dict[str, float]:
    """Return network -> median standard deviation of lite accuracies over three seeds or more."""
    found = defaultdict[str, list[float]](list)
    for paper in papers():
        runs = RunSet(paper, "lite").recorded()
        values = defaultdict[tuple[str, Hashable], list[float]](list)
        for run in runs.members(runs.plan.runs):
            accuracy = runs.record(run).final.get("accuracy")
            if isinstance(accuracy, float):
                values[run.spec.model.name, run.point].append(accuracy)
        for (network, _), of in values.items():
            if len(of) > 2:
                found[network].append(float(np.std(of, ddof=1)))
    return {network: float(np.median(sds)) for network, sds in found.items()}


def _growth(change: str) -> str:
    """One row a network: how far weights are apart after some rounds, and what AVX2 costs."""
    content = measured.read(root())
    known = list(dict.fromkeys(name for of in content.networks.values() for name in of.changes))
    if change not in known:
        raise FedreproError(f"no change '{change}' {nearest(change, known)}")
    rows = [
        {"network": f"`{network}`"}
        | {
            f"round {t}": f"{apart:.1e}"
            for t, apart in zip(content.rounds, found.changes[change].weights, strict=True)
        }
        | {"CPU time held to AVX2": "" if found.avx2_time is None else f"{found.avx2_time:g}"}
        for network, found in content.networks.items()
    ]
    return str(pd.DataFrame(rows).to_markdown(index=False))


def _measured_on() -> str:
    """Return the processor and the libraries that it was measured on."""
    on = measured.read(root()).on
    other = f"; another PyTorch: {on['other']}" if "other" in on else ""
    return f"Measured on {on['processor']}; {on['libraries']}{other}."


BLOCKS: dict[str, Callable[..., str]] = {
    "moves": _moves,
    "growth": _growth,
    "measured_on": _measured_on,
}
