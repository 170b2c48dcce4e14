"""Run the command line interface with ``python -m lincode``."""

from lincode.cli import run

if __name__ == "__main__":
    run()
