"""Turns what pydantic says into one sentence with file, line and key."""

import difflib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from topologies.strict_yaml import Document, InputError, Path
from topologies.units import shown


def first_problem(error: ValidationError, document: Document, model: type[BaseModel]) -> InputError:
    """The problem that stands first in the file; how many more there are is said.

    What is missing stands nowhere and comes last: it is often what a misspelt key should have been.
    """
    known = dict(_field_names(model))
    found = []
    for detail in error.errors(include_url=False):
        path = _path(detail["loc"], document, missing=detail["type"] == "missing")
        place = document.place(path)
        order = (detail["type"] == "missing", place.line if place else 0)
        found.append((order, InputError(_say(detail, known), place, path)))
    found.sort(key=lambda item: item[0])
    first = found[0][1]
    if len(found) == 1:
        return first
    more = f"{len(found) - 1} more problem{'s' if len(found) > 2 else ''}"
    return InputError(f"{first.message} (and {more})", first.place, first.path)


def _path(loc: tuple[int | str, ...], document: Document, *, missing: bool) -> Path:
    """The path in the file: a location without the names of union members pydantic puts in."""
    path: Path = ()
    for index, part in enumerate(loc):
        is_last = index == len(loc) - 1
        if (*path, part) in document.places or (missing and is_last):
            path = (*path, part)
    return path


def _say(detail: Any, known: dict[str, list[str]]) -> str:
    context = detail.get("ctx", {})
    got = shown(detail.get("input"))
    match detail["type"]:
        case "extra_forbidden":
            return _unknown_key(str(detail["loc"][-1]), detail["loc"], known)
        case "missing":
            return "this key is missing"
        case "value_error":
            return str(context["error"])
        case "int_type" | "int_from_float" | "int_parsing":
            return f"expected a whole number, got {got}"
        case "greater_than_equal":
            return f"expected {context['ge']} or more, got {got}"
        case "less_than_equal":
            return f"expected {context['le']} or less, got {got}"
        case "string_type":
            return f"expected text, got {got}"
        case "string_too_short":
            return f"expected text of {context['min_length']} or more characters"
        case "bool_type":
            return f"expected true or false, got {got}"
        case "list_type" | "tuple_type":
            return f"expected a list, got {got}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"expected keys and values, got {got}"
        case "literal_error":
            return f"expected {context['expected']}, got {got}"
        case "union_tag_invalid":
            tags = context["expected_tags"].replace("'", "")
            what = context["discriminator"].strip("'")
            return f"there is no {what} {context['tag']!r}: there are {tags}"
        case "union_tag_not_found":
            return f"the key {context['discriminator']} is missing, which says what to expect here"
        case "too_short":
            return f"expected {context['min_length']} or more items, got {context['actual_length']}"
        case "too_long":
            return f"expected at most {context['max_length']} items"
        case "string_pattern_mismatch":
            return f"expected text of the form {context['pattern']}, got {got}"
    return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, got {got}"


def _unknown_key(key: str, loc: tuple[int | str, ...], known: dict[str, list[str]]) -> str:
    parents = [part for part in loc[:-1] if isinstance(part, str)]
    names = next((known[part] for part in reversed(parents) if part in known), known[""])
    near = difflib.get_close_matches(key, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    return f"unknown key: {hint}"


def _field_names(model: type[BaseModel], name: str = "") -> Iterator[tuple[str, list[str]]]:
    """The keys each (sub-)model takes, under the last part of pydantic's location of it."""
    yield name, [field.alias or key for key, field in model.model_fields.items()]
    for key, field in model.model_fields.items():
        for member in _models(field.annotation):
            tag = next(
                (
                    str(get_args(f.annotation)[0])
                    for f in member.model_fields.values()
                    if f.annotation is not None and _is_literal(f.annotation)
                ),
                key,
            )
            yield from _field_names(member, key if _is_single(field.annotation) else tag)


def _is_literal(annotation: Any) -> bool:
    return str(annotation).startswith("typing.Literal")


def _is_single(annotation: Any) -> bool:
    return isinstance(annotation, type)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
