"""What is known about the data sets without having them: a YAML file each, validated.

A file is named as its data set. Those of fedrepro lie in ``sets`` beside this module; a clone may
have further ones in ``config/datasets``.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from weakref import WeakValueDictionary

from pydantic import Field, model_validator

from fedrepro.base import paths
from fedrepro.base.configfile import name_of, nearest, read_yaml, require_name, yaml_files
from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import Strict
from fedrepro.fl.components import distribution, entry_points, load_entry_point, owner

if TYPE_CHECKING:
    from fedrepro.fl.data.dataset import Dataset, Source

FOLDER = Path(__file__).parent / "sets"
"""The data sets of fedrepro, a file each."""

OWN = "config/datasets"
"""A clone's own data sets, below its root; one of the same name goes before fedrepro's."""

GROUP = "fedrepro.datasets"
"""Entry points of other distributions, each a :class:`fedrepro.fl.data.dataset.Source`."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Md5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
FilePath = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*$")
]
PackFile = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\.npz$")]
Address = Annotated[str, Field(pattern=r"/$", description="what a file's name is put after")]
Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(gt=0)]


class PerClass(Strict):
    """Examples of each class on either side of the split; one number stands for every class."""

    train: tuple[Count, ...] | Count
    test: tuple[Count, ...] | Count


class Archive(Strict):
    """A file on the data set's server: its name, size in bytes and checksums."""

    file: FileName
    bytes: int = Field(gt=0)
    md5: Md5
    sha256: Sha256


class RawFile(Strict):
    """A file of the official data as it lies below ``data/raw``, and its checksum."""

    file: FileName
    md5: Md5


class Official(Strict):
    """Where the official files come from, and where they lie.

    Attributes:
        folder: below ``data/raw``, as torchvision lays it out.
        urls: addresses below which the archives are found, the primary one first.
        archives: the files on the server.
        train: files to read of the training split, in order; none if what is read is computed from
            the archive.
        test: likewise, of the test split.
    """

    folder: FilePath
    urls: tuple[Address, ...] = Field(min_length=1)
    archives: tuple[Archive, ...] = Field(min_length=1)
    train: tuple[RawFile, ...] = ()
    test: tuple[RawFile, ...] = ()


class PackFiles(Strict):
    """The files of the data set in a pack; one file may hold both sides of the split."""

    train: tuple[PackFile, ...] = Field(min_length=1)
    test: tuple[PackFile, ...] = Field(min_length=1)

    @property
    def files(self) -> tuple[str, ...]:
        """All files, each once."""
        return tuple(dict.fromkeys((*self.train, *self.test)))


class KnownCopy(Strict):
    """The content hash of a copy that differs from the official data, and how it differs."""

    sha256: Sha256
    note: str


class Content(Strict):
    """Content hashes (see `fedrepro.fl.data.Dataset`) of the official data and of known copies.

    Attributes:
        official: of the official data; None if nobody has stated it.
        copies: of copies that differ from them in a known way.
        labels: of the labels alone, which all of these have in common.
    """

    official: Sha256 | None = None
    copies: tuple[KnownCopy, ...] = ()
    labels: Sha256 | None = None

    @property
    def known(self) -> tuple[str, ...]:
        """The hashes of the data that are meant; empty if none is stated."""
        official = () if self.official is None else (self.official,)
        return (*official, *(copy.sha256 for copy in self.copies))


class DatasetInfo(Strict):
    """One data set.

    Attributes:
        name: as its file is called.
        title: what a reader calls it.
        format: how it is read.
        shape: of one example, [channels, height, width].
        dtype: of the stored examples; uint8 are pixels 0-255.
        class_names: in the order of the labels.
        superclasses: name -> names of its classes, where the data set groups them.
        train: examples in the training split.
        test: examples in the test split.
        per_class: examples of each class.
        counts: whether data with other numbers of examples are refused ("exact"), or read with a
            note because the numbers were not checked against the official files ("unverified").
        mean: usual constant to subtract, of values in [0, 1] where ``dtype`` is uint8.
        std: usual constant to divide by.
        official: where the official files come from; None if there are none.
        pack: its files in a pack; None if it is never packed.
        content: hashes of the decoded arrays. A copy with the official one is the original; a
            listed copy differs as its note says, which goes into every record made with it. Other
            data are read only if they are allowed; see `fedrepro.fl.data.load`.
        statistics_axis: what ``mean`` and ``std`` have one entry per: "channel" (axis 1 of the
            data) or "row" (axis 2, the coefficients of features).
    """

    name: str = ""
    title: str
    version: int = Field(default=1, ge=1, description="raised when the numbers of the data change")
    format: Literal[
        "mnist",
        "cifar",
        "keywords",
        "speech_commands",
        "synthetic",
        "pill",
        "synthetic_pills",
        "plugin",
        "memory",
    ]
    shape: tuple[Size, Size, Size]
    dtype: Literal["uint8", "float32"]
    classes: int = Field(gt=1)
    class_names: tuple[str, ...]
    superclasses: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    train: int = Field(gt=0)
    test: int = Field(gt=0)
    per_class: PerClass
    counts: Literal["exact", "unverified"] = "exact"
    mean: tuple[float, ...]
    std: tuple[Annotated[float, Field(gt=0)], ...]
    statistics_axis: Literal["channel", "row"] = "channel"
    licence: str
    citation: str
    homepage: str
    official: Official | None = None
    pack: PackFiles | None = None
    content: Content = Content()

    @model_validator(mode="after")
    def _consistent(self) -> DatasetInfo:
        if len(self.class_names) != self.classes:
            raise ValueError(f"class_names has {len(self.class_names)} of {self.classes} classes")
        if len(set(self.class_names)) < self.classes:
            raise ValueError("class_names has a name twice")
        grouped = [name for names in self.superclasses.values() for name in names]
        if grouped and sorted(grouped) != sorted(self.class_names):
            raise ValueError("superclasses must name every one of class_names once")
        for side, examples, per_class in (
            ("train", self.train, self.train_per_class),
            ("test", self.test, self.test_per_class),
        ):
            if len(per_class) != self.classes or sum(per_class) != examples:
                raise ValueError(
                    f"per_class.{side} has {len(per_class)} classes and {sum(per_class)} examples, "
                    f"not {self.classes} and {examples}"
                )
        problem = self._unreadable()
        if problem:
            raise ValueError(f"format {self.format} {problem}")
        wanted = self.shape[0 if self.statistics_axis == "channel" else 1]
        if not len(self.mean) == len(self.std) == wanted:
            raise ValueError(f"mean and std must have {wanted} entries each")
        return self

    def _unreadable(self) -> str:
        """Say what the format needs and the description has not; "" if nothing."""
        official, pack = self.official, self.pack
        one_file = pack is not None and len(pack.files) == 1
        if self.format == "mnist":
            sides = () if official is None else (official.train, official.test)
            if any(len(side) != 2 for side in sides):
                return "needs two official files a side, the images first"
            if pack is not None and not one_file:
                return "needs one pack file, for both sides"
        if self.format == "cifar" and official and not (official.train and official.test):
            return "needs official files of both sides"
        if self.format in ("mnist", "cifar") and not (official or pack):
            return "needs official files or pack files"
        if self.format == "keywords" and (official or not one_file):
            return "needs one pack file, and no official ones"
        if self.format == "speech_commands" and not (
            official and len(official.archives) == 1 and one_file
        ):
            return "needs one official archive and one pack file"
        if self.format in ("synthetic", "synthetic_pills", "pill") and (official or pack):
            return "has no official files and no pack files"
        if self.format in ("synthetic_pills", "pill") and self.shape[0] != 3:
            return "has 3 channels, which shape must say"
        return ""

    @property
    def train_per_class(self) -> tuple[int, ...]:
        """Training examples of each class."""
        return self._each(self.per_class.train)

    @property
    def test_per_class(self) -> tuple[int, ...]:
        """Test examples of each class."""
        return self._each(self.per_class.test)

    @property
    def statistics_shape(self) -> tuple[int, int, int, int]:
        """Shape that ``mean`` and ``std`` need to broadcast over [n, channels, height, width]."""
        return (1, -1, 1, 1) if self.statistics_axis == "channel" else (1, 1, -1, 1)

    def knows(self, sha256: str, source: str) -> bool:
        """Return whether data are those that the description means, or it states no hash of them.

        Official files are known by their own checksums, without which they are not read.

        Args:
            sha256: content hash of the data.
            source: where they come from, as in `fedrepro.fl.data.Dataset`.
        """
        files = self.official is not None and bool(self.official.train)
        if files and source in ("raw", "download"):
            return True
        return not self.content.known or sha256 in self.content.known

    def _each(self, per_class: tuple[int, ...] | int) -> tuple[int, ...]:
        return (per_class,) * self.classes if isinstance(per_class, int) else per_class


class CadisLists(Strict):
    """One of the authors' files of client lists.

    Attributes:
        dataset: whose training set the positions are in.
        repository: where the file is; a key of ``CadisIndex.repositories``.
        path: in the repository, and below ``data/raw/<folder>``.
        bytes: size of the file.
        sha256: of the decoded lists, see `fedrepro.fl.data.cadis.lists_sha256`.
    """

    dataset: str
    repository: str
    path: FilePath
    bytes: int = Field(gt=0)
    sha256: Sha256


class CadisIndex(Strict):
    """The client partitions by the CADIS authors.

    Attributes:
        file: the file of a pack that holds them.
        clients: clients of each partition.
        folder: below ``data/raw``, where the authors' files lie.
        repositories: name -> address below which a repository's files are found.
        partitions: name -> the authors' file.
    """

    title: str
    file: FileName
    clients: int = Field(gt=0)
    folder: FileName
    repositories: dict[str, Address]
    partitions: dict[str, CadisLists] = Field(min_length=1)
    licence: str
    homepage: str

    @model_validator(mode="after")
    def _known_repositories(self) -> CadisIndex:
        for name, lists in self.partitions.items():
            if lists.repository not in self.repositories:
                raise ValueError(f"partitions.{name} names no repository: {lists.repository!r}")
        return self

    def url(self, name: str) -> str:
        """Return the address of a partition's file.

        Raises:
            KeyError: there is no such partition.
        """
        lists = self.partitions[name]
        return self.repositories[lists.repository] + lists.path


def names() -> tuple[str, ...]:
    """Return the data sets that `fedrepro.fl.data.load` knows, sorted; without those in memory."""
    return tuple(sorted(_files() | entry_points(GROUP)))


_DESCRIBED: dict[str, DatasetInfo] = {}
"""Data sets that this process made of arrays; these descriptions stay, which take no room."""

_HELD: WeakValueDictionary[str, Dataset] = WeakValueDictionary()
"""Those that something in this process still uses, one for each content."""

IN_MEMORY = re.compile(r"^own_[0-9a-f]{12}$")
"""Names of data sets that a program made of its arrays: their content hash."""


def remember(info: DatasetInfo, dataset: Dataset) -> None:
    """Let a data set of a program's own be found by its name for as long as it is used.

    What needs the arrays holds the data set itself: the program, `fedrepro.library.Parts`, a run in
    flight, :mod:`.arrays_file` for plans. A spec or a record has only the name.
    """
    _DESCRIBED[info.name] = info
    _HELD[info.name] = dataset


def held(name: str) -> Dataset | None:
    """Return the data set of a program's own that has this name; None if nothing uses one."""
    return _HELD.get(name)


def in_memory(name: str) -> Dataset | None:
    """Return a data set of a program's own; None if the name is that of another kind.

    Raises:
        FedreproError: this process does not have it, or no longer.
    """  # noqa: DOC501 - made by a function
    if not IN_MEMORY.match(name):
        return None
    found = held(name)
    if found is None:
        raise _not_here(name)
    return found


def _not_here(name: str) -> FedreproError:
    return FedreproError(
        f"the arrays of the data set {name} are not here: name their file in a plan "
        "(`dataset.file`) and that plan in the command (`--paper my-plan.yaml`), or make it again "
        "with `Dataset.from_arrays`"
    )


def exists(name: str) -> bool:
    """Return whether there is a data set of this name, or could be one in memory."""
    return name in _files() or name in entry_points(GROUP) or bool(IN_MEMORY.match(name))


def version(name: str) -> int:
    """Return the version of a data set; 1 for one in memory, whose name is its content hash.

    Raises:
        FedreproError: as :func:`describe`.
    """
    return 1 if IN_MEMORY.match(name) else describe(name).version


def constants(name: str) -> str:
    """Return a digest of what training takes from a clone's own description; empty if nothing.

    Shape, type, mean and standard deviation change a run's numbers, and nobody raises the version
    of a description of their own. One that has those of fedrepro's data set of the name, to give
    another address, say, changes nothing.

    Raises:
        FedreproError: as :func:`describe`.
    """
    file = _files().get(name)
    if file is None or file.parent == FOLDER:
        return ""
    used = {"shape", "dtype", "mean", "std", "statistics_axis"}
    own = describe(name).model_dump_json(include=used)
    replaced = FOLDER / file.name
    if replaced.exists():
        original = _read(replaced, replaced.stat().st_mtime_ns)
        if original.model_dump_json(include=used) == own:
            return ""
    return hashlib.sha256(own.encode()).hexdigest()[:12]


def describe(name: str) -> DatasetInfo:
    """Describe a data set without needing its data.

    Raises:
        FedreproError: there is no data set of this name (says the nearest), or its file is wrong
            (names the key).
    """  # noqa: DOC501 - made by a function
    if IN_MEMORY.match(name):
        if name not in _DESCRIBED:
            raise _not_here(name)
        return _DESCRIBED[name]
    file = _files().get(name)
    if file is not None:
        return _read(file, file.stat().st_mtime_ns)
    plugin = source(name)
    if plugin is None:
        raise FedreproError(f"unknown data set '{name}' {nearest(name, names())}")
    return plugin.info


def source(name: str) -> Source | None:
    """Return another distribution's data set; None if the name is fedrepro's or unknown.

    Raises:
        FedreproError: it cannot be imported, cannot be called so, or is no data set of the name.
    """
    point = entry_points(GROUP).get(name)
    if point is None or name in _files():
        return None
    require_name(name, owner(point))
    loaded: Source = load_entry_point(point)
    info = getattr(loaded, "info", None)
    if not isinstance(info, DatasetInfo) or (info.name, info.format) != (name, "plugin"):
        raise FedreproError(
            f"{owner(point)}: {point.value} is no data set of the name '{name}' and of the format "
            "'plugin'; mend or uninstall it"
        )
    return loaded


def plugin(name: str) -> tuple[str, str] | None:
    """Return name and version of a data set's distribution; None if it is fedrepro's."""
    point = entry_points(GROUP).get(name)
    return None if point is None or name in _files() else distribution(point)


def cadis_index() -> CadisIndex:
    """Return what is known of the CADIS authors' client partitions.

    A clone may have a file of its own, ``config/cadis_index.yaml``.

    Raises:
        FedreproError: the file is wrong; names the key.
    """
    file = Path(__file__).parent / "cadis_index.yaml"
    if (root := paths.find_root()) and (root / "config/cadis_index.yaml").exists():
        file = root / "config/cadis_index.yaml"
    return _read_index(file, file.stat().st_mtime_ns)


def require_known(name: str, known: tuple[str, ...], what: str) -> None:
    """Refuse a name that is not in ``known``.

    Raises:
        FedreproError: unknown name; says the nearest. ``what`` is the kind of thing it names.
    """
    if name not in known:
        raise FedreproError(f"unknown {what} '{name}' {nearest(name, known)}")


def _files() -> dict[str, Path]:
    """Return the file of every data set that has one."""
    root = paths.find_root()
    folders = [str(FOLDER)]
    if root and os.path.isdir(f"{root}/{OWN}"):
        folders.append(f"{root}/{OWN}")
    return _listed(tuple((folder, os.stat(folder).st_mtime_ns) for folder in folders))


@lru_cache(maxsize=16)
def _listed(folders: tuple[tuple[str, int], ...]) -> dict[str, Path]:
    """List folders, by their times of change; files of a later one go before others."""
    return {name_of(file): file for folder, _ in folders for file in yaml_files(Path(folder))}


@lru_cache(maxsize=64)
def _read(file: Path, mtime_ns: int) -> DatasetInfo:
    """Read one version of a file (``mtime_ns`` makes an edited file a new one)."""
    info = read_yaml(file, DatasetInfo)
    if info.format in ("plugin", "memory"):
        raise FedreproError(
            f"{file}: format: {info.format} is for data sets that a program describes; give the "
            "layout of the files"
        )
    if info.name not in ("", file.stem):
        raise FedreproError(f"{file}: name: {info.name}, but the file is named '{file.stem}'")
    return info.model_copy(update={"name": file.stem})


@lru_cache(maxsize=4)
def _read_index(file: Path, mtime_ns: int) -> CadisIndex:
    return read_yaml(file, CadisIndex)
