"""Speech Commands from archive to features, on a small archive of tones and noise."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from servers import serving
from small_runs import make_spec
from test_mfcc import noise, tone
from tiny_data import allow_plain, read_registry, tiny_root, write_registry

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data
from fedrepro.fl.data import commands, mfcc, official, packs, sources, speech_commands
from fedrepro.fl.engine.data import DeviceData, tensors_of
from fedrepro.fl.federation import Federation
from fedrepro.fl.models import build

RAW = Path("data/raw")
NAME = "speech_commands_v0.02.tar.gz"
STORED = RAW / "speech_commands_v0.02"

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")

# Speakers, and SHA-1 modulo 2^27 of their names, as `sha1sum` gives it, in percent.
TRAIN = ("00000001", "00000003")  # 50.969, 40.426
TEST = ("00000002",)  # 16.414
VALIDATION = ("00000000",)  # 9.556


def wav(samples: NDArray[Any], rate: int = 16_000, channels: int = 1) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((channels, samples.dtype.itemsize, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return stream.getvalue()


def word_clip(word: str, speaker: str, number: int = 0) -> NDArray[np.int16]:
    """Return a clip of its own for every word, speaker and number."""
    seed = int.from_bytes(hashlib.sha256(f"{word}{speaker}{number}".encode()).digest()[:4], "big")
    samples = tone(300 + 250 * WORDS.index(word), 0.3) + noise(seed, 0.02)
    return samples[: 16_000 - 1000 * number]


def small_archive() -> dict[str, bytes]:
    """Return the files of an archive: per word two training, one test and one validation clip."""
    files = {"./README.md": b"text", "./LICENSE": b"text"}
    for word in WORDS:
        for speaker in (*TRAIN, *TEST, *VALIDATION):
            files[f"./{word}/{speaker}_nohash_0.wav"] = wav(word_clip(word, speaker))
    files["./yes/00000001_nohash_1.wav"] = wav(word_clip("yes", "00000001", 1))
    files["./cat/00000001_nohash_0.wav"] = b"another word"
    files["./_background_noise_/hum.wav"] = b"no clip"
    files["./validation_list.txt"] = b"yes/00000000_nohash_0.wav\n"
    return files


def write_archive(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def expect(root: Path, archive: Path, **changes: Any) -> None:
    """Make the registry of ``root`` describe this archive."""
    registry = read_registry(root)
    entry = registry["datasets"]["kws_mfcc"]
    content = archive.read_bytes()
    entry["official"]["archives"] = [
        {
            "file": NAME,
            "bytes": len(content),
            "md5": hashlib.md5(content, usedforsecurity=False).hexdigest(),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    ]
    entry["official"]["urls"] = ["http://127.0.0.1:9/", "http://127.0.0.1:9/mirror/"]
    entry |= {"train": 21, "test": 10, "per_class": {"train": [3] + [2] * 9, "test": 1}}
    registry["datasets"]["kws_mfcc"] = entry | changes
    write_registry(root, registry)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a repository that describes the small archive, which lies in ``served``."""
    tiny_root(tmp_path, monkeypatch)
    allow_plain(monkeypatch)
    expect(tmp_path, write_archive(Path("served") / NAME, small_archive()))
    return tmp_path


@pytest.fixture
def at_hand(root: Path) -> Path:
    """Put the archive where a download would."""
    RAW.mkdir(parents=True)
    return (root / "served" / NAME).rename(RAW / NAME)


@pytest.fixture
def server(root: Path) -> Iterator[str]:
    """Serve the folder ``served``; return its address."""
    with serving(root / "served") as address:
        yield address


def test_split_is_by_speaker() -> None:
    for speaker, expected in (
        ("00000000", "validation"),
        ("00000002", "test"),
        ("00000001", "train"),
        ("00023322", "validation"),  # 13,421,320 of 2^27: 9.99966 %
        ("00025c90", "test"),  # 13,421,886: 10.00008 %
        ("000417ba", "test"),  # 26,843,145: 19.99970 %
        ("0003a885", "train"),  # 26,844,785: 20.00092 %
        ("a69b9b3e", "validation"),  # official: right/a69b9b3e_nohash_0.wav, validation_list.txt
    ):
        sides = {speech_commands.side(f"{speaker}_nohash_{number}") for number in range(5)}
        assert sides == {expected}


def test_a_download_becomes_features(root: Path, server: str) -> None:
    registry = read_registry(root)
    registry["datasets"]["kws_mfcc"]["official"]["urls"][1] = server
    write_registry(root, registry)
    assert sources.locate("kws_mfcc").kind == "download"
    found = data.load("kws_mfcc")  # the first address refuses, the second serves
    assert (found.source, found.train_x.shape) == ("download", (21, 1, 50, 10))
    assert (found.test_x.shape, found.train_x.dtype) == ((10, 1, 50, 10), np.float32)
    assert sorted(path.name for path in RAW.iterdir()) == ["speech_commands_v0.02", NAME]
    (RAW / NAME).unlink()  # not needed any more
    again = data.load("kws_mfcc")
    assert (again.source, again.sha256) == ("raw", found.sha256)
    assert "left out because a test clip" in found.note
    assert found.note.startswith("Features made with librosa ")
    assert found.note == again.note
    text = commands.list_datasets()
    assert "raw data/raw" in next(line for line in text.splitlines() if "kws_mfcc " in line)


def test_features_and_labels_are_those_of_the_clips(at_hand: Path) -> None:
    found = data.load("kws_mfcc")
    assert found.train_y.tolist() == [0, 0, 0, *np.repeat(range(1, 10), 2)]
    assert found.test_y.tolist() == list(range(10))
    clips = [("yes", "00000001", 0), ("yes", "00000001", 1), ("yes", "00000003", 0)]
    clips += [(word, speaker, 0) for word in WORDS[1:] for speaker in TRAIN]
    steps = [
        mfcc.in_steps(mfcc.mfcc_50x10(mfcc.fit_length(word_clip(*clip))[None]))[0] for clip in clips
    ]
    with packs.opened(STORED, "kws_mfcc.npz") as arrays:
        np.testing.assert_array_equal(arrays["x_train"], steps)
        assert arrays["left_out"] == 0
    values = np.array(steps) / 1024
    expected = (values - values.mean((0, 1))) / values.std((0, 1))
    np.testing.assert_allclose(found.train_x[:, 0], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.train_x.mean((0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(found.train_x.std((0, 1, 2)), 1, atol=1e-5)
    train_y, test_y = data.labels("kws_mfcc")
    np.testing.assert_array_equal(train_y, found.train_y)
    np.testing.assert_array_equal(test_y, found.test_y)


def test_order_in_the_archive_does_not_matter(at_hand: Path) -> None:
    first = speech_commands.features(at_hand, WORDS)
    backwards = write_archive(Path("b.tar.gz"), dict(reversed(small_archive().items())))
    second = speech_commands.features(backwards, WORDS)
    plain = {name.removeprefix("./"): content for name, content in small_archive().items()}
    third = speech_commands.features(write_archive(Path("c.tar.gz"), plain), WORDS)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
        np.testing.assert_array_equal(array, third[name])


def test_batches_do_not_matter(at_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = speech_commands.features(at_hand, WORDS)
    monkeypatch.setattr(speech_commands, "BATCH", 7)
    for name, array in speech_commands.features(at_hand, WORDS).items():
        np.testing.assert_array_equal(array, whole[name])


def test_a_training_clip_that_is_a_test_clip_is_left_out(root: Path) -> None:
    files = small_archive()
    copied = files["./no/00000002_nohash_0.wav"]
    files["./no/00000003_nohash_7.wav"] = copied  # the test clip under a training speaker's name
    files["./go/00000003_nohash_7.wav"] = copied  # and under another word
    files["./up/00000003_nohash_8.wav"] = files["./up/00000003_nohash_0.wav"]  # twice in training
    expect(root, write_archive(RAW / NAME, files))
    found = data.load("kws_mfcc")
    assert np.bincount(found.train_y).tolist() == [3, 2, 3, *[2] * 7]
    assert len(found.test_y) == 10
    test = {row.tobytes() for row in found.test_x}
    assert not any(row.tobytes() in test for row in found.train_x)
    assert "; 2 training clips left out" in found.note
    assert "training examples per class (3, 2, 3, 2, 2, 2, 2, 2, 2, 2), not (3, 2, 2," in found.note


def test_equal_samples_of_other_length_are_equal_clips(root: Path) -> None:
    """What counts are the samples after padding, which are all that the network sees."""
    files = small_archive()
    short, padded = tone(700, samples=9000), mfcc.fit_length(tone(700, samples=9000))
    files["./on/00000002_nohash_0.wav"] = wav(short)
    files["./on/00000003_nohash_9.wav"] = wav(padded)
    features = speech_commands.features(write_archive(Path("d.tar.gz"), files), WORDS)
    assert features["left_out"] == 1


def test_unverified_numbers_are_noted_and_not_refused(root: Path, at_hand: Path) -> None:
    note = data.load("kws_mfcc").note
    assert "Unverified numbers" not in note
    expect(root, at_hand, train=22, per_class={"train": [3, 3] + [2] * 8, "test": 1})
    sources._load.cache_clear()
    note = data.load("kws_mfcc").note
    assert note.endswith(
        "Unverified numbers of the description differ: training examples per class "
        "(3, 2, 2, 2, 2, 2, 2, 2, 2, 2), not (3, 3, 2, 2, 2, 2, 2, 2, 2, 2)."
    )
    expect(
        root, at_hand, train=22, counts="exact", per_class={"train": [3, 3] + [2] * 8, "test": 1}
    )
    sources._load.cache_clear()
    for read in (data.load, data.labels):
        with pytest.raises(FedreproError, match=r"training labels.*\(21,\).*expected.*\(22,\)"):
            read("kws_mfcc")


def test_numbers_of_the_real_data_are_marked_as_unverified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FEDREPRO_ROOT")
    info = data.describe("kws_mfcc")
    assert info.counts == "unverified"
    assert data.describe("kws_mfcc20").counts == data.describe("mnist").counts == "exact"
    assert info.official is not None
    assert info.official.urls == ("https://storage.googleapis.com/download.tensorflow.org/data/",)
    assert [archive.file for archive in info.official.archives] == [NAME]
    assert (info.class_names, info.shape) == (WORDS, (1, mfcc.FRAMES, mfcc.COEFFICIENTS))


def test_without_internet_the_error_says_what_to_put_where() -> None:
    with pytest.raises(FedreproError) as caught:
        data.load("kws_mfcc")
    text = str(caught.value)
    assert "Could not download data set 'kws_mfcc'" in text
    assert text.count("refused") == 2  # both addresses
    assert f"put {NAME} (from http://127.0.0.1:9/) into data/raw;" in text
    for part in ("FEDREPRO_DATA", "fedrepro data import", "Looked for packs in: data/pack"):
        assert part in text
    assert not list(RAW.iterdir())


def test_another_archive_is_not_read(at_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(at_hand.read_bytes())
    content[-1] ^= 1
    at_hand.write_bytes(content)
    monkeypatch.setattr(speech_commands, "clips", lambda *_: pytest.fail("was read"))
    with pytest.raises(FedreproError, match=r"data/raw/speech.*: there, but its sha256 is not"):
        data.load("kws_mfcc")
    assert not STORED.exists()


def test_a_download_with_another_checksum_is_not_kept(root: Path, server: str) -> None:
    registry = read_registry(root)
    registry["datasets"]["kws_mfcc"]["official"]["urls"] = [server]
    write_registry(root, registry)
    write_archive(Path("served") / NAME, {"./yes/00000001_nohash_0.wav": b""})
    with pytest.raises(FedreproError, match="Could not download"):
        data.load("kws_mfcc")
    assert not list(RAW.iterdir())


def _link(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_names_that_lead_elsewhere_are_passed_over() -> None:
    outside = Path("outside")
    outside.mkdir()
    names = ["../yes/1_nohash_0.wav", "/yes/1_nohash_0.wav", "yes/../../1_nohash_0.wav"]
    names += ["./yes/../no/1_nohash_0.wav", "yes/1_nohash_0.wav/x", "x/yes/1_nohash_0.wav"]
    archive = write_archive(Path("evil.tar.gz"), dict.fromkeys(names, b"x"))
    before = sorted(Path().rglob("*"))
    assert list(speech_commands.clips(archive, WORDS)) == []
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (_link("./yes/1_nohash_0.wav", tarfile.SYMTYPE, "/etc/passwd"), "not a plain file"),
        (_link("./yes/1_nohash_0.wav", tarfile.LNKTYPE, "../secret"), "not a plain file"),
        (_link("./yes/1_nohash_0.wav", tarfile.FIFOTYPE, ""), "not a plain file"),
    ],
)
def test_links_and_devices_are_refused(member: tarfile.TarInfo, expected: str) -> None:
    with tarfile.open("evil.tar.gz", "w:gz") as tar:
        tar.addfile(member)
    with pytest.raises(FedreproError, match=rf"evil\.tar\.gz.*1_nohash_0\.wav.*{expected}"):
        list(speech_commands.clips(Path("evil.tar.gz"), WORDS))


def test_huge_and_repeated_clips_are_refused() -> None:
    name = "./yes/1_nohash_0.wav"
    huge = write_archive(Path("huge.tar.gz"), {name: bytes(speech_commands.MAX_CLIP_BYTES + 1)})
    with pytest.raises(FedreproError, match="1,048,577 bytes, more than a recording"):
        list(speech_commands.clips(huge, WORDS))
    clip = wav(tone(500))
    twice = write_archive(Path("twice.tar.gz"), {name: clip, name.removeprefix("./"): clip})
    with pytest.raises(FedreproError, match=r"'yes/1_nohash_0\.wav' is there twice"):
        list(speech_commands.clips(twice, WORDS))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is not a wav file"),
        (b"RIFF????WAVEfmt ", "is not a wav file"),
        (wav(tone(500))[:30], "is not a wav file"),
        (wav(tone(500), rate=8000), "int16 .* at 8000 Hz, not int16"),
        (wav(tone(500), channels=2), r"\(8000, 2\) samples"),
        (wav(np.zeros(100, np.uint8)), "uint8"),
        (wav(np.zeros(0, np.int16)), "not int16|not a wav"),
    ],
)
def test_what_is_no_recording_is_refused(content: bytes, expected: str) -> None:
    with pytest.raises(FedreproError, match=rf"clip\.wav.*{expected}.*Delete the archive"):
        speech_commands.decode(content, "clip.wav")


def test_samples_come_out_as_they_went_in() -> None:
    samples = np.array([0, 1, -1, 32_767, -32_768], np.int16)
    found = speech_commands.decode(wav(samples), "clip.wav")
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, samples)


def test_broken_archives_are_named() -> None:
    whole = write_archive(Path("whole.tar.gz"), small_archive()).read_bytes()
    for content in (b"no archive", whole[: len(whole) // 2], gzip.compress(b"no tar" * 200)):
        Path("broken.tar.gz").write_bytes(content)
        with pytest.raises(FedreproError, match=r"broken\.tar\.gz cannot be read.*Delete the arch"):
            list(speech_commands.clips(Path("broken.tar.gz"), WORDS))


def test_a_word_without_clips_is_named() -> None:
    files = {name: content for name, content in small_archive().items() if "/stop/" not in name}
    with pytest.raises(FedreproError, match=r"no training clips of \['stop'\]"):
        speech_commands.features(write_archive(Path("e.tar.gz"), files), WORDS)


def test_features_are_packed_imported_and_verified(at_hand: Path, root: Path) -> None:
    text = commands.pack(Path("packed"), ["kws_mfcc"])
    assert text.startswith("packed: packed kws_mfcc (1 files")
    first = data.load("kws_mfcc")
    elsewhere = root / "elsewhere"
    elsewhere.mkdir()
    assert packs.sums(Path("packed")) == packs.sums(STORED)
    commands.import_pack(Path("packed"), elsewhere / "pack")
    found = data.load("kws_mfcc", elsewhere / "pack")
    assert (found.source, found.sha256) == ("pack", first.sha256)
    assert found.note == f"{PACKED} {first.note}"
    text = commands.verify(["kws_mfcc"], Path("packed"))
    assert "kws_mfcc        OK       21 + 10, pack packed" in text
    commands.prepare("kws_mfcc", Path("ready.json"))
    manifest = json.loads(Path("ready.json").read_text())
    assert (manifest["source"], manifest["train"], manifest["note"]) == ("raw", 21, first.note)
    commands.pack(Path("second"))  # without naming it: all that is here
    assert "kws_mfcc.npz" in packs.sums(Path("second"))


PACKED = (
    "Packed copy of unknown origin: no content hash of the official data is on record to compare "
    "it with."
)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"names": np.array(WORDS[::-1])}, "its words are"),
        ({"x_train": np.zeros((21, 50, 10), np.float32)}, "not int32"),
        ({"x_train": np.zeros((21, 500), np.int32)}, "not int32 of three axes"),
        ({"x_train": np.zeros((21, 50, 10), np.int32)}, "same in all frames"),
        ({"y_train": np.zeros(21)}, "labels are float64"),
        ({"y_test": np.zeros(10, np.uint8)}, r"test examples per class \(10, 0"),
        ({"y_test": np.full(10, 10, np.uint8)}, "test labels from 10 to 10"),
        ({"y_test": np.zeros(0, np.uint8)}, "no test examples"),
        ({"y_test": np.arange(9, dtype=np.uint8)}, "test examples per class"),
        ({"y_train": np.arange(20, dtype=np.uint8) % 10}, r"\(21, 1, 50, 10\)"),
        ({"x_test": np.ones((10, 49, 10), np.int32)}, r"\(10, 1, 49, 10\)"),
    ],
)
def test_stored_features_of_another_form_are_refused(
    at_hand: Path, change: dict[str, Any], expected: str
) -> None:
    data.load("kws_mfcc")
    with np.load(STORED / "kws_mfcc.npz") as arrays:
        changed = dict(arrays) | change
    packs.publish(STORED, {"kws_mfcc.npz": lambda path: np.savez(path, **changed)})
    with pytest.raises(FedreproError, match=expected):
        data.load("kws_mfcc")


def test_damaged_features_are_refused(at_hand: Path) -> None:
    data.load("kws_mfcc")
    (STORED / "kws_mfcc.npz").write_bytes(b"half")
    with pytest.raises(FedreproError, match=r"kws_mfcc\.npz is corrupt"):
        data.load("kws_mfcc")


def test_stored_features_are_read_without_librosa_and_torch(at_hand: Path) -> None:
    data.load("kws_mfcc")
    code = (
        "import sys; from fedrepro.fl import data; data.load('kws_mfcc'); "
        "print([name for name in ('librosa', 'numba', 'torch', 'pooch') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


def test_a_kill_while_features_are_made_leaves_nothing(
    at_hand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", killed)
        with pytest.raises(KeyboardInterrupt):
            data.load("kws_mfcc")
    assert not STORED.exists()
    assert len(data.load("kws_mfcc").test_y) == 10


def test_features_reach_the_keyword_network(at_hand: Path) -> None:
    dataset = data.load("kws_mfcc")
    # All the same: features are standardised when read.
    for transform in ("unit", "centred", "standard"):
        spec = make_spec(
            dataset={"name": "kws_mfcc", "transform": transform},
            model={"name": "kws_cnn"},
            partition={"scheme": "iid_plain", "clients": 2},
        )
        federation = Federation(spec, dataset)
        assert federation.layout.parameters == 68_980
        stored = DeviceData(spec.dataset, tensors_of(dataset), torch.device("cpu"))
        inputs, labels = stored.batch("test", torch.arange(10))
        np.testing.assert_array_equal(inputs.numpy(), dataset.test_x)
        net = build("kws_cnn", (1, 50, 10), 10)
        loss = torch.nn.functional.cross_entropy(net(inputs), labels)
        loss.backward()
        gradients = [parameter.grad for parameter in net.parameters()]
        assert all(gradient is not None and gradient.any() for gradient in gradients)


def test_other_sets_keep_their_way() -> None:
    assert sources._origin(data.describe("mnist")) is official
