"""JSON schemas of the configuration files, exported from the models that read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fedrepro.base.files import write_text
from fedrepro.base.paths import root
from fedrepro.fl.data.registry import DatasetInfo
from fedrepro.fl.spec import RunSpec
from fedrepro.report.cited import Cited
from fedrepro.report.expected import Expected
from fedrepro.runs.plan_schema import PaperPlan
from fedrepro.workflow.config import WorkflowConfig

SCHEMAS: dict[str, type[BaseModel]] = {
    "cited": Cited,
    "config": WorkflowConfig,
    "dataset": DatasetInfo,
    "expected": Expected,
    "paper": PaperPlan,
    "run_spec": RunSpec,
}
"""Name of the schema file -> the model it describes."""


def write_schemas(out: Path | None) -> list[Path]:
    """Write ``<name>.json`` for each of :data:`SCHEMAS`; the text depends on the models alone.

    Args:
        out: the folder; None for ``config/schemas`` of the repository.

    Returns:
        The files, in order.

    Raises:
        FedreproError: a file cannot be written.
    """
    folder = out or root() / "config/schemas"
    files = []
    for name, model in SCHEMAS.items():
        files.append(folder / f"{name}.json")
        write_text(files[-1], json.dumps(schema(model), indent=2, sort_keys=True) + "\n")
    return files


def schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a file that the model reads."""
    content = model.model_json_schema()
    content["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    if model is DatasetInfo:  # a data set is named as its file
        del content["properties"]["name"]
    return content
