"""The PILL images of Nguyen et al. 2023, read as the authors' code lays them out.

The images are private: nothing here downloads them. Who has them puts them below
``data/raw/pill``, or below ``raw/pill`` of the folder that ``FEDREPRO_DATA`` names::

    client_dataset/user_group_img.json   client "0" to "9" -> names of its image files
    client_dataset/img_label_dict.json   name of an image file -> name of its label
    client_dataset/label_hash.json       name of a label -> its number, of both sides
    client_dataset/pill_cropped/         the clients' images
    server_dataset/user_group_img.json   "0" -> names of the test image files
    server_dataset/img_label_dict.json   as the clients'
    server_dataset/pill_cropped/         the test images

The training examples are the clients' lists one after another, in the order of the files, so that
`fedrepro.fl.partition.published_counts` gives every client its own list.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import first_problem
from fedrepro.fl.data.dataset import Arrays, Labels
from fedrepro.fl.data.pill_counts import COUNTS
from fedrepro.fl.data.registry import DatasetInfo

FOLDER = "pill"
"""Below a folder of raw data."""

CLIENTS, SERVER = "client_dataset", "server_dataset"
LISTS, LABELS_OF, NUMBERS, IMAGES = (
    "user_group_img.json",
    "img_label_dict.json",
    "label_hash.json",
    "pill_cropped",
)
FILES = (
    f"{CLIENTS}/{LISTS}",
    f"{CLIENTS}/{LABELS_OF}",
    f"{CLIENTS}/{NUMBERS}",
    f"{SERVER}/{LISTS}",
    f"{SERVER}/{LABELS_OF}",
)
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
"""Of images; Pillow hands some other formats to programs of the machine."""

_Lists = TypeAdapter(dict[str, list[str]])
_Names = TypeAdapter(dict[str, str])
_Numbers = TypeAdapter(dict[str, int])
_T = TypeVar("_T")


def files(info: DatasetInfo, raw: Path) -> tuple[Path, ...]:
    """Return the JSON files below ``raw``; empty if one is missing."""
    found = tuple(raw / FOLDER / file for file in FILES)
    return found if all(path.is_file() for path in found) else ()


def read(info: DatasetInfo, raw: Path) -> Arrays:
    """Read the layout below ``raw``; images become RGB of the size that ``info`` says.

    Raises:
        FedreproError: a file is missing, cannot be read, or does not fit the others or the
            published counts; the message names the file and the key.
    """
    folder = raw / FOLDER
    missing = [file for file in FILES if not (folder / file).is_file()]
    if missing:
        raise FedreproError(
            f"The images of {info.title} are not public, so there is no download. Who has them "
            f"puts them below {folder}, or below raw/{FOLDER} of the folder that FEDREPRO_DATA "
            f"names, as src/fedrepro/fl/data/pill.py describes; missing in {folder}: "
            f"{', '.join(missing)}. Data set 'synthetic_pills' is a stand-in."
        )
    numbers = _numbers(info, folder)
    lists, wanted = _json(folder / CLIENTS / LISTS, _Lists), [str(i) for i in range(len(COUNTS))]
    _require_keys(folder / CLIENTS / LISTS, list(lists), wanted)
    labels = _labels(folder / CLIENTS, lists, numbers)
    for client, published in enumerate(COUNTS):
        found = np.bincount(labels[str(client)], minlength=info.classes).tolist()
        if found != list(published):
            raise FedreproError(
                f"{folder / CLIENTS / LISTS}: client {client} has {found} images of the labels, "
                f"published are {list(published)}. This is not the collection of Table I "
                "(syndata3)."
            )
    test = _json(folder / SERVER / LISTS, _Lists)
    _require_keys(folder / SERVER / LISTS, list(test), ["0"])
    test_labels = _labels(folder / SERVER, test, numbers)
    names = [name for client in wanted for name in lists[client]]
    return Arrays(
        _images(folder / CLIENTS / IMAGES, names, info.shape),
        np.concatenate([labels[client] for client in wanted]),
        _images(folder / SERVER / IMAGES, test["0"], info.shape),
        test_labels["0"],
    )


def _numbers(info: DatasetInfo, folder: Path) -> dict[str, int]:
    """Return the number of every label name; both must be as described."""
    path = folder / CLIENTS / NUMBERS
    numbers = _json(path, _Numbers)
    for number, name in enumerate(info.class_names):
        if numbers.get(name) != number:
            raise FedreproError(f"{path}: {name!r} is {numbers.get(name)}, expected {number}.")
    unknown = sorted(set(numbers) - set(info.class_names))
    if unknown:
        raise FedreproError(f"{path}: unknown label {unknown[0]!r}.")
    return numbers


def _require_keys(path: Path, found: list[str], wanted: list[str]) -> None:
    if set(found) != set(wanted):
        raise FedreproError(
            f"{path}: its keys are {', '.join(sorted(found)[:12])}; expected {', '.join(wanted)}."
        )


def _labels(side: Path, lists: dict[str, list[str]], numbers: dict[str, int]) -> dict[str, Labels]:
    """Return the labels of each list's images, int64 [n] each."""
    names = _json(side / LABELS_OF, _Names)

    def label(image: str) -> int:
        if image not in names:
            raise FedreproError(f"{side / LABELS_OF}: image {image!r} has no label.")
        if names[image] not in numbers:
            raise FedreproError(
                f"{side / LABELS_OF}: image {image!r} has the unknown label {names[image]!r}."
            )
        return numbers[names[image]]

    return {
        key: np.array([label(image) for image in images], dtype=np.int64)
        for key, images in lists.items()
    }


def _images(folder: Path, names: list[str], shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Read images as RGB and resize them by linear interpolation: uint8 [n, 3, height, width]."""
    from PIL import Image  # not needed where other data sets are trained on

    _, height, width = shape
    result = np.empty((len(names), *shape), dtype=np.uint8)
    for number, name in enumerate(names):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
            raise FedreproError(f"{folder.parent / LISTS}: {name!r} is not a plain file name.")
        path = folder / name
        if not path.is_file():
            raise FedreproError(f"{path} is missing; {folder.parent / LISTS} lists it.")
        try:
            with Image.open(path, formats=FORMATS) as image:
                colours = image.convert("RGB")
        except MemoryError:
            raise
        except Exception as error:  # a broken image can raise anything
            raise FedreproError(
                f"{path} cannot be read as an image ({', '.join(FORMATS)}): {error}. Copy it again."
            ) from None
        resized = colours.resize((width, height), Image.Resampling.BILINEAR)
        result[number] = np.asarray(resized).transpose(2, 0, 1)
    return result


def _json(path: Path, kind: TypeAdapter[_T]) -> _T:
    """Read a JSON file of known form."""
    try:
        return kind.validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        raise FedreproError(f"{path}: {first_problem(error)}.") from None
    except OSError as error:
        raise FedreproError(f"{path} cannot be read: {error}") from None
