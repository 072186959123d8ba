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
    """Copy unknown keys from ``previous`` into ``document``, through nested structs and through
    maps and sequences of them."""
    if isinstance(value, msgspec.Struct) and isinstance(previous, dict):
        names = value.__struct_encode_fields__
        known = {*names, value.__struct_config__.tag_field}
        document.update({key: old for key, old in previous.items() if key not in known})
        for name, field in zip(names, value.__struct_fields__, strict=True):
            if name in previous:
                _carry(document[name], previous[name], getattr(value, field))
    elif isinstance(value, dict) and isinstance(previous, dict):
        for key in value.keys() & previous.keys():
            _carry(document[key], previous[key], value[key])
    elif isinstance(value, tuple) and isinstance(previous, list):
        same = len(value) and isinstance(value[0], msgspec.Struct)
        for now, old, item in zip(document, previous, value, strict=False) if same else ():
            if _identity(now) == _identity(old):
                _carry(now, old, item)


def _identity(item: Any) -> object:
    """What tells that two elements of a sequence are the same thing: key or commit."""
    return (item.get("key"), item.get("commit")) if isinstance(item, dict) else item
