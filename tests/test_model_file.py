"""Model files: the same network again to the bit, or a sentence."""

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
from sklearn.pipeline import make_pipeline

from lincode import ASCNN, SAANN, SCNN, SCNNCV, MiniBatchSCNN, Sparsenet
from lincode.model_contents import KINDS, from_plain, to_plain
from lincode.model_file import FORMAT, ModelFileError, _checksum, describe, load, save

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6)) @ RNG.standard_normal((6, 6))
NETWORKS: list[Any] = [
    SCNN(8, 0.2, threshold="match", random_state=0, tol=1e-2),
    MiniBatchSCNN(8, 0.2, threshold="match", batch_size=20, random_state=0, half_life=np.inf),
    SAANN(4, 0.01, max_iter=3, random_state=0),
    ASCNN(4, 0.01, max_iter=3, random_state=0),
    Sparsenet(4, max_iter=3, random_state=0),
]
FAULTS = ("damaged", "no model file", "not one that lincode.save", "format", "knows")


def fitted(network: Any, data: Any = X) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".*encoder's codes", UserWarning)
        return network.fit(data)


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Of one type and value, arrays to the bit and in one order of memory."""
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
    return fitted(SCNN(8, 0.2, threshold="match", random_state=0, tol=1e-2))


@pytest.fixture(scope="module")
def good(scnn: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "model"
    save(scnn, path)
    return path.read_bytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n).__name__)
def test_all_there_is_comes_back_to_the_bit(network: Any, dtype: Any, tmp_path: Path) -> None:
    rows = X.astype(dtype)
    model = fitted(network, rows)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_same(model, again, "model")
    assert model.get_params() == again.get_params()
    codes = model.transform(rows)
    assert_same(codes, again.transform(rows))
    assert_same(model.inverse_transform(codes), again.inverse_transform(codes))
    assert model.score(rows) == again.score(rows)
    assert_array_equal(model.get_feature_names_out(), again.get_feature_names_out())


@pytest.mark.parametrize("method", ["encoder", "exact", "relearn"])
def test_every_method_gives_the_same_codes(scnn: Any, method: str, tmp_path: Path) -> None:
    scnn = load(saved(scnn, tmp_path)).set_params(transform_method=method, split_sign=True)
    again = load(saved(scnn, tmp_path))
    assert_array_equal(scnn.transform(X), again.transform(X))


def saved(model: Any, folder: Path) -> Path:
    save(model, folder / "model")
    return folder / "model"


def test_partial_fit_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    stream = MiniBatchSCNN(8, 0.2, threshold="match", random_state=0).partial_fit(X[:30])
    again = load(saved(stream, tmp_path))
    for model in (stream, again):
        model.partial_fit(X[30:])
    assert_same(stream, again)
    assert again.n_samples_seen_ == 60


def test_warm_start_goes_on_from_the_loaded_network(tmp_path: Path) -> None:
    for network in (SCNN(8, 0.2, threshold="match"), Sparsenet(4, max_iter=3)):
        network.set_params(random_state=0, warm_start=True)
        again = load(saved(fitted(network), tmp_path))
        assert_same(fitted(network), fitted(again))


def test_order_of_memory_is_kept(scnn: Any, tmp_path: Path) -> None:
    """The same weights in another order are multiplied to other bits."""
    model = load(saved(scnn, tmp_path))
    model.encoder_ = np.asfortranarray(model.encoder_)
    model.components_ = np.repeat(model.components_, 2, axis=1)[:, ::2]  # in no order at all
    again = load(saved(model, tmp_path))
    assert again.encoder_.flags.f_contiguous
    assert_array_equal(again.encoder_, model.encoder_)
    assert_array_equal(again.components_, model.components_)


def test_feature_names_are_kept_and_asked_for(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=[f"größe {j}" for j in range(6)])
    model = fitted(SCNN(8, 0.2, threshold="match", random_state=0, tol=1e-2), frame)
    again = load(saved(model, tmp_path))
    assert_same(model.feature_names_in_, again.feature_names_in_)
    assert_array_equal(again.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame[frame.columns[::-1]])


def test_of_a_search_the_network_it_chose_is_saved(tmp_path: Path) -> None:
    network = SCNN(8, threshold="match", random_state=0, tol=1e-2)
    search = SCNNCV(network, target_sparsity=0.5, shares=[0.3, 0.1], cv=2).fit(X)
    again = load(saved(search, tmp_path))
    assert type(again) is SCNN
    assert again.alpha == search.alpha_
    assert_array_equal(again.transform(X), search.transform(X))


def test_parameters_of_numpy_and_arrays_are_kept(tmp_path: Path) -> None:
    start = RNG.standard_normal((8, 6))
    n_components: Any = np.int64(8)
    model = SCNN(n_components, np.float64(0.2), threshold="match", init=start, tol=1e-2)
    again = load(saved(fitted(model), tmp_path))
    assert_same(model, again)
    as_list = fitted(SCNN(8, 0.2, threshold="match", init=start.tolist(), tol=1e-2))
    assert load(saved(as_list, tmp_path)).init == start.tolist()


@pytest.mark.parametrize(
    "parameter", [{"callback": lambda now: False}, {"random_state": np.random.RandomState(0)}]
)
def test_what_cannot_be_stored_is_left_out_aloud(parameter: Any, tmp_path: Path) -> None:
    model = fitted(SCNN(8, 0.2, threshold="match", tol=1e-2, **parameter))
    (name,) = parameter
    with pytest.warns(UserWarning, match=f"{name} cannot be stored"):
        save(model, tmp_path / "model")
    again, about = describe(tmp_path / "model")
    assert getattr(again, name) is None
    assert about["left_out"] == [name]
    assert_array_equal(again.transform(X), model.transform(X))


def test_the_file_tells_of_itself(scnn: Any, tmp_path: Path) -> None:
    _, about = describe(saved(scnn, tmp_path))
    assert about["format"] == FORMAT
    assert about["versions"]["numpy"] == np.__version__
    assert about["saved"].endswith("+00:00")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_unfitted_networks_are_not_saved(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        save(kind.cls(), tmp_path / "model")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        save(SCNNCV(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_other_things_are_not_saved(scnn: Any, tmp_path: Path) -> None:
    class Mine(SCNN):
        pass

    Mine.__name__ = "SCNN"
    for other in (make_pipeline(scnn), "text", Mine()):
        with pytest.raises(TypeError, match="a model file holds one of"):
            save(other, tmp_path / "model")


def test_a_network_no_file_could_be_loaded_from_is_not_saved(scnn: Any, tmp_path: Path) -> None:
    model = load(saved(scnn, tmp_path))
    model.encoder_[0, 0] = np.nan
    with pytest.raises(ValueError, match="encoder_ must be finite"):
        save(model, tmp_path / "model")
    with pytest.raises(ValueError, match="alpha must be"):
        save(load(tmp_path / "model").set_params(alpha=-1.0), tmp_path / "model")
    assert_same(load(tmp_path / "model"), scnn)  # the file that was there is still there


@pytest.mark.parametrize("fault", [OSError("disk full"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_old_file(
    fault: BaseException, scnn: Any, good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    path.write_bytes(good)

    def fail(_: int) -> None:
        raise fault

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(fault)):
        save(scnn, path)
    assert path.read_bytes() == good
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written_to(scnn: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        save(scnn, tmp_path / "nowhere" / "model")
    with pytest.raises(IsADirectoryError, match="name a file"):
        save(scnn, tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError, match="must be a model file"):
        load(tmp_path)


def refusal_or_network(path: Path) -> Any:
    try:
        return load(path)
    except ModelFileError as error:
        return str(error)


@given(place=st.floats(0, 1, exclude_max=True))
def test_files_cut_short_are_refused(place: float, good: bytes, scnn: Any) -> None:
    path = Path(os.environ["TMPDIR"]) / "cut"
    path.write_bytes(good[: int(place * len(good))])
    with pytest.raises(ModelFileError, match="no model file of lincode, or is damaged or cut"):
        load(path)


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_flipped_bits_are_found(place: float, mask: int, good: bytes, scnn: Any) -> None:
    data = bytearray(good)
    data[int(place * len(good))] ^= mask
    path = Path(os.environ["TMPDIR"]) / "flipped"
    path.write_bytes(data)
    found = refusal_or_network(path)
    if isinstance(found, str):
        assert str(path) in found
        assert any(fault in found for fault in FAULTS), found
    else:  # a space of the header's padding may have become another kind of space
        assert_same(scnn, found)


@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_model_are_refused(data: bytes) -> None:
    path = Path(os.environ["TMPDIR"]) / "bytes"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"no model file of lincode|safetensors file, but not"):
        load(path)


@pytest.fixture(autouse=True)
def folder_for_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One folder for all examples of a test: a fixture cannot be made for each."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def rewritten(good: bytes, path: Path, change: Callable[[Any, Any], None]) -> Path:
    """A file of ours with other content and the checksum that belongs to it: no accident."""
    path.write_bytes(good)
    with safe_open(str(path), framework="np") as file:
        header = json.loads(file.metadata()["lincode"])
        tensors = {key: np.array(file.get_tensor(key)) for key in list(file.keys())}
    change(header, tensors)
    text = header if isinstance(header, str) else json.dumps(header)
    metadata = {"lincode": text, "sha256": _checksum(text, tensors)}
    path.write_bytes(to_bytes(tensors, metadata=metadata))
    return path


def setting(*path: str, to: Any) -> Callable[[Any, Any], None]:
    def change(header: Any, tensors: Any) -> None:
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = to

    return change


def tensor(name: str, make: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    def change(header: Any, tensors: Any) -> None:
        tensors[name] = make(tensors.get(name))

    return change


def with_nan(A: Any) -> Any:
    A[0, 0] = np.nan
    return A


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting("class", to="os.system"), "holds a 'os.system', and this lincode knows SCNN"),
        (setting("class", to="SAANN"), "does not have here: encoder_weight"),
        (setting("class", to="SCNNCV"), "this lincode knows"),
        (setting("class", to=["SCNN"]), "this lincode knows"),
        (setting("format", to=FORMAT + 1), "reads up to 1; upgrade"),
        (setting("format", to=None), "its header cannot be read"),
        (setting("parameters", to=[]), "is damaged"),
        (setting("parameters", "evil", to=1), "does not have here: evil; upgrade"),
        (setting("parameters", "alpha", to="much"), "alpha must be"),
        (setting("parameters", "alpha", to={"type": "object", "value": 1}), "'object' is not"),
        (setting("parameters", "alpha", to={}), "is damaged"),
        (setting("values", "n_features_in_", to=7), r"components_ must have shape \(m, p\)"),
        (setting("values", "n_features_in_", to=None), "n_features_in_ must be of type"),
        (setting("values", "energy_", to={"type": "float", "value": "nan"}), "energy_ must be fin"),
        (setting("values", "extra_", to=1), "not extra_"),
        (setting("values", "feature_names_in_", to=["a"]), "must be 6 names"),
        (setting("values", to={}), "it must have energy_"),
        (setting("transposed", to=["nothing"]), "is damaged"),
        (tensor("components_", lambda D: D[:-1]), r"encoder_ must have shape \(m, p\), got"),
        (tensor("components_", lambda D: D.ravel()), "components_ must have shape"),
        (tensor("components_", lambda D: D[:0]), "components_ must have shape"),
        (tensor("encoder_", with_nan), "encoder_ must be finite"),
        (tensor("encoder_", lambda C: C.astype(np.int64)), "unknown type"),
        (tensor("more", lambda _: np.ones(3)), "not more"),
        (lambda header, tensors: tensors.pop("usage_"), "it must have usage_"),
    ],
)
def test_files_made_up_are_refused(
    change: Callable[[Any, Any], None], message: str, good: bytes, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match=message) as caught:
        load(rewritten(good, tmp_path / "model", change))
    assert str(tmp_path / "model") in str(caught.value)


def test_a_file_made_up_well_is_loaded(good: bytes, scnn: Any, tmp_path: Path) -> None:
    """So that the refusals above are for the reasons they give."""
    again = load(rewritten(good, tmp_path / "model", lambda header, tensors: None))
    assert_same(scnn, again)
    del_tol = rewritten(good, tmp_path / "m", lambda header, _: header["parameters"].pop("tol"))
    assert load(del_tol).tol == SCNN().tol  # of an earlier version, that did not have it


def test_safetensors_of_others_are_refused(tmp_path: Path) -> None:
    for metadata in (None, {"format": "pt"}):
        (tmp_path / "other").write_bytes(to_bytes({"w": np.ones(3)}, metadata=metadata))
        with pytest.raises(ModelFileError, match=r"but not one that lincode\.save wrote"):
            load(tmp_path / "other")
    # Headers that are not what JSON should be, one so deep that reading it ends in recursion.
    for text in ("{", "[]", "3", "[" * 100_000):
        (tmp_path / "other").write_bytes(to_bytes({"w": np.ones(3)}, metadata={"lincode": text}))
        with pytest.raises(ModelFileError, match="its header cannot be read"):
            load(tmp_path / "other")
    header = b'{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    (tmp_path / "other").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0")
    with pytest.raises(ModelFileError, match=r"but not one that lincode\.save wrote"):
        load(tmp_path / "other")


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 0.1, "text", float("inf"), np.float32(0.1), np.bool_(True), np.uint8(3), [1.5],
     {"a": np.float64(1)}, np.dtype("float32"), np.float64("inf")],
)  # fmt: skip
def test_values_pass_through_json(value: Any) -> None:
    again = from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)))
    assert type(again) is type(value)
    assert again == value


def test_loading_needs_no_more_than_it_says() -> None:
    code = (
        "import sys, sklearn.base, sklearn.utils; before = set(sys.modules);"  # pandas, pyarrow
        "import lincode, lincode.model_file, lincode.vectors;"
        "names = {'safetensors', 'rich', 'matplotlib', 'pyarrow'};"
        "print(sorted(names & (set(sys.modules) - before)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("number", [float("inf"), 10**400])
@pytest.mark.parametrize("where", ["format", "n_iter_", "energy_"])
def test_numbers_beyond_all_bounds_are_refused(
    good: bytes, tmp_path: Path, where: str, number: float
) -> None:
    def change(header: Any, tensors: Any) -> None:
        if where == "format":
            header["format"] = number
        else:
            header["values"][where] = number

    path = rewritten(good, tmp_path / "model", change)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="device or a pipe"):
        load(tmp_path / "pipe")
