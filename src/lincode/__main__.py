"""Run the command line interface with ``python -m lincode``."""

import sys

from lincode.cli import main

if __name__ == "__main__":
    sys.exit(main())
