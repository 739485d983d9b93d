"""What users see when something is wrong."""

from __future__ import annotations

from pathlib import Path


class FedreproError(Exception):
    """Something the user can act on: the message names the file or key and what to do.

    The command line prints the message alone and exits with 1; the Snakefile turns it into a
    ``WorkflowError``.
    """


class BadFile(FedreproError):
    """A record or checkpoint cannot be used.

    Args:
        file: it.
        problem: what is wrong with it.
        cure: what to do.

    Attributes:
        problem: as the argument; where the file is a copy, its place and the cure are others.
    """

    def __init__(self, file: Path, problem: str, cure: str) -> None:
        super().__init__(f"{file}: {problem}; {cure}")
        self.problem = problem


def unread(file: Path, error: OSError) -> FedreproError:
    """Return the error of a file that the system does not let us read, whatever is in it."""
    return FedreproError(
        f"{file}: cannot be read ({error.strerror or error}); check its permissions and the disk, "
        "then run again"
    )


class DeviceFailed(FedreproError):
    """The device can no longer be used by this process; no run is to blame.

    Freeing what lies on it would abort the process, so a command ends without that.
    """


class UnknownName(FedreproError, KeyError):
    """There is no component of a name; a ``KeyError``, too, as of any mapping."""

    __str__ = Exception.__str__  # KeyError's would put the message in quotes
