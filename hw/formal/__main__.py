"""Print the list of proofs."""

import sys

from penstock.hw.formal.registry import document

sys.stdout.write(document())
