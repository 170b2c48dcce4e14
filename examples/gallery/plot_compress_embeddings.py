"""
===================
Compress embeddings
===================

``SparseIndex`` stores vectors as sparse codes of a few bytes and searches them by inner product.
Here the vectors are paragraphs of the documentation of scikit-learn: tf-idf vectors, reduced to 128
dimensions and normalised. Each takes 512 bytes in float32. The neighbours of held-out paragraphs
are searched among the compressed ones, and compared with those of the uncompressed vectors. PCA
with int8 scores is the obvious alternative.
"""

import ast
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from lincode import SparseIndex

# %%
# Paragraphs as vectors
# ---------------------
# The docstrings are read from the source code of scikit-learn, which is not executed.

unique = set()
for path in sorted(Path(sklearn.__file__).parent.rglob("*.py")):
    if "tests" in path.parts:
        continue
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            paragraphs = (ast.get_docstring(node) or "").split("\n\n")
            unique |= {text for text in paragraphs if len(text.split()) >= 12}
order = np.random.default_rng(0).permutation(len(unique))[:4000]
paragraphs = sorted(unique)
texts = [paragraphs[i] for i in order]

words = TfidfVectorizer(sublinear_tf=True, min_df=3).fit_transform(texts)
X = TruncatedSVD(128, random_state=0).fit_transform(words)
X = (X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)).astype(np.float32)
queries, stored = X[:300], X[300:]
print(f"{len(stored)} vectors of {stored[0].nbytes} bytes")

# %%
# Recall against size
# -------------------
# Recall is the fraction of the true ten neighbours among the ten that are found.


def neighbours(queries, vectors):
    return np.argsort(-(queries @ vectors.T), axis=1)[:, :10]


def recall(found):
    pairs = zip(neighbours(queries, stored), found, strict=True)
    return np.mean([len(set(true) & set(other)) / 10 for true, other in pairs])


sizes = [8, 16, 32]
results = {"SparseIndex": np.zeros(3), "PCA, int8": np.zeros(3)}
for i, n_bytes in enumerate(sizes):
    index = SparseIndex(128, n_bytes=n_bytes, random_state=0).fit(stored)
    similarities, found = index.kneighbors(queries, n_neighbors=10)
    results["SparseIndex"][i] = recall(found)

    pca = PCA(n_bytes, random_state=0).fit(stored)
    scores = pca.transform(stored)
    step = np.abs(scores).max(axis=0) / 127
    compressed = np.round(scores / step) * step
    results["PCA, int8"][i] = recall(neighbours(queries @ pca.components_.T, compressed))

# %%
# A query
# -------

print("Query:", " ".join(texts[0].split())[:90])
for row, similarity in zip(found[0][:3], similarities[0][:3], strict=True):
    print(f"{similarity:.2f}", " ".join(texts[300 + row].split())[:90])

# %%
# Result
# ------

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, values in results.items():
    ax.plot(sizes, values, marker="o", label=name)
ax.set_xscale("log", base=2)
ax.set_xticks(sizes, [str(size) for size in sizes])
ax.set_ylim(0, 1)
ax.set_xlabel("bytes per vector, of 512 in float32")
ax.set_ylabel("recall of 10 neighbours")
ax.legend(loc="lower right")
plt.show()

print(
    f"With {sizes[-1]} bytes per vector, {results['SparseIndex'][-1]:.0%} of the neighbours are"
    f" found, and {results['PCA, int8'][-1]:.0%} by PCA with int8."
)
