"""Model files: estimators are restored exactly, and invalid files raise clear errors."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from safetensors import safe_open
from safetensors.numpy import save as to_bytes
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from lincode import ASCNN, SAANN, SCNN, SCNNCV, MiniBatchSCNN, Sparsenet
from lincode.exceptions import InvalidInputError, ModelFileError
from lincode.model_file import FORMAT, describe, load, save
from lincode.model_schema import MODEL_CLASSES
from lincode.tensor_file import checksum, from_json, to_json

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6)) @ RNG.standard_normal((6, 6))
ESTIMATORS: list[Any] = [
    SCNN(8, 0.2, random_state=0, tol=1e-2),
    MiniBatchSCNN(8, 0.2, batch_size=20, random_state=0, half_life=np.inf),
    SAANN(4, 0.01, max_iter=3, random_state=0),
    ASCNN(4, 0.01, max_iter=3, random_state=0),
    Sparsenet(4, max_iter=3, random_state=0),
]
REASONS = ("damaged", "not a model file", "lincode.save did not write it", "format", "knows")


def fit(estimator: Any, data: Any = X) -> Any:
    """Fit an estimator and ignore the warnings that are expected after few iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".*encoder's codes", UserWarning)
        return estimator.fit(data)


def save_to(folder: Path, model: Any) -> Path:
    save(model, folder / "model")
    return folder / "model"


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Check types and values; arrays must be equal bit for bit and in the same memory order."""
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        assert a.flags.c_contiguous == b.flags.c_contiguous, where
        assert_array_equal(a, b, err_msg=where)
    elif hasattr(a, "__dict__") and not isinstance(a, type | np.dtype):
        assert vars(a).keys() == vars(b).keys(), where
        for name in vars(a):
            assert_same(vars(a)[name], vars(b)[name], f"{where}.{name}")
    else:
        assert a == b, where


@pytest.fixture(scope="module")
def scnn() -> Any:
    return fit(SCNN(8, 0.2, random_state=0, tol=1e-2))


@pytest.fixture(scope="module")
def valid_file(scnn: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("valid") / "model"
    save(scnn, path)
    return path.read_bytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_estimators_are_restored_exactly(estimator: Any, dtype: Any, tmp_path: Path) -> None:
    rows = X.astype(dtype)
    model = fit(estimator, rows)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_same(model, again, "model")
    assert model.get_params() == again.get_params()
    codes = model.transform(rows)
    assert_same(codes, again.transform(rows))
    assert_same(model.inverse_transform(codes), again.inverse_transform(codes))
    assert model.score(rows) == again.score(rows)
    assert_array_equal(model.get_feature_names_out(), again.get_feature_names_out())


@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
def test_every_algorithm_gives_the_same_codes(scnn: Any, algorithm: str, tmp_path: Path) -> None:
    scnn = load(save_to(tmp_path, scnn)).set_params(transform_algorithm=algorithm, split_sign=True)
    again = load(save_to(tmp_path, scnn))
    assert_array_equal(scnn.transform(X), again.transform(X))


def test_partial_fit_continues_after_loading(tmp_path: Path) -> None:
    model = MiniBatchSCNN(8, 0.2, random_state=0).partial_fit(X[:30])
    again = load(save_to(tmp_path, model))
    for estimator in (model, again):
        estimator.partial_fit(X[30:])
    assert_same(model, again)
    assert again.n_samples_seen_ == 60


def test_warm_start_continues_after_loading(tmp_path: Path) -> None:
    for estimator in (SCNN(8, 0.2), Sparsenet(4, max_iter=3)):
        estimator.set_params(random_state=0, warm_start=True)
        again = load(save_to(tmp_path, fit(estimator)))
        assert_same(fit(estimator), fit(again))


def test_memory_order_is_kept(scnn: Any, tmp_path: Path) -> None:
    """Matrix products depend on the memory order in the last bit."""
    model = load(save_to(tmp_path, scnn))
    model.encoder_ = np.asfortranarray(model.encoder_)
    model.components_ = np.repeat(model.components_, 2, axis=1)[:, ::2]  # Not contiguous.
    again = load(save_to(tmp_path, model))
    assert again.encoder_.flags.f_contiguous
    assert_array_equal(again.encoder_, model.encoder_)
    assert_array_equal(again.components_, model.components_)


def test_feature_names_are_kept(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=[f"größe {j}" for j in range(6)])
    model = fit(SCNN(8, 0.2, random_state=0, tol=1e-2), frame)
    again = load(save_to(tmp_path, model))
    assert_same(model.feature_names_in_, again.feature_names_in_)
    assert_array_equal(again.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame[frame.columns[::-1]])


def test_the_best_estimator_of_a_search_is_saved(tmp_path: Path) -> None:
    estimator = SCNN(8, random_state=0, tol=1e-2)
    search = SCNNCV(estimator, target_sparsity=0.6, alpha_ratios=[0.6, 0.3], cv=2).fit(X)
    again = load(save_to(tmp_path, search))
    assert type(again) is SCNN
    assert again.alpha == again.alpha_ == search.alpha_
    assert_array_equal(again.transform(X), search.transform(X))


def test_numpy_scalars_and_arrays_as_parameters(tmp_path: Path) -> None:
    start = RNG.standard_normal((8, 6))
    n_components: Any = np.int64(8)
    model = SCNN(n_components, np.float64(0.2), init=start, tol=1e-2)
    again = load(save_to(tmp_path, fit(model)))
    assert_same(model, again)
    as_list = fit(SCNN(8, 0.2, init=start.tolist(), tol=1e-2))
    assert load(save_to(tmp_path, as_list)).init == start.tolist()


@pytest.mark.parametrize(
    "parameter", [{"callback": lambda now: False}, {"random_state": np.random.RandomState(0)}]
)
def test_parameters_that_cannot_be_stored_are_reported(parameter: Any, tmp_path: Path) -> None:
    model = fit(SCNN(8, 0.2, tol=1e-2, **parameter))
    (name,) = parameter
    with pytest.warns(UserWarning, match=f"{name} cannot be stored"):
        save(model, tmp_path / "model")
    again, about = describe(tmp_path / "model")
    assert getattr(again, name) is None
    assert about["left_out"] == [name]
    assert_array_equal(again.transform(X), model.transform(X))


def test_files_contain_format_versions_and_time(scnn: Any, tmp_path: Path) -> None:
    _, about = describe(save_to(tmp_path, scnn))
    assert about["format"] == FORMAT
    assert about["versions"]["numpy"] == np.__version__
    assert about["saved"].endswith("+00:00")


@pytest.mark.parametrize("cls", [*(entry.cls for entry in MODEL_CLASSES.values()), SCNNCV])
def test_unfitted_estimators_are_not_saved(cls: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        save(cls(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_other_objects_are_not_saved(scnn: Any, tmp_path: Path) -> None:
    class Mine(SCNN):
        pass

    Mine.__name__ = "SCNN"
    for other in ("text", Mine()):
        with pytest.raises(InvalidInputError, match="model must be one of"):
            save(other, tmp_path / "model")


def test_invalid_estimators_are_not_saved(scnn: Any, tmp_path: Path) -> None:
    model = load(save_to(tmp_path, scnn))
    model.encoder_[0, 0] = np.nan
    with pytest.raises(InvalidInputError, match="encoder_ must be finite"):
        save(model, tmp_path / "model")
    with pytest.raises(ValueError, match="alpha must be"):
        save(load(tmp_path / "model").set_params(alpha=-1.0), tmp_path / "model")
    assert_same(load(tmp_path / "model"), scnn)  # The old file is unchanged.


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file(
    error: BaseException,
    scnn: Any,
    valid_file: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "model"
    path.write_bytes(valid_file)

    def fail(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)):
        save(scnn, path)
    assert path.read_bytes() == valid_file
    assert list(tmp_path.iterdir()) == [path]


def test_paths_that_cannot_be_written_or_read(scnn: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        save(scnn, tmp_path / "nowhere" / "model")
    with pytest.raises(IsADirectoryError, match="must be a file, not a folder"):
        save(scnn, tmp_path)
    with pytest.raises(FileNotFoundError, match="No such file"):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError, match="expected a model file, got a folder"):
        load(tmp_path)


def error_or_model(path: Path) -> Any:
    try:
        return load(path)
    except ModelFileError as error:
        return str(error)


@given(place=st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_refused(place: float, valid_file: bytes, scnn: Any) -> None:
    path = Path(os.environ["TMPDIR"]) / "truncated"
    path.write_bytes(valid_file[: int(place * len(valid_file))])
    with pytest.raises(
        ModelFileError, match="not a model file of lincode, or it is damaged or trunc"
    ):
        load(path)


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_changed_bits_are_detected(place: float, mask: int, valid_file: bytes, scnn: Any) -> None:
    data = bytearray(valid_file)
    data[int(place * len(valid_file))] ^= mask
    path = Path(os.environ["TMPDIR"]) / "changed"
    path.write_bytes(data)
    result = error_or_model(path)
    if isinstance(result, str):
        assert str(path) in result
        assert any(reason in result for reason in REASONS), result
    else:  # A space in the padding of the header may have become another white-space character.
        assert_same(scnn, result)


@given(data=st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    path = Path(os.environ["TMPDIR"]) / "bytes"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"not a model file of lincode|safetensors file, but"):
        load(path)


@pytest.fixture(autouse=True)
def folder_for_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one folder for all examples of a test, because hypothesis cannot create one for each."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def rewrite(valid_file: bytes, path: Path, change: Callable[[Any, Any], None]) -> Path:
    """Write a model file with changed contents and a correct checksum."""
    path.write_bytes(valid_file)
    with safe_open(str(path), framework="np") as file:
        header = json.loads(file.metadata()["lincode"])
        tensors = {key: np.array(file.get_tensor(key)) for key in list(file.keys())}
    change(header, tensors)
    text = header if isinstance(header, str) else json.dumps(header)
    metadata = {"lincode": text, "sha256": checksum(text, tensors)}
    path.write_bytes(to_bytes(tensors, metadata=metadata))
    return path


def set_header(*path: str, to: Any) -> Callable[[Any, Any], None]:
    def change(header: Any, tensors: Any) -> None:
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = to

    return change


def set_tensor(name: str, make: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    def change(header: Any, tensors: Any) -> None:
        tensors[name] = make(tensors.get(name))

    return change


def with_nan(A: Any) -> Any:
    A[0, 0] = np.nan
    return A


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            set_header("class", to="os.system"),
            "contains a 'os.system', but this version of lincode",
        ),
        (set_header("class", to="SAANN"), "SAANN has no parameter .*encoder_ridge, encoder_weight"),
        (set_header("class", to="SCNNCV"), "this version of lincode knows only SCNN, "),
        (set_header("class", to=["SCNN"]), "its header cannot be read .*the class a string"),
        (set_header("format", to=FORMAT + 1), f"format {FORMAT + 1}, .* up to {FORMAT}; upgrade"),
        (set_header("format", to=1), "format 1, which an earlier version .* Fit the model again"),
        (set_header("format", to=None), "its header cannot be read"),
        (set_header("parameters", to=[]), "is damaged"),
        (
            set_header("parameters", "evil", to=1),
            "SCNN has no parameter evil in this version; upgrade",
        ),
        (set_header("parameters", "alpha", to="much"), "alpha must be"),
        (set_header("parameters", "alpha", to={"type": "object", "value": 1}), "'object' is not"),
        (set_header("parameters", "alpha", to={}), "is damaged"),
        (set_header("values", "n_features_in_", to=7), r"components_ must have shape \(m, p\)"),
        (
            set_header("values", "n_features_in_", to=None),
            "n_features_in_ must be an integer, got",
        ),
        (
            set_header("values", "energy_", to={"type": "float", "value": "nan"}),
            "energy_ must be fin",
        ),
        (set_header("values", "extra_", to=1), "missing none, unknown extra_"),
        (set_header("values", "feature_names_in_", to=["a"]), "must be a list of 6 names"),
        (set_header("values", to={}), "missing alpha_, .*, unknown none"),
        (set_header("transposed", to=["nothing"]), "is damaged"),
        (set_tensor("components_", lambda D: D[:-1]), r"encoder_ must have shape \(m, p\), got"),
        (set_tensor("components_", lambda D: D.ravel()), "components_ must have shape"),
        (set_tensor("components_", lambda D: D[:0]), "components_ must have shape"),
        (set_tensor("encoder_", with_nan), "encoder_ must be finite"),
        (set_tensor("encoder_", lambda C: C.astype(np.int64)), "unknown type"),
        (set_tensor("more", lambda _: np.ones(3)), "missing none, unknown more"),
        (lambda header, tensors: tensors.pop("usage_"), "missing usage_, unknown none"),
    ],
)
def test_invalid_contents_are_refused(
    change: Callable[[Any, Any], None], message: str, valid_file: bytes, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match=message) as caught:
        load(rewrite(valid_file, tmp_path / "model", change))
    assert str(tmp_path / "model") in str(caught.value)


def test_valid_contents_are_loaded(valid_file: bytes, scnn: Any, tmp_path: Path) -> None:
    """A file that is rewritten without changes is valid, so the changes above cause the errors."""
    again = load(rewrite(valid_file, tmp_path / "model", lambda header, tensors: None))
    assert_same(scnn, again)
    without_tol = rewrite(
        valid_file, tmp_path / "m", lambda header, _: header["parameters"].pop("tol")
    )
    assert load(without_tol).tol == SCNN().tol  # As a file of an earlier version without tol.


def test_safetensors_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    for metadata in (None, {"format": "pt"}):
        (tmp_path / "other").write_bytes(to_bytes({"w": np.ones(3)}, metadata=metadata))
        with pytest.raises(ModelFileError, match=r"but lincode\.save did not write it"):
            load(tmp_path / "other")
    # These headers are not valid. The last one is nested too deeply for the JSON parser.
    for text in ("{", "[]", "3", "[" * 100_000):
        (tmp_path / "other").write_bytes(to_bytes({"w": np.ones(3)}, metadata={"lincode": text}))
        with pytest.raises(ModelFileError, match="its header cannot be read"):
            load(tmp_path / "other")
    header = b'{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    (tmp_path / "other").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0")
    with pytest.raises(ModelFileError, match=r"but lincode\.save did not write it"):
        load(tmp_path / "other")


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 0.1, "text", float("inf"), [1.5], {"a": np.float64(1)}),
        *(np.float32(0.1), np.bool_(True), np.uint8(3), np.dtype("float32"), np.float64("inf")),
    ],
)
def test_json_keeps_values_and_types(value: Any) -> None:
    again = from_json(json.loads(json.dumps(to_json(value), allow_nan=False)))
    assert type(again) is type(value)
    assert again == value


@pytest.mark.slow
def test_imports_are_lazy() -> None:
    code = (
        "import importlib.util, sys, sklearn.base, sklearn.utils;"  # pandas, pyarrow
        # Callbacks of scikit-learn 1.9 import rich if it is installed.
        "importlib.util.find_spec('sklearn.callback') and __import__('sklearn.callback');"
        "before = set(sys.modules);"
        "import lincode, lincode.model_file, lincode.vectors;"
        "names = {'safetensors', 'rich', 'matplotlib', 'pyarrow'};"
        "print(sorted(names & (set(sys.modules) - before)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("number", [float("inf"), 10**400])
@pytest.mark.parametrize("where", ["format", "n_iter_", "energy_"])
def test_infinite_and_huge_numbers_are_refused(
    valid_file: bytes, tmp_path: Path, where: str, number: float
) -> None:
    def change(header: Any, tensors: Any) -> None:
        if where == "format":
            header["format"] = number
        else:
            header["values"][where] = number

    path = rewrite(valid_file, tmp_path / "model", change)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the platform has no named pipes")
def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="device or a pipe"):
        load(tmp_path / "pipe")


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize(
    "parameters",
    [
        {"threshold_mode": "top_k"},
        {"fit_decoder": True, "fit_gains": False},
        {"refine_max_iter": 3},
    ],
    ids=str,
)
def test_the_calibration_is_stored(cls: Any, parameters: dict[str, Any], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about units that the refined encoder does not use
        model = cls(8, 0.2, random_state=0, tol=1e-2, **parameters).fit(X)
        model.calibrate(X, density=0.4)
    again = load(save_to(tmp_path, model))
    assert_same(model, again)
    assert again.matching_density_ == 0.4
    for name in ("threshold_", "n_nonzero_coefs_", "encoder_r2_"):
        assert getattr(again, name) == getattr(model, name), name
    assert_array_equal(again.reconstruct(X), model.reconstruct(X))
