"""``lincode info``: what a model file holds."""

from __future__ import annotations

import argparse
import json
import math
import os
from typing import Any

import numpy as np

from lincode.model_file import describe


def add(subparsers: Any) -> None:
    """Add the command ``info`` to those of ``lincode``."""
    text = "tell what a model file holds"
    parser = subparsers.add_parser("info", help=text, description=text)
    parser.add_argument("model", help="a model file")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(func=info)


def info(args: argparse.Namespace) -> int:
    """Print what there is to say, a line or a JSON member each."""
    facts = _facts(args.model)
    if args.json:
        print(json.dumps(facts, indent=2))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):{width}}  {_short(value)}")
    return 0


def _facts(path: str) -> dict[str, Any]:
    """What a model has to say of itself, in the order to say it."""
    model, about = describe(path)
    m, p = model.components_.shape
    usage = getattr(model, "usage_", None)
    facts = {
        "model": type(model).__name__,
        "units": m,
        "features": p,
        "dtype": str(model.components_.dtype),
        "alpha": getattr(model, "alpha_", model.alpha),
        "encoder_weight": getattr(model, "encoder_weight", None),
        "method": getattr(model, "transform_method", None),
        "threshold": model._encoder_threshold() if hasattr(model, "threshold") else None,
        "matching_threshold": getattr(model, "matching_threshold_", None),
        "sparsity": None if usage is None else 1 - usage.mean(),
        "energy": model.energy_,
        "iterations": model.n_iter_,
        "stop_reason": model.stop_reason_,
        "feature_names": getattr(model, "feature_names_in_", None),
        "format": about["format"],
        "saved": about["saved"],
        "versions": about["versions"],
        "left_out": about["left_out"] or None,
        "file_bytes": os.path.getsize(path),
        "parameters": model.get_params(),
    }
    return {name: _plain(value) for name, value in facts.items() if value is not None}


def _plain(value: Any) -> Any:
    """For JSON, which has no infinity and no arrays."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            return f"{len(value)} lists of {len(value[0])}"
        return ", ".join(map(_short, value[:5])) + (", ..." if len(value) > 5 else "")
    return str(value)
