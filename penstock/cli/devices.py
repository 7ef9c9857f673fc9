"""``penstock devices``: what can run a join here."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from penstock.cli import inputs
from penstock.cli.terminal import results
from penstock.errors import PenstockError, UsageError
from penstock.host.device.registry import device_names, open_device


def command(address: inputs.Address = None, token_file: inputs.TokenFile = None) -> None:
    """List the devices here, or those of a server, and what is missing where one cannot be used."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("device", "lanes", "key bits", ""):
        table.add_column(name)
    if address is not None:
        _served(table, address, token_file)
    elif token_file is not None:
        raise UsageError("--token-file is for the server at --address, which was not given")
    else:
        _installed(table)
    results.print(table)


def _installed(table: Table) -> None:
    for name in device_names():
        if name == inputs.REMOTE:
            table.add_row(
                name, "-", "-", "The devices of a server: give its --address.", style="dim"
            )
            continue
        try:
            with open_device(name) as device:
                summary = (type(device).__doc__ or "").splitlines()[0]
                table.add_row(name, str(device.lanes), _widths(device.key_widths), summary)
        except PenstockError as error:
            table.add_row(name, "-", "-", escape(str(error)), style="dim")


def _served(table: Table, address: str, token_file: Any) -> None:
    from penstock.host.remote.device import RemoteDevice

    with RemoteDevice(address, token_file=token_file) as server:
        for one in server.served:
            table.add_row(one["name"], str(one["lanes"]), _widths(one["key_widths"]), one["what"])


def _widths(widths: Any) -> str:
    return ", ".join(map(str, widths))
