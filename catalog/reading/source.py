"""YAML that remembers its lines, so that an error can say where it stands.

PyYAML's constructor drops the marks and lets a later duplicate key win silently. Both would hide
a person's mistake, so mappings are built here from the composed nodes.
"""

from __future__ import annotations

import stat
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from catalog.errors import InputError, Place
from catalog.reading.model import Model, suggestion

M = TypeVar("M", bound=Model)
Path_ = tuple[str | int, ...]

MAX_BYTES = 64 * 1024 * 1024
"""Bound on one YAML file; a node list of 10,000 nodes is about 40 MB."""
MAX_NODES = 2_000_000
"""Bound on the values of one YAML file, which a list of 10,000 nodes is below."""
MAX_ALIASED = 100_000
"""Bound on the values that aliases repeat; a few lines of aliases of aliases stand for billions."""


@dataclass(frozen=True)
class Source:
    """Parsed YAML with the line of every field.

    Attributes:
        file: the name to show in errors.
        data: plain Python data.
        lines: 1-based line by path.
    """

    file: str
    data: Any
    lines: dict[Path_, int] = field(default_factory=dict)

    def place(self, path: Path_ = ()) -> Place:
        """Return the place of ``path``, or of its nearest ancestor that has a line."""
        probe = path
        while probe and probe not in self.lines:
            probe = probe[:-1]
        return Place(self.file, self.lines.get(probe), dotted(path) or None)

    def error(self, message: str, path: Path_ = (), hint: str | None = None) -> InputError:
        """Build the error for ``path``."""
        return InputError(message, self.place(path), hint)

    def at(self, *path: str | int) -> Source:
        """Return the part below ``path`` that still knows its lines."""
        data = self.data
        for step in path:
            data = data[step]
        size = len(path)
        below = {k[size:]: v for k, v in self.lines.items() if k[:size] == path}
        return Source(self.file, data, below)


def dotted(path: Path_) -> str:
    """Write a path as people do: ``categories[0].variant``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def yaml_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files; a directory stands for its YAML files in the order of their names."""
    for path in paths:
        if path.is_dir():
            yield from sorted(item for item in path.iterdir() if item.suffix in {".yaml", ".yml"})
        else:
            yield path


def read_documents(path: Path) -> list[Source]:
    """Read all documents of a YAML or JSON file.

    Raises:
        InputError: the file cannot be read, is too big, is no UTF-8 or no YAML.
    """
    return parse_documents(read_text(path, MAX_BYTES), str(path))


def read_text(path: Path, most: int, encoding: str = "utf-8") -> str:
    """Read a text file that a person names, of up to ``most`` bytes.

    Raises:
        InputError: it cannot be read, is too big, is no UTF-8, or is a directory, a device or a
            pipe, which may never end.
    """
    place = Place(str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError("is no regular file", place)
        if status.st_size > most:
            raise InputError(f"is larger than {most // 2**20} MiB", place)
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", place) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {why}", place) from error


def parse_documents(text: str, file: str) -> list[Source]:
    """Parse YAML text; see `read_documents`."""
    loader = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader
    sources = []
    try:
        for root in yaml.compose_all(text, Loader=loader):
            if root is not None:
                builder = _Builder(file)
                sources.append(Source(file, builder.build(root, (), frozenset()), builder.lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise InputError(f"is not valid YAML: {error.problem}", Place(file, line)) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"is not valid YAML: {error}", Place(file)) from error
    return sources


def shipped(name: str) -> Source:
    """Read a file of data that ships with the catalog.

    Args:
        name: below the catalog, for example ``bars/stages.yaml``.

    Raises:
        InputError: the file is damaged.
    """
    text = resources.files("catalog").joinpath(*name.split("/")).read_text(encoding="utf-8")
    return parse_documents(text, f"catalog/{name}")[0]


def read_one(path: Path) -> Source:
    """Read a file that holds exactly one YAML mapping.

    Raises:
        InputError: as `read_documents`, or the file is empty or holds something else.
    """
    return only_mapping(read_documents(path), str(path))


def only_mapping(sources: list[Source], file: str) -> Source:
    """Return the only document, which must be a mapping."""
    if len(sources) != 1:
        what = "is empty" if not sources else f"holds {len(sources)} documents, expected one"
        raise InputError(what, Place(file))
    if not isinstance(sources[0].data, dict):
        raise InputError("must be a mapping of fields", Place(file, 1))
    return sources[0]


def validate(source: Source, model: type[M]) -> M:
    """Validate ``source`` against a model.

    Raises:
        InputError: the first problem, in the order of the file.
    """
    check_kind(source, model)
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=True)
        paths = [_real(problem, source) for problem in problems]
        # A list whose items are wrong is also "too short": the items are the cause.
        # A misspelt field is also a missing one: the misspelling is the cause.
        misspelt = {
            path[:-1]
            for problem, path in zip(problems, paths, strict=True)
            if problem["type"] == "extra_forbidden"
        }
        causes = [
            problem
            for problem, path in zip(problems, paths, strict=True)
            if not any(len(other) > len(path) and other[: len(path)] == path for other in paths)
            and not (problem["type"] == "missing" and path[:-1] in misspelt)
        ]
        first = min(causes, key=lambda p: source.place(_real(p, source)).line or 0)
        raise _explain(first, source, model) from error


def check_kind(source: Source, model: type[Model]) -> None:
    """Refuse a document of another kind by its kind, before any field of it looks wrong.

    Raises:
        InputError: the model has a kind, and the document another.
    """
    field = model.model_fields.get("kind")
    known = typing.get_args(field.annotation) if field else ()
    found = source.data.get("kind") if isinstance(source.data, dict) else None
    if known and isinstance(found, str) and found not in known:
        wanted = " or ".join(known)
        raise source.error(
            f"is {found!r}, expected {wanted!r}", ("kind",), suggestion(found, known)
        )


_PLAIN = {
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be a mapping"),
    "string_type": "must be a text",
    "too_short": "must not be empty",
}
"""What is wrong in plain words, by pydantic's name of it."""


def _real(problem: ErrorDetails, source: Source) -> Path_:
    """Drop the parts of pydantic's location that are no fields, such as union tags."""
    path: list[str | int] = []
    data = source.data
    for step in problem["loc"]:
        in_list = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if in_list or (isinstance(data, dict) and step in data):
            data = data[step]
        elif problem["type"] not in {"missing", "extra_forbidden"} or step != problem["loc"][-1]:
            continue
        path.append(step)
    return tuple(path)


def _explain(problem: ErrorDetails, source: Source, model: type[Model]) -> InputError:
    path = _real(problem, source)
    match problem["type"]:
        case "extra_forbidden":
            known = _fields(model, path[:-1])
            hint = suggestion(str(path[-1]), known) or f"known fields: {', '.join(sorted(known))}"
            return source.error("is not a known field", path, hint)
        case "missing":
            return source.error("is required", path)
        case _:
            message = problem["msg"].removeprefix("Value error, ").replace("should", "must")
            message = message.removeprefix("Input ").removeprefix("String ")
            message = _PLAIN.get(problem["type"]) or message[:1].lower() + message[1:]
            value = problem["input"]
            if isinstance(value, (str, int, float, bool)) and repr(value) not in message:
                message += f", not {value!r}"
            return source.error(message, path)


def _fields(model: type[BaseModel], path: Path_) -> list[str]:
    """Return the field names that are allowed at ``path`` below ``model``."""
    models = [model]
    for step in path:
        if isinstance(step, int):
            continue
        found: list[type[BaseModel]] = []
        for candidate in models:
            for name, info in candidate.model_fields.items():
                if step in {name, info.alias}:
                    found += _models_in(info.annotation)
        if found:
            models = found
    return [info.alias or name for m in models for name, info in m.model_fields.items()]


def _models_in(annotation: object) -> list[type[BaseModel]]:
    arguments = typing.get_args(annotation)
    if not arguments and isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [m for arg in arguments for m in _models_in(arg)]


_TAGS = {
    "tag:yaml.org,2002:null",
    "tag:yaml.org,2002:bool",
    "tag:yaml.org,2002:int",
    "tag:yaml.org,2002:float",
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:timestamp",
}


class _Builder:
    """Builds plain data from composed nodes and notes the line of every field.

    An alias is built again wherever it stands, so that each place has its lines; how much may be
    built is bounded.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Path_, int] = {}
        self._seen: set[int] = set()
        self._built = 0

    def build(self, node: yaml.Node, path: Path_, open_nodes: frozenset[int]) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        place = Place(self.file, node.start_mark.line + 1)
        if id(node) in open_nodes:
            raise InputError("an alias refers to itself", place)
        self._count(node, place)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, open_nodes | {id(node)})
        if isinstance(node, yaml.SequenceNode):
            inside = open_nodes | {id(node)}
            return [self.build(item, (*path, i), inside) for i, item in enumerate(node.value)]
        if node.tag not in _TAGS:
            raise InputError(f"YAML tag {node.tag} is not supported", place)
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        # The constructor by tag, not construct_object, which would keep every node it has seen.
        return _SCALARS.yaml_constructors[node.tag](_SCALARS, node)

    def _count(self, node: yaml.Node, place: Place) -> None:
        self._built += 1
        self._seen.add(id(node))
        if self._built > MAX_NODES:
            raise InputError(f"holds more than {MAX_NODES} values", place)
        if self._built - len(self._seen) > MAX_ALIASED:
            raise InputError(f"repeats more than {MAX_ALIASED} values by aliases", place)

    def _mapping(
        self, node: yaml.MappingNode, path: Path_, inside: frozenset[int]
    ) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                where = Place(self.file, line, dotted(path))
                raise InputError("a field name must be a word", where)
            if key in built:
                raise InputError("is given twice", Place(self.file, line, dotted((*path, key))))
            self.lines[*path, key] = line
            built[key] = self.build(value_node, (*path, key), inside)
        return built


_SCALARS = yaml.constructor.SafeConstructor()
