"""Model files and checkpoints whose checksum is correct, but whose contents do not make sense."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

from lincode import ASCNN, SCNN, MiniBatchSCNN, Sparsenet, load, save
from lincode.cli import main
from lincode.exceptions import CheckpointError, InvalidInputError, ModelFileError
from lincode.messages import printable
from lincode.tensor_file import MAX_HEADER_BYTES, checksum

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6)) @ RNG.standard_normal((6, 6))
Change = Callable[[Any, Any], None]


def fitted(cls: Any, **parameters: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(5, random_state=0, **parameters).fit(X)


MODELS: dict[str, Callable[[], Any]] = {
    "SCNN": lambda: fitted(SCNN, alpha=0.2),
    "refined": lambda: fitted(SCNN, alpha=0.2, refine_max_iter=2),
    "MiniBatchSCNN": lambda: fitted(MiniBatchSCNN, alpha=0.2, batch_size=20, max_iter=2),
    "ASCNN": lambda: fitted(ASCNN, alpha=0.01, max_iter=2),
    "Sparsenet": lambda: fitted(Sparsenet, max_iter=2),
}


@pytest.fixture(scope="module")
def valid_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("valid")
    for name, make in MODELS.items():
        save(make(), folder / name)
    return {name: folder / name for name in MODELS}


def forge(source: Path, target: Path, change: Change) -> Path:
    """Write a file with changed contents and a correct checksum."""
    with safe_open(str(source), framework="np") as file:
        metadata = dict(file.metadata())
        tensors = {key: np.array(file.get_tensor(key)) for key in list(file.keys())}
    (key,) = set(metadata) - {"sha256"}
    header = json.loads(metadata[key])
    change(header, tensors)
    text = json.dumps(header)
    target.write_bytes(to_bytes(tensors, metadata={key: text, "sha256": checksum(text, tensors)}))
    return target


def value(name: str, to: Any) -> Change:
    return lambda header, tensors: header["values"].update({name: to})


def array(name: str, change: Callable[[Any], Any]) -> Change:
    return lambda header, tensors: tensors.update({name: np.array(change(tensors[name]))})


def without(name: str) -> Change:
    def change(header: Any, tensors: Any) -> None:
        del tensors[name]
        header["transposed"] = [other for other in header["transposed"] if other != name]

    return change


INT8 = {"type": "dtype", "value": "int8"}
FORGED: list[tuple[str, Change, str]] = [
    ("SCNN", value("feature_names_in_", "abcdef"), "feature_names_in_ must be a list of 6 names"),
    ("SCNN", value("matching_threshold_", -1), "matching_threshold_ must be between 0 and"),
    ("SCNN", value("matching_density_", 1.5), "matching_density_ must be between 0 and 1"),
    ("SCNN", value("alpha_", 1e308), "alpha_ must be between 0 and"),
    ("SCNN", value("n_iter_", True), "n_iter_ must be an integer, got True"),
    ("SCNN", value("n_iter_", 10**400), "n_iter_ must be between 0 .*got a longer integer"),
    ("SCNN", value("energy_", 3.0), "energy_ must be equal to the last entry of energy_path_"),
    ("SCNN", value("calibrated_mode_", "\x1b[31m"), "calibrated_mode_ must be one of"),
    ("SCNN", value("stop_reason_", "a" * 10_000), "stop_reason_ must be a string of at most"),
    (
        "SCNN",
        value("optimality_", {"type": "dict", "value": {"encoder": 1}}),
        "optimality_ must be a dict with codes, dictionary, encoder, joint",
    ),
    ("SCNN", array("usage_", lambda A: -A - 1), "entries of usage_ must be between 0 and 1"),
    ("SCNN", array("gains_", lambda A: -A - 1), "entries of gains_ must be between 0"),
    ("SCNN", array("components_", lambda A: 100 * A), "rows of components_ must have a length of"),
    ("SCNN", array("components_", lambda A: A + 1e300), "rows of components_ must have a length"),
    ("SCNN", array("encoder_", lambda A: A + 1e200), "entries of encoder_ must be at most 1e[+]77"),
    ("SCNN", array("encoder_", lambda A: A.astype("f4")), "dtype of encoder_ must be equal to"),
    ("refined", without("decoder_"), "decoder_ is missing, but refined_encoder_ needs it"),
    ("MiniBatchSCNN", array("_stream.XtX", lambda A: 0 * A), "must be sums of products over the"),
    ("MiniBatchSCNN", array("_stream.XtX", lambda A: -A), "diagonal of _stream.XtX must not be"),
    ("MiniBatchSCNN", array("_stream.XtX", np.triu), "_stream.XtX must be symmetric"),
    ("MiniBatchSCNN", without("_stream.XtX"), "XtX must be either complete or approximate"),
    ("MiniBatchSCNN", array("_stream.stats.UtU", lambda A: A * 1e-3), "must be sums of products"),
    ("MiniBatchSCNN", value("_stream.stats.n", 0), "_stream.stats.n must be positive"),
    ("MiniBatchSCNN", value("_stream.precision", INT8), "_stream.precision must be float32 or"),
    ("MiniBatchSCNN", value("n_steps_", 7), "n_steps_ must be equal to _stream.n_batches"),
    ("ASCNN", array("encoder_", lambda A: A + 1e100), "the product of the largest entries of"),
    ("Sparsenet", value("sigma_", 0), "sigma_ must be between"),
    ("Sparsenet", array("variance_", lambda A: -A), "entries of variance_ must be between 0"),
]


@pytest.mark.parametrize(("model", "change", "message"), FORGED)
def test_forged_models_are_refused(
    model: str, change: Change, message: str, valid_files: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match=message) as refused:
        load(forge(valid_files[model], tmp_path / "model", change))
    assert str(refused.value).isprintable()


def test_files_without_changes_are_valid(valid_files: dict[str, Path], tmp_path: Path) -> None:
    for path in valid_files.values():
        load(forge(path, tmp_path / "model", lambda header, tensors: None))


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (SCNN, {"encoder_ridge": 1e150}),  # small filters, and gains of 1e150
        (SCNN, {"alpha": 1e150}),
        (MiniBatchSCNN, {"encoder_weight": 1e200}),  # the squares of the codes are zero
        (Sparsenet, {"variance_goal": 1e290, "max_iter": 1}),
    ],
)
def test_extreme_models_are_valid(cls: Any, parameters: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(cls, **parameters)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.components_, model.components_)
    assert again.alpha_ == model.alpha_


@pytest.mark.parametrize("depth", [30, 900, 100_000])
def test_deeply_nested_headers_are_refused(
    depth: int, valid_files: dict[str, Path], tmp_path: Path
) -> None:
    text = '{"versions":' + "[" * depth + "]" * depth + "}"
    (tmp_path / "model").write_bytes(to_bytes({"a": np.ones(1)}, metadata={"lincode": text}))
    with pytest.raises(ModelFileError, match="its header cannot be read"):
        load(tmp_path / "model")
    assert main(["info", str(tmp_path / "model")]) == 2


def test_a_long_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    n = 85_000_000
    with open(tmp_path / "model", "wb") as file:
        file.write(struct.pack("<Q", n))
        file.truncate(n + 8)
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=f"at most {MAX_HEADER_BYTES} bytes long, got {n}"):
        load(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_header_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    model = fitted(SCNN, alpha=0.2)
    model.init = np.zeros((5, 400_000)).tolist()
    with pytest.raises(InvalidInputError, match="if init is a list, set it to an array"):
        save(model, tmp_path / "model")
    assert os.listdir(tmp_path) == []
    save(model.set_params(init=np.zeros((5, 400_000))), tmp_path / "model")


@pytest.mark.parametrize("place", ["versions", "saved", "left_out", "class", "name", "tensor"])
def test_terminal_escapes_are_not_printed(
    place: str, valid_files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;title\x07\x9b31m\u202e\r"

    def change(header: Any, tensors: Any) -> None:
        if place == "versions":
            header["versions"] = {evil: evil}
        elif place == "left_out":
            header["left_out"] = [evil]
        elif place == "name":
            header["values"]["feature_names_in_"] = [evil] * 6
        elif place == "tensor":
            tensors[evil] = np.ones(1)
        else:
            header[place] = evil

    path = forge(valid_files["SCNN"], tmp_path / "model", change)
    code = main(["info", str(path)])
    out, err = capsys.readouterr()
    assert code == (2 if place in ("class", "tensor") else 0)
    assert all(line.isprintable() for line in (out + err).splitlines())
    assert "\\x1b]0;title" in out + err


def test_text_that_the_encoding_of_the_output_does_not_have_is_escaped(
    valid_files: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = forge(valid_files["SCNN"], tmp_path / "m", value("feature_names_in_", ["größe"] * 6))
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["info", str(path)]) == 0
    stream.flush()
    assert b"gr\\xf6\\xdfe" in buffer.getvalue()


def test_a_loaded_model_has_no_checkpoint_path(
    valid_files: dict[str, Path], tmp_path: Path
) -> None:
    """A file must not choose where a later fit writes."""

    def change(header: Any, tensors: Any) -> None:
        header["parameters"]["checkpoint_path"] = str(tmp_path / "elsewhere")

    model = load(forge(valid_files["SCNN"], tmp_path / "model", change))
    assert model.checkpoint_path is None
    model.set_params(checkpoint_path=str(tmp_path / "checkpoint"))
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").checkpoint_path is None


def test_printable_text() -> None:
    assert printable("größe") == "größe"
    assert printable("a\tb\n\ud800") == "a\\tb\\n\\ud800"


class StopError(Exception):
    """Raised by a callback, as if the process had ended."""


def interrupt(cls: Any, path: Path) -> Any:
    """Leave a checkpoint behind, and return the estimator that continues from it."""

    def stop(iteration: Any) -> None:
        if iteration.n_iter == 3:
            raise StopError

    options: dict[str, Any] = {"batch_size": 20} if cls is MiniBatchSCNN else {}
    options |= {"tol": 0.0, "max_iter": 5, "checkpoint_path": path, "checkpoint_every": 0}
    model = cls(5, 0.2, random_state=0, callback=stop, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(StopError):
            model.fit(X)
    return model.set_params(callback=None)


def state_array(number: str, change: Callable[[Any], Any]) -> Change:
    return lambda header, tensors: tensors.update({number: np.array(change(tensors[number]))})


def state_field(*names: str, to: Any) -> Change:
    def change(header: Any, tensors: Any) -> None:
        fields = header["state"]["fields"]
        for name in names[:-1]:
            fields = fields[name]["fields"]
        fields[names[-1]] = to

    return change


@pytest.mark.parametrize(
    ("cls", "change", "message"),
    [
        (SCNN, state_array("0", lambda A: 100 * A), "rows of D must have a length of at most 1"),
        (SCNN, state_array("1", lambda A: A[:-1]), r"C must have shape \(m, p\)"),
        (SCNN, state_field("ridge", to=-1), "ridge must be between 0"),
        (SCNN, state_field("n_replaced", to="x"), "n_replaced must be an integer"),
        (SCNN, lambda header, _: header.update(state=3), "the state must be a Progress, got int"),
        (MiniBatchSCNN, state_field("seed", to=-1), "seed must be between 0"),
        (MiniBatchSCNN, state_field("stream", "n_batches", to=0), "n_batches must be between 1"),
        (MiniBatchSCNN, state_field("rule", to={"type": "dict", "value": {}}), "stopping rule are"),
        (MiniBatchSCNN, state_field("stream", "stats", to=None), "missing stream.stats"),
    ],
)
def test_forged_checkpoints_are_refused(
    cls: Any, change: Change, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint"
    model = interrupt(cls, path)
    forge(path, path, change)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=message):
        model.fit(X)
    assert path.read_bytes() == before
