"""Channels to other machines by one-sided writes, through UCX; for trusted networks only.

Nothing is encrypted and nobody is asked who they are: whoever reaches the ports that UCX opens, and
guesses a key, can write into the rings. :class:`Network` is a thread's access to UCX, and
:class:`UcxLink` a channel each way to another process; :class:`UcxLinks` makes both. It needs the
extra ``rdma``.
"""

from __future__ import annotations

from .network import Network
from .ucx_link import UcxLink, UcxLinks

__all__ = ["Network", "UcxLink", "UcxLinks"]
