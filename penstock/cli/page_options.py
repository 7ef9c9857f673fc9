"""Options of commands that show a page for browsers while they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.host.wire.address import Address, read_token

from .. import arguments
from ..errors import UsageError
from .options import group, option

if TYPE_CHECKING:
    from penstock.host.page.page import Page


@group
class PageArguments:
    """The page that shows what runs."""

    page: str | None = option(
        "Show a page for browsers meanwhile: PORT on this machine, 0 for any, or HOST:PORT."
    )
    page_token_file: Path | None = option("File with the token that browsers of the page show.")

    def place(self) -> tuple[int, str, str | None] | None:
        """Return port, address and token of the page, if one is wanted.

        Raises
        ------
        UsageError, FileError
        """
        token = None if self.page_token_file is None else read_token(self.page_token_file)
        if self.page is None:
            if token is not None:
                raise UsageError("--page-token-file is for --page; add it, or leave both out")
            return None
        if self.page.isdecimal():
            port = arguments.whole("--page", int(self.page), most=65_535)
            return port, "127.0.0.1", token
        try:
            address = Address.parsed(f"tcp://{self.page}")
        except UsageError as cause:
            raise UsageError(f"--page takes PORT, or HOST:PORT, not {self.page!r}") from cause
        return address.port, address.host, token

    def line_of(self, shown: Page) -> str:
        """Return the line that says where the page is; it has no token."""
        more = (
            "" if self.page_token_file is None else f"?token=, and what {self.page_token_file} has"
        )
        return f"page: {shown.place}{more}"
