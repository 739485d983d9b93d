"""Files made to do harm: archives, arrays, YAML, checkpoints with fresh hashes, numbers."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import math
import random
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from programs import Server
from tiny_packs import TINY, Tiny
from trials import Trial
from undisturbed import PLAN, RECORDS, TRAIN, Undisturbed, results

from fedrepro.fl.data import packs
from fedrepro.fl.engine import checkpoint

NAMES = [
    "../outside.json",
    "/tmp/outside.json",
    "results/own/runs/../../../outside.json",
    "results/own/runs/0123456789ab.json/../../x",
    "results\\own\\runs\\0123456789ab.json",
    ".checkpoints/0123456789ab.pt\0.json",
    ".git/hooks/pre-commit",
    "results/own/runs/" + "0" * 5000 + ".json",
    "results/own/runs/\udcff.json",
    "",
    ".",
    "conftest.py",
]
TYPES = [
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
    tarfile.DIRTYPE,
    tarfile.GNUTYPE_SPARSE,
    b"Z",
]


def _member(draw: random.Random, run: str) -> tuple[str, tarfile.TarInfo, bytes]:
    """Return what is wrong with a member, and the member with its content."""
    member, content = tarfile.TarInfo(f"{RECORDS}/{run}.json"), b"{}"
    member.size = len(content)
    wrong = draw.choice(["a name", "a type", "a size", "headers", "nothing in it"])
    if wrong == "a name":
        member.name = draw.choice(NAMES)
    elif wrong == "a type":
        member.type, member.linkname = draw.choice(TYPES), draw.choice(["/etc/passwd", "../x", ""])
    elif wrong == "a size":
        member.size = draw.choice([2**33, 2**62, 10**6, 1 << 26])
    elif wrong == "headers":
        member.pax_headers = {
            draw.choice(["path", "size", "mtime", "GNU.sparse.size", "GNU.sparse.map", "x"]): str(
                draw.choice(["../x", "-1", "9" * 40, "x" * 200_000, "1,2,3", "nan"])
            )
        }
    return wrong, member, content


@pytest.mark.trials("hostile tar file", 12)
def test_archive(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    """Nothing of it arrives, inside the folder or outside of it."""
    folder = tmp_path / "here"
    folder.mkdir()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(whole.folder / RECORDS / f"{whole.runs[0]}.json", f"{RECORDS}/{whole.runs[0]}.json")
        trial.done, member, content = _member(trial.draw, whole.runs[1])
        tar.fileobj.write(member.tobuf(tar.format, "utf-8", "surrogateescape"))  # type: ignore[union-attr]
        tar.fileobj.write(content.ljust(512, b"\0"))  # type: ignore[union-attr]
        tar.offset += 1024
    file = folder / "new.tar"
    content = stream.getvalue() + bytes(4096)
    if trial.draw.random() < 0.3:
        content = gzip.compress(content + bytes(trial.draw.choice([0, 1 << 27])))
        trial.done += ", compressed"
    file.write_bytes(content)
    ended = server.run(folder, "records", "import", file.name)
    assert [one.name for one in tmp_path.rglob("*") if one.is_file()] == [file.name], ended
    assert not Path("/tmp/outside.json").exists()
    trial.judge(ended, [file.name], same=False)


def _header(shape: Any, descr: Any = "|u1", order: Any = False, version: int = 1) -> bytes:
    text = repr({"descr": descr, "fortran_order": order, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(text)) + text


def _array(draw: random.Random, array: np.ndarray[Any, Any]) -> tuple[str, bytes]:
    """Return what is wrong with an array, and its file."""
    values, shape = array.tobytes(), array.shape
    wrong: dict[str, Callable[[], bytes]] = {
        "a header of 784 TB": lambda: _header((10**12, 28, 28)) + values,
        "a shape that overflows": lambda: _header((2**62, 2**62, 4)) + values,
        "a negative shape": lambda: _header((-1, *shape[1:])) + values,
        "no axes": lambda: _header(()) + values[:1],
        "a shape of another product": lambda: _header((7, *shape)) + values,
        "a shape that is no tuple": lambda: _header("x") + values,
        "objects": lambda: _header(shape, "|O") + b"cos\nsystem\n(S'true'\ntR.",
        "an unknown type": lambda: _header(shape, draw.choice(["x9", 5, [], "V0"])) + values,
        "text": lambda: _header(shape, "<U1") + values * 4,
        "dates": lambda: _header((array.size // 8,), "<M8[s]") + values[: array.size // 8 * 8],
        "a record type": lambda: _header(shape, [("a", "|u1")]) + values,
        "complex numbers": lambda: _header((array.size // 16,), "<c16") + values,
        "NaN": lambda: _header((array.size,), "<f4") + struct.pack("<f", math.nan) * array.size,
        "a header that is no Python": lambda: (
            b"\x93NUMPY\x01\x00\x08\x00"
            + draw.choice([b"((((((((", b"{\0\0\0\0\0\0\0", b"a**b**c*"])
        ),
        "a header that is deep": lambda: _header(shape)[:8] + b"\xff\xff" + b"[" * 65535,
        "an unknown version": lambda: _header(shape, version=9) + values,
        "nothing": lambda: b"",
        "Fortran's order": lambda: _header(shape, order=True) + values,
    }
    name = draw.choice(list(wrong))
    return name, wrong[name]()


@pytest.mark.trials("hostile data pack", 20)
def test_pack(
    trial: Trial,
    server: Server,
    tiny: Tiny,
    tmp_path: Path,
) -> None:
    """Files with fresh checksums, which say what they like."""
    folder = tiny.copy(tmp_path) / "packed"
    shutil.rmtree(tmp_path / "data")
    file = trial.draw.choice([one for one in sorted(folder.iterdir()) if one.suffix == ".npz"])
    with np.load(file) as arrays:
        plain = dict(arrays)
    victim = trial.draw.choice(sorted(plain))
    trial.done, content = _array(trial.draw, plain[victim])
    if trial.draw.random() < 0.2:
        trial.done = "an array missing"
        del plain[victim]
    elif trial.draw.random() < 0.2:
        trial.done = "noise in an array"
        content = _header(plain[victim].shape, plain[victim].dtype.str)
        content += trial.draw.randbytes(plain[victim].nbytes)
    method = trial.draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(file, "w", method) as parts:
        for name, array in plain.items():
            stream = io.BytesIO()
            np.save(stream, array)
            parts.writestr(f"{name}.npy", content if name == victim else stream.getvalue())
    _sign(folder)
    ended = server.run(tmp_path, *TINY, "--data-root", "packed", FEDREPRO_ROOT=str(tmp_path))
    trial.judge(ended, [file.name, "the pack packed"], same=ended.said == tiny.said)


def _sign(folder: Path) -> None:
    """Write fresh checksums of a pack."""
    files = sorted(folder.glob("*.npz"))
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / packs.SUMS).write_text("".join(lines))


YAML = {
    "a billion laughs": "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in itertools.pairwise("abcdefghij")
    ),
    "itself": "defaults: &a {dataset: *a}\n",
    "a list in itself": "seeds: &a [0, *a]\n",
    "a tag of Python": "runs: !!python/object/apply:os.system ['touch outside']\n",
    "an impossible date": "seeds: [2001-99-99]\n",
    "an endless number": f"seeds: [{'9' * 5000}]\n",
    "an endless hexadecimal number": f"seeds: [0x{'f' * 5000}]\n",
    "sexagesimal numbers": "batch: 1:99:99:99:99\n",
    "infinity": "seeds: [.inf]\n",
    "not a number": "batch: .nan\n",
    "a key that is a list": "{[1, 2]: 3}\n",
    "a key that is a mapping": "? {a: b}\n: c\n",
    "a key that is nothing": "~: 1\n",
    "a key that is a number": "1: 1\n",
    "a merge of a number": "<<: 1\n",
    "a merge of itself": "defaults: &a\n  <<: *a\n",
    "nested": "defaults: " + "[" * 90 + "]" * 90 + "\n",
    "nested deeper": "defaults: " + "{a: " * 20_000,
    "a null byte": "title: a\0b\n",
    "control characters": "title: a\x1b[2Jb\n",
    "a surrogate": 'title: "\\ud800"\n',
    "a long key": "k" * 1_000_000 + ": 1\n",
    "a set": "seeds: !!set {1, 2}\n",
    "binary": "title: !!binary '###'\n",
    "binary bytes": "paper: !!binary aGFsbG8=\n",
    "two documents": "a: 1\n---\nb: 2\n",
    "an unknown anchor": "a: *nobody\n",
    "tabs": "a:\n\t- b\n",
    "a directive": "%YAML 9.9\n---\na: 1\n",
    "a slug with a path": "paper: ../../etc/passwd\n",
    "an axis of huge length": "runs: {a: {grid: {rounds: {start: 0, stop: 1.0e+18, step: 1}}}}\n",
}


@pytest.mark.trials("hostile YAML", 12)
def test_yaml(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    trial.done = trial.draw.choice(list(YAML))
    text = PLAN.read_text()
    key = YAML[trial.done].partition(":")[0]
    lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
    new = trial.draw.choice([YAML[trial.done] + "\n".join(lines), YAML[trial.done]])
    (tmp_path / PLAN.name).write_text(new, errors="surrogatepass")
    ended = server.run(tmp_path, "status", "--paper", PLAN.name, "--list")
    assert not (tmp_path / "outside").exists()
    trial.judge(ended, [PLAN.name], same=False, otherwise="other runs")


ODD: list[Any] = [None, [], {}, "x", "", math.nan, math.inf, -1, 0, 2**70, True, 1.5, [[]], b"x"]
ODD += [torch.ones(3), torch.full((2, 2), math.nan), torch.ones(0), torch.ones(2, dtype=torch.int8)]


def _leaves(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = content.items() if isinstance(content, dict) else ()
    if isinstance(content, list):
        items = enumerate(content[:4])  # type: ignore[assignment]
    for key, value in items:
        found += _leaves(value, (*path, key))
    return found


@pytest.mark.trials("checkpoint with a fresh hash", 10)
def test_checkpoint(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    """What contradicts itself is refused; a deliberate edit that does not, nothing can notice."""
    run = trial.draw.choice(whole.runs)
    file = whole.begin(tmp_path, run)
    content = checkpoint.load(file, run)
    assert content is not None
    *way, last = trial.draw.choice(_leaves(content))
    place: Any = content
    for key in way:
        place = place[key]
    odd = trial.draw.choice(ODD)
    trial.done = f"another value in its {way[0] if way else last}"
    trial.notes.append(f"{[*way, last]} = {odd!r}")
    if trial.draw.random() < 0.2 and isinstance(place, dict):
        trial.done = f"a value missing in its {way[0] if way else last}"
        del place[last]
    elif isinstance(place[last], torch.Tensor) and trial.draw.random() < 0.5:
        trial.done = "weights that are not finite"
        place[last] = torch.full_like(place[last].float(), math.nan).to(place[last].dtype)
    else:
        place[last] = odd
    checkpoint.save(file, run, content)
    ended = server.run(tmp_path, *TRAIN)
    trial.judge(ended, [file.name, run], same=whole.same(tmp_path), otherwise="not noticed")


NUMBERS: dict[str, list[Any]] = {
    "optimizer.lr": [1e30, 1e300, -1.0, 0, 1e-300, math.nan, math.inf, "0.1", 10**400],
    "optimizer.momentum": [1.0, 0.999999, -1, 2],
    "optimizer.weight_decay": [1e30, -1],
    "batch": [0, -1, 1, 10**9, 2**63, 1.5, "all"],
    "rounds": [0, -1, 1.5, 1],
    "local_epochs": [0, -1, 0.5, 1],
    "seeds": [[-1], [2**32], [2**64], [2**200], [], [0, 0], [1.5]],
    "partition.clients": [0, -1, 1, 1000, 10**9, 2**64],
    "partition.alpha": [0, -1, 1e-300, 1e300, math.nan, math.inf, 1e-5],
    "partition.per_class": [0, 1, 10**9, -5],
    "partition.smallest": [0, 1, 10**9],
    "model.width": [0, -1, 1e-9, math.nan, math.inf],
    "evaluate_every": [0, -1, 10**9],
    "algorithm.participants": [0, -1, 10**9, 1],
    "algorithm.weighting": ["none", 3],
    "dataset.name": ["", "../x", "synthetic\n", "nowhere", "own_000000000000", None],
    "dataset.transform": ["standard", "x"],
}


@pytest.mark.trials("numbers of a plan", 16)
def test_numbers(trial: Trial, server: Server, tmp_path: Path) -> None:
    """Refused by name; or what is recorded is finite."""
    plan = yaml.safe_load(PLAN.read_text())
    plan["runs"] = {"fedavg": {"title": "FedAvg"}}
    keys = trial.draw.sample(list(NUMBERS), trial.draw.choice([1, 1, 2]))
    trial.done = ", ".join(sorted(key.rpartition(".")[2] for key in keys[:1]))
    for key in keys:
        place = plan if key == "seeds" else plan["defaults"]
        *way, last = key.split(".")
        for part in way:
            place = place[part]
        place[last] = trial.draw.choice(NUMBERS[key])
        trial.notes.append(f"{key} = {place[last]!r:.80}")
    (tmp_path / PLAN.name).write_text(yaml.safe_dump(plan))
    ended = server.run(tmp_path, *TRAIN)
    finite = True
    for result in results(tmp_path).values():
        json.dumps(result, allow_nan=False)
        finite &= sum(map(len, result["partition"]["counts"])) > 0
    trial.judge(ended, [PLAN.name, "run "], same=finite)
