"""Literals, by the kinds of tokens of cel-python's grammar."""

from __future__ import annotations

import re
from typing import Any

from lark import Token

from catalog.errors import ExpressionError
from catalog.language.cel.kinds import BOOL, DOUBLE, INT, NULL, STRING, Kind
from catalog.language.cel.operators import NotFiniteError, finite, whole

_QUOTES = re.compile(r"\"\"\"|'''|\"|'")
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|([0-3][0-7]{2})|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})"
    r"|U([0-9a-fA-F]{8})|(.?))",
    re.DOTALL,
)
_ONE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read_literal(token: Token) -> tuple[Any, Kind]:
    """Return the value of a literal and its type.

    Raises:
        ExpressionError: the number does not fit in 64 bits, the text has an unknown escape, or it
            is a literal of bytes or of an unsigned number.
    """
    try:
        match token.type:
            case "FLOAT_LIT":
                return finite(float(token)), DOUBLE
            case "INT_LIT":
                return whole(int(token, 16 if "0x" in token else 10)), INT
            case "STRING_LIT" | "MLSTRING_LIT":
                return _text(token), STRING
            case "BOOL_LIT":
                return token == "true", BOOL
            case "NULL_LIT":
                return None, NULL
            case "UINT_LIT":
                hint = f"write {token[:-1]}"
                raise ExpressionError(
                    f"holds {token}, and there are no unsigned numbers", hint=hint
                )
    except NotFiniteError as error:
        raise ExpressionError(f"holds {token}, which is too great for a number") from error
    raise ExpressionError(f"holds {token}, and bytes are of no use here")


def _text(token: Token) -> str:
    raw = token[0] in "rR"
    quoted = str(token[1:] if raw else token)
    opening = _QUOTES.match(quoted)
    size = opening.end() if opening else 0
    inside = quoted[size : len(quoted) - size]

    def character(escape: re.Match[str]) -> str:
        plain, octal, *hexadecimal, wrong = escape.groups()
        if wrong is not None:
            hint = f"write r{token} where backslashes are meant as they stand"
            raise ExpressionError(f"has the unknown escape \\{wrong}", hint=hint)
        if plain:
            return _ONE.get(plain, plain)
        return chr(int(octal, 8) if octal else int("".join(filter(None, hexadecimal)), 16))

    try:
        text = inside if raw else _ESCAPE.sub(character, inside)
        text.encode()
    except (ValueError, OverflowError) as error:
        raise ExpressionError(f"holds {token}, which has a character that there is none") from error
    return text
