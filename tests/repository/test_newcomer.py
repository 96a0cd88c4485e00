"""The newcomer's hour: a grid of eight from the quick start, as a table, and back to a run."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3

from docs_commands import run_command
from docs_pages import ROOT, blocks, read_page

GRID = [
    block
    for block in blocks(read_page("docs/quick-start.md"))
    if block.check[:1] == ("grid",) or block.check == ("write", "tables/grid.yaml")
]


def kept_and_paid(root) -> tuple[int, int]:
    """Replies in the store; calls in the ledgers of all runs."""
    with sqlite3.connect(root / ".cache/quorum/store.sqlite") as store:
        (kept,) = store.execute("SELECT count(*) FROM generation").fetchone()
    store.close()
    ledgers = root.glob(".cache/quorum/runs/*/usage.csv")
    return kept, sum(len(path.read_text().splitlines()) - 1 for path in ledgers)


def test_a_grid_of_eight_becomes_a_table_that_leads_back_to_its_runs(template):
    assert GRID[0].commands()[0].line.startswith("dvc exp run --queue")
    for block in GRID:
        if block.check[0] == "write":
            template.apply(block)
            continue
        for command in block.commands():
            run_command(command, template)
            if command.line.startswith("dvc queue start"):
                template.wait_for_queue()

    root = template.root
    kept, paid = kept_and_paid(root)
    assert kept == paid, "the grid's experiments paid for no reply twice"
    assert template.run("git status --porcelain").lines == (
        "?? tables/grid.yaml",
        "?? tables/grid/",
    )
    trace = json.loads((root / "tables/grid/trace.json").read_text(encoding="utf-8"))
    assert len(trace["runs"]) == 8
    tex = (root / "tables/grid/table.tex").read_text(encoding="utf-8")
    assert len(re.findall(r"(?m)^\w.* & 0\.[12] & ", tex)) == 8

    drop = re.search(r"--drop '(.*)'", (ROOT / "Makefile").read_text(encoding="utf-8"))
    shown = template.run(f"dvc exp show --csv --drop '{drop[1]}'")
    rows = list(csv.DictReader(io.StringIO("\n".join(shown.lines))))
    knobs = {(r["budget.fraction"], r["estimator"]) for r in rows if r["Experiment"]}
    assert len(knobs) == 8
    # what a terminal shows: without rev, typ and parent, which only the CSV has
    columns = [c for c in rows[0] if c not in ("rev", "typ", "parent")]
    assert len(columns) <= 20
    assert not [c for c in columns if "/" in c]
