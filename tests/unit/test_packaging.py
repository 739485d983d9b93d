"""The project's own files agree with each other: lock, conda file, versions, licence, profiles."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import fedrepro
from fedrepro.workflow.dag import Workflow

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "envs/requirements.lock").read_text()
SLURM = (ROOT / "envs/slurm.lock").read_text()
FLOORS = (ROOT / "envs/floors.lock").read_text()
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
DIRECT = [
    requirement
    for group in (PROJECT["dependencies"], *(EXTRAS[e] for e in ("dev", "test", "shared", "site")))
    for requirement in group
    if Requirement(requirement).name != "fedrepro"  # which extras name for another extra
]


def lock_entries(lock: str = LOCK) -> list[tuple[Requirement, list[str]]]:
    """Each entry of a lock with its hash options."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE))
    entries = []
    for line in text.splitlines():
        requirement, *hashes = line.split("--hash=")
        entries.append((Requirement(requirement.strip()), [h.strip() for h in hashes]))
    return entries


def pinned(python: str, lock: str = LOCK) -> dict[str, str]:
    """Name -> version of a lock's entries on Linux x86-64 under ``python`` (such as "3.11")."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": "x86_64",
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    return {
        canonicalize_name(r.name): str(r.specifier).removeprefix("==")
        for r, _ in lock_entries(lock)
        if r.marker is None or r.marker.evaluate(environment)
    }


OWN_PLAN = re.search(
    r'```yaml title="median.yaml"\n(.*?)```',
    (ROOT / "docs/first-algorithm.md").read_text(),
    re.DOTALL,
)[1].replace("fedmedian", "fedprox, mu: 1")
COMMAND = re.compile(r"(?:^|[`\s])(snakemake (?:-|all)[^\n`#]*)")
DOCUMENTS = [
    ROOT / "README.md",
    *(ROOT / "docs").rglob("*.md"),
    *(file for name in ("config", "profiles", "envs") for file in (ROOT / name).rglob("*.*")),
]
COMMANDS = sorted({c.strip() for file in DOCUMENTS for c in COMMAND.findall(file.read_text())})


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 10


@pytest.fixture(scope="module")
def targets_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], set[str]]:
    """Return what can be made with a configuration (JSON) in a folder without records."""
    rules = re.findall(r"^rule (\w+):$", (ROOT / "workflow/Snakefile").read_text(), re.MULTILINE)

    @functools.cache
    def of(configuration: str) -> set[str]:
        values, folder = json.loads(configuration), tmp_path_factory.mktemp("work")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("FEDREPRO_PLANS", "")
            if values["plans"]:  # of one's own: any plan will do
                plan = folder / values["plans"]
                place = plan if plan.suffix == "" else plan.parent
                place.mkdir(exist_ok=True)
                (place / "median.yaml").write_text(OWN_PLAN)
            workflow = Workflow(values)
            targets = {*rules, *(f"all_{paper}" for paper in workflow.papers)}
            return targets | {*workflow.everything(workflow.papers)}

    return of


@pytest.mark.parametrize("command", COMMANDS)
def test_documented_snakemake_commands_are_understood(
    command: str, targets_of: Callable[[str], set[str]]
) -> None:
    from snakemake.cli import get_argument_parser

    arguments, unknown = get_argument_parser().parse_known_args(shlex.split(command)[1:])
    assert not unknown
    assert all("=" in value for value in arguments.resources or [])
    values = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    for value in arguments.config or []:  # takes all that follows, up to ` -- `
        assert "=" in value
        key, _, text = value.partition("=")
        values[key] = yaml.safe_load(text)
    assert set(arguments.targets) <= targets_of(json.dumps(values))


@pytest.mark.parametrize("lock", [LOCK, SLURM, FLOORS])
def test_every_locked_requirement_has_one_version_and_hashes(lock: str) -> None:
    for requirement, hashes in lock_entries(lock):
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert hashes, f"no hash for {requirement.name}"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes), requirement.name


@pytest.mark.parametrize("lock", [LOCK, SLURM, FLOORS])
def test_locks_name_no_index_url_or_path(lock: str) -> None:
    options = set(re.findall(r"(?:^|\s)(--?[a-z][a-z-]*)", re.sub(r"^#.*", "", lock)))
    assert options == {"--hash"}
    assert "://" not in lock
    assert " @ " not in lock
    assert "/" not in lock
    assert "file:" not in lock


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_lock_satisfies_pyproject(python: str) -> None:
    versions = pinned(python)
    for requirement in map(Requirement, DIRECT):
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{name} is not in the lock: run `make lock`"
        assert requirement.specifier.contains(versions[name]), f"{name}: run `make lock`"


@pytest.mark.parametrize(
    "requirement",
    [*PROJECT["dependencies"], *EXTRAS["shared"], *EXTRAS["site"], *EXTRAS["slurm"]],
)
def test_what_is_installed_beside_other_packages_has_a_lower_bound(requirement: str) -> None:
    """Else pip keeps any older version that is there, such as a typer that runs no command."""
    assert ">=" in {bound.operator for bound in Requirement(requirement).specifier}


def test_floors_are_the_lower_bounds() -> None:
    """Each can be had: no other dependency asks for a newer version."""
    versions = pinned("3.11", FLOORS)
    for requirement in map(Requirement, PROJECT["dependencies"] + EXTRAS["shared"]):
        (bound,) = (one.version for one in requirement.specifier if one.operator == ">=")
        locked = versions[canonicalize_name(requirement.name)]
        assert Version(locked) == Version(bound), f"{requirement.name}: run `make lock`"


def test_tests_of_floors_have_the_locked_tools() -> None:
    locked, floors = pinned("3.11"), pinned("3.11", FLOORS)
    tools = [name for one in EXTRAS["test"] if (name := Requirement(one).name) != "fedrepro"]
    assert {name: floors[name] for name in tools} == {name: locked[name] for name in tools}


def test_the_lock_of_the_cluster_adds_what_the_main_lock_lacks() -> None:
    added = {
        canonicalize_name(requirement.name): requirement for requirement, _ in lock_entries(SLURM)
    }
    assert not added.keys() & {
        canonicalize_name(requirement.name) for requirement, _ in lock_entries()
    }
    for wanted in map(Requirement, EXTRAS["slurm"]):
        (version,) = added[canonicalize_name(wanted.name)].specifier
        assert wanted.specifier.contains(version.version)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_torch_versions(python: str) -> None:
    versions = pinned(python)
    assert versions["torch"].startswith("2.11.")
    assert versions["torchvision"].startswith("0.26.")


def test_one_version_per_package_for_all_pythons() -> None:
    names = [requirement.name for requirement, _ in lock_entries()]
    assert len(names) == len(set(names))


def test_conda_environment_has_the_locked_versions() -> None:
    python, conda = conda_environment()
    versions = pinned(python)
    assert conda == {name: versions[name] for name in conda}, "run `make lock`"
    missing = {canonicalize_name(Requirement(d).name) for d in PROJECT["dependencies"]} - set(conda)
    assert not missing, "run `make lock`"


def test_conda_environment_leaves_no_version_open() -> None:
    python, conda = conda_environment()
    if not sys.version.startswith(f"{python}."):
        pytest.skip(f"packages for Python {python} may need others than those of this one")
    assert needed(PROJECT["dependencies"]) <= conda.keys(), "run `make lock`"


def conda_environment() -> tuple[str, dict[str, str]]:
    """Return Python's version in the conda environment, and the packages' by name."""
    environment = yaml.safe_load((ROOT / "envs/fedrepro.yaml").read_text())
    (pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    python = next(d for d in environment["dependencies"] if str(d).startswith("python="))
    packages = {canonicalize_name(r.name): str(r.specifier)[2:] for r in map(Requirement, pip)}
    return python.removeprefix("python="), packages


def needed(requirements: list[str]) -> set[str]:
    """Return the packages that requirements need, with what these need, as they are installed."""
    found: set[str] = set()
    waiting = list(map(Requirement, requirements))
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate()):
            found.add(name)
            waiting += map(Requirement, importlib.metadata.requires(name) or [])
    return found


def test_licences_are_listed_of_what_is_locked() -> None:
    table = (ROOT / "docs/dependencies.md").read_text()
    rows = re.findall(r"^\| (\S+) +\| (.*?) *\|$", table, re.MULTILINE)
    licences = {canonicalize_name(name): licence for name, licence in rows[1:]}
    assert licences.keys() == pinned("3.11").keys(), "run `make licences`"
    assert all(licences.values())


def test_versions_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert fedrepro.__version__ == PROJECT["version"] == citation["version"]
    assert PROJECT["license"] == citation["license"] == "Apache-2.0"


def test_cluster_profile_keeps_the_default_switches() -> None:
    default = yaml.safe_load((ROOT / "profiles/default/profile.yaml").read_text())
    slurm = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    assert slurm["executor"] == "slurm"
    assert {key: slurm[key] for key in default if key != "resources"} == {
        key: value for key, value in default.items() if key != "resources"
    }
    assert "rerun-triggers" not in slurm


def test_cluster_profile_goes_on_after_a_time_limit() -> None:
    slurm = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    assert slurm["keep-going"] is True
    assert slurm["retries"] >= 1
    assert slurm["local-cores"] <= 4, "the login node is not ours alone"


@pytest.mark.parametrize("profile", ["default", "slurm"])
def test_profiles_have_options_of_snakemake(profile: str) -> None:
    from snakemake.cli import get_argument_parser

    plugin = importlib.util.find_spec("snakemake_executor_plugin_slurm")
    options = get_argument_parser().format_help()
    for key in yaml.safe_load((ROOT / f"profiles/{profile}/profile.yaml").read_text()):
        if plugin or not key.startswith("slurm-"):
            assert re.search(rf"--{key}\b", options), key


def test_what_is_said_without_the_slurm_plugin_can_be_looked_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Snakemake refuses the profile before it reads the Snakefile, so no message can be ours."""
    from snakemake.cli import get_argument_parser
    from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

    monkeypatch.delitem(ExecutorPluginRegistry().plugins, "slurm", raising=False)
    monkeypatch.delitem(ExecutorPluginRegistry().plugins, "slurm-jobstep", raising=False)
    with pytest.raises(SystemExit):
        get_argument_parser(profiles=[ROOT / "profiles/slurm"]).parse_args([])
    said = capsys.readouterr().err.splitlines()[-1].partition("(choose from")[0].strip()
    assert said.endswith("argument --executor/-e: invalid choice: 'slurm'")
    assert said.partition("error: ")[2] in (ROOT / "profiles/README.md").read_text()


def test_git_ignores_no_source_file() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git work tree")
    sources = [
        str(p.relative_to(ROOT))
        for folder in ("src", "workflow", "config", "tests", "envs", "profiles", "notebooks")
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and ".egg-info" not in str(p)
    ]
    command = ["git", "check-ignore", "--no-index", *sources]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ignored.stdout.split() == []
