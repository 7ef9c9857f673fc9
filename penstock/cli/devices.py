"""``penstock devices``: what can run a join here."""

from __future__ import annotations

from rich.table import Table

from penstock.cli.terminal import results
from penstock.errors import PenstockError
from penstock.host.device.registry import device_names, open_device


def command() -> None:
    """List the devices, and what is missing where one cannot be used."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("device", "lanes", "key bits", ""):
        table.add_column(name)
    for name in device_names():
        try:
            with open_device(name) as device:
                widths = ", ".join(str(w) for w in device.key_widths)
                summary = (type(device).__doc__ or "").splitlines()[0]
                table.add_row(name, str(device.lanes), widths, summary)
        except PenstockError as error:
            table.add_row(name, "-", "-", str(error), style="dim")
    results.print(table)
