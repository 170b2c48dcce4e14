"""Entry point of ``python -m paper``."""

import sys

if __name__ == "__main__":  # the processes that measure runs import this file too
    try:
        from paper.cli import main
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("lincode", "paper"):
            raise
        sys.exit(
            f"paper: {error}. The reproduction needs the extra `paper`: run `pip install -e"
            " '.[paper]'` in the folder of lincode."
        )
    sys.exit(main())
