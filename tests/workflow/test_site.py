"""The documentation as a site: no warning, no broken link, nothing from other hosts."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import fedrepro
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.models import NETWORKS
from fedrepro.fl.partition import SCHEMES

ROOT = Path(__file__).parents[2]
NEEDED = ("material", "mkdocs", "mkdocstrings")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, NEEDED)),
        reason="MkDocs is not installed (extra: site)",
    ),
]


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """Build the site as ``make site`` does, into a folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--config-file", str(config), "--site-dir", str(folder)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass
class PageOfSite(HTMLParser):
    """What a page has: ids, links, and what a browser loads for it."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.ids |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a":
            self.links += [values["href"]] if "href" in values else []
        else:
            self.loaded += [values[key] for key in ("src", "href", "srcset") if key in values]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, PageOfSite]:
    found = {}
    for file in site.rglob("*.html"):
        found[file] = PageOfSite()
        found[file].feed(file.read_text())
    return found


def test_no_link_is_broken(site: Path, pages: dict[Path, PageOfSite]) -> None:
    broken = []
    for file, page in pages.items():
        if file.name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            there = target.is_file() and target.is_relative_to(site)
            if there and parts.fragment and target in pages:
                there = unquote(parts.fragment) in pages[target].ids
            if not there:
                broken.append(f"{file.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_other_hosts(site: Path, pages: dict[Path, PageOfSite]) -> None:
    foreign = [link for page in pages.values() for link in page.loaded if urlsplit(link).netloc]
    assert foreign == []
    styles = [file.read_text() for file in site.rglob("*.css")]
    assert styles
    assert not [style for style in styles if "url(http" in style or "@import" in style]
    diagrams = [file for file, page in pages.items() if 'class="mermaid"' in file.read_text()]
    assert diagrams == [], "the theme would load what draws these from another host"


def test_every_block_of_code_is_one(site: Path, pages: dict[Path, PageOfSite]) -> None:
    """A fence that the builder does not know turns code and prose around."""
    assert [file.relative_to(site) for file, page in pages.items() if "```" in page.text] == []


def test_every_document_of_the_repository_is_a_page(site: Path) -> None:
    folders = ("docs", "config", "envs", "profiles", "benchmarks")
    documents = [file for folder in folders for file in (ROOT / folder).rglob("*.md")]
    for document in [ROOT / "README.md", ROOT / "CHANGELOG.md", *documents]:
        page = document.relative_to(ROOT).with_suffix(".html")
        page = page.with_name("index.html") if page.name == "README.html" else page
        assert (site / page).is_file()


def test_the_reference_has_every_component_and_function(
    site: Path, pages: dict[Path, PageOfSite]
) -> None:
    for page, names in {
        "reference/algorithms.html": ALGORITHMS,
        "reference/partitions.html": SCHEMES,
        "reference/networks.html": NETWORKS,
        "docs/library.html": fedrepro.__all__,
    }.items():
        text = pages[site / page].text
        assert [name for name in names if name not in text] == []
    assert "weight of the proximal term" in pages[site / "reference/algorithms.html"].text
    assert "Raises:" in pages[site / "docs/library.html"].text
    assert ":class:" not in pages[site / "reference/interfaces.html"].text


def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    """On a site of two documents, built as the whole one is but for the reference of the code."""
    shutil.copytree(ROOT / "docs/assets", tmp_path / "docs/assets")
    shutil.copy(ROOT / "docs/hooks.py", tmp_path / "docs")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n")
    (tmp_path / "README.md").write_text("# Start\n\n[there](CHANGELOG.md) [lost](docs/lost.md)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\nnav: null\nplugins: []\nwatch: []\n")
    done = build(tmp_path / "site", config)
    assert done.returncode != 0
    (warning,) = re.findall(r"WARNING.*", done.stderr)
    assert "'docs/lost.md'" in warning
