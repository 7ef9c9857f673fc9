"""The join pipeline: flits, units, blocks, and the head that feeds them."""
