"""How host software runs tasks on a join kernel, by the table that the kernel exports."""
