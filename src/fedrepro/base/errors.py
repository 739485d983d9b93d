"""The one exception that users see."""

from __future__ import annotations


class FedreproError(Exception):
    """Something the user can act on: the message names the file or key and what to do.

    The command line prints the message alone and exits with 1; the Snakefile turns it into a
    ``WorkflowError``.
    """
