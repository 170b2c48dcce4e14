"""Files of pipelines: all steps are restored exactly, and only known types are created."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import lincode
from lincode import ASCNN, SAANN, SCNN, SCNNCV, MiniBatchSCNN, SparseCoder, Sparsenet
from lincode.cli import main
from lincode.estimators.progress import HAS_CALLBACKS
from lincode.exceptions import InvalidInputError, ModelFileError
from lincode.model_file import FORMAT, describe
from lincode.pipeline_file import ENTRY, TRUSTED

skops_io = pytest.importorskip("skops.io")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 6)) @ RNG.standard_normal((6, 6)) + 3
Y = np.arange(80) % 2


class Mine(TransformerMixin, BaseEstimator):
    """A transformer that lincode does not know."""

    def fit(self, X: Any, y: object = None) -> Mine:
        self.fitted_ = True
        return self

    def transform(self, X: Any) -> Any:
        return X


class Unstorable:
    """An object such as those of compiled classes, which skops cannot store."""

    def __reduce__(self) -> Any:
        raise TypeError("this object cannot be stored")


def scnn(**parameters: Any) -> SCNN:
    return SCNN(8, 0.2, random_state=0, tol=1e-2, **parameters)


def fitted(*steps: Any, data: Any = X) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".*encoder's codes", UserWarning)
        return make_pipeline(*steps).fit(data, Y)


def again(model: Any, folder: Path) -> Any:
    lincode.save(model, folder / "model")
    return lincode.load(folder / "model")


@pytest.fixture(scope="module")
def pipeline() -> Any:
    return fitted(StandardScaler(), scnn(), LogisticRegression())


@pytest.fixture(scope="module")
def valid_file(pipeline: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("valid") / "model"
    lincode.save(pipeline, path)
    return path.read_bytes()


def test_all_steps_are_restored(pipeline: Any, tmp_path: Path) -> None:
    loaded = again(pipeline, tmp_path)
    assert_array_equal(loaded.predict_proba(X), pipeline.predict_proba(X))
    assert_array_equal(loaded[:-1].transform(X), pipeline[:-1].transform(X))
    assert repr(loaded) == repr(pipeline)
    assert_array_equal(loaded[0].mean_, pipeline[0].mean_)  # the scaler is not lost


@pytest.mark.parametrize(
    "network",
    [
        scnn(),
        SCNN(8, 0.2, random_state=np.random.RandomState(0), tol=1e-2, refine_max_iter=2),
        MiniBatchSCNN(8, 0.2, batch_size=40, random_state=0),
        SCNNCV(scnn(), alphas=[0.1, 0.2], cv=2, criterion="energy"),
        SAANN(4, 0.01, max_iter=3, random_state=0),
        ASCNN(4, 0.01, max_iter=3, random_state=0),
        Sparsenet(4, max_iter=3, random_state=0),
        SparseCoder(X[:4]),
    ],
    ids=lambda network: type(network).__name__,
)
def test_all_networks_in_a_pipeline(network: Any, tmp_path: Path) -> None:
    model = fitted(StandardScaler(), network)
    loaded = again(model, tmp_path)
    assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded[-1].get_params(deep=False).keys() == network.get_params(deep=False).keys()


def test_partial_fit_continues_after_loading(tmp_path: Path) -> None:
    model = fitted(StandardScaler(), MiniBatchSCNN(8, 0.2, batch_size=40, random_state=0))
    loaded = again(model, tmp_path)
    for pipeline in (model, loaded):
        pipeline[-1].partial_fit(X[:40])
    assert_array_equal(loaded[-1].components_, model[-1].components_)


def test_names_and_output_of_composed_transformers(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("abcdef"))
    columns = ColumnTransformer(
        [
            ("codes", make_pipeline(StandardScaler(), scnn()), ["a", "b", "c"]),
            ("exp", FunctionTransformer(np.exp), ["f"]),
        ]
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*encoder's codes", UserWarning)
        model = columns.set_output(transform="pandas").fit(frame)
    loaded = again(model, tmp_path)
    pd.testing.assert_frame_equal(loaded.transform(frame), model.transform(frame))
    assert_array_equal(loaded.feature_names_in_, model.feature_names_in_)


def test_other_estimators_of_scikit_learn(tmp_path: Path) -> None:
    model = LogisticRegression().fit(X, Y)
    assert_array_equal(again(model, tmp_path).predict_proba(X), model.predict_proba(X))
    union = FeatureUnion([("pca", PCA(2)), ("codes", scnn())]).fit(X)
    assert_array_equal(again(union, tmp_path).transform(X), union.transform(X))


def test_the_file_is_described_and_readable_by_skops(
    pipeline: Any, valid_file: bytes, tmp_path: Path
) -> None:
    (tmp_path / "model").write_bytes(valid_file)
    about = describe(tmp_path / "model")[1]
    assert about["format"] == FORMAT
    assert about["versions"].keys() == {"lincode", "python", "numpy", "scikit-learn", "skops"}
    assert about["left_out"] == []
    loaded = skops_io.load(tmp_path / "model", trusted=TRUSTED)
    assert_array_equal(loaded.predict(X), pipeline.predict(X))


def test_unknown_types_are_refused_by_save(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_text("old")
    other = FunctionTransformer(kw_args={"part": Unstorable()})
    cases = {
        r"sklearn\.tree\._tree\.Tree": fitted(scnn(), DecisionTreeClassifier()),
        # skops cannot store this type, so that it is found in another way.
        r"steps\[0\]\[1\]\.kw_args\['part'\] \(.*Unstorable\)": make_pipeline(other).fit(X),
        "test_pipeline_file.Mine": fitted(Mine(), scnn()),
        "test_pipeline_file.print_iteration": fitted(
            StandardScaler(), scnn(callback=print_iteration)
        ),
    }
    for name, model in cases.items():
        with pytest.raises(InvalidInputError, match=name):
            lincode.save(model, path)
        assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def print_iteration(iteration: Any) -> None:
    pass


def test_callbacks_and_checkpoints_are_not_saved(tmp_path: Path) -> None:
    model = fitted(StandardScaler(), scnn(checkpoint_path=tmp_path / "checkpoint"))
    if HAS_CALLBACKS:
        model.set_callbacks(lincode.EnergyMonitor())
        model[-1].set_callbacks(lincode.EnergyMonitor())
    loaded = again(model, tmp_path)
    assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded[-1].checkpoint_path is None
    assert model[-1].checkpoint_path == tmp_path / "checkpoint"  # the saved model is unchanged
    assert "_skl_callbacks" not in vars(loaded[-1])
    assert ("_skl_callbacks" in vars(model[-1])) == HAS_CALLBACKS


def test_paths_of_checkpoints_in_files_are_not_used(tmp_path: Path) -> None:
    model = fitted(StandardScaler(), scnn())
    model[-1].checkpoint_path = str(tmp_path / "checkpoint")
    (tmp_path / "model").write_bytes(with_header(skops_io.dumps(model), ABOUT))
    assert lincode.load(tmp_path / "model")[-1].checkpoint_path is None


def test_unfitted_pipelines_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        lincode.save(make_pipeline(StandardScaler(), SCNN()), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def with_header(data: bytes, header: dict[str, Any]) -> bytes:
    """Return a skops file with an entry of lincode whose checksum is correct."""
    from lincode.pipeline_file import _checksum

    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(ENTRY, json.dumps(header | {"sha256": _checksum(archive)}))
    return buffer.getvalue()


ABOUT = {"format": FORMAT, "versions": {}, "saved": "", "left_out": []}


def test_unknown_types_are_refused_by_load(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(with_header(skops_io.dumps(fitted(Mine(), scnn())), ABOUT))
    with pytest.raises(ModelFileError, match=r"test_pipeline_file\.Mine"):
        lincode.load(path)


def test_loading_does_not_run_code(tmp_path: Path) -> None:
    """A file that asks for the call of a function is refused, and the function is not called."""
    target = tmp_path / "written"
    schema = {
        "__class__": "partial",
        "__module__": "functools",
        "__loader__": "ConstructorFromReduceNode",
        "content": {
            "__class__": "tuple",
            "__module__": "builtins",
            "__loader__": "TupleNode",
            "content": [
                {
                    "__class__": "str",
                    "__module__": "builtins",
                    "__loader__": "JsonNode",
                    "content": json.dumps(str(target)),
                    "is_json": True,
                }
            ],
        },
        "protocol": 2,
    }
    for module, name in (("os", "mkdir"), ("pathlib", "Path.touch"), ("os", "system")):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(
                "schema.json", json.dumps(schema | {"__module__": module, "__class__": name})
            )
        (tmp_path / "model").write_bytes(with_header(buffer.getvalue(), ABOUT))
        with pytest.raises(ModelFileError, match=rf"{module}\.{name}"):
            lincode.load(tmp_path / "model")
    assert not target.exists()


def test_damaged_files(pipeline: Any, valid_file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model"
    expected = pipeline.predict_proba(X)
    rng = np.random.default_rng(0)
    n_refused = 0
    for position in rng.integers(4, len(valid_file), 150):
        damaged = bytearray(valid_file)
        damaged[position] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(damaged))
        try:  # Some bits have no meaning, such as the time of an entry.
            assert_array_equal(lincode.load(path).predict_proba(X), expected)
        except ModelFileError as error:
            assert "damaged" in str(error) or "lincode.save did not write it" in str(error)  # noqa: PT017
            n_refused += 1
    assert n_refused > 100
    for length in (4, 100, len(valid_file) // 2, len(valid_file) - 1):
        path.write_bytes(valid_file[:length])
        with pytest.raises(ModelFileError, match="damaged or truncated"):
            lincode.load(path)


def test_files_of_others_and_of_later_versions(pipeline: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    skops_io.dump(pipeline, path)
    with pytest.raises(ModelFileError, match=r"lincode\.save did not write it"):
        lincode.load(path)
    path.write_bytes(with_header(skops_io.dumps(pipeline), ABOUT | {"format": FORMAT + 1}))
    with pytest.raises(ModelFileError, match="upgrade lincode"):
        lincode.load(path)


def test_a_header_that_is_not_text(pipeline: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(with_header(skops_io.dumps(pipeline), ABOUT | {"saved": 5}))
    with pytest.raises(ModelFileError, match="model is damaged: saved must be a string"):
        lincode.load(path)


@pytest.mark.parametrize("change", ["shape", "missing", "parameter", "list"])
def test_networks_in_a_pipeline_are_checked(change: str, tmp_path: Path) -> None:
    model = fitted(StandardScaler(), scnn())
    network = model[-1]
    if change == "shape":
        network.gains_ = network.gains_[:-1]
    elif change == "missing":
        del network.usage_
    elif change == "list":
        network.decoder_ = [[float("nan")] * 6] * 8
    else:
        network.alpha = "unknown"
    path = tmp_path / "model"
    path.write_bytes(with_header(skops_io.dumps(model), ABOUT))
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        lincode.load(path)


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file(
    error: BaseException,
    pipeline: Any,
    valid_file: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "model").write_bytes(valid_file)

    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(type(error)):
        lincode.save(pipeline, tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == valid_file
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_command_line_refuses_pipelines(
    valid_file: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").write_bytes(valid_file)
    assert main(["info", str(tmp_path / "model")]) == 2
    assert "contains a Pipeline" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("large", b"\0" * 10_000_000), r"must not expand to more than [0-9,]+, but it needs 10,"),
        (("schema.json", b"{}"), "two entries of the same name"),
    ],
)
def test_entries_that_are_too_large_or_not_unique(
    valid_file: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entry: tuple[str, bytes],
    message: str,
) -> None:
    monkeypatch.setattr("lincode.pipeline_file.ALWAYS_ALLOWED", 5_000_000)
    path = tmp_path / "model"
    path.write_bytes(valid_file)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(*entry)
    with pytest.raises(ModelFileError, match=message):
        lincode.load(path)
