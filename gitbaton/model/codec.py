"""How structs become bytes: JSON with sorted keys, indented, so that ``git show`` reads well.

Unknown fields of the same schema version survive a round trip: `encode_over` carries what the
previous bytes held and this version does not know.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encode(value: object) -> bytes:
    """JSON, UTF-8, sorted keys, one-space indent, final newline."""
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=1) + b"\n"


def decode(data: bytes, kind: type[T]) -> T:
    """The inverse of `encode`; raises `msgspec.DecodeError` or `msgspec.ValidationError`."""
    return msgspec.json.decode(data, type=kind)


def encode_over(value: msgspec.Struct, previous: bytes | None) -> bytes:
    """`encode`, keeping fields of ``previous`` that the type of ``value`` does not know."""
    if previous is None:
        return encode(value)
    document = msgspec.to_builtins(value)
    _carry(document, msgspec.json.decode(previous), value)
    return encode(document)


def _carry(document: Any, previous: Any, value: Any) -> None:
    """Copy unknown keys from ``previous`` into ``document``, through nested structs."""
    if not (isinstance(document, dict) and isinstance(previous, dict)):
        return
    known = {field.encode_name for field in msgspec.structs.fields(value)}
    tag = value.__struct_config__.tag_field
    for key, old in previous.items():
        if key not in known and key != tag:
            document[key] = old
    for field in msgspec.structs.fields(value):
        child = getattr(value, field.name)
        if isinstance(child, msgspec.Struct) and field.encode_name in document:
            _carry(document[field.encode_name], previous.get(field.encode_name), child)
