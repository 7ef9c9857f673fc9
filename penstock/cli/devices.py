"""``penstock devices``: lists the devices that can run a join here."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from penstock.host.device.registry import device_names, open_device

from ..errors import PenstockError, UsageError
from . import inputs
from .options import application
from .terminal import results, table


@application
def app(address: inputs.Address = None, token_file: inputs.TokenFile = None) -> None:
    """List the devices of this machine or of a server; one that cannot be used says why."""
    shown = table("device", "lanes", "key bits", "")
    if address is not None:
        from penstock.host.devices.remote.client.device import RemoteDevice

        with RemoteDevice(address, token_file=token_file) as server:
            for one in server.served:
                shown.add_row(
                    one["name"], str(one["lanes"]), _widths(one["key_widths"]), one["what"]
                )
    elif token_file is not None:
        raise UsageError("--token-file is for the server at --address, which was not given")
    else:
        for name in device_names():
            _add_installed(shown, name)
    results.print(shown)


def _add_installed(shown: Any, name: str) -> None:
    if name == inputs.REMOTE:
        missing = "The devices of a server: give its --address."
    else:
        try:
            with open_device(name) as device:
                summary = (type(device).__doc__ or "").splitlines()[0]
                shown.add_row(name, str(device.lanes), _widths(device.key_widths), summary)
            return
        except PenstockError as error:
            missing = escape(str(error))
    shown.add_row(name, "-", "-", missing, style="dim")


def _widths(widths: Any) -> str:
    return ", ".join(map(str, widths))
