"""config/config.yaml, its errors, and the exported schemas of all configuration files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.fl.data.registry import FOLDER
from fedrepro.fl.spec import spec_dict
from fedrepro.runs.plan import expand
from fedrepro.runs.plan_files import papers
from fedrepro.runs.plan_schema import SCALES
from fedrepro.workflow.config import load_config
from fedrepro.workflow.schemas import SCHEMAS, write_schemas

COMMITTED = root() / "config/schemas"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C ten times as fast
DEFAULT: dict[str, Any] = yaml.safe_load((root() / "config/config.yaml").read_text())


def test_the_committed_configuration() -> None:
    config = load_config(DEFAULT)
    assert config.scale == "lite"
    assert config.train == "auto"
    assert config.device == "cpu"
    assert not config.on_gpu
    assert set(config.papers) <= set(papers())


def test_every_key_is_written_out() -> None:
    """So that a reader of the file sees all there is."""
    from fedrepro.workflow.config import WorkflowConfig

    assert list(DEFAULT) == list(WorkflowConfig.model_fields)


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (
            {"scal": "paper"},
            ["scal: unknown key", "did you mean 'scale'?", "config.yaml, --configfile or --config"],
        ),
        ({"cores": 8}, ["cores: unknown key; known: data_root, device, max_minutes"]),
        ({"scale": "papr"}, ["scale: unknown scale 'papr'", "did you mean 'paper'?"]),
        ({"scale": 3}, ["scale"]),
        ({"papers": ["emd", "selectiv"]}, ["unknown paper 'selectiv'", "'selective'?"]),
        ({"papers": []}, ["papers: name at least one of cadis, emd"]),
        ({"papers": None}, ["papers: name at least one of cadis, emd"]),
        ({"papers": "emd", "plans": "my.yaml"}, ["leave out papers, or plans"]),
        ({"papers": "emd,emd"}, ["papers: 'emd' is named twice"]),
        (
            {"data_root": "no/packs"},
            [f"data_root is no/packs, which is not a folder in {Path.cwd()}, or may not"],
        ),
        ({"train": "sometimes"}, ["train", "'auto' or 'never'"]),
        ({"device": "gpu"}, ["device: 'gpu' is none of cpu, cuda, cuda:0"]),
        ({"max_minutes": 0}, ["max_minutes", "greater than or equal to 1"]),
        ({"runs_per_batch": 0}, ["runs_per_batch", "greater than or equal to 1"]),
        ({"threads": 0}, ["threads", "greater than or equal to 1"]),
        ({"threads": True}, ["threads: true is no number"]),
    ],
)
def test_mistakes(change: dict[str, Any], texts: list[str]) -> None:
    with pytest.raises(FedreproError) as error:
        load_config(DEFAULT | change)
    for text in texts:
        assert text in str(error.value)


def test_a_key_that_a_module_does_not_pass_is_that_of_the_file() -> None:
    assert load_config({"scale": "quick"}) == load_config(DEFAULT | {"scale": "quick"})


def test_a_key_that_the_file_has_twice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake would take the last one."""
    file = tmp_path / "config/config.yaml"
    (tmp_path / "config/papers").mkdir(parents=True)
    file.write_text((root() / "config/config.yaml").read_text() + "scale: smoke\n")
    monkeypatch.setenv("FEDREPRO_ROOT", str(tmp_path))
    with pytest.raises(FedreproError, match=rf"{file}: .*key 'scale' is there twice"):
        load_config(DEFAULT | {"scale": "smoke"})


def test_papers_as_on_a_command_line() -> None:
    assert load_config(DEFAULT | {"papers": "emd"}).papers == ["emd"]
    assert load_config(DEFAULT | {"papers": "emd,selective"}).papers == ["emd", "selective"]


@pytest.mark.parametrize(("device", "gpu"), [("cpu", False), ("cuda", True), ("cuda:1", True)])
def test_devices(device: str, gpu: bool) -> None:
    assert load_config(DEFAULT | {"device": device}).on_gpu == gpu


def test_committed_schemas_are_current(tmp_path: Path) -> None:
    written = write_schemas(tmp_path)
    assert [file.stem for file in written] == list(SCHEMAS)
    assert {file.name for file in COMMITTED.iterdir()} == {file.name for file in written}
    for file in written:
        committed = (COMMITTED / file.name).read_text()
        assert committed == file.read_text(), "run `fedrepro schema`"
        jsonschema.Draft202012Validator.check_schema(json.loads(committed))


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((COMMITTED / f"{name}.json").read_text()))


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("config", "config.yaml"),
        ("dataset", "sets/*.yaml"),
        ("paper", "papers/*.yaml"),
        ("expected", "expected/*.yaml"),
        ("cited", "cited/*.yaml"),
    ],
)
def test_schemas_accept_our_files_and_no_unknown_key(name: str, pattern: str) -> None:
    folder = FOLDER.parent if name == "dataset" else root() / "config"
    files = sorted(folder.glob(pattern))
    assert files
    accepts = validator(name)
    for file in files:
        content = yaml.load(file.read_text(), LOADER)
        accepts.validate(content)
        assert not accepts.is_valid(content | {"unknown": 1})


@pytest.mark.parametrize("paper", papers())
def test_the_spec_schema_accepts_every_planned_run(paper: str) -> None:
    spec = validator("run_spec")
    groups = {(run.group, scale): run for scale in SCALES for run in expand(paper, scale)}
    for run in groups.values():
        spec.validate(spec_dict(run.spec))
    assert not spec.is_valid(spec_dict(run.spec) | {"unknown": 1})
