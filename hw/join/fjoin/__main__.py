"""Size of the paper's pipeline: ``python -m penstock.hw.join.fjoin --units 16``."""

from __future__ import annotations

import argparse
import sys

from penstock.errors import PenstockError

from .size import count_fjoin

parser = argparse.ArgumentParser(prog="python -m penstock.hw.join.fjoin", description=__doc__)
parser.add_argument("--units", type=int, default=16, help="join units (default: 16)")
parser.add_argument("--key-bits", type=int, default=32, help="width of a key (default: 32)")
options = parser.parse_args()
try:
    cells = count_fjoin(options.units, options.key_bits)
except ValueError as error:
    parser.error(str(error))
except PenstockError as error:
    parser.exit(error.exit_code, f"{error}\n")
sys.stdout.write(
    f"{options.units} units: {cells.lut} LUT, {cells.ff} FF, {cells.bram} block RAM; per unit "
    f"{cells.lut / options.units:.1f} LUT, {cells.ff / options.units:.1f} FF\n"
)
