"""The order of the examples in the gallery."""

from __future__ import annotations

ORDER = [
    "denoising",
    "inpainting",
    "missing_values",
    "lambda_path",
    "displays",
    "digits_classifier",
    "text_topics",
    "network_activations",
    "spectra",
    "audio",
    "natural_patches",
    "streaming",
    "networks",
    "code_speed",
]
"""Names without plot_ and .py. Other examples follow in the order of their names."""


class TaskOrder:
    """A sort key of file names for sphinx-gallery."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file_name: str) -> tuple[int, str]:
        """Return the position of an example, and its name."""
        name = file_name.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
