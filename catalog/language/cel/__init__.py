"""The dialect of CEL that bars and node-health rules are written in.

It is CEL as in cel-go, with these differences.

- Numbers of different types compare, compute and are found by ``in`` as arithmetic says, in any
  order and inside lists and maps: ``370 * 0.9``, ``value == 370``, ``x in [1, 2]``. The comparison
  is exact; cel-go, which NVCRE uses, rounds a whole number above 2^53 to a double first. ``int``
  divided by ``int`` is cut to an ``int``, as in every CEL.
- NaN and infinity are errors: as a value, as a part of a result, in ``double("inf")``. So is a
  division by zero. In cel-go NaN compares false, so that ``!(value < 300)`` holds.
- Null in data is nothing: reading it is an error, and ``has()`` is false of it.
- ``all()`` over an empty list is an error, as nothing was tested. So is ``exists()`` where its
  false could make the whole true, as in ``!slow.exists(…)``; elsewhere it is false.
- Values of different types are never compared: ``dyn(1) == "a"`` is an error, not false.
- Types, names, fields, functions, patterns of ``matches()`` and literal arguments are checked
  before anything runs, also in branches that are not taken.
- There are functions for lists of numbers, ``min``, ``max``, ``sum``, ``mean``, ``median``,
  ``percentile``, ``stddev``, which are errors over an empty list; ``abs``; and ``busbw_at("8G")``,
  ``algbw_at``, ``time_at`` for figures by message size.
- There are no unsigned numbers, bytes, durations, timestamps, messages, ``type()`` and extensions,
  and no conversions but ``int()``, ``double()`` and ``dyn()``.

As in CEL, an error is swallowed by ``||`` and ``&&`` where the other operand decides alone. That
never turns what is missing into a PASS: the result would be the same whatever had been measured.

cel-python parses. Its evaluator is not used, see `catalog.language.cel.compiler`.
"""
