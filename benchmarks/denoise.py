"""PSNR of denoised grey photographs (BSD68), compared with BM3D.

    python benchmarks/denoise.py FOLDER [--bm3d N]

The 68 images are those of the test set of BSDS300 that are not in LEFT_OUT, converted to grey by
the luma of ITU-R 601. LINCODE_DATA names the folder with bsds300/. The noise of an image has a
fixed seed, and is not rounded or clipped. Dictionaries of clean patches are learned from the
training images. K-SVD is the algorithm of Elad and Aharon (2006) with the codes of lincode. BM3D is
run by the package bm3d on the first N images. Times are CPU times of one thread. Records are
appended to FOLDER/denoise.jsonl, and what has a record is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from lincode import MiniBatchSCNN, denoise, sparse_encode

SIGMAS = (25, 15, 50)
N_PATCHES = 40_000
LEFT_OUT = """
156065 361010 37073 376043 38082 38092 385039 41033 41069 42012 42049 43074 45096 54082 55073 58060
62096 65033 66053 69015 69020 69040 76053 78004 8023 85048 86000 86016 86068 87046 89072 97033
"""
Method = Callable[[Any, float], Any]


def grey(file: Path) -> Any:
    """Return the luma of an image, from 0 to 255."""
    return np.asarray(Image.open(file).convert("L"), np.float32)


def learned_dictionary(files: list[Path], side: int, m: int, density: int) -> Any:
    """Learn a dictionary of clean patches without their mean."""
    rng, patches = np.random.default_rng(0), []
    for file in files:
        windows = sliding_window_view(grey(file), (side, side))
        n = -(-N_PATCHES // len(files))
        rows, columns = (rng.integers(0, size, n) for size in windows.shape[:2])
        patches.append(windows[rows, columns].reshape(n, -1))
    X = np.concatenate(patches)
    X -= X.mean(axis=1, keepdims=True)
    return MiniBatchSCNN(m, density=density, n_jobs=1, random_state=0).fit(X).components_


def by_noisy_image(noisy: Any, sigma: float) -> Any:
    return denoise(noisy, sigma, n_jobs=1, random_state=0)


def by_estimated_noise(noisy: Any, sigma: float) -> Any:
    return denoise(noisy, n_jobs=1, random_state=0)


def by_dictionary(D: Any) -> Method:
    return lambda noisy, sigma: denoise(noisy, sigma, network=D, n_jobs=1)


def by_ksvd(noisy: Any, sigma: float) -> Any:
    """Learn 256 atoms from 20,000 noisy patches by ten rounds of K-SVD, and average all patches.

    The parameters are those of Elad and Aharon: cosines as first atoms, an error of 1.15 σ per
    pixel, and the weight 30/σ of the noisy image. An atom is updated by one step of the power
    method instead of a singular value decomposition.
    """
    patches = extract_patches_2d(noisy, (8, 8)).reshape(-1, 64)
    means = patches.mean(axis=1, keepdims=True)
    patches -= means
    waves = np.cos(np.pi * np.outer(np.arange(8) + 0.5, np.arange(16)) / 16)
    waves[:, 1:] -= waves[:, 1:].mean(axis=0)
    D = np.kron(waves, waves).T.astype(np.float32)
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    options: dict[str, Any] = {"algorithm": "omp", "n_nonzero_coefs": 32, "sparse_output": True}
    options |= {"tol": 64 * (1.15 * sigma) ** 2, "n_jobs": 1}
    X = patches[np.random.default_rng(0).permutation(len(patches))[:20_000]]
    for _ in range(10):
        U = sparse_encode(X, D, **options).tocsc()
        R = X - U @ D
        for j in range(len(D)):
            column = slice(U.indptr[j], U.indptr[j + 1])
            rows, u = U.indices[column], U.data[column]
            E = R[rows] + np.outer(u, D[j])
            atom = E.T @ u if len(rows) else X[np.argmax(np.sum(R**2, axis=1))]
            D[j] = atom / max(float(np.linalg.norm(atom)), 1e-9)
            R[rows] = E - np.outer(E @ D[j], D[j])
            U.data[column] = E @ D[j]
    denoised = (sparse_encode(patches, D, **options) @ D + means).reshape(-1, 8, 8)
    weight = 30 / sigma
    return (weight * noisy + 64 * reconstruct_from_patches_2d(denoised, noisy.shape)) / (
        weight + 64
    )


def by_bm3d(noisy: Any, sigma: float) -> Any:
    import bm3d

    return bm3d.bm3d(noisy, sigma)


def psnr(image: Any, clean: Any) -> float:
    return float(10 * np.log10(255**2 / np.mean((np.clip(image, 0, 255) - clean) ** 2)))


def print_table(records: list[dict[str, Any]]) -> None:
    print("| method | images |", *(f"σ = {sigma} |" for sigma in sorted(SIGMAS)), "s per image |")
    print("| --- | ---: |", *("---: |" for _ in SIGMAS), "---: |")
    for method in dict.fromkeys(record["method"] for record in records):
        found = [record for record in records if record["method"] == method]
        parts = [[r for r in found if r["sigma"] == sigma] for sigma in sorted(SIGMAS)]
        means = [f"{np.mean([r['psnr'] for r in part]):.2f} |" if part else " |" for part in parts]
        seconds = np.mean([record["seconds"] for record in found if record["sigma"] == SIGMAS[0]])
        print(f"| {method} | {max(map(len, parts))} |", *means, f"{seconds:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bm3d", type=int, default=0, help="the number of images for BM3D")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    data, file = Path(os.environ["LINCODE_DATA"]) / "bsds300", options.folder / "denoise.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(record["method"], record["sigma"], record["image"]) for record in records}
    left_out = set(LEFT_OUT.split())
    test = [path for path in sorted((data / "test").glob("*.jpg")) if path.stem not in left_out]
    train, methods = sorted((data / "train").glob("*.jpg")), dict[str, tuple[Method, int]]()
    for side, m, density in ((8, 256, 4), (11, 512, 6)):
        D = learned_dictionary(train, side, m, density)
        name = f"denoise, {m} atoms of {side}×{side} from training images"
        methods[name] = by_dictionary(D), len(test)
    methods["denoise, learned from the noisy image"] = by_noisy_image, len(test)
    methods["denoise, also with estimated σ"] = by_estimated_noise, len(test)
    methods["K-SVD"] = by_ksvd, len(test)
    methods["bm3d"] = by_bm3d, options.bm3d
    for sigma in SIGMAS:
        for name, (method, n_images) in methods.items():
            for path in test[:n_images]:
                if (name, sigma, path.stem) in done:
                    continue
                clean, rng = grey(path), np.random.default_rng(int(path.stem))
                noisy = clean + sigma * rng.standard_normal(clean.shape, dtype=np.float32)
                start = time.process_time()
                image = method(noisy, sigma)
                record = {"method": name, "sigma": sigma, "image": path.stem}
                record |= {"seconds": time.process_time() - start, "psnr": psnr(image, clean)}
                records.append(record)
                with open(file, "a") as stream:
                    stream.write(json.dumps(record) + "\n")
    print_table(records)
    print(f"\nThe first {options.bm3d} images:")
    names = [path.stem for path in test[: options.bm3d]]
    print_table([record for record in records if record["image"] in names])


if __name__ == "__main__":
    main()
