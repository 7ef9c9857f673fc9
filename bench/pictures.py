"""How the benchmarks' pictures look, and where they go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, OURS, THEIRS, OTHER = "#1b2a41", "#2a7f9e", "#e07a2f", "#7d4e9e"
#: What a paper says, in every picture.
PAPER = "0.6"

_STYLE = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def save(pictures: Mapping[str, Callable[[], Figure]], out: Path) -> list[Path]:
    """Draw pictures as PNG and SVG; returns their paths.

    Parameters
    ----------
    pictures : mapping of str to callable
        What draws each, by file name without suffix.
    out : Path
        Folder.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    paths = []
    with plt.rc_context(_STYLE):
        for name, picture in pictures.items():
            figure = picture()
            for suffix in ("png", "svg"):
                path = out / f"{name}.{suffix}"
                figure.savefig(path, dpi=150, bbox_inches="tight")
                paths.append(path)
            plt.close(figure)
    return paths
