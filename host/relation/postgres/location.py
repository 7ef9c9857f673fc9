"""Location of a table in a PostgreSQL server, with its time limits, parsed from an address."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from penstock.errors import UsageError
from penstock.spans import parsed_span

#: Seconds that kept rows may be old, unless the address says otherwise: long enough that frequent
#: keys are asked for seldom, short enough that people who change a row see the change.
MAX_AGE_S = 10.0
#: Seconds of one statement, of a connection, and of all tries after a connection was lost.
STATEMENT_S, CONNECT_S, RETRY_S = 30.0, 10.0, 30.0

_HIDDEN = "***"
#: Parameters of the address that are secrets.
_SECRETS = ("password", "sslpassword")


@dataclass(frozen=True)
class PostgresLocation:
    """A table in a server.

    Parameters
    ----------
    uri : str
        Address in libpq's form, with the password.
    name : str
        Name in messages, without the password.
    table : str
        Name as SQL writes it, perhaps with its schema.
    key : tuple of str
        Columns by which rows are found; empty for the primary key.
    max_age_s : float
        How old kept rows may be; 0: none are kept from batch to batch.
    statement_s, connect_s, retry_s : float
        Seconds of one statement, of a connection, and of all tries after a lost connection.
    secrets : tuple of str
        Texts that no message may hold.
    """

    uri: str = field(repr=False)
    name: str
    table: str
    key: tuple[str, ...] = ()
    max_age_s: float = MAX_AGE_S
    statement_s: float = STATEMENT_S
    connect_s: float = CONNECT_S
    retry_s: float = RETRY_S
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @staticmethod
    def parsed(text: str) -> PostgresLocation:
        """Read an address: ``postgresql://user@host/db?table=customers&key=id&max_age=60s``.

        Raises
        ------
        UsageError
            The address names no table, or a value cannot be read.
        """
        parts = urlsplit(text)
        options = parse_qsl(parts.query, keep_blank_values=True)
        values = dict(options)
        name = masked(text)
        table = values.get("table", "").strip()
        if not table:
            raise UsageError(f"{name} names no table; add ?table=NAME&key=COLUMN")
        key = tuple(one.strip() for one in values.get("key", "").split(",") if one.strip())
        connect_s = _seconds(values, "connect_timeout", CONNECT_S, name)
        ours = {"table", "key", "max_age", "statement_timeout", "retry"}
        ours |= {"connect_timeout", "client_encoding"}
        libpq = [(one, value) for one, value in options if one not in ours]
        libpq += [("client_encoding", "UTF8"), ("connect_timeout", str(max(2, round(connect_s))))]
        if "application_name" not in values:
            libpq.append(("application_name", "penstock"))
        # A space is %20 to libpq, and a plus is a plus.
        uri = urlunsplit(parts._replace(query=urlencode(libpq, quote_via=quote), fragment=""))
        return PostgresLocation(
            uri,
            name,
            table,
            key,
            _seconds(values, "max_age", MAX_AGE_S, name, may_be_none=True),
            _seconds(values, "statement_timeout", STATEMENT_S, name),
            connect_s,
            _seconds(values, "retry", RETRY_S, name, may_be_none=True),
            _secrets(text),
        )

    def hidden(self, text: str) -> str:
        """A text of the server or its library, without the password."""
        for secret in self.secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def masked(address: str) -> str:
    """Return an address as people may see it: without a password."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    login, colon, _ = user.partition(":")
    netloc = f"{login}:{_HIDDEN}@{host}" if colon else f"{user}{at}{host}"
    query = "&".join(_shown(one) for one in parts.query.split("&"))
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def _shown(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    is_secret = equals and unquote(name).strip().lower() in _SECRETS
    return f"{name}={_HIDDEN}" if is_secret else parameter


def _secrets(text: str) -> tuple[str, ...]:
    """The passwords of an address, as they are and as they are written, the longest first."""
    parts = urlsplit(text)
    login = parts.netloc.rpartition("@")[0].partition(":")[2]
    pairs = (one.partition("=") for one in parts.query.split("&"))
    secrets = {login, *(value for name, _, value in pairs if unquote(name).lower() in _SECRETS)}
    secrets |= {unquote(one) for one in secrets}
    return tuple(sorted((one for one in secrets if one), key=len, reverse=True))


def _seconds(
    values: dict[str, str], name: str, default: float, where: str, *, may_be_none: bool = False
) -> float:
    """A duration of the address; a plain number has the unit of seconds."""
    text = values.get(name)
    if text is None:
        return default
    try:
        span = parsed_span(text)
    except ValueError as error:
        raise UsageError(f"{name} of {where} takes {error}") from None
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    if not seconds and not may_be_none:
        raise UsageError(f"{name} of {where} is 0, and every wait needs an end; give it 1s or more")
    if seconds > _MOST_S:
        raise UsageError(f"{name} of {where} is {text!r}, and a day is the most")
    return seconds


#: A day: milliseconds of it fit into the 31 bits of a timeout of PostgreSQL.
_MOST_S = 86_400.0
