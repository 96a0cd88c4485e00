"""Reads the documentation: commands with the output they show, generated tables, links, names.

A fenced block of the language ``console`` holds commands (``$ …``) with their output. A comment on
the line above a block or a table says more:

``<!-- check: known -->``         the commands exist, but are not run here
``<!-- check: settings -->``      experiments whose settings are composed and checked, but not run
``<!-- check: grid -->``          commands that test_newcomer runs, in a project of its own
``<!-- check: write FILE -->``    the block is a file; later commands of the page see it
``<!-- check: add FILE -->``      the block's ``+`` lines come after its other lines in the file
``<!-- check: install FOLDER -->``  the block installs a package; this is done without pip
``<!-- check: table NAME … -->``  the table is made by docs_tables
``<!-- check: columns FILE … -->``  the table's first column names the columns of all these files,
                                  or the keys of a JSON file or of what lies in it (``FILE KEY.0``)
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("docs/benchmarks.md",)  # another program writes it and tests it
_CHECK = re.compile(r"<!-- check: (.+?) -->")
_FENCE = re.compile(r"^(`{3,})(\w*)\s*$")


@dataclass(frozen=True)
class Command:
    """A command line and the output shown below it."""

    line: str
    output: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A fenced block or a table: where its lines stand (0-based, end excluded) and its check."""

    kind: str
    check: tuple[str, ...]
    start: int
    end: int
    lines: tuple[str, ...]

    def commands(self) -> list[Command]:
        """The commands of a console block."""
        found: list[tuple[str, list[str]]] = []
        for line in self.lines:
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
        return [Command(line, tuple(output)) for line, output in found]


def page_names() -> list[str]:
    """All pages that are written by hand, by path from the project's folder."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    pages += sorted((ROOT / "docs").rglob("*.md"))
    names = [page.relative_to(ROOT).as_posix() for page in pages]
    return [name for name in names if name not in GENERATED]


def read_page(name: str) -> str:
    """The text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, and the tables that have a check."""
    return list(_blocks(text.split("\n")))


def _blocks(lines: list[str]) -> Iterator[Block]:
    check: tuple[str, ...] = ()
    i = 0
    while i < len(lines):
        if marked := _CHECK.fullmatch(lines[i].strip()):
            check = tuple(shlex.split(marked.group(1)))
        elif fence := _FENCE.match(lines[i]):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].rstrip() == fence.group(1))
            yield Block(fence.group(2), check, i + 1, end, tuple(lines[i + 1 : end]))
            check, i = (), end
        elif lines[i].startswith("|") and check:
            end = i
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            yield Block("table", check, i, end, tuple(lines[i:end]))
            check, i = (), end - 1
        elif lines[i].strip():
            check = ()
        i += 1


def prose(text: str) -> str:
    """A page without its fenced blocks and comments."""
    lines = text.split("\n")
    for block in blocks(text):
        if block.kind != "table":
            lines[block.start - 1 : block.end + 1] = [""] * (block.end - block.start + 2)
    return re.sub(r"<!--.*?-->", "", "\n".join(lines), flags=re.DOTALL)


def inline_codes(text: str) -> list[str]:
    """The code spans of a page's prose."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def links(text: str) -> list[str]:
    """The targets of a page's links and images."""
    without_code = re.sub(r"`[^`\n]*`", "", prose(text))
    return re.findall(r"\]\(([^)\s]+)\)", without_code)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the usual hosts make them."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    kept = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in kept}


def first_column(block: Block) -> list[str]:
    """The code spans in a table's first column, in order."""
    cells = [line.split("|")[1] for line in block.lines[2:]]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
