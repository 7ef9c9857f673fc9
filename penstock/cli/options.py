"""Groups of options: dataclasses that commands take instead of many parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

import typer

from penstock.host.store.location import Location, local_path, matched

from ..errors import UsageError
from ..uses import UnusedError
from .examples import Command, CommandGroup

T = TypeVar("T")

#: Options that Python calls otherwise.
_IN_PYTHON = {
    "param": "params",
    "memory": "memory_bytes",
    "no_pruning": "pruning",
    "ordered": "running",
}


#: Parameters of commands that name what is written.
WRITTEN = frozenset({"out", "output", "stats", "trace", "vcd", "picture", "html"})
#: Parameters with text that names what is read, perhaps as NAME=PLACE. Others are of type Path.
READ = frozenset({"table", "relation", "file", "location", "upserts", "deletes", "append"})


def local_places(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the values of a command's parameters; ``file:`` URIs become paths.

    Raises
    ------
    UsageError
        A path is no file or folder of this machine, or an output is also read, or lies in a folder
        that is read, or two outputs are the same.
    """
    local = {name: _local(name, value) for name, value in values.items()}
    read = [
        text
        for name, value in local.items()
        for text in (value if isinstance(value, list) else [value])
        if name not in WRITTEN and (isinstance(text, Path) or (text and name in READ))
    ]
    places = dict.fromkeys(place for text in read for place in _places(text))
    written: dict[Path, str] = {}
    for name in local.keys() & WRITTEN:
        out = local[name] and Location.parse(local[name]).path
        if out is None or not str(out):
            continue
        _check_output(f"--{name} {out}", out, places)
        if (other := written.setdefault(out.resolve(), name)) != name:
            raise UsageError(f"--{other} and --{name} both name {out}; give each its own file")
    return local


def _local(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_local(name, one) for one in value]
    requirement = f"--{name.replace('_', '-')} takes only these"
    return local_path(value, requirement) if isinstance(value, Path) else value


def _places(named: str | Path) -> Iterator[Path]:
    """Yield existing files that a parameter names, by its text or by PLACE of NAME=PLACE."""
    for text in {str(named), str(named).partition("=")[2]} - {""}:
        location = Location.parse(text)
        if location.path is not None:
            yield from (path for path in matched(location.path) if path.exists())


def _check_output(shown: str, out: Path, places: Iterable[Path]) -> None:
    for place in places:
        inside = place.rglob("*") if place.is_dir() and out.is_file() else ()
        if out.exists() and any(one.exists() and one.samefile(out) for one in (place, *inside)):
            raise UsageError(
                f"{shown} is read by this command, as {place}, and would be replaced; choose "
                "another name"
            )
        if place.is_dir() and place.resolve() in out.resolve().parents:
            raise UsageError(
                f"{shown} would be a file of {place}, which this command reads; choose another "
                "folder"
            )


class Written(dict[str, str]):
    """Spellings of the options that the user wrote, by their names in Python.

    An option with its default value counts. A command of :func:`grouped` may take it as parameter.
    """

    @classmethod
    def in_context(cls, context: typer.Context) -> Written:
        """Find the options of the command that runs."""
        written = cls()
        for one in context.command.params:
            name = str(one.name)
            source = context.get_parameter_source(name)
            # Typer has its own copy of the enumeration, depending on its version.
            if source is None or source.name != "COMMANDLINE" or one.param_type_name != "option":
                continue
            is_off = context.params[name] is False and one.secondary_opts
            spellings = one.secondary_opts if is_off else one.opts
            written[_IN_PYTHON.get(name, name)] = max(spellings, key=len)
        return written


@dataclass_transform(frozen_default=True, kw_only_default=True)
def group(cls: type[T]) -> type[T]:
    """Make a class a group of options: a frozen dataclass."""
    return dataclass(frozen=True, kw_only=True)(cls)


def option(
    text: str, *names: str, default: Any = None, required: bool = False, **limits: Any
) -> Any:
    """Make a field, or a parameter, an option; without names it is called as that."""
    described = typer.Option(*names, help=text, **limits)
    return field(default=MISSING if required else default, metadata={"typer": described})


def argument(text: str, *, default: Any = MISSING, **look: Any) -> Any:
    """Make a field, or a parameter, an argument."""
    return field(default=default, metadata={"typer": typer.Argument(help=text, **look)})


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take options and groups of options.

    Parameters of the command, and fields of a group, have :func:`option` or :func:`argument` as
    their default, are annotated as Typer wants the parameters of a command, or are groups
    themselves. On the command line each field is an option, at the place of its group; the command
    gets the groups, with places as :func:`local_places` reads them.
    """
    parameters = list(inspect.signature(command, eval_str=True).parameters.values())
    options = list(_flattened(parameters))

    @wraps(command)
    def called(**values: Any) -> Any:
        values = local_places(values)
        arguments = {one.name: _value(one, values) for one in parameters}
        try:
            return command(**arguments)
        except UnusedError as error:
            written = next((one for one in arguments.values() if isinstance(one, Written)), {})
            raise error.spelled(written.get(error.option, f"--{error.option}")) from None

    called.__signature__ = inspect.Signature(options)  # pyright: ignore[reportAttributeAccessIssue]
    called.__annotations__ = {option.name: option.annotation for option in options}
    return called


def application(command: Callable[..., Any]) -> typer.Typer:
    """Make an application of one command, which may take groups of options."""
    app = typer.Typer(add_completion=False)
    app.command(cls=Command)(grouped(command))
    return app


class Commands(typer.Typer):
    """An application of several commands, which may take groups of options."""

    def __init__(self, text: str) -> None:
        super().__init__(cls=CommandGroup, help=text, no_args_is_help=True, add_completion=False)

    def grouped(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Make a function the command of this name."""
        return lambda command: self.command(name, cls=Command)(grouped(command))


def _flattened(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    for one in parameters:
        if is_dataclass(one.annotation):
            yield from _flattened(_fields(one.annotation))
        elif one.annotation is Written:
            yield one.replace(annotation=typer.Context, kind=Parameter.KEYWORD_ONLY)
        elif isinstance(one.default, Field):
            yield _described(one.name, one.annotation, one.default)
        else:
            yield one.replace(kind=Parameter.KEYWORD_ONLY)


def _fields(group: Any) -> list[Parameter]:
    types = get_type_hints(group, include_extras=True)
    return [_described(one.name, types[one.name], one) for one in fields(group)]


def _described(name: str, annotation: Any, look: Field[Any]) -> Parameter:
    """Make a parameter of an option, or of a field without a description."""
    if "typer" in look.metadata:
        annotation = Annotated[annotation, look.metadata["typer"]]
    default = Parameter.empty if look.default is MISSING else look.default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _value(one: Parameter, values: dict[str, Any]) -> Any:
    if one.annotation is Written:
        return Written.in_context(values[one.name])
    if not is_dataclass(one.annotation):
        return values[one.name]
    return one.annotation(  # pyright: ignore[reportCallIssue]
        **{field.name: _value(field, values) for field in _fields(one.annotation)}
    )
