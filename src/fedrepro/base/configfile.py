"""Reading YAML files into models, with errors that name the file, the key and the nearest one."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import first_problem, reason_of

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")

NAME = "[A-Za-z][A-Za-z0-9_-]*"
"""What plans and data sets may be called; the Snakefile's paths and rules have these names."""

_TAGS = ("name", "scheme")
"""Fields that say which of several models is meant."""
_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C where PyYAML has it: about ten times faster."""
_MERGE = "tag:yaml.org,2002:merge"
_MOST_NESTED = 100
"""Levels; before PyYAML 6.0.4 its parser in C crashes at some ten thousand."""


class _Loader(_SAFE):  # type: ignore[misc]
    """Refuses a key that a mapping has twice, of which YAML would keep the last.

    It refuses numbers of other bases that look decimal, as PyYAML has them: 010 is 8, 1:30 is 90.
    It merges by itself: of ``<<: [*one, *other]`` PyYAML 6.0.4 lets the last win, where YAML's rule
    and all versions before have the first, so that plans would name other runs.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._seen: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put the keys of ``<<`` before the others, which replace them."""
        if id(node) in self._seen:  # aliases lead to one node from several places
            return
        self._seen.add(id(node))
        keys = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (key.tag, key.value) in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key '{key.value}' is there twice", key.start_mark
                )
            keys.add((key.tag, key.value))
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        own = []
        for key, value in node.value:
            if key.tag != _MERGE:
                own.append((key, value))
                continue
            for mapping in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(mapping, yaml.MappingNode):
                    raise yaml.constructor.ConstructorError(
                        None, None, f"`<<` takes mappings, not a {mapping.id}", mapping.start_mark
                    )
                self.flatten_mapping(mapping)
                merged = mapping.value + merged
        node.value = merged + own
        super().flatten_mapping(node)


def _decimal(loader: _Loader, node: yaml.ScalarNode) -> int:
    value: int = loader.construct_yaml_int(node)
    text = str(value)  # a ValueError if it has thousands of digits, as in JSON
    if re.match(r"[-+]?0[0-9_]|.*:", node.value):
        raise yaml.constructor.ConstructorError(
            None, None, f"{node.value} is {text} in YAML; write what is meant", node.start_mark
        )
    return value


_Loader.add_constructor("tag:yaml.org,2002:int", _decimal)


def _load(text: str) -> Any:
    depth = 0
    for event in yaml.parse(text, _SAFE):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_NESTED:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise yaml.YAMLError(f"nested more than {_MOST_NESTED} deep (line {line})")
    return yaml.load(text, _Loader)


def read_yaml(file: Path, model: type[Model]) -> Model:
    """Read a YAML file into a model.

    Raises:
        FedreproError: the file cannot be read or is not YAML, or a key or value is wrong; names the
            file and the key.
    """
    try:
        content = _load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise FedreproError(
            f"{file}: cannot be read ({error.strerror}); restore it with git"
        ) from error
    except UnicodeDecodeError as error:
        raise FedreproError(
            f"{file}: not UTF-8 text ({error.reason}, byte {error.start}): save it as UTF-8"
        ) from error
    except (yaml.YAMLError, ArithmeticError, ValueError, RecursionError) as error:  # 30 February
        raise FedreproError(f"{file}: not valid YAML: {error}") from error
    if not isinstance(content, dict):
        held = "is empty" if content is None else "holds no keys"
        keys = f"it may have the keys {', '.join(_fields(model))}"
        if issubclass(model, RootModel):
            keys = "write `{}` where there is nothing to say"
        raise FedreproError(f"{file}: {held}; {keys}")
    return validate(content, model, str(file))


def yaml_files(folder: Path) -> list[Path]:
    """Return the YAML files of a folder, sorted; hidden ones are an editor's or a system's.

    A folder that may not be read is an OSError, where a glob would find nothing.
    """
    names = (name for name in sorted(os.listdir(folder)) if not name.startswith("."))
    return [folder / name for name in names if name.endswith(".yaml")]


def name_of(file: Path) -> str:
    """Return the name of the plan or data set that a file describes.

    Raises:
        FedreproError: as :func:`require_name`.
    """
    require_name(file.stem, str(file))
    return file.stem


def require_name(name: str, where: str) -> None:
    """Refuse a name of a plan or data set that Snakemake could not make anything of.

    Args:
        name: as it is found.
        where: the file or distribution that has it, for the error.

    Raises:
        FedreproError: it is not as :data:`NAME` says.
    """
    if not re.fullmatch(NAME, name):
        raise FedreproError(
            f"{where}: '{name}' cannot be the name of a plan or data set: rename it; a name is a "
            "letter from a to z or A to Z, then such letters, digits, '_' and '-'"
        )


def read_json(file: Path, kind: TypeAdapter[Value], cure: str) -> Value:
    """Read a JSON file that the program has written.

    Args:
        file: its path.
        kind: what it holds.
        cure: what to do if it holds something else, as the end of a sentence.

    Raises:
        FedreproError: it cannot be read, or holds something else.
    """
    try:
        return kind.validate_json(file.read_bytes())
    except OSError as error:
        raise FedreproError(f"{file}: cannot be read ({error.strerror}); {cure}") from error
    except ValidationError as error:
        raise FedreproError(
            f"{file}: not as it was written ({first_problem(error)}); {cure}"
        ) from error


def validate(
    content: Any,
    model: type[Model],
    where: str,
    folder: Path = Path(),
    hint: Callable[[str, Any], str] | None = None,
) -> Model:
    """Turn plain values into a model.

    Args:
        content: as read from YAML or JSON.
        model: the class of the result.
        where: the file, and the place in it, for the error.
        folder: where the names of files in it begin.
        hint: returns what to say of an unknown key of the top level, and its value; None: where in
            the model it belongs, or which key is nearest.

    Raises:
        FedreproError: keys or values are wrong; one line for each, with the nearest valid key.
    """
    try:
        return model.model_validate(content, context={"folder": folder})
    except ValidationError as error:
        problems = _problems(error, model, content, hint)
        raise FedreproError(f"{where}:\n" + "\n".join(problems)) from error


_NO_MODEL = ("model_type", "model_attributes_type")
"""What pydantic calls the error of a value where a model is wanted, or one of several."""


def _problems(
    error: ValidationError,
    model: type[BaseModel],
    content: Any,
    hint: Callable[[str, Any], str] | None,
) -> Iterator[str]:
    for problem in error.errors():
        place = problem["loc"]
        of_key = place[-1:] == ("[key]",)  # of a mapping, which is the part before
        key = ".".join(_keys_to(place[:-2] if of_key else place, content))
        where = f"  {key}: " if key else "  "
        if of_key:
            yield f"{where}{_wrong_key(problem)}"
        elif problem["type"] in ("extra_forbidden", "invalid_key"):  # the latter: no text
            if hint and "." not in key:
                yield f"  {key}: unknown key{hint(key, problem['input'])}"
            else:
                yield f"  {key}: unknown key{_hint(key.split('.'), model, content)}"
        elif problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
            about = {name: text.replace("'", "") for name, text in problem["ctx"].items()}
            field = about["discriminator"]  # says which of several models is meant
            if "tag" in about:
                known = about["expected_tags"].split(", ")
                reason = f"unknown {field} '{about['tag']}' {nearest(about['tag'], known)}"
            else:
                reason = "Field required"
            yield f"  {key}.{field}: {reason}"
        elif problem["type"] in _NO_MODEL and (tag := _tag_of_text(key, problem["input"], model)):
            yield f"  {key}: write `{key}: {{{tag}: {problem['input']}}}`"
        else:
            reason, given = reason_of(problem), problem["input"]
            if problem["type"] != "value_error" and isinstance(given, int | float | str):
                reason += f", not {given!r}"
            yield f"{where}{reason}"


def _wrong_key(problem: ErrorDetails) -> str:
    """Say what is wrong with a key of a mapping."""
    key = problem["input"]
    if problem["type"] == "string_type":
        return f"the key {key!r} is not text; put it in quotes"
    if problem["type"] == "literal_error":
        known = re.findall("'(.*?)'", problem["ctx"]["expected"])
        return f"unknown key '{key}' {nearest(str(key), known)}"
    return reason_of(problem)


def _tag_of_text(key: str, given: Any, model: type[BaseModel]) -> str:
    """Return the key that a text belongs to which stands where a model is wanted; "": none."""
    field = _fields(model).get(key)
    if field is None or not isinstance(given, str):
        return ""
    known = {name for one in _models(field.annotation) for name in _fields(one)}
    return next((tag for tag in _TAGS if tag in known), "")


def _keys_to(place: Sequence[str | int], content: Any) -> Iterator[str]:
    """Yield the keys that lead to a place, without the models of a union that pydantic names."""
    here = content
    for part in place:
        names = [here.get(tag) for tag in _TAGS] if isinstance(here, dict) else []
        is_model = part in names and part not in here
        if is_model or str(part).startswith("function-"):
            continue
        yield str(part)
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):  # what a validator has put there
            here = None


def _hint(keys: Sequence[str], model: type[BaseModel], content: Any) -> str:
    """Say where an unknown key belongs, or which one of its place is nearest."""
    *above, name = keys
    if owners := places(name, model, content):
        return f"; it belongs to {' or '.join(map(str, owners))}"
    models, here = [model], content
    for key in above:
        fields = [_fields(one)[key] for one in models if key in _fields(one)]
        if fields:  # else the key of a dictionary or the place in a list
            models = [one for field in fields for one in _models(field.annotation)]
        here = _part(here, key)
        models = _meant(models, here)
    known = sorted({key for one in models for key in _fields(one)})
    return did_you_mean(name, known) or f"; known: {', '.join(known)}"


_ELSEWHERE = {
    "beta": "alpha",
    "clients_per_round": "participants",
    "fedadagrad": "fedopt",
    "fedadam": "fedopt",
    "fedavgm": "fedopt",
    "fedyogi": "fedopt",
    "fraction": "participants",
    "iid": "iid_plain",
    "learning_rate": "lr",
    "shards": "class_blocks",
}
"""What other projects call what has another name here."""


def renamed(name: str, known: Sequence[str]) -> str:
    """Return which of the known names is what other projects call so; "" if none is."""
    here = _ELSEWHERE.get(name.lower(), "")
    return here if here in known else ""


def _near(name: str, known: Sequence[str], cutoff: float = 0.6) -> str:
    """Return which of the known names is meant by an unknown one; "" if none is near."""
    alike = (difflib.get_close_matches(one, known, 1, cutoff) for one in (name, name.lower()))
    return renamed(name, known) or "".join(next(filter(None, alike), []))


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return ``; did you mean 'x'?`` for an unknown name, or "" if none is near."""
    near = _near(name, known)
    return f"; did you mean '{near}'?" if near else ""


@dataclass(frozen=True)
class Place:
    """Where a model has a key.

    Attributes:
        field: the field whose model has it; "": the model itself has it.
        of: which of several models of the field has it; empty: the one that is meant there.
    """

    field: str
    of: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Name the place in a message."""
        return f"{self.field} {' or '.join(self.of)}".rstrip() or "the top level"


def places(name: str, model: type[BaseModel], content: Any) -> list[Place]:
    """Return where a key belongs that is found elsewhere: at the top level, or one below.

    Models that the content names go before all others.

    Args:
        name: the key.
        model: of the top level.
        content: what was to be turned into it; it says which of several models are meant.
    """
    fields = _fields(model)
    if name in fields:
        return [Place("")]
    meant: list[Place] = []
    others: list[Place] = []
    for key, field in fields.items():
        models, here = list(_models(field.annotation)), _part(content, key)
        owners = [one for one in models if name in _fields(one)]
        if any(one in owners for one in _meant(models, here)):
            (others if here is None else meant).append(Place(key))
        elif owners:
            others.append(Place(key, tuple(tag for one in owners for tag in _tags(one))))
    return meant or others


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by the keys that files have for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a type allows, also as entries of dictionaries and lists."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _meant(models: list[type[BaseModel]], content: Any) -> list[type[BaseModel]]:
    """Return those of several models that a content names; all if it names none."""
    tags = {_part(content, tag) for tag in _TAGS}
    return [one for one in models if tags.intersection(_tags(one))] or models


def _tags(model: type[BaseModel]) -> list[str]:
    """Return what a model of several is told by."""
    fields = [model.model_fields[tag] for tag in _TAGS if tag in model.model_fields]
    return [name for field in fields for name in get_args(field.annotation)]


def _part(content: Any, key: str) -> Any:
    """Return what plain values or a model have by a key; None: nothing."""
    if isinstance(content, dict):
        return content.get(key)
    return getattr(content, key, None) if isinstance(content, BaseModel) else None


def nearest(name: str, known: Sequence[str]) -> str:
    """Return ``(did you mean 'x'? known: ...)`` for an unknown name."""
    near = _near(name, known, 0.5)
    hint = f"did you mean '{near}'? " if near else ""
    return f"({hint}known: {', '.join(known)})"
