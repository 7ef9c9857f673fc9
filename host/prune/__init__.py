"""Which pairs a device need not see, because bounds of many tuples rule a match out."""
