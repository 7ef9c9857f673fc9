"""Print the list of proofs."""

import sys

from tests.hw.formal.registry import document

sys.stdout.write(document())
