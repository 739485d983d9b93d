"""``python -m fedrepro.cli`` is the command ``fedrepro``."""

import sys

from fedrepro.cli import main

sys.exit(main())
