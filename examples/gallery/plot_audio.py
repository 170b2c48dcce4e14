"""
=========================
Notes of a synthetic tune
=========================

A tune with chords is synthesised, and the magnitudes of its short-time Fourier transform are the
samples. The atoms of SCNN are spectra of notes, and the codes tell when each note sounds. Nothing
but the sound is used in training.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from scipy.optimize import linear_sum_assignment
from scipy.signal import stft
from sklearn.decomposition import NMF, PCA
from sklearn.metrics import f1_score

from lincode import SCNN

plt.style.use("tableau-colorblind10")

# %%
# The tune
# --------
# A note is a sum of eight harmonics that decay. The tune has ten pitches, and one to three of them
# start on each beat.

RATE, BEAT, N_BEATS = 8000, 0.25, 96
PITCHES = np.array([48, 52, 55, 57, 60, 62, 64, 67, 69, 72])
NAMES = ["C3", "E3", "G3", "A3", "C4", "D4", "E4", "G4", "A4", "C5"]
rng = np.random.default_rng(0)
time = np.arange(int(N_BEATS * BEAT * RATE)) / RATE
sound = 0.01 * rng.standard_normal(len(time))
score = []  # (pitch, start, end)
for beat in range(N_BEATS):
    for pitch in rng.choice(len(PITCHES), rng.integers(1, 4), replace=False):
        start, end = beat * BEAT, (beat + rng.integers(1, 4)) * BEAT
        score.append((pitch, start, end))
        frequency = 440 * 2 ** ((PITCHES[pitch] - 69) / 12)
        during = (time >= start) & (time < end)
        elapsed = time[during] - start
        envelope = np.minimum(elapsed / 0.01, 1) * np.exp(-2 * elapsed)
        for harmonic in range(1, 9):
            if harmonic * frequency < RATE / 2:
                wave = np.sin(2 * np.pi * harmonic * frequency * elapsed)
                sound[during] += envelope * wave / harmonic

# %%
# Spectra of frames
# -----------------

frequencies, frame_times, Z = stft(sound, RATE, nperseg=1024, noverlap=768)
X = np.abs(Z.T)
X /= X.std()
sounding = np.zeros((len(X), len(PITCHES)), dtype=bool)
for pitch, start, end in score:
    sounding[(frame_times >= start) & (frame_times < end), pitch] = True
print(
    f"{len(X)} frames, {X.shape[1]} frequencies, {sounding.sum(axis=1).mean():.1f} notes at a time"
)

# %%
# Learn notes from the first half
# -------------------------------
# There are a few more units than pitches. Each pitch is matched with the unit whose codes have the
# largest correlation with it. The matching, the threshold above which a note counts as detected,
# and the density and the refinement of SCNN are chosen on the first half, which was also used for
# training. The second half is the test.

half = len(X) // 2
candidates = {
    "SCNN": [
        SCNN(
            12,
            density=density,
            refine=refine,
            positive_code=True,
            positive_dict=True,
            random_state=0,
        )
        for refine in (True, False)
        for density in (0.3, 0.4, 0.5)
    ],
    "NMF": [NMF(12, init="nndsvda", max_iter=2000, random_state=0)],
    "PCA": [PCA(12)],
}


def detect(model):
    """Return the F1 score of the first half, the detected notes, and the units of the pitches."""
    codes = model.fit(X[:half]).transform(X)
    used = codes[:half].std(axis=0) > 0
    correlation = np.zeros((len(PITCHES), codes.shape[1]))
    correlation[:, used] = np.corrcoef(sounding[:half].T, codes[:half, used].T)[:10, 10:]
    _, units = linear_sum_assignment(-correlation)
    codes = codes[:, units] / np.maximum(codes[:half, units].max(axis=0), 1e-9)
    thresholds = np.linspace(0, 0.5, 26)
    f1 = [f1_score(sounding[:half], codes[:half] > t, average="micro") for t in thresholds]
    return max(f1), codes > thresholds[np.argmax(f1)], units


scores, rolls, atoms = {}, {}, {}
for name, models in candidates.items():
    found = [detect(model) for model in models]
    best = int(np.argmax([f1 for f1, _, _ in found]))
    _, rolls[name], units = found[best]
    scores[name] = f1_score(sounding[half:], rolls[name][half:], average="micro")
    atoms[name] = models[best].components_[units]
    print(f"{name:5} F1 score of the notes in the second half: {scores[name]:.3f}")
    if name == "SCNN":
        print(f"      with density={models[best].density} and refine={models[best].refine}")

# %%
# Plot
# ----

figure = plt.figure(figsize=(10, 6.6), layout="constrained")
axes = figure.subplot_mosaic([["sound", "atoms"], ["notes", "atoms"]], width_ratios=(2, 1))
shown = slice(half, half + 190)
times = frame_times[shown]
audible = frequencies < 2200
axes["sound"].pcolormesh(
    times,
    frequencies[audible],
    np.log10(0.1 + X[shown][:, audible].T),
    cmap="magma",
    rasterized=True,
)
axes["sound"].set(title="Spectrogram of a part of the second half", ylabel="frequency in Hz")
colours = ListedColormap(["white", "#c85200", "#a3acb9", "#1170aa"])
outcome = 2 * sounding[shown] + rolls["SCNN"][shown]
axes["notes"].pcolormesh(times, np.arange(10), outcome.T, cmap=colours, vmin=0, vmax=3)
axes["notes"].set_yticks(np.arange(10), NAMES)
axes["notes"].set(title="Notes found by SCNN", xlabel="time in s", ylabel="pitch")
axes["notes"].legend(
    handles=[
        Patch(color=colours(3), label="correct"),
        Patch(color=colours(2), label="missed"),
        Patch(color=colours(1), label="wrong"),
    ],
    ncols=3,
    loc="upper left",
    bbox_to_anchor=(0, -0.14),
    frameon=False,
)
for j, atom in enumerate(atoms["SCNN"]):
    axes["atoms"].plot(frequencies[audible], j + 0.85 * atom[audible] / atom.max(), color="#1170aa")
axes["atoms"].set_yticks(np.arange(10), NAMES)
axes["atoms"].set(title="Atoms of the ten pitches", xlabel="frequency in Hz")
plt.show()

# %%
print(
    "F1 scores of the notes that are detected in the second half: "
    + ", ".join(
        f"{name} {score:.2f}" for name, score in sorted(scores.items(), key=lambda s: -s[1])
    )
    + "."
)
