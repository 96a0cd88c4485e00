"""Which code a stage runs: a digest of every module that it may import, its parts included.

The digest stands in the stage's settings file, so that a stage runs again exactly where a module
that it reads has changed, and ``dvc.yaml`` lists no module by hand. A part from another package
counts with that package's name and version.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import quorum
from quorum.config.families import part_source
from quorum.config.view import Part, View
from quorum.digests import digest, text_digest

PACKAGE = Path(quorum.__file__).parent
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")  # where statements hold statements
READ_BESIDE = {"quorum.report.pages": "report/templates"}  # files that a module reads


def code_digest(view: View) -> str:
    """Digest of the code that the stage of a view runs: 64 hex digits."""
    parts = [part_source(part.family, part.name) for part in parts_of(view)]
    names = [f"quorum.pipeline.{view.study}.{view.stage}", "quorum.pipeline.entry"]
    if view.stage in ("generate", "score") and isinstance(kind := getattr(view, "kind", None), str):
        names.append(f"quorum.pipeline.{view.study}.{kind}")  # these two import it by its name
    names += [source for source in parts if source.startswith("quorum.")]
    outside = sorted(source for source in parts if not source.startswith("quorum."))
    files = {str(p.relative_to(PACKAGE)): _file_digest(p) for p in closure(names)}
    return digest([files, outside])


def closure(names: Iterable[str]) -> set[Path]:
    """Files of the modules and of all that they import, inside functions too."""
    todo = [path for name in names if (path := _file_of(name)) is not None]
    seen = set(todo)
    while todo:
        new = _imports(todo.pop()) - seen
        seen |= new
        todo += new
    beside = [folder for name, folder in READ_BESIDE.items() if _file_of(name) in seen]
    return seen | {p for folder in beside for p in (PACKAGE / folder).iterdir() if p.is_file()}


def parts_of(value: object) -> Iterator[Part]:
    """All parts that stand in a view."""
    if isinstance(value, Part):
        yield value
    elif isinstance(value, Mapping) and set(value) == {"family", "name", "options"}:
        yield Part(**value)
    elif isinstance(value, tuple):
        for item in value:
            yield from parts_of(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from parts_of(getattr(value, field.name))


@cache
def _file_digest(path: Path) -> str:
    return text_digest(path.read_text(encoding="utf-8"))


@cache
def _imports(path: Path) -> frozenset[Path]:
    if path.suffix != ".py":
        return frozenset()
    names = _imported_names(path.read_text(encoding="utf-8"))
    return frozenset(found for name in names if (found := _file_of(name)) is not None)


@cache
def _imported_names(source: str) -> frozenset[str]:
    """All that a module's text imports, each name with the module it is taken from.

    What only a type checker reads does not count: it never runs.
    """
    names: set[str] = set()
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        for block in _BLOCKS:  # statements only: an expression imports nothing
            if not (block == "body" and _is_for_types(node)):
                todo += getattr(node, block, ())
    return frozenset(names)


def _is_for_types(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _file_of(name: str) -> Path | None:
    """The file of a module of this package; a package is its __init__.py."""
    first, *rest = name.split(".")
    if first != "quorum":
        return None
    base = PACKAGE.joinpath(*rest)
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None
