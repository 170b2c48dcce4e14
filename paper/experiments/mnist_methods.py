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
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import pairwise_distances_argmin_min, zero_one_loss
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.neural_network import BernoulliRBM

from lincode import MiniBatchSCNN, sparse_encode
from paper.cache import Record, Run, Scale
from paper.experiments import mnist_units
from paper.experiments.claims import Claim, verdict_of_number
from paper.experiments.features import (
    classify,
    error_rate_of,
    error_text,
    summary_of_test,
    svm_errors,
)
from paper.experiments.mnist_units import Repetitions
from paper.experiments.networks import PAPER_ENCODER, VARIED, parameters_of
from paper.experiments.tables import (
    Experiment,
    Table,
    best_repetitions,
    percent,
    span,
)
from paper.samples import Samples, Split
from paper.svm import unfitted_svm

Settings = Mapping[str, Any]
LLC_RIDGE = 1e-4
"""The ridge of the local least-squares problems, relative to their trace."""
BLOCK = 2000
"""Number of digits whose distances to all centres are computed at once."""
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
REPEATED: dict[str, Mapping[str, Any]] = {
    "sparse coding (lincode)": {"lam": 1.0},
    "Nyström features": {"gamma": 0.005},
    "random features, soft threshold": {},
    "deep belief network": {},
}
"""The settings with the smallest validation errors of methods that depend on the seed."""
REPEATED_SEEDS = (1, 2)
RAW, DEEP, SPARSE_CODING = "raw pixels", "deep belief network", "sparse coding (lincode)"
BEATEN = (
    "local kernel smoothing",
    "VQ coding (k-means)",
    "Laplacian eigenmap (landmarks)",
)
"""The methods of which the paper says that SCNN has a smaller error."""


def runs(scale: Scale, embedded: bool) -> list[Run]:
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
        "local kernel smoothing": [{"neighbours": [1, 3] if small else [3, 5, 10, 20]}],
        "VQ coding (k-means)": [{"m": m}] if small else [{"m": m}, {"m": 4096}],
        "local coordinate coding (LLC)": [{"m": m if small else 4096, "neighbours": 5}],
        "Laplacian eigenmap (landmarks)": [
            {"m": 5, "neighbours": 5, "landmarks": 100}
            if small
            else {"m": 200, "neighbours": 10, "landmarks": 5000}
        ],
        "deep belief network": [
            {"layers": [10, 10] if small else [500, 1000], "passes": 1 if small else 10}
        ],
        "sparse coding (lincode)": [
            {"m": m, "lam": lam} for lam in ([1.0] if small else [1.0, 0.5])
        ],
        "Nyström features": [{"m": m, "gamma": g} for g in ([0.01] if small else [0.005, 0.01])],
        "random features, soft threshold": [{"m": m}],
    }

    def run(method: str, setting: Mapping[str, Any], k: int = 0) -> Run:
        own = {"zeros": [0.6, 0.82, 0.92]} if method.startswith("random") else {}
        settings = {"method": method, **setting, "n": n, "Cs": Cs, **own}
        return Run("mnist-methods", scale, k, embedded, settings)

    others = [run(method, setting) for method, grid in grids.items() for setting in grid]
    if not small:
        others += [
            run(method, setting, k)
            for k in REPEATED_SEEDS
            for method, chosen in REPEATED.items()
            for setting in grids[method]
            if setting.items() >= chosen.items()
        ]
    return others + mnist_units.runs(scale, embedded)


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return the errors of the SVM on the features of a method."""
    data = samples.all_digits(tuple(run.settings["n"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = METHODS[run.settings["method"]](data, run.settings, run.seed)
    svm = parameters_of(unfitted_svm(len(data.train)), without=VARIED)
    return {**found, "parameters": found.get("parameters", {}) | svm}


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
    return svm_errors(compact, data, settings["Cs"]) | {"parameters": parameters_of(transformer)}


def vector_quantisation(data: Split, settings: Settings, seed: int) -> Mapping[str, Any]:
    """Use the index of the nearest of m cluster centres, one-hot encoded."""
    means = fit_centres(data.train, settings["m"], seed)

    def one_hot(X: Any) -> Any:
        nearest = pairwise_distances_argmin_min(X, means.cluster_centers_)[0]
        rows = np.arange(len(X))
        return csr_matrix((np.ones(len(X), np.float32), (rows, nearest)), (len(X), settings["m"]))

    sets = (one_hot(X) for X in (data.train, data.val, data.test))
    return svm_errors(sets, data, settings["Cs"]) | {"parameters": parameters_of(means)}


def fit_centres(X: Any, m: int, seed: int) -> Any:
    """Return m cluster centres."""
    return MiniBatchKMeans(m, batch_size=4096, n_init=1, random_state=seed).fit(X)


def local_coordinate_coding(
    data: Split, settings: Mapping[str, Any], seed: int
) -> Mapping[str, Any]:
    """Write each digit as an affine combination of its nearest cluster centres.

    This is the approximation of local coordinate coding by Wang et al. (2010), LLC.
    """
    means = fit_centres(data.train, settings["m"], seed)
    sets = (
        llc_codes(X, means.cluster_centers_, settings["neighbours"])
        for X in (data.train, data.val, data.test)
    )
    return svm_errors(sets, data, settings["Cs"]) | {"parameters": parameters_of(means)}


def llc_codes(X: Any, centres: Any, k: int) -> Any:
    """Return codes of which k are not zero: argmin ‖x − u B‖² with Σ u = 1, on k near centres B.

    The problem has a small ridge, because k centres can be almost dependent.
    """
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(centres)
    near = search.kneighbors(X, return_distance=False)
    codes = np.empty((len(X), k))
    for first in range(0, len(X), BLOCK):
        rows = slice(first, first + BLOCK)
        differences = (centres[near[rows]] - X[rows, None]).astype(np.float64)
        G = differences @ differences.transpose(0, 2, 1)
        trace = np.trace(G, axis1=1, axis2=2)
        G += (LLC_RIDGE * np.maximum(trace, 1e-12))[:, None, None] * np.eye(k)
        u = np.linalg.solve(G, np.ones((len(G), k, 1)))[..., 0]
        codes[rows] = u / u.sum(axis=1, keepdims=True)
    index = np.repeat(np.arange(len(X)), k), near.ravel()
    return csr_matrix((codes.ravel().astype(np.float32), index), (len(X), len(centres)))


def deep_belief_network(data: Split, settings: Settings, seed: int) -> Mapping[str, Any]:
    """Use the last layer of a stack of restricted Boltzmann machines, learned one by one."""
    layers = [(X + 1) / 2 for X in (data.train, data.val, data.test)]  # pixels in [0, 1]
    parameters = {}
    for k, m in enumerate(settings["layers"]):
        machine = BernoulliRBM(
            m, learning_rate=0.05, batch_size=100, n_iter=settings["passes"], random_state=seed
        )
        machine.fit(layers[0])
        layers = [np.asarray(machine.transform(X), dtype=np.float32) for X in layers]
        parameters[f"layer {k + 1}"] = parameters_of(machine)["BernoulliRBM"]
    # Probabilities vary little about their means, which would dominate the scale of the features.
    mean = layers[0].mean(axis=0)
    layers = [X - mean for X in layers]
    return svm_errors(layers, data, settings["Cs"]) | {"parameters": parameters}


def laplacian_eigenmap(data: Split, settings: Settings, seed: int) -> Mapping[str, Any]:
    """Embed some landmark digits, and the others by interpolation between near landmarks."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(data.train), min(settings["landmarks"], len(data.train)), False)
    landmarks = data.train[chosen]
    k = settings["neighbours"]
    embedding = SpectralEmbedding(
        settings["m"], affinity="nearest_neighbors", n_neighbors=k, random_state=seed
    )
    coordinates = embedding.fit_transform(landmarks)
    interpolation = KNeighborsRegressor(k, weights="distance", algorithm="brute")
    interpolation.fit(landmarks, coordinates)
    sets = (interpolation.predict(X) for X in (data.train, data.val, data.test))
    parameters = parameters_of(embedding, interpolation)
    return svm_errors(sets, data, settings["Cs"]) | {"parameters": parameters}


def local_kernel_smoothing(
    data: Split, settings: Mapping[str, Any], seed: int
) -> Mapping[str, Any]:
    """Classify by a vote of the nearest training digits with Gaussian weights, without an SVM.

    The width of the Gaussian is the distance of the last neighbour. The number of neighbours is
    chosen on the validation digits.
    """
    most = max(settings["neighbours"])
    search = NearestNeighbors(n_neighbors=most, algorithm="brute").fit(data.train)
    found = {id(X): search.kneighbors(X) for X in (data.val, data.test)}

    def predict(X: Any, k: int) -> Any:
        distances, near = (array[:, :k] for array in found[id(X)])
        width = np.maximum(distances[:, -1:], 1e-12)
        votes = np.zeros((len(X), 10))
        weights = np.exp(-((distances / width) ** 2))
        np.add.at(votes, (np.arange(len(X))[:, None], data.y_train[near]), weights)
        return votes.argmax(axis=1)

    errors = {k: zero_one_loss(data.y_val, predict(data.val, k)) for k in settings["neighbours"]}
    best = min(errors, key=errors.__getitem__)
    return {
        "neighbours_chosen": best,
        "val_error": errors[best],
        "val_errors": list(errors.values()),
        **summary_of_test(predict(data.test, best), data),
        "parameters": parameters_of(search),
    }


def lincode_sparse_coding(data: Split, settings: Settings, seed: int) -> Mapping[str, Any]:
    """Use lincode's online dictionary learning and lasso codes.

    ``lam`` is the penalty of ½‖x − u D‖² + lam ‖u‖₁, as in scikit-learn.
    """
    m, lam = settings["m"], settings["lam"]
    alpha = lam * m / data.train.shape[1]
    learner = MiniBatchSCNN(m, alpha=alpha, encoder_weight=0, random_state=seed, **PAPER_ENCODER)
    learner.fit(data.train)
    sets = [
        sparse_encode(X, learner.components_, alpha=lam, tol=1e-5, sparse_output=True)
        for X in (data.train, data.val, data.test)
    ]
    zeros = 1 - sets[0].nnz / np.prod(sets[0].shape)
    found = svm_errors(sets, data, settings["Cs"])
    return found | {"zeros": round(float(zeros), 4), "parameters": parameters_of(learner)}


METHODS: dict[str, Callable[[Split, Mapping[str, Any], int], Mapping[str, Any]]] = {
    "raw pixels": raw,
    "PCA": pca,
    "sparse coding (scikit-learn)": sparse_coding,
    "VQ coding (k-means)": vector_quantisation,
    "Nyström features": nystroem,
    "random features, soft threshold": random_features,
    "sparse coding (lincode)": lincode_sparse_coding,
    "deep belief network": deep_belief_network,
    "local coordinate coding (LLC)": local_coordinate_coding,
    "Laplacian eigenmap (landmarks)": laplacian_eigenmap,
    "local kernel smoothing": local_kernel_smoothing,
}


def best(records: Sequence[Record]) -> dict[str, Repetitions]:
    """Return for each method the runs with the smallest validation error."""
    return best_repetitions(
        (method, record, result)
        for record in records
        for method, result in by_method(record).items()
    )


def by_method(record: Record) -> Mapping[str, Mapping[str, Any]]:
    """Return the results in a record by method."""
    if record.run.group == "mnist-units":
        names = {
            "plain": SCNN_ROWS.get(mnist_units.variant_of(record.run.settings)),
            "split": PARTS,
        }
        return {
            name: record[kind] for kind, name in names.items() if kind in record.result and name
        }
    return {record["method"]: record.result}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Table 1, judged by our own runs of the other methods."""
    units = [record for record in records if record.run.group == "mnist-units"]
    found = best(records)
    scnn = {x: error_rate_of(own) for x, own in mnist_units.best_sizes(units).items()}
    needed = (SPARSE_CODING, DEEP, RAW, *BEATEN)
    if not scnn or not set(needed) <= set(found):
        return []
    error = {x: error_rate_of(found[x]) for x in needed}
    sizes = {
        x: [error_rate_of(own) for own in by_size.values()]
        for x, by_size in mnist_units.best_of_rows(units, mnist_units.READINGS).items()
    }
    best_errors = {x: percent(own.mean, 2) for x, own in scnn.items()}

    def others(names: Sequence[str]) -> str:
        return "against " + ", ".join(f"{100 * error[x].mean:.2f}" for x in names) + " %"

    def similar(name: str, label: str, paper: str) -> Claim:
        return Claim(
            f"The error of SCNN is comparable with that of {label}.",
            paper,
            best_errors | {"": others([name])},
            {x: [error[name] - own] for x, own in scnn.items()},
            verdict_of_number,
            mnist_units.CHOICE,
        )

    return [
        Claim(
            "SCNN has a smaller error than local kernel smoothing, VQ coding and Laplacian"
            " eigenmaps.",
            "2.0 against 3.48, 3.98, 2.73 %",
            best_errors | {"": others(BEATEN)},
            {x: [error[name] - own for name in BEATEN] for x, own in scnn.items()},
            choice=mnist_units.CHOICE,
        ),
        similar(DEEP, "a deep belief network", "2.0 and 1.90 %"),
        similar(SPARSE_CODING, "sparse coding", "2.0 and 2.02 %"),
        Claim(
            "SCNN is better than raw pixels with every number of units.",
            "at most 2.7 against 12 %",
            {x: span((100 * e.mean for e in own), ".2f") + " %" for x, own in sizes.items()}
            | {"": others([RAW])},
            {x: [error[RAW] - e for e in own] for x, own in sizes.items()},
            choice=mnist_units.CHOICE,
        ),
    ]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of the rows that the paper cites and of those that were run here."""
    rows = [[name, percent(error, 2), ""] for name, error in CITED]
    rows.append(["SCNN (1600 units)", percent(PAPER_SCNN), ""])
    for method, found in sorted(best(records).items(), key=by_error):
        rows.append([method, "", error_text(error_rate_of(found))])
    title = "Test error by method: as the paper cites it, and here (± standard error)"
    return [Table("mnist-methods", title, ["method", "paper", "here"], rows)]


def by_error(item: tuple[str, Repetitions]) -> float:
    """Sort the largest error first, so that the best method is the last row."""
    return -error_rate_of(item[1]).mean


EXPERIMENT = Experiment(
    "mnist-methods",
    "Table 1: error on MNIST by method",
    "mnist",
    runs,
    claims,
    tables,
)
