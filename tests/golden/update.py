"""Make the golden files current: ``python tests/golden/update.py``.

Fingerprints of components whose version was raised are taken over, and those of unchanged versions
only if the golden trajectories still match: then the change of code left the numbers alone.
``--trajectories`` also trains the cases anew that have another run id: a case that was changed
itself, or of which a component has another version. All other cases keep their numbers and must
still match them.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import components
import trajectories

from fedrepro.fl.spec import run_id
from fedrepro.runs import records

FOLDER = Path(__file__).parent


def read(name: str) -> dict[str, Any]:
    """Return the content of one golden file."""
    content: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return content


def write(name: str, content: object) -> None:
    """Write one golden file, lists of numbers on one line as in a record."""
    (FOLDER / name).write_text(records._dump(content))


def renewed(ids: dict[str, str], old_ids: dict[str, str], old: dict[str, Any]) -> dict[str, Any]:
    """Return the trajectory of every case: the old one, or a new one where the run id is new.

    Args:
        ids: run id of each case.
        old_ids: run ids of the golden cases.
        old: their trajectories.
    """
    return {
        name: old[name] if old_ids.get(name) == run else trajectories.run(name)
        for name, run in ids.items()
    }


def main() -> None:
    """Update what may be updated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", action="store_true", help="train cases of new run ids")
    if parser.parse_args().trajectories:
        ids = {name: run_id(trajectories.spec(name)) for name in trajectories.CASES}
        new = renewed(ids, read("run_ids.json"), read("trajectories.json"))
        write("trajectories.json", new)
        write("run_ids.json", ids)
    test = ["-m", "pytest", "-q", str(FOLDER / "test_golden.py"), "-k", "not fingerprint"]
    if subprocess.run([sys.executable, *test], check=False).returncode:
        sys.exit("the golden numbers changed: raise the version of the component that changed")
    write("fingerprints.json", components.current())


if __name__ == "__main__":
    main()
