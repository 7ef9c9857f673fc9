"""Makes ``bench`` importable: it runs from the root of the checkout, and no wheel has it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))
