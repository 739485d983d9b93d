"""Make the golden files current: ``python tests/golden/update.py``.

Fingerprints of components whose version was raised are taken over, and those of unchanged versions
only if the golden trajectories still match: then the change of code left the numbers alone.
``--trajectories`` also takes over new trajectories; do that only together with a raised version, or
where a case was changed itself.
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import components
import trajectories

from fedrepro import records
from fedrepro.spec import run_id

FOLDER = Path(__file__).parent


def write(name: str, content: object) -> None:
    """Write one golden file, lists of numbers on one line as in a record."""
    (FOLDER / name).write_text(records._dump(content))


def main() -> None:
    """Update what may be updated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", action="store_true", help="take over new trajectories")
    if parser.parse_args().trajectories:
        cases = trajectories.CASES
        write("run_ids.json", {name: run_id(trajectories.spec(name)) for name in cases})
        write("trajectories.json", {name: trajectories.run(name) for name in cases})
    test = ["-m", "pytest", "-q", str(FOLDER / "test_golden.py"), "-k", "not fingerprint"]
    if subprocess.run([sys.executable, *test], check=False).returncode:
        sys.exit("the golden numbers changed: raise the version of the component that changed")
    write("fingerprints.json", components.current())


if __name__ == "__main__":
    main()
