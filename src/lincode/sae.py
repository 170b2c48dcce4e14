"""Networks in the file formats of SAELens and sparsify, libraries of sparse autoencoders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from lincode.estimators.base import BaseSCNN
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.exceptions import InvalidInputError, MissingDependencyError

WEIGHTS = {"saelens": "sae_weights.safetensors", "sparsify": "sae.safetensors"}
CONFIG = "cfg.json"
DEFAULTS: dict[str, tuple[Any, ...]] = {
    "normalize_activations": (None, "none"),
    "reshape_activations": (None, "none"),
    "rescale_acts_by_decoder_norm": (None, False),
    "activation": (None, "topk"),
    "skip_connection": (None, False),
    "transcode": (None, False),
}
"""The values of options of these formats that ``load_sae`` accepts; None means not given."""


def export_sae(network: Any, folder: str | os.PathLike[str], *, format: str = "saelens") -> None:
    """Write a network to a folder as a sparse autoencoder of SAELens or sparsify, in float32.

    Parameters
    ----------
    network : SCNN, MiniBatchSCNN or Pipeline
        A fitted network with ``transform_algorithm="encoder"``, or a pipeline of
        ``StandardScaler(with_std=False)`` and such a network, whose mean becomes ``b_dec``.
        With ``split_sign=True``, both signs become units of their own.
    folder : path
        The folder, which is created if necessary.
    format : {"saelens", "sparsify"}, default="saelens"
        SAELens has the architecture "topk" for an integer density with positive codes or split
        signs, "abstopk" for an integer density with both signs, and "jumprelu" for other positive
        codes or split signs. sparsify has "topk" only.

    Examples
    --------
    >>> import lincode
    >>> lincode.export_sae(network, "sae", format="sparsify")  # doctest: +SKIP
    >>> network = lincode.load_sae("sae")  # doctest: +SKIP
    """
    if format not in WEIGHTS:
        raise InvalidInputError(f"format must be 'saelens' or 'sparsify', got {format!r}.")
    steps = [step for _, step in network.steps] if isinstance(network, Pipeline) else [network]
    scaler, network = steps[0] if len(steps) == 2 else None, steps[-1]
    if hasattr(network, "to_local"):  # trained on a cluster
        network = network.to_local()
    is_centred = len(steps) == 1 or (isinstance(scaler, StandardScaler) and not scaler.with_std)
    if not (isinstance(network, BaseSCNN) and is_centred):
        raise InvalidInputError(
            "only SCNN and MiniBatchSCNN, or a pipeline of StandardScaler(with_std=False) and one"
            " of them, can be exported."
        )
    check_is_fitted(network)
    if network.transform_algorithm != "encoder":
        raise InvalidInputError(
            "only the codes of transform_algorithm='encoder' are one product and a threshold, got"
            f" {network.transform_algorithm!r}; use set_params(transform_algorithm='encoder')."
        )
    rule, C, D = network._rule(), network.encoder_, network.components_
    positive = rule.positive or network.split_sign
    if network.split_sign:
        C, D = np.vstack([C, -C]), np.vstack([D, -D])
    if not positive and (rule.mode == "hard" or format == "sparsify"):
        raise InvalidInputError(
            f"{format} cannot express codes of both signs; use"
            " positive_code=True, or set_params(split_sign=True)."
        )
    if rule.mode == "hard" and format == "sparsify":
        raise InvalidInputError("sparsify has no threshold; use an integer density.")
    m, p = D.shape
    b_dec = np.zeros(p) if scaler is None or scaler.mean_ is None else scaler.mean_
    weights = {"b_dec": b_dec, "W_dec": D}
    config: dict[str, Any] = {"d_in": p, "k": rule.k}
    if format == "sparsify":
        config |= {"num_latents": m, "activation": "topk", "normalize_decoder": False}
        config |= {"multi_topk": False, "skip_connection": False, "transcode": False}
        weights |= {"encoder.weight": C, "encoder.bias": np.zeros(m)}
    else:
        config |= {"d_sae": m, "dtype": "float32", "device": "cpu", "apply_b_dec_to_input": True}
        config |= {"normalize_activations": "none", "reshape_activations": "none"}
        config |= {"metadata": {"sae_lens_version": "6.0.0"}}
        config["architecture"] = "topk" if positive else "abstopk"
        weights |= {"W_enc": C.T, "b_enc": np.zeros(m)}
        if rule.mode == "hard":
            del config["k"]
            config["architecture"] = "jumprelu"
            weights["threshold"] = np.full(m, rule.threshold)
    Path(folder).mkdir(parents=True, exist_ok=True)
    arrays = {name: np.array(A, np.float32, order="C") for name, A in weights.items()}
    _safetensors().save_file(arrays, Path(folder, WEIGHTS[format]))
    Path(folder, CONFIG).write_text(json.dumps(config, indent=2))


def load_sae(folder: str | os.PathLike[str]) -> Any:
    """Load a sparse autoencoder of SAELens or sparsify as a fitted network.

    Parameters
    ----------
    folder : path
        A folder with "cfg.json" and the weights. The architecture must be "topk", "abstopk",
        "standard", or "jumprelu" with one threshold for all units, without a bias of the encoder.

    Returns
    -------
    MiniBatchSCNN or Pipeline
        A network for ``transform`` and ``inverse_transform``. If ``b_dec`` is not zero, it is the
        second step of a pipeline, after a ``StandardScaler(with_std=False)``.
        The attributes that belong to training are not known: ``usage_`` is the same for all units.
    """
    try:
        config = json.loads(Path(folder, CONFIG).read_text())
        name = WEIGHTS["sparsify" if Path(folder, WEIGHTS["sparsify"]).exists() else "saelens"]
        weights = _safetensors().load_file(Path(folder, name))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{folder} must contain a sparse autoencoder: {error}.") from error
    kind = config.get("architecture", "topk")
    C = weights["encoder.weight"] if "encoder.weight" in weights else weights["W_enc"].T
    D, centre = weights["W_dec"], weights["b_dec"]
    bias = weights.get("encoder.bias", weights.get("b_enc", np.zeros(1)))
    thresholds = weights.get("threshold", np.zeros(1))
    wrong = [name for name, values in DEFAULTS.items() if config.get(name) not in values]
    wrong += ["architecture"] * (kind not in ("topk", "abstopk", "standard", "jumprelu"))
    wrong += ["b_enc, which is not zero"] * bool(bias.any())
    wrong += ["threshold, which is not equal for all units"] * bool(np.ptp(thresholds) > 0)
    wrong += ["apply_b_dec_to_input"] * (not config.get("apply_b_dec_to_input", True))
    if wrong:
        raise InvalidInputError(f"a network of lincode cannot express: {', '.join(wrong)}.")
    m, top_k = len(C), kind.endswith("topk")
    network = MiniBatchSCNN(
        m, density=int(config["k"]) if top_k else 0.1, alpha=1.0, positive_code=kind != "abstopk"
    )
    network.components_, network.encoder_ = D, np.ascontiguousarray(C)
    network.density_, network.alpha_, network.noise_variance_ = network.density, 1.0, 0.0
    network.threshold_ = None if top_k else float(thresholds[0])
    network.n_features_in_, network.usage_ = C.shape[1], np.full(m, network._fraction(m))
    if not centre.any():
        return network
    scaler = StandardScaler(with_std=False)
    scaler.mean_, scaler.n_features_in_ = centre.astype(np.float64), len(centre)
    scaler.scale_ = scaler.var_ = None
    return make_pipeline(scaler, network)


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        message = "these formats need safetensors; install it with pip install 'lincode[sae]'."
        raise MissingDependencyError(message) from error
    return safetensors.numpy
