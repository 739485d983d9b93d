"""Signatures by SSH keys: who vouches for a record, or for a file of ``train --out``.

A checksum shows damage; whoever edits a file can write a new one. A signature shows who signed
what. It is made and checked by OpenSSH's ``ssh-keygen`` (8.2 or later), lies beside its file as
``<file>.sig``, and covers its bytes. A file of allowed signers says whose keys count, a line a key:
``ada@lab.example ssh-ed25519 AAAA...`` (ssh-keygen(1), ALLOWED SIGNERS).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_bytes

NAMESPACE = "fedrepro"
"""What signatures are for, so that one made for another purpose (git, say) does not count."""

_SECONDS = 120
"""For a passphrase or the touch of a hardware key."""


class NotSigned(FedreproError):
    """A file has no signature."""


def path_of(file: Path) -> Path:
    """Return where a file's signature lies."""
    return file.with_name(f"{file.name}.sig")


def sign(file: Path, key: Path) -> Path:
    """Sign a file; a signature that is there is replaced.

    Args:
        file: what to sign.
        key: the private key, or the public one of a key that an agent holds.

    Returns:
        The signature's file.

    Raises:
        FedreproError: the file or the key cannot be used, or ssh-keygen is missing.
    """
    content = _content(file)
    if not key.is_file():
        raise FedreproError(f"{key}: no such key; `ssh-keygen -t ed25519 -f {key}` makes one")
    made = _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, content=content)
    if made.returncode:
        raise FedreproError(f"{file}: not signed with {key}: {_reason(made)}")
    signature = path_of(file)
    write_bytes(signature, made.stdout)
    return signature


def signer(file: Path, signers: Path) -> str:
    """Return who signed a file.

    Args:
        file: what is signed.
        signers: file of the keys that count.

    Returns:
        The name that ``signers`` gives the key.

    Raises:
        NotSigned: it has no signature.
        FedreproError: the signature is of another content or of an unknown key, or a file cannot be
            read.
    """
    content, signature = _content(file), path_of(file)
    if not signature.is_file():
        raise NotSigned(f"{file}: not signed ({signature.name} is missing)")
    if not signers.is_file():
        raise FedreproError(f"{signers}: no such file of allowed signers")
    known = "-f", str(signers), "-s", str(signature)
    found = _ssh_keygen("find-principals", *known)
    names = found.stdout.decode(errors="replace").splitlines()
    if found.returncode or not names:
        raise FedreproError(
            f"{signature}: not a signature by a key of {signers} ({_reason(found)}); do not use "
            f"{file.name} unless you know whose it is"
        )
    name = names[0]
    checked = _ssh_keygen("verify", *known, "-I", name, "-n", NAMESPACE, content=content)
    if checked.returncode:
        raise FedreproError(
            f"{file}: is not what {name} signed ({_reason(checked)}); get both files again"
        )
    return name


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise FedreproError(f"{file}: cannot be read: {error.strerror}") from error


def _ssh_keygen(
    action: str, *options: str, content: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", action, *options],
            input=content,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise FedreproError("ssh-keygen is missing: install OpenSSH 8.2 or later") from error
    except subprocess.TimeoutExpired as error:
        raise FedreproError(f"ssh-keygen did not answer in {_SECONDS} s") from error


def _reason(ended: subprocess.CompletedProcess[bytes]) -> str:
    lines = (ended.stderr or ended.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"ssh-keygen ended with {ended.returncode}"
