"""Base of every model that is read from a file, what is wrong with one, fields of another file."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator
from pydantic_core import ErrorDetails


class Strict(BaseModel):
    """Frozen; unknown keys, NaN, infinity and ``true`` for a number are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_flag_for_a_number(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        numbers = _numbers(cls)
        for name, value in content.items():
            if name not in numbers:
                continue
            for one in value if isinstance(value, list | tuple) else [value]:
                if isinstance(one, bool):
                    raise ValueError(f"{name}: {str(one).lower()} is no number")
        return content


@functools.cache
def _numbers(model: type[BaseModel]) -> set[str]:
    """Return the fields that take a number or a list of them, for which pydantic takes a flag."""
    kinds = {
        name: {field.annotation, *get_args(field.annotation)}
        for name, field in model.model_fields.items()
    }
    return {name for name, kind in kinds.items() if kind & {int, float} and bool not in kind}


def reason_of(problem: ErrorDetails) -> str:
    """Return what is wrong in our words, without what pydantic puts before them."""
    return problem["msg"].removeprefix("Value error, ")


def first_problem(error: ValidationError) -> str:
    """Return the first thing that is wrong, after the keys that lead to it, if any do."""
    first = error.errors(include_url=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), reason_of(first)]))


def fields_of_file(
    content: Any, read: Callable[[Path], dict[str, Any]], info: ValidationInfo
) -> Any:
    """Replace the key ``file`` of a model's content by the fields that the file stands for.

    Args:
        content: as the model is given it; returned as it is if it has no such key.
        read: returns the fields of a file.
        info: of the validation; ``folder`` of its context is where relative names begin, by default
            the working directory.

    Raises:
        ValueError: it is no file name, one of the fields is given as well, or a key is nearly
            ``file``.
    """
    if not isinstance(content, dict):
        return content
    if "file" not in content:
        for key in filter(_nearly_file, map(str, content)):
            raise ValueError(f"{key}: unknown key; did you mean 'file'?")
        return content
    rest, file = {key: content[key] for key in content if key != "file"}, content["file"]
    if not isinstance(file, str | Path) or not str(file).isprintable():
        raise ValueError("file is no name of a file")
    fields = read(Path((info.context or {}).get("folder", ""), file))
    if said := rest.keys() & fields.keys():
        raise ValueError(f"{', '.join(sorted(said))}: the file says so; leave it out")
    return rest | fields


@functools.cache  # plans of thousands of runs ask for the same keys
def _nearly_file(key: str) -> bool:
    return bool(difflib.get_close_matches("file", [key]))
