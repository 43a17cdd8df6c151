"""Shapes of values, laid out in Arrow and read back.

Lists and records within records are laid out column by column, never object by object: that is some twenty times as
fast as handing Arrow nested dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow

Scalar = Literal["text", "whole", "real", "flag", "moment"]
"""UTF-8; 64 bits with sign; a double; true or false; microseconds since 1970, UTC."""

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Many:
    """A list of one shape; not known (null) and empty are two things."""

    of: Shape


@dataclass(frozen=True, slots=True)
class Record:
    """Fields under names; never changed once written: what is new becomes a column of its own."""

    fields: tuple[Field, ...]
    make: Callable[..., Any]
    """Makes the object again from the values of its fields, in their order."""


Shape = Scalar | Many | Record


@dataclass(frozen=True, slots=True)
class Field:
    """One column, or one field of a record."""

    name: str
    """As in SQL."""
    shape: Shape
    """What it holds."""
    get: Callable[[Any], Any]
    """Its value of an object."""
    about: str = ""
    """What it says, for the documentation."""
    since: int = 1
    """The version of the schema that has it first."""


def arrow_type(shape: Shape) -> pyarrow.DataType:
    """The Arrow type of a shape."""
    import pyarrow as pa

    if isinstance(shape, Many):
        return pa.list_(arrow_type(shape.of))
    if isinstance(shape, Record):
        return pa.struct([pa.field(field.name, arrow_type(field.shape)) for field in shape.fields])
    scalars = {
        "text": pa.string(),
        "whole": pa.int64(),
        "real": pa.float64(),
        "flag": pa.bool_(),
        "moment": pa.timestamp("us", tz="UTC"),
    }
    return scalars[shape]


def encode(values: Sequence[Any], shape: Shape) -> pyarrow.Array:
    """A column of ``values``; ``None`` is null."""
    import pyarrow as pa

    if isinstance(shape, Many):
        flat: list[Any] = []
        offsets = [0]
        for value in values:
            if value:
                flat.extend(value)
            offsets.append(len(flat))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), encode(flat, shape.of), mask=_nulls(values))
    if isinstance(shape, Record):
        children = [
            encode([None if value is None else field.get(value) for value in values], field.shape)
            for field in shape.fields
        ]
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(shape)), mask=_nulls(values))
    try:
        return pa.array(values, arrow_type(shape))
    except UnicodeEncodeError:  # half a surrogate: the name of a file, most of all
        return pa.array([None if value is None else storable(value) for value in values], pa.string())
    except OverflowError:  # no tool counts that far
        return pa.array([value if value is None or abs(value) <= _LARGEST else None for value in values], pa.int64())


def decode(column: pyarrow.Array, shape: Shape) -> list[Any]:
    """The values of a column."""
    if isinstance(shape, Many):
        flat = decode(column.values, shape.of)
        offsets, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
        return [tuple(flat[offsets[n] : offsets[n + 1]]) if known else None for n, known in enumerate(valid)]
    if isinstance(shape, Record):
        children = [decode(column.field(n), field.shape) for n, field in enumerate(shape.fields)]
        rows = zip(*children, strict=True)
        return [
            shape.make(*row) if known else None for row, known in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    values: list[Any] = column.to_pylist()
    return values


def storable(text: str) -> str:
    """``text`` as UTF-8 can hold it."""
    return text.encode("utf-8", "backslashreplace").decode()


def _nulls(values: Sequence[Any]) -> pyarrow.Array:
    import pyarrow as pa

    return pa.array([value is None for value in values], pa.bool_())
