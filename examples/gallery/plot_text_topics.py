"""
============================
Topics of texts after TF-IDF
============================

The texts are the docstrings of NumPy, SciPy and scikit-learn, which are installed anyway. TF-IDF
makes a sparse matrix of them, which :class:`lincode.SCNN` accepts as it is. With non-negative atoms
and codes, an atom is a list of words that occur together, that is, a topic.
"""

import inspect
from importlib import import_module

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from lincode import SCNN
from lincode.plotting import describe_atoms

plt.style.use("tableau-colorblind10")

# %%
# The texts
# ---------
# The sections with references are removed.

MODULES = {
    "numpy": ["fft", "linalg", "random"],
    "scipy": [
        *["cluster.hierarchy", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize"],
        *["signal", "sparse", "spatial", "spatial.distance", "special", "stats"],
    ],
    "sklearn": [
        *["cluster", "covariance", "datasets", "decomposition", "ensemble", "feature_selection"],
        *["linear_model", "manifold", "metrics", "mixture", "model_selection", "neighbors"],
        *["neural_network", "preprocessing", "svm", "tree"],
    ],
}
texts = {}
modules = ["numpy", *(f"{package}.{part}" for package in MODULES for part in MODULES[package])]
for module_name in modules:
    module = import_module(module_name)
    for name in sorted(module.__all__):
        member = vars(module).get(name)
        text = (inspect.getdoc(member) or "").split("\nReferences\n")[0]
        if callable(member) and len(text) > 400:
            texts[f"{module_name}.{name}"] = text
names, documents = list(texts), list(texts.values())
train, test, names_train, names_test = train_test_split(
    documents, names, test_size=0.25, random_state=1
)
vectorizer = TfidfVectorizer(
    token_pattern=r"(?u)\b[a-z]{3,}\b",
    stop_words="english",
    min_df=8,
    max_df=0.1,
    sublinear_tf=True,
    dtype=np.float32,
)
X_train, X_test = vectorizer.fit_transform(train), vectorizer.transform(test)
words = vectorizer.get_feature_names_out()
print(f"{X_train.shape[0]} training texts and {X_test.shape[0]} test texts with {len(words)} words")

# %%
# Topics
# ------
# ``X_train`` is a CSR matrix. The usual alternative is NMF. All methods have 30 topics. The table
# shows the number of topics per test text and the fraction of its squared length that they
# reconstruct. To compare at equal sparsity, there is also a row in which only the largest codes of
# NMF are kept. The codes of NMF are computed by optimisation, and those of the encoder by one
# product; "projection" then computes their values by least squares.

N_TOPICS = 30
scnn = SCNN(
    N_TOPICS,
    positive_code=True,
    positive_dict=True,
    random_state=0,
).fit(X_train)
nmf = NMF(N_TOPICS, init="nndsvda", max_iter=500, random_state=0).fit(X_train)


def explained(codes, components):
    """Return the fraction of the squared length of the test texts that is reconstructed."""
    residual = np.square(X_test - codes @ components).sum()
    return 1 - residual / np.square(X_test.data).sum()


codes = {
    "SCNN, encoder": scnn.transform(X_test),
    "SCNN, projection": scnn.set_params(transform_algorithm="projection").transform(X_test),
    "NMF": nmf.transform(X_test),
}
k = round(np.count_nonzero(codes["SCNN, encoder"], axis=1).mean())
limit = np.sort(codes["NMF"], axis=1)[:, [-k]]
codes[f"NMF, {k} largest"] = np.where(codes["NMF"] >= limit, codes["NMF"], 0)
n_topics, fractions = {}, {}
for name, U in codes.items():
    n_topics[name] = np.count_nonzero(U, axis=1).mean()
    fractions[name] = explained(U, (scnn if "SCNN" in name else nmf).components_)
    print(f"{name:17} {n_topics[name]:4.1f} topics per text, {fractions[name]:.1%} reconstructed")

# %%
# The words with the largest entries of the topics that are used most, with the fraction of the
# training texts that use a topic. The test texts that use a topic most are printed below.

order = np.argsort(-scnn.usage_)[:15]
figure, axes = plt.subplots(3, 5, figsize=(11, 6.2), layout="constrained")
topics = describe_atoms(scnn, X_test, order, n_samples=3, n_features=6, feature_names=words)
for ax, topic in zip(axes.flat, topics, strict=True):
    j = topic.atom
    ax.barh(topic.features, topic.entries)
    ax.invert_yaxis()
    ax.set_title(f"topic {j} ({scnn.usage_[j]:.0%})", fontsize=10)
    ax.tick_params(axis="y", length=0, labelsize=9)
    ax.set_xticks([])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
plt.show()

for topic in topics[:6]:
    described = " ".join(topic.features[:3])
    print(f"topic {topic.atom} ({described}): " + ", ".join(names_test[i] for i in topic.samples))

# %%
values = [f"{name} {fractions[name]:.0%} by {n_topics[name]:.1f} topics" for name in codes]
print(f"Fraction of the test texts that is reconstructed: {', '.join(values)}.")
