"""The join pipeline as its paper describes it: the baseline that the figures compare with."""
