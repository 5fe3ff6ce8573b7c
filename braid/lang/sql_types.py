"""Spark SQL types as text: their names, their families, and what two of them have in common."""

from __future__ import annotations

import re
from enum import StrEnum

from sqlglot import exp

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*INTEGERS, "decimal", "float", "double")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_MAX_PRECISION = 38
INTERVAL = "interval day to second"
MONTHS = "interval year to month"

NAMES = (
    "STRING",
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(p, s)",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "BINARY",
    "VARIANT",
    "ARRAY<type>",
    "MAP<key, value>",
    "STRUCT<name: type, ...>",
)
"""Types that may be declared, as messages list them."""

_SIMPLE = {
    exp.DType.TEXT: "string",
    exp.DType.VARCHAR: "string",
    exp.DType.CHAR: "string",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
    exp.DType.BINARY: "binary",
    exp.DType.VARIANT: "variant",
}


class Family(StrEnum):
    """Types that can be compared with each other."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    TIME = "time"
    INTERVAL = "interval"
    OTHER = "other"


def from_sqlglot(data_type: exp.Expr) -> str | None:
    """The Spark SQL name of a parsed type, or None if Spark has no such type."""
    if not isinstance(data_type, exp.DataType):
        return None
    kind, inner = data_type.this, data_type.expressions
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind is exp.DType.DECIMAL:
        return _declared_decimal([item.name for item in inner])
    if kind is exp.DType.STRUCT:
        fields = [(field.name, from_sqlglot(field.args.get("kind") or field)) for field in inner]
        if not fields or any(not name or type_ is None for name, type_ in fields):
            return None
        return f"struct<{','.join(f'{_field(name)}:{type_}' for name, type_ in fields)}>"
    wanted = {exp.DType.ARRAY: 1, exp.DType.LIST: 1, exp.DType.MAP: 2}.get(kind)
    types = [from_sqlglot(item) for item in inner]
    if wanted is None or len(types) != wanted or None in types:
        return None
    return f"{'map' if wanted == 2 else 'array'}<{','.join(str(t) for t in types)}>"


def _declared_decimal(parts: list[str]) -> str | None:
    if not all(part.isdigit() for part in parts) or len(parts) > 2:
        return None
    precision, scale = (*(int(part) for part in parts), *(10, 0)[len(parts) :])
    return f"decimal({precision},{scale})" if scale <= precision <= _MAX_PRECISION and precision else None


def _field(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def base(name: str) -> str:
    """The type without its parameters: `decimal`, `array`, `timestamp`."""
    return re.split(r"[<( ]", name, maxsplit=1)[0]


def family(name: str) -> Family:
    """Which types it can be compared with."""
    root = base(name)
    if root in _NUMBERS:
        return Family.NUMBER
    if root in ("timestamp", "timestamp_ntz", "date"):
        return Family.TIME
    if root in ("string", "boolean", "interval"):
        return Family(root)
    return Family.OTHER


def comparable(name: str | None) -> bool:
    """Whether operators tell values of the type apart: those of nested types and variants they do not."""
    return name is not None and (family(name) is not Family.OTHER or name == "binary")


def inner(name: str) -> list[str]:
    """The parameters of a nested type: element of an array, key and value of a map, fields of a struct."""
    if not name.endswith(">"):
        return []
    parts, depth, start = [], 0, name.index("<") + 1
    for i in range(start, len(name)):
        depth += (name[i] in "<(") - (name[i] in ">)")
        if (name[i] == "," and depth == 0) or depth < 0:
            parts.append(name[start:i])
            start = i + 1
    return parts


def struct_fields(name: str) -> dict[str, str]:
    """Field names (in lower case) and types of a struct."""
    pairs = [re.fullmatch(r"(`(?:[^`]|``)+`|\w+):(.*)", part) for part in inner(name)]
    return {m[1].strip("`").replace("``", "`").lower(): m[2] for m in pairs if m is not None}


def common(left: str | None, right: str | None) -> str | None:
    """The type that can hold values of both, or None; an unknown type (None) gives the other one."""
    if left is None or right is None or left == right:
        return left or right
    if family(left) is Family.NUMBER and family(right) is Family.NUMBER:
        return _common_number(left, right)
    if family(left) is Family.TIME and family(right) is Family.TIME:
        return "timestamp" if "timestamp" in (left, right) else "timestamp_ntz"
    if family(left) is Family.INTERVAL and family(right) is Family.INTERVAL:
        return left
    if base(left) == base(right) and base(left) in ("array", "map"):
        parts = [common(a, b) for a, b in zip(inner(left), inner(right), strict=True)]
        return None if None in parts else f"{base(left)}<{','.join(str(part) for part in parts)}>"
    return None


def compatible(left: str | None, right: str | None) -> bool:
    """Whether the two have a common type."""
    return left is None or right is None or common(left, right) is not None


def _common_number(left: str, right: str) -> str:
    if "double" in (left, right):
        return "double"
    if "float" in (left, right):
        # Beside a float, Spark turns whole numbers and decimals into doubles, which lose less of them.
        return "double"
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    (p1, s1), (p2, s2) = _decimal(left), _decimal(right)
    scale = max(s1, s2)
    return _bounded(max(p1 - s1, p2 - s2) + scale, scale)


def _decimal(name: str) -> tuple[int, int]:
    """Precision and scale of a decimal, or of the decimal that holds an integer type."""
    if name in INTEGERS:
        return _DIGITS[name], 0
    precision, scale = re.findall(r"\d+", name)
    return int(precision), int(scale)


def _bounded(precision: int, scale: int) -> str:
    """Spark's rule for results beyond 38 digits: keep the whole part, and at least 6 digits of the rest."""
    if precision > _MAX_PRECISION:
        whole = precision - scale
        scale = max(_MAX_PRECISION - whole, min(scale, 6))
        precision = _MAX_PRECISION
    return f"decimal({precision},{scale})"


def arithmetic(operator: str, left: str, right: str) -> str:
    """Spark's result type of `+ - * / %` on two number types."""
    either = {base(left), base(right)}
    if operator == "/" and "decimal" not in either:
        return "double"
    if either & {"float", "double"} or "decimal" not in either:
        return "double" if operator == "/" and "float" in either else _common_number(left, right)
    (p1, s1), (p2, s2) = _decimal(left), _decimal(right)
    if operator == "*":
        return _bounded(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return _bounded(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if operator == "%":
        return _bounded(min(p1 - s1, p2 - s2) + scale, scale)
    return _bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)


def of_number(text: str) -> str:
    """The type of a numeric literal."""
    if "e" in text.lower():
        return "double"
    if "." not in text:
        value = int(text) if len(text) <= _MAX_PRECISION else 2**63
        if value < 2**31:
            return "int"
        return "bigint" if value < 2**63 else f"decimal({min(len(text), _MAX_PRECISION)},0)"
    whole, _, fraction = text.partition(".")
    scale = min(len(fraction), _MAX_PRECISION)
    return f"decimal({min(max(len(whole.lstrip('0')) + scale, scale, 1), _MAX_PRECISION)},{scale})"
