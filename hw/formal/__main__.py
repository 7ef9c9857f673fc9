"""Print the list of proofs."""

import sys

from .registry import document

sys.stdout.write(document())
