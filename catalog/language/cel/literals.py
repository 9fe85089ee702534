"""Literals, by the kinds of tokens of cel-python's grammar."""

from __future__ import annotations

import re
from typing import Any

from celpy.evaluation import celstr
from lark import Token

from catalog.errors import ExpressionError
from catalog.language.cel.kinds import BOOL, DOUBLE, INT, NULL, STRING, UINT, Kind
from catalog.language.cel.operators import NotFiniteError, Uint, finite, whole

_ESCAPES = re.compile(
    r"(?:[^\\]|\\(?:[abfnrtv\\\"']|[0-3][0-7]{2}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}"
    r"|U[0-9a-fA-F]{8}))*"
)


def read_literal(token: Token) -> tuple[Any, Kind]:
    """Return the value of a literal and its type.

    Raises:
        ExpressionError: the number does not fit in 64 bits, the text has an unknown escape, or it
            is a literal of bytes.
    """
    try:
        match token.type:
            case "FLOAT_LIT":
                return finite(float(token)), DOUBLE
            case "INT_LIT":
                return whole(_integer(token)), INT
            case "UINT_LIT":
                return whole(_integer(token[:-1]), Uint), UINT
            case "STRING_LIT" | "MLSTRING_LIT":
                return _text(token), STRING
            case "BOOL_LIT":
                return token == "true", BOOL
            case "NULL_LIT":
                return None, NULL
    except NotFiniteError as error:
        raise ExpressionError(f"holds {token}, which is too great for a number") from error
    raise ExpressionError(f"holds {token}, and bytes are of no use here")


def _integer(text: str) -> int:
    return int(text, 16 if "0x" in text else 10)


def _text(token: Token) -> str:
    if token[0] not in "rR":
        end = _ESCAPES.match(token)
        if end and end.end() < len(token):
            wrong = token[end.end() : end.end() + 2]
            hint = f"write r{token} where backslashes are meant as they stand"
            raise ExpressionError(f"has the unknown escape {wrong}", hint=hint)
    try:
        text = str(celstr(token))
        text.encode()
    except (ValueError, OverflowError) as error:
        raise ExpressionError(f"holds {token}, which has a character that there is none") from error
    return text
