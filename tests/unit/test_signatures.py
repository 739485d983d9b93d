"""Records signed by SSH keys: what is signed, by whom, and what is refused."""

import shutil
import subprocess
from pathlib import Path

import pytest
import small_runs

from fedrepro import cli
from fedrepro.base.errors import FedreproError
from fedrepro.runs import records, session, signatures, transfer

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="needs OpenSSH's ssh-keygen"
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make_key(name: str, *, known: bool = True) -> Path:
    """Make a key; list it among the allowed signers if it is known."""
    key = Path(name)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True
    )
    if known:
        with Path("signers").open("a") as signers:
            signers.write(f"{name}@lab.example {key.with_suffix('.pub').read_text()}")
    return key


@pytest.fixture
def key() -> Path:
    return make_key("ada")


@pytest.fixture
def file() -> Path:
    file = Path("new.tar")
    file.write_bytes(b"some runs")
    return file


SIGNERS = Path("signers")


def test_a_signature_names_its_signer(key: Path, file: Path) -> None:
    make_key("bob")
    assert signatures.sign(file, key) == Path("new.tar.sig")
    assert signatures.signer(file, SIGNERS) == "ada@lab.example"
    signatures.sign(file, Path("bob"))
    assert signatures.signer(file, SIGNERS) == "bob@lab.example"


def test_an_edited_file_is_refused(key: Path, file: Path) -> None:
    signatures.sign(file, key)
    file.write_bytes(b"other runs")
    with pytest.raises(FedreproError, match=r"new\.tar: is not what ada@lab\.example signed"):
        signatures.signer(file, SIGNERS)


def test_a_key_that_nobody_knows_is_refused(key: Path, file: Path) -> None:
    signatures.sign(file, make_key("mallory", known=False))
    with pytest.raises(FedreproError, match=r"new.tar.sig: not a signature by a key of signers"):
        signatures.signer(file, SIGNERS)


def test_a_signature_for_another_purpose_is_refused(key: Path, file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "git", file], check=True)
    with pytest.raises(FedreproError, match=r"is not what ada@lab\.example signed"):
        signatures.signer(file, SIGNERS)


@pytest.mark.parametrize("content", [b"", b"no signature", b"\x00" * 1000])
def test_a_damaged_signature_is_refused(key: Path, file: Path, content: bytes) -> None:
    signatures.sign(file, key)
    signatures.path_of(file).write_bytes(content)
    with pytest.raises(FedreproError, match=r"new.tar.sig: not a signature"):
        signatures.signer(file, SIGNERS)


def test_what_is_missing_is_named(key: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(signatures.NotSigned, match=r"new.tar: not signed"):
        signatures.signer(file, SIGNERS)
    with pytest.raises(FedreproError, match=r"nokey: no such key"):
        signatures.sign(file, Path("nokey"))
    signatures.sign(file, key)
    with pytest.raises(FedreproError, match=r"nobody: no such file of allowed signers"):
        signatures.signer(file, Path("nobody"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FedreproError, match="ssh-keygen is missing"):
        signatures.sign(file, key)


def command(*arguments: str) -> int:
    """Run a command of ours; return its exit status."""
    return cli.main(list(arguments))


@pytest.fixture
def record() -> Path:
    run = small_runs.planned()
    session.train([run])
    return records.path_of(run.id)


def test_records_are_signed_and_checked_by_command(
    key: Path, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("records", "sign", "--key", "ada") == 0
    assert command("records", "signatures", "--signers", "signers") == 0
    assert "1 of 1 records signed: 1 by ada@lab.example" in capsys.readouterr().out
    content = record.read_text()
    record.write_text(content.replace('"batch": 8', '"batch": 9'))
    assert command("records", "signatures", "--signers", "signers") == 1
    assert f"{record}: is not what ada@lab.example signed" in capsys.readouterr().out
    record.write_text(content)
    signatures.path_of(record).unlink()
    assert command("records", "signatures", "--signers", "signers") == 1
    assert f"{record}: not signed" in capsys.readouterr().out


def test_of_no_records_none_is_signed(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["sign", "--key", "ada"], ["signatures", "--signers", "signers"]):
        assert command("records", *words) == 1
        assert "results/runs: no record there; give ids of runs, or" in capsys.readouterr().err


def test_an_edited_record_is_not_signed(
    key: Path, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record.write_text(record.read_text().replace('"batch": 8', '"batch": 9'))
    assert command("records", "sign", "--key", "ada") == 1
    assert str(record) in capsys.readouterr().err
    assert not signatures.path_of(record).exists()


def test_an_import_can_ask_for_a_signature(
    key: Path, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tar = Path("new.tar")
    transfer.write(tar, [record])
    record.unlink()
    asked = "records", "import", "new.tar", "--signers", "signers"
    assert command(*asked) == 1
    assert "new.tar: not signed" in capsys.readouterr().err
    assert not record.exists()
    assert command("records", "sign", "--key", "ada", "new.tar") == 0
    assert command(*asked) == 0
    assert "signed by ada@lab.example" in capsys.readouterr().out
    assert record.exists()
