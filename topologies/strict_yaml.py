"""YAML without its traps, and with line numbers.  The only importer of `yaml`.

Plain scalars follow YAML 1.2's core schema, so `no` and `1:20` are the text they look like.  A
number with a leading zero, a duplicate key, an anchor, an alias, a tag, a second document or a key
that is not text is an error.  Built from the event stream, so depth and size are bounded and no
object is ever constructed by a tag.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]

SIZE_MAX = 1 << 20
"""Bytes of a file; a scenario is a page."""

DEPTH_MAX = 20
"""Nesting; the schema needs five."""

_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,19})", re.ASCII)
_OTHER_BASE = re.compile(r"0(x[0-9a-fA-F]{1,16}|o[0-7]{1,21})", re.ASCII)
_FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?", re.ASCII)
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+", re.ASCII)
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was written; line 0 when not in a file."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


class InputError(ValueError):
    """Input from a user that is not what it must be: one sentence, `place: key: expectation`."""

    def __init__(self, message: str, place: Place | None = None, path: Path = ()) -> None:
        parts = [str(place)] if place else []
        key = ".".join(map(str, path))
        if key and str(place) != f"--set {key}":
            parts.append(key)
        super().__init__(": ".join([*parts, message]))
        self.message = message
        self.place = place
        self.path = path


@dataclass(slots=True)
class Document:
    """Plain values, and the place of each by its path of keys and indices."""

    data: Any
    places: dict[Path, Place] = field(default_factory=dict)

    def place(self, path: Path) -> Place | None:
        """Of that path, or of the nearest thing around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return None


def parse(text: str, source: str) -> Document:
    """Raises InputError with `source` and line."""
    if len(text) > SIZE_MAX:
        raise InputError(f"the file is larger than {SIZE_MAX} bytes", Place(source))
    try:
        return _Builder(source, yaml.parse(text, Loader=yaml.SafeLoader)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(source, mark.line + 1 if mark else 0)
        raise InputError(f"not valid YAML: {error.problem or error.context}", place) from None
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {str(error).splitlines()[0]}", Place(source)) from None


def parse_value(text: str, source: str) -> Document:
    """A value from the command line, as it would be read in a file, without lines."""
    document = parse(text, source) if text.strip() else Document(text)
    document.places = {path: Place(source) for path in document.places}
    return document


class _Builder:
    def __init__(self, source: str, events: Iterator[yaml.Event]) -> None:
        self._source = source
        self._events = events
        self._places: dict[Path, Place] = {}

    def document(self) -> Document:
        event = self._next()
        while isinstance(event, yaml.StreamStartEvent):
            event = self._next()
        if not isinstance(event, yaml.DocumentStartEvent):
            raise InputError("the file is empty", Place(self._source))
        data = self._value(self._next(), ())
        self._next()
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise InputError("expected one document, found a second", self._at(event))
        return Document(data, self._places)

    def _next(self) -> yaml.Event:
        return next(self._events)

    def _at(self, event: yaml.Event) -> Place:
        mark = event.start_mark
        return Place(self._source, mark.line + 1 if mark else 0)

    def _value(self, event: yaml.Event, path: Path) -> Any:
        if len(path) > DEPTH_MAX:
            raise InputError(f"nested deeper than {DEPTH_MAX} levels", self._at(event))
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InputError("anchors and aliases are not used here", self._at(event), path)
        tag = getattr(event, "tag", None)
        if tag and tag != "!":
            raise InputError(f"tags such as {tag} are not used here", self._at(event), path)
        self._places.setdefault(path, self._at(event))
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        assert isinstance(event, yaml.ScalarEvent)
        return self._scalar(event, path)

    def _mapping(self, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise InputError("expected a plain word as key", self._at(event), path)
            key = event.value
            if key in out:
                raise InputError("this key was given before", self._at(event), (*path, key))
            self._places[*path, key] = self._at(event)
            out[key] = self._value(self._next(), (*path, key))
        return out

    def _sequence(self, path: Path) -> list[Any]:
        out: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            out.append(self._value(event, (*path, len(out))))
        return out

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Any:
        text: str = event.value
        if event.style is not None:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _LEADING_ZERO.fullmatch(text):
            message = f"the number {text} has a leading zero: drop it, or quote it if it is text"
            raise InputError(message, self._at(event), path)
        if _INT.fullmatch(text):
            return int(text)
        if _OTHER_BASE.fullmatch(text):
            return int(text, 0)
        return float(text) if _FLOAT.fullmatch(text) else text


class _Dumper(yaml.SafeDumper):
    """Quotes text that `parse` would take for something else, where YAML 1.1 would not."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    other = (_INT, _OTHER_BASE, _FLOAT, _LEADING_ZERO)
    is_text = text not in _CONSTANTS and not any(form.fullmatch(text) for form in other)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_text else "'")


_Dumper.add_representer(str, _represent_text)


def dump(data: Any) -> str:
    """Plain values as YAML that `parse` reads back the same."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
