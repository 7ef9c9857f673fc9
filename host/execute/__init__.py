"""Runs tasks on the lanes of devices, whatever fails."""
