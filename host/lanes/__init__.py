"""What stands between tasks and devices: windows in device memory, a hosting thread per lane."""
