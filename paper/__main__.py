"""Entry point of ``python -m paper``."""

import sys

try:
    from paper.cli import main
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] in ("lincode", "paper"):
        raise
    sys.exit(f"paper: {error}. Install the requirements with `pip install -e '.[paper]'`.")

if __name__ == "__main__":
    sys.exit(main())
