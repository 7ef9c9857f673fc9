"""Runs tasks on the lanes of devices, also after failures."""
