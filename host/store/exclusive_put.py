"""Objects that are written only if they are not there, which pyarrow cannot do."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

from penstock.errors import MissingToolError, installing


def require(root: str) -> None:
    """Check that :func:`put_if_absent` can work.

    Raises
    ------
    MissingToolError
    """
    try:
        import obstore  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"cannot write to {root} so that only one of several writers succeeds: that needs the "
            f"package obstore, which is not installed; {installing('objects')}"
        ) from error


def put_if_absent(location: str, kind: str, path: str, content: bytes) -> bool:
    """Write an object; returns whether it was not there.

    Parameters
    ----------
    location : str
        Address of the store, with options as pyarrow takes them.
    kind : str
        "s3", "gs" or "abfs".
    path : str
        In the bucket.
    content : bytes

    Raises
    ------
    OSError
        The store refuses it, or does not answer.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        obstore.put(_bucket(location, kind), path, content, mode="create")
    except AlreadyExistsError:
        return False
    except BaseError as error:
        raise OSError(str(error)) from error
    return True


def _bucket(location: str, kind: str) -> Any:
    """The bucket of a location, as obstore opens it with the same options."""
    from obstore import store

    parsed = urlparse(location)
    options = {name: values[-1] for name, values in parse_qs(parsed.query).items()}
    user, _, bucket = parsed.netloc.rpartition("@")
    if kind == "gs":
        return store.GCSStore(bucket)
    if kind == "abfs":
        return store.AzureStore(user or bucket)
    config: Any = {}
    if "region" in options:
        config["region"] = options["region"]
    if "endpoint_override" in options:
        config["endpoint"] = f"{options.get('scheme', 'https')}://{options['endpoint_override']}"
    if user:
        config["access_key_id"], _, config["secret_access_key"] = map(unquote, user.partition(":"))
    is_open = options.get("scheme") == "http"
    return store.S3Store(bucket, config=config, client_options={"allow_http": is_open})
