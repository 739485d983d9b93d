"""The workflow's configuration: ``config/config.yaml`` and ``--config key=value``.

It says which papers, at which scale and on what device; experiments are in ``config/papers``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from fedrepro.base.configfile import nearest, read_yaml, validate
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import data_root, root
from fedrepro.base.strict import Strict
from fedrepro.runs.plan_files import papers, plans, use_plans
from fedrepro.runs.plan_schema import SCALES, Scale

_DEVICE = r"^(cpu|cuda(:\d+)?)$"


class WorkflowConfig(Strict):
    """What `snakemake` may be told; every key can be given as ``--config key=value`` as well."""

    papers: list[str] = Field(min_length=1, description="slugs: the plans in config/papers to use")
    plans: str | None = Field(
        default=None,
        description="plans of your own in place of the papers: a YAML file or a folder of them",
    )
    scale: Scale = Field(
        description="paper: as published; lite: reduced, with committed records; quick: one "
        "comparison a paper on real data, trained in minutes; smoke: toy runs on synthetic data"
    )
    train: Literal["auto", "never"] = Field(
        description="auto: train runs without a record that a target needs; never: stop with a list"
    )
    device: str = Field(
        pattern=_DEVICE, description="PyTorch device to train on: cpu, cuda, cuda:1"
    )
    data_root: str | None = Field(
        description="folder of packed data sets; null: the environment variable FEDREPRO_DATA, "
        "data/pack, data/raw or a download"
    )
    runs_per_batch: int = Field(ge=1, description="most runs that one training job trains")
    threads: int = Field(ge=1, description="cores of one training job")
    max_minutes: int = Field(
        ge=1, description="most minutes that a training job asks a cluster for"
    )

    @property
    def on_gpu(self) -> bool:
        """Whether training jobs need a GPU."""
        return self.device != "cpu"


def load_config(values: Mapping[str, Any]) -> WorkflowConfig:
    """Check what Snakemake read from the configuration file and the command line.

    A key that is missing, as where a module passes its own configuration, is that of the file.

    Raises:
        FedreproError: an unknown key, scale or paper, which names the nearest; a wrong value; a key
            that the file has twice; both papers and plans are chosen.
    """
    file = root() / "config/config.yaml"
    where = f"{file}, --configfile or --config"
    written = read_yaml(file, WorkflowConfig)  # Snakemake takes the last of two equal keys
    values = {**written.model_dump(), **values}
    scale = values.get("scale")
    if isinstance(scale, str) and scale not in SCALES:
        raise FedreproError(f"{where}: scale: unknown scale '{scale}' {nearest(scale, SCALES)}")
    device = values.get("device")
    if not re.match(_DEVICE, str(device)):
        raise FedreproError(
            f"{where}: device: '{device}' is none of cpu, cuda, cuda:0, cuda:1, ..."
        )
    names = values.get("papers")
    if not names:
        raise FedreproError(f"{where}: papers: name at least one of {', '.join(papers())}")
    if isinstance(names, str):  # --config papers=emd
        names = names.split(",")
    config = validate({**values, "papers": names}, WorkflowConfig, where)
    if config.data_root:
        data_root(Path(config.data_root))
    if config.plans:
        if sorted(config.papers) != sorted(written.papers):
            raise FedreproError(
                f"{where}: plans of your own (plans) are made in place of the papers; leave out "
                "papers, or plans"
            )
        return config.model_copy(update={"papers": use_plans(config.plans)})
    known = papers()
    for name in config.papers:
        if name not in known and name in plans():
            raise FedreproError(f"{where}: papers: {not_made(name)}")
        if name not in known:
            raise FedreproError(f"{where}: papers: unknown paper '{name}' {nearest(name, known)}")
        if config.papers.count(name) > 1:
            raise FedreproError(f"{where}: papers: '{name}' is named twice; name it once")
    return config


def not_made(study: str) -> str:
    """Say what makes the tables and figures of a study of our own."""
    return (
        f"'{study}' is a study of our own, which Snakemake does not make; `fedrepro table {study} "
        f"...` and `fedrepro figure {study} ...` do"
    )
