"""Table 1: error on MNIST by different methods, each followed by a linear SVM."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning
from sklearn.kernel_approximation import Nystroem

from paper.experiments import mnist_units
from paper.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    best_by_key,
    percent,
    points,
)
from paper.experiments.features import classify, svm_errors
from paper.experiments.samples import Samples, Split

CITED = (
    ("Raw image + linear SVM", 0.12),
    ("Sparse coding + linear SVM", 0.0202),
    ("Deep belief network + linear SVM", 0.019),
    ("Stacked RBM network", 0.012),
    ("Map transformation cascade + linear SVM", 0.019),
    ("Local kernel smoothing", 0.0348),
    ("VQ coding + linear SVM", 0.0398),
    ("Laplacian eigenmap + linear SVM", 0.0273),
    ("Large conv. net, unsup. pretraining", 0.0053),
    ("Local coordinate coding + linear SVM", 0.019),
    ("Human", 0.002),
)
"""The paper's Table 1, which cites numbers of other publications."""
PAPER_SCNN = 0.02
NOISY = "lincode: SCNN, noise in training"
RIDGE = "lincode: SCNN, ridge on the encoder"
SCNN_ROWS = {None: "SCNN", "noise": NOISY, "encoder_ridge": RIDGE}
PARTS = "lincode: SCNN, positive and negative parts"
CLOSE = 0.002
"""A difference of errors that counts as very close. Our criterion."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Several methods, each with a few settings, and the runs of Table 2."""
    small = scale == "smoke"
    n = [600, 300, 300] if small else [50_000, 10_000, 10_000]
    m = 20 if small else 1600
    Cs = [1.0] if small else [1.0, 3.0, 10.0]
    grids: dict[str, list[dict[str, Any]]] = {
        "raw pixels": [{}],
        "PCA": [{"m": 10}] if small else [{"m": 50}, {"m": 200}],
        "sparse coding (scikit-learn)": [
            {"m": 20 if small else 400, "lam": lam} for lam in ([1.0] if small else [0.5, 1.0, 2.0])
        ],
        "VQ coding (k-means)": [{"m": m}],
        "Nyström features": [{"m": m, "gamma": g} for g in ([0.01] if small else [0.005, 0.01])],
        "random features, soft threshold": [{"m": m}],
    }
    others = [
        Run(
            "mnist-methods",
            scale,
            seed,
            embedded,
            {
                "method": method,
                **setting,
                "n": n,
                "Cs": Cs,
                **({"zeros": [0.6, 0.82, 0.92]} if method.startswith("random") else {}),
            },
        )
        for method, settings in grids.items()
        for setting in settings
    ]
    return others + mnist_units.runs(scale, seed, embedded)


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return the errors of the SVM on the features of a method."""
    data = samples.all_digits(tuple(run.settings["n"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return METHODS[run.settings["method"]](data, run.settings, run.seed)


def raw(data: Split, settings: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """Use the pixels as features."""
    return svm_errors((data.train, data.val, data.test), data, settings["Cs"])


def pca(data: Split, settings: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """Use principal components."""
    return by_transformer(PCA(settings["m"], random_state=seed), data, settings)


def sparse_coding(data: Split, settings: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """Use scikit-learn's dictionary learning, with codes computed by coordinate descent."""
    learner = MiniBatchDictionaryLearning(
        settings["m"],
        alpha=settings["lam"],
        batch_size=512,
        max_iter=5,
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        transform_alpha=settings["lam"],
        random_state=seed,
    )
    return by_transformer(learner, data, settings)


def vector_quantisation(data: Split, settings: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """Use the index of the nearest of m cluster centres, one-hot encoded."""
    means = MiniBatchKMeans(settings["m"], batch_size=4096, n_init=1, random_state=seed)
    means.fit(data.train)

    def one_hot(X: Any) -> Any:
        nearest = means.predict(X)
        rows = np.arange(len(X))
        return csr_matrix((np.ones(len(X), np.float32), (rows, nearest)), (len(X), settings["m"]))

    sets = (one_hot(X) for X in (data.train, data.val, data.test))
    return svm_errors(sets, data, settings["Cs"])


def nystroem(data: Split, settings: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """Use the Nyström approximation of a Gaussian kernel."""
    features = Nystroem(gamma=settings["gamma"], n_components=settings["m"], random_state=seed)
    return by_transformer(features, data, settings)


def random_features(data: Split, settings: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """Use a random encoder instead of a trained one."""
    p = data.train.shape[1]
    C = np.random.default_rng(seed).standard_normal((settings["m"], p), dtype=np.float32)
    Z = [X @ (C.T / np.float32(np.sqrt(p))) for X in (data.train, data.val, data.test)]
    return classify(Z, data, "plain", settings["zeros"], settings["Cs"])


def by_transformer(transformer: Any, data: Split, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Use a transformer that is fitted to the training digits."""
    transformer.fit(data.train)
    sets = (np.asarray(transformer.transform(X)) for X in (data.train, data.val, data.test))
    compact = (csr_matrix(U) if np.mean(U == 0) > 0.5 else U for U in sets)
    return svm_errors(compact, data, settings["Cs"])


METHODS: dict[str, Callable[[Split, Mapping[str, Any], int], Mapping[str, Any]]] = {
    "raw pixels": raw,
    "PCA": pca,
    "sparse coding (scikit-learn)": sparse_coding,
    "VQ coding (k-means)": vector_quantisation,
    "Nyström features": nystroem,
    "random features, soft threshold": random_features,
}


def best(records: Sequence[Record]) -> dict[str, tuple[Record, Mapping[str, Any]]]:
    """Return for each method the record and result with the smallest validation error."""
    return best_by_key(
        (method, result["val_error"], (record, result))
        for record in records
        for method, result in by_method(record).items()
    )


def by_method(record: Record) -> Mapping[str, Mapping[str, Any]]:
    """Return the results in a record by method."""
    if record.run.group == "mnist-units":
        name = SCNN_ROWS[mnist_units.regulariser_of(record)]
        return {name: record["plain"], PARTS: record["split"]}
    return {record["method"]: record.result}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Table 1."""
    found = best(records)
    if "SCNN" not in found:
        return []
    record, result = found["SCNN"]
    scnn = result["test_error"]
    here = mnist_units.error_text(scnn, record)
    by_units = mnist_units.best_by_units([r for r in records if "SCNN" in by_method(r)], "plain")
    made = [
        Claim("The best error of SCNN is at most 2.0 %.", "2.0 %", here, scnn <= PAPER_SCNN),
        Claim(
            "SCNN has a smaller error than local kernel smoothing, VQ coding and Laplacian"
            " eigenmaps (cited).",
            "3.48, 3.98, 2.73 %",
            here,
            scnn < 0.0273,
        ),
        Claim(
            "The error of SCNN is very close to that of a deep belief network (cited; our"
            f" criterion: {points(CLOSE)}).",
            "1.90 %",
            here,
            abs(scnn - 0.0190) <= CLOSE,
        ),
        Claim(
            "The error of SCNN is comparable with that of sparse coding (cited; our criterion:"
            f" {points(CLOSE)}).",
            "2.02 %",
            here,
            abs(scnn - 0.0202) <= CLOSE,
        ),
    ]
    if "raw pixels" in found:
        raw_error = found["raw pixels"][1]["test_error"]
        errors = [record["plain"]["test_error"] for record in by_units.values()]
        made.append(
            Claim(
                "SCNN is better than a linear classifier on raw pixels with every number of units.",
                "12 % (cited)",
                f"{', '.join(percent(e, 2) for e in errors)}; raw pixels {percent(raw_error, 2)}",
                max(errors) < raw_error,
            )
        )
    return made


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of the rows that the paper cites and of those that were run here."""
    rows = [[name, "cited by the paper", percent(error, 2), "", ""] for name, error in CITED]
    rows.append(["SCNN + linear SVM", "the paper", percent(PAPER_SCNN), "1600", ""])
    for method, (record, result) in sorted(best(records).items(), key=by_error):
        m = record.run.settings.get("m", 784)
        features = str(2 * m if method == PARTS else m)
        errors = [percent(result[key], 2) for key in ("test_error", "val_error")]
        rows.append([method, "run here", errors[0], features, errors[1]])
    title = (
        "Test error by method; the settings of the rows run here are chosen by the validation error"
    )
    columns = ["method", "source", "test error", "features", "validation error"]
    return [Table("mnist-methods", title, columns, rows)]


def by_error(item: tuple[str, tuple[Record, Mapping[str, Any]]]) -> float:
    """Sort the largest error first, so that the best method is the last row."""
    return -float(item[1][1]["test_error"])


EXPERIMENT = Experiment(
    "mnist-methods",
    "Table 1: error on MNIST by method",
    "mnist",
    "The paper's rows are numbers of other publications. The other rows are methods that were run"
    " here on the same 50,000/10,000/10,000 digits, each with a few settings, followed by a"
    " one-vs-one linear SVM on features of the same scale. The rows of SCNN are the runs of Table"
    " 2, where many more settings were tried than for any other row. The claims are judged by SCNN"
    " without noise in training, as in the paper.",
    runs,
    claims,
    tables,
    {},
    "See Table 2 for what was tried. With noise in training the error is below the paper’s 2.0 %,"
    " but the claims do not use these runs.",
)
