"""Runs tasks on a kernel of any sort, by the table that the kernel exports."""
