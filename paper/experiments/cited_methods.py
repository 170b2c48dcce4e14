"""Methods that the paper cites in Table 1, as far as they can be run here.

Each function takes the digits, the settings of the run and its seed, and returns the errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.cluster import MiniBatchKMeans
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.neural_network import BernoulliRBM

from lincode import MiniBatchSCNN, sparse_encode
from lincode.metrics import error_rate
from paper.experiments.features import summary_of_test, svm_errors
from paper.experiments.networks import parameters_of
from paper.samples import Split

Settings = Mapping[str, Any]
Result = Mapping[str, Any]
LLC_RIDGE = 1e-4
"""The ridge of the local least-squares problems, relative to their trace."""
BLOCK = 2000
"""Number of digits whose distances to all centres are computed at once."""


def vector_quantisation(data: Split, settings: Settings, seed: int) -> Result:
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


def local_coordinate_coding(data: Split, settings: Settings, seed: int) -> Result:
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


def deep_belief_network(data: Split, settings: Settings, seed: int) -> Result:
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


def laplacian_eigenmap(data: Split, settings: Settings, seed: int) -> Result:
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


def local_kernel_smoothing(data: Split, settings: Settings, seed: int) -> Result:
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

    errors = {k: error_rate(data.y_val, predict(data.val, k)) for k in settings["neighbours"]}
    best = min(errors, key=errors.__getitem__)
    return {
        "neighbours_chosen": best,
        "val_error": errors[best],
        "val_errors": list(errors.values()),
        **summary_of_test(predict(data.test, best), data),
        "parameters": parameters_of(search),
    }


def sparse_coding(data: Split, settings: Settings, seed: int) -> Result:
    """Use lincode's online dictionary learning and lasso codes.

    ``lam`` is the penalty of ½‖x − u D‖² + lam ‖u‖₁, as in scikit-learn.
    """
    m, lam = settings["m"], settings["lam"]
    alpha = lam * m / data.train.shape[1]
    learner = MiniBatchSCNN(m, alpha=alpha, encoder_weight=0, random_state=seed).fit(data.train)
    sets = [
        sparse_encode(X, learner.components_, alpha=lam, tol=1e-5, sparse_output=True)
        for X in (data.train, data.val, data.test)
    ]
    zeros = 1 - sets[0].nnz / np.prod(sets[0].shape)
    found = svm_errors(sets, data, settings["Cs"])
    return found | {"zeros": round(float(zeros), 4), "parameters": parameters_of(learner)}
