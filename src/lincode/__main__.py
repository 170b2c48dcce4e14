"""``python -m lincode``: the command line."""

import sys

from lincode.cli import main

if __name__ == "__main__":
    sys.exit(main())
