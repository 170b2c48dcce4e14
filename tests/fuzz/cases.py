"""The cases of all fuzzers: how many are tried, how each of them ends, and what is saved.

A fuzzer is a module ``test_<name>.py`` of tests that are decorated with ``@given`` and ``@fuzz``.
One example of hypothesis is one case. A case is

- refused, if the test calls ``note_refusal`` with the error;
- failed, if the test raises an error;
- accepted otherwise.

A short run (``make test``) tries few cases, which are always the same. A long search
(``make fuzz``) sets two environment variables: LINCODE_FUZZ_EXAMPLES, the number of cases of each
test, and LINCODE_FUZZ_OUTPUT, the folder for counts and failures.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import HypothesisException

Test = TypeVar("Test", bound=Callable[..., None])

EXAMPLES = int(os.environ.get("LINCODE_FUZZ_EXAMPLES", "0"))
"""Cases of each test in a long search; 0 means the short run."""
OUTPUT = Path(os.environ["LINCODE_FUZZ_OUTPUT"]) if "LINCODE_FUZZ_OUTPUT" in os.environ else None
"""The folder of a long search."""
COUNTS = "counts.jsonl"
"""The file in OUTPUT with one line per test and round: the fuzzer, and its cases by outcome."""
FAILURES = "failures"
"""The folder in OUTPUT with one text file per failed test."""
ACCEPTED, REFUSED, FAILED = "accepted", "refused", "failed"

outcomes: Counter[tuple[str, str]] = Counter()
"""The number of cases by fuzzer and outcome since the last ``write_counts``."""
_refusals: list[BaseException] = []


def fuzz(few: int, *, part: float = 1.0) -> Callable[[Test], Test]:
    """Count the cases of a test and set how many are tried.

    These are ``few`` in the short run and ``part`` of LINCODE_FUZZ_EXAMPLES in a long search.
    """
    options: dict[str, Any] = {}
    if EXAMPLES and OUTPUT is not None:
        options["database"] = DirectoryBasedExampleDatabase(OUTPUT / "examples")
    chosen = settings(
        max_examples=max(1, round(part * EXAMPLES)) if EXAMPLES else few,
        derandomize=not EXAMPLES,
        deadline=None,
        print_blob=bool(EXAMPLES),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        # Everything but the explanation of a failure, which takes longer than finding it.
        phases=[phase for phase in Phase if phase is not Phase.explain],
        **options,
    )

    def decorate(test: Test) -> Test:
        return chosen(_counted(test))

    return decorate


def note_refusal(error: BaseException) -> None:
    """Record that the library refused the present case with this error."""
    _refusals.append(error)


def _counted(test: Test) -> Test:
    """Return the test with each call counted until the first failure, which hypothesis repeats."""
    fuzzer = test.__module__.rpartition("test_")[2].replace("_", " ")
    failed = False

    @functools.wraps(test)
    def counted(*args: Any, **kwargs: Any) -> None:
        nonlocal failed
        _refusals.clear()
        if not failed:
            _save_running(test.__name__, args, kwargs)
        try:
            test(*args, **kwargs)
        except HypothesisException:  # the example does not satisfy an assumption
            raise
        except Exception:
            outcomes[fuzzer, FAILED] += not failed
            failed = True
            raise
        if not failed:
            outcome = f"{REFUSED}: {type(_refusals[0]).__name__}" if _refusals else ACCEPTED
            outcomes[fuzzer, outcome] += 1

    return counted  # type: ignore[return-value]


def _running_file() -> Path | None:
    """Return the file that describes the present case in a long search."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return None if OUTPUT is None else OUTPUT / f"running-{worker}.txt"


def _save_running(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Write the present case to a file, which shows what a process did when it crashed or hung."""
    path = _running_file()
    if path is not None:
        words = [repr(value) for value in args] + [f"{key}={kwargs[key]!r}" for key in kwargs]
        path.write_text(f"{name}(\n    " + ",\n    ".join(words) + ",\n)\n", encoding="utf-8")


def write_counts() -> None:
    """Append the counts since the last call to the file of the long search, if there is one."""
    path = _running_file()
    if OUTPUT is not None and path is not None:
        lines = [
            json.dumps({"fuzzer": fuzzer, "outcome": outcome, "cases": number}) + "\n"
            for (fuzzer, outcome), number in sorted(outcomes.items())
            if number
        ]
        with (OUTPUT / COUNTS).open("a", encoding="utf-8") as file:
            file.write("".join(lines))
        path.unlink(missing_ok=True)
    outcomes.clear()


def save_failure(test: str, text: str) -> None:
    """Write the report of a failed test, with the case that failed, to a file."""
    if OUTPUT is not None:
        folder = OUTPUT / FAILURES
        folder.mkdir(parents=True, exist_ok=True)
        name = "".join(letter if letter.isalnum() or letter in "_-." else "-" for letter in test)
        (folder / f"{name}.txt").write_text(f"{test}\n\n{text}\n", encoding="utf-8")
