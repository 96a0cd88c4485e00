"""Stage ``score``: replies become payoffs; no model is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from quorum.config.attribution_views import ScoreView
from quorum.pipeline import artifacts
from quorum.pipeline.attribution import plan as plan_file
from quorum.pipeline.attribution import replies
from quorum.pipeline.attribution.payoffs import Scored, payoffs_of, unscored, write
from quorum.pipeline.attribution.plan import Plan


def run(root: Path) -> None:
    """Scores all replies of the run."""
    plan = plan_file.read(root / artifacts.PARTITION)
    folder = root / artifacts.GENERATE
    rows = {p.id: replies.read_rows(folder, p.id) for p in plan.snapshots}
    facts = artifacts.read_json(folder / "model.json")
    incomplete = cast("dict[str, str]", facts.pop("incomplete", {}))
    scored = score(plan, rows, ScoreView.read(root), incomplete)
    facts["n_requests"] = len({row.key for found in rows.values() for row in found})
    write(scored, facts, artifacts.fresh_folder(root / artifacts.SCORE))


def score(
    plan: Plan,
    rows: Mapping[str, list[replies.ReplyRow]],
    view: ScoreView,
    incomplete: Mapping[str, str] | None = None,
) -> dict[str, Scored]:
    """Payoffs by snapshot id; an incomplete snapshot has none, and says why."""
    reasons = incomplete or {}
    return {
        p.id: unscored(p, rows[p.id], reasons[p.id])
        if p.id in reasons
        else payoffs_of(p, rows[p.id], view.value, view.reference)
        for p in plan.snapshots
    }
