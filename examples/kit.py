"""What the examples share: their streams, their session, and where their pictures go."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import generated
import pyarrow.parquet as pq
import real

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]

#: Colours: ink, one side, the other side, what joins.
INK, LEFT, RIGHT, FOUND = "#1b2a41", "#2a7f9e", "#e0a22f", "#b03a48"


def out() -> Path:
    """Where an example puts what it makes: ``--out``, by default ``build/examples``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("build/examples"), help="a folder")
    return parser.parse_known_args()[0].out


def streams(name: str) -> dict[str, str]:
    """Paths of an example's streams: recorded ones, where there are any, or generated ones.

    Parameters
    ----------
    name : str
        Of a function in :mod:`generated`, and maybe in :mod:`real`.
    """
    recorded = os.environ.get("PENSTOCK_DATA") if hasattr(real, name) else None
    tables = getattr(real, name)(Path(recorded)) if recorded else getattr(generated, name)()
    kind = "recorded" if recorded else "generated"
    folder = out() / "streams"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for stream, table in tables.items():
        paths[stream] = str(folder / f"{kind}-{stream}.parquet")
        pq.write_table(table, paths[stream], row_group_size=1 << 15)
        print(f"{stream}: {table.num_rows:,} {kind} rows")
    return paths


def session(name: str) -> SparkSession:
    """Spark on two cores of this machine, with Penstock's table function and data sources."""
    # Examples without Spark run where it is not installed.
    from penstock.sim.local_spark.local_session import local_session
    from penstock.spark_bridge import register

    spark = local_session(f"penstock example: {name}", cores=2)
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def canvas(width: float, height: float, **panels: Any) -> tuple[Figure, list]:
    """An empty picture with so many panels beside (``ncols=``) or above (``nrows=``) each other."""
    import matplotlib as mpl

    # A notebook shows pictures by a backend of its own.
    if "ipykernel" not in sys.modules:
        mpl.use("Agg")
    mpl.rcParams.update(
        {
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.titlesize": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.dpi": 100,
        }
    )
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(width, height), squeeze=False, **panels)
    return figure, list(axes.flat)


def shell(command: str) -> str:
    """Run a command of this Python's environment, with what it draws and keeps; what it prints."""
    program, *words = shlex.split(command)
    beside = Path(sys.executable).parent / program
    done = subprocess.run([beside, *words], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return done.stdout


def show(name: str, folder: str) -> None:
    """Take a picture that a command has drawn in a folder of the checkout, with 256 colours."""
    from PIL import Image

    out().mkdir(parents=True, exist_ok=True)
    picture = Image.open(ROOT / folder / f"{name}.png").convert("RGB").quantize(256)
    picture.save(out() / f"{name}.png", optimize=True)


def save(figure: Figure, name: str) -> None:
    """Write a picture as PNG."""
    path = out() / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path)
