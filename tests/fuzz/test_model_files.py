"""Model files and checkpoints that are damaged, or forged with a correct checksum.

A file is refused with a sentence, or the loaded model works.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

from lincode import ASCNN, SAANN, SCNN, MiniBatchSCNN, Sparsenet, load, save
from lincode.cli import main
from lincode.exceptions import CheckpointError, InvalidInputError, ModelFileError
from lincode.tensor_file import checksum
from tests.fuzz.cases import fuzz, note_refusal
from tests.fuzz.damage import (
    ArrayChange,
    ByteChange,
    ValueChange,
    apply_changes,
    byte_changes,
    content_changes,
)
from tests.fuzz.scratch import scratch_folder
from tests.fuzz.watching import check_refusal, watched

P, M = 6, 5
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3)) @ RNG.standard_normal((3, P))
OPTIONS: dict[str, Any] = {"random_state": 0, "n_jobs": 1}
MODELS: dict[str, Callable[[], Any]] = {
    "scnn": lambda: SCNN(M, 0.2, tol=1e-2, **OPTIONS).fit(X),
    "scnn, exact, float32": lambda: SCNN(
        M, 0.2, transform_algorithm="exact", tol=1e-2, **OPTIONS
    ).fit(X.astype(np.float32)),
    "scnn, refined": lambda: SCNN(M, 0.2, refine_max_iter=2, fit_decoder=True, **OPTIONS).fit(X),
    "scnn, given atoms": lambda: SCNN(M, init=X[:M], threshold_mode="top_k", **OPTIONS).fit(X),
    "batches": lambda: MiniBatchSCNN(M, 0.2, batch_size=20, max_iter=2, **OPTIONS).fit(X),
    "batches, plain": lambda: MiniBatchSCNN(M, 0.2, encoder_weight=0, **OPTIONS).partial_fit(X),
    "saann": lambda: SAANN(M, 0.01, max_iter=2, random_state=0).fit(X),
    "ascnn": lambda: ASCNN(M, 0.01, max_iter=2, random_state=0).fit(X),
    "sparsenet": lambda: Sparsenet(M, max_iter=2, random_state=0).fit(X),
}
"""A small model of each kind."""


def folder() -> Path:
    return scratch_folder("models")


@functools.cache
def valid_file(kind: str) -> bytes:
    """Return the bytes of a valid model file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[kind]()
        if kind in ("scnn", "saann"):
            model.feature_names_in_ = np.array([f"name {j}" for j in range(P)], dtype=object)
        save(model, folder() / "valid")
    return (folder() / "valid").read_bytes()


@functools.cache
def valid_checkpoint(online: bool) -> bytes:
    """Return the bytes of a checkpoint of training on batches, or on all samples."""
    path = folder() / "valid-checkpoint"

    class StopError(Exception):
        pass

    def stop(iteration: Any) -> None:
        if iteration.n_iter == 3:
            raise StopError

    with contextlib.suppress(StopError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unfinished(online, path).set_params(callback=stop).fit(X)
    data = path.read_bytes()
    path.unlink()
    return data


def unfinished(online: bool, path: Path) -> Any:
    options = OPTIONS | {"checkpoint_path": path, "checkpoint_every": 0, "tol": 0.0}
    if online:
        return MiniBatchSCNN(M, 0.2, batch_size=20, max_iter=3, **options)
    return SCNN(M, 0.2, max_iter=6, **options)


def contents(data: bytes) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the key of the header, the header and the arrays of a file."""
    path = folder() / "contents"
    path.write_bytes(data)
    with safe_open(str(path), framework="np") as file:
        metadata = dict(file.metadata())
        tensors = {key: np.array(file.get_tensor(key)) for key in list(file.keys())}
    (key,) = set(metadata) - {"sha256"}
    return key, json.loads(metadata[key]), tensors


@functools.cache
def cached_contents(data: bytes) -> tuple[str, dict[str, Any], dict[str, Any]]:
    return contents(data)


def forged(data: bytes, changes: list[ValueChange | ArrayChange]) -> bytes:
    """Return a file with changed contents and a correct checksum."""
    key, header, tensors = copy.deepcopy(cached_contents(data))
    for change in changes:
        change.apply(tensors if isinstance(change, ArrayChange) else header)
    text = json.dumps(header)
    with contextlib.suppress(UnicodeEncodeError):
        return to_bytes(tensors, metadata={key: text, "sha256": checksum(text, tensors)})
    return data


def write(data: bytes, name: str = "model") -> Path:
    path = folder() / name
    path.write_bytes(data)
    return path


def check_sentence(error: Exception, path: Path) -> None:
    """A refusal names the file, is short, and contains nothing that controls a terminal."""
    text = str(error)
    assert str(path) in text
    assert len(text.split()) >= 5
    assert len(text) < 1500 + len(str(path))
    assert text.isprintable(), repr(text)
    note_refusal(error)


def check_loaded(path: Path) -> None:
    """Load a file. If it is not refused, the model must work."""
    try:
        with watched():
            model = load(path)
    except ModelFileError as error:
        check_sentence(error, path)
        return
    check_works(model)
    check_info(path)


def check_works(model: Any) -> None:
    """Codes are finite, and further training is possible; refusals have a sentence."""
    rows = X.astype(model.components_.dtype)
    calls: list[Callable[[], Any]] = [
        lambda: model.transform(rows),
        lambda: model.reconstruct(rows),
        lambda: model.score(rows),
    ]
    if hasattr(model, "partial_fit"):
        calls.append(lambda: model.partial_fit(rows[:20]).components_)
    for call in calls:
        try:
            with watched():
                result = call()
        except InvalidInputError as error:
            check_refusal(error, "a call of a loaded model")
            continue
        values = result.data if hasattr(result, "tocsr") else result
        assert np.isfinite(np.asarray(values)).all()


def check_info(path: Path) -> None:
    """``lincode info`` prints visible characters only."""
    for options in ([], ["--json"]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main(["info", str(path), *options]) == 0
        assert all(line.isprintable() for line in out.getvalue().splitlines())
        assert err.getvalue() == ""
        if options:
            json.loads(out.getvalue(), parse_constant=lambda name: pytest.fail(name))


KINDS = st.sampled_from(sorted(MODELS))


@given(KINDS, content_changes())
@example(kind="batches", changes=[ValueChange("set", (3, 5), 23)])
@fuzz(300, part=8)
def test_forged_models(kind: str, changes: list[ValueChange | ArrayChange]) -> None:
    check_loaded(write(forged(valid_file(kind), changes)))


@given(KINDS, byte_changes())
@fuzz(300, part=8)
def test_damaged_models(kind: str, changes: list[ByteChange]) -> None:
    data = valid_file(kind)
    check_loaded(write(apply_changes(data, changes)))


@given(st.booleans(), content_changes())
@fuzz(60)
def test_forged_checkpoints(online: bool, changes: list[ValueChange | ArrayChange]) -> None:
    check_checkpoint(online, forged(valid_checkpoint(online), changes))


@given(st.booleans(), byte_changes())
@fuzz(60)
def test_damaged_checkpoints(online: bool, changes: list[ByteChange]) -> None:
    check_checkpoint(online, apply_changes(valid_checkpoint(online), changes))


def check_checkpoint(online: bool, data: bytes) -> None:
    """Training continues from a checkpoint and ends, or the checkpoint is refused and kept."""
    path = write(data, "checkpoint")
    model = unfinished(online, path)
    try:
        with watched():
            model.fit(X)
    except CheckpointError as error:
        check_sentence(error, path)
        assert path.read_bytes() == data
        return
    assert not path.exists()
    for name in ("components_", "encoder_", "energy_path_"):
        assert np.isfinite(getattr(model, name)).all(), name
    check_works(model)


def test_every_kind_of_file_is_valid_without_changes() -> None:
    for kind in MODELS:
        path = write(forged(valid_file(kind), []))
        check_works(load(path))
        check_info(path)
    for online in (False, True):
        path = write(forged(valid_checkpoint(online), []), "checkpoint")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unfinished(online, path).fit(X)
        assert not path.exists()
    assert not [name for name in os.listdir(folder()) if name.startswith(".")]
