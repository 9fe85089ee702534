"""Writes YAML as PyYAML does; hera changes how every dumper writes texts when it is imported."""

from __future__ import annotations

from collections.abc import Iterable

import yaml
from yaml.representer import SafeRepresenter


class _Plain(yaml.SafeDumper):
    pass


_Plain.add_representer(str, SafeRepresenter.represent_str)


def to_yaml(*documents: object, sort_keys: bool = False, width: int = 100) -> str:
    """Return documents as YAML."""
    texts: Iterable[object] = documents
    text: str = yaml.dump_all(texts, Dumper=_Plain, sort_keys=sort_keys, width=width)
    return text
