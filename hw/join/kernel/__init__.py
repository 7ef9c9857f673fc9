"""The join pipeline behind AXI: what feeds it from memory, and what brings its results there."""
