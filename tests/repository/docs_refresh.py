"""Rewrites what the pages show of the product: outputs of commands, and generated tables.

Run ``python tests/repository/docs_refresh.py`` and read the difference: a changed output is a
change that users see. Outputs that a page shortens with ``...`` are left as they are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from docs_pages import ROOT, Block, blocks, page_names, read_page
from docs_project import Project, scripted_project
from docs_tables import table


def refreshed(text: str, project: Project) -> str:
    """A page with the outputs and tables of this moment."""
    lines = text.split("\n")
    shift = 0
    for block in blocks(text):
        new = _new_lines(block, project)
        if new is not None:
            lines[block.start + shift : block.end + shift] = new
            shift += len(new) - (block.end - block.start)
    return "\n".join(lines)


def _new_lines(block: Block, project: Project) -> list[str] | None:
    if block.check[:1] == ("table",):
        return table(*block.check[1:])
    if block.check[:1] in {("write",), ("add",), ("install",)}:
        project.apply(block)
    if block.kind != "console" or block.check[:1] in {
        ("known",),
        ("settings",),
        ("grid",),
        ("install",),
    }:
        return None
    out: list[str] = []
    for command in block.commands():
        outcome = project.run(command.line)
        is_whole = command.output and "..." not in command.output
        shown = outcome.lines if is_whole else command.output
        out += [f"$ {command.line}", *shown]
    return out


def main() -> int:
    """Refreshes all pages, or those named."""
    with tempfile.TemporaryDirectory() as folder:
        template = scripted_project(Path(folder) / "template")
        for name in sys.argv[1:] or page_names():
            text = read_page(name)
            new = refreshed(text, template.copy(Path(folder) / name.replace("/", "-")))
            if new != text:
                (ROOT / name).write_text(new, encoding="utf-8")
                sys.stdout.write(f"refreshed {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
