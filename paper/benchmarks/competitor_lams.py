"""Compare λ for ASCNN and SAANN with the starts and trainings of the chapter on competitors.

    python -m paper.benchmarks.competitor_lams

The networks have 100 units and are trained on 500 digits. For each start, optimiser and number of
passes this prints the test accuracy with λ = 0.1 (that of the chapter), 1 (the end of the paper's
range) and 10. The learning rate and C are chosen on 500 validation digits. The standard error of an
accuracy is 1.5 to 2 percentage points.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from paper.errors import PaperError
from paper.experiments import competitor_runs
from paper.experiments.experiment import Run
from paper.experiments.samples import Samples

LAMS = (0.1, 1.0, 10.0)


def main() -> None:
    """Print the table."""
    folder = os.environ.get("LINCODE_DATA")
    samples = Samples(Path(folder) if folder else None)
    print("| " + " | ".join(["network, side, training", *(f"λ = {lam:g}" for lam in LAMS)]) + " |")
    print("| --- |" + " --- |" * len(LAMS))
    runs = [
        run
        for run in competitor_runs.runs("paper", 0, False)
        if run.group == competitor_runs.GROUP and run.seed == 0
        if run.settings["m"] == 100 and run.settings["passes"] > 2
    ]
    for run in runs:
        s = run.settings
        training = f"{s['init']}, {s['solver']}, {s['passes']} passes"
        try:
            cells = [f"{accuracy(run, lam, samples):.1%}" for lam in LAMS]
        except PaperError as error:
            raise SystemExit(str(error)) from error
        print(f"| {s['network']}, {s['side']}, {training} | {' | '.join(cells)} |", flush=True)


def accuracy(run: Run, lam: float, samples: Samples) -> float:
    """Return the test accuracy of a run of the chapter with another λ."""
    other = replace(run, settings={**run.settings, "lams": [lam]})
    found = competitor_runs.measure(other, samples)
    return float(found["test_accuracy"][int(np.argmax(found["val_accuracy"]))])


if __name__ == "__main__":
    main()
