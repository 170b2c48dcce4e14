"""A long search of all fuzzers with new random cases: ``python -m tests.fuzz [cases per test]``.

Cases that fail are kept in ``.hypothesis``, so the next search tries them first. Add them to the
tests with ``@example`` when the bug is fixed.
"""

import os
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    cases = sys.argv[1] if len(sys.argv) > 1 else "2000"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", str(Path(__file__).parent)]
    environment = os.environ | {"LINCODE_FUZZ_CASES": cases, "OMP_NUM_THREADS": "1"}
    sys.exit(subprocess.run([*command, "--timeout=0"], env=environment, check=False).returncode)
