"""PSNR of denoised grey photographs (BSD68), compared with BM3D.

    python benchmarks/denoise.py FOLDER [--bm3d N]

The 68 images are those of the test set of BSDS300 that are not in LEFT_OUT, converted to grey by
the luma of ITU-R 601. LINCODE_DATA names the folder with bsds300/. The noise of an image has a
fixed seed, and is not rounded or clipped. Dictionaries of clean patches are learned from the
training images. BM3D is run by the package bm3d on the first N images. Times are CPU times of one
thread. Records are appended to FOLDER/denoise.jsonl, and what has a record is not run again.
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

from lincode import MiniBatchSCNN, denoise

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


if __name__ == "__main__":
    main()
