"""What a board needs around a kernel: where its registers lie, and the files that say so."""
