"""`python -m cumulant` is the command `cumulant`."""

import sys

from cumulant.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
