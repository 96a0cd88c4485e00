"""Stage ``score``: replies become payoffs; no model is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quorum.config.attribution_views import ScoreView
from quorum.pipeline import artifacts
from quorum.pipeline.attribution import plan as plan_file
from quorum.pipeline.attribution import replies
from quorum.pipeline.attribution.payoffs import Scored, payoffs_of, write
from quorum.pipeline.attribution.plan import Plan


def run(root: Path) -> None:
    """Scores all replies of the run."""
    plan = plan_file.read(root / artifacts.PARTITION)
    folder = root / artifacts.GENERATE
    rows = {p.id: replies.read_rows(folder, p.id) for p in plan.snapshots}
    scored = score(plan, rows, ScoreView.read(root))
    n_requests = len({row.key for found in rows.values() for row in found})
    facts = {**artifacts.read_json(folder / "model.json"), "n_requests": n_requests}
    write(scored, facts, artifacts.fresh_folder(root / artifacts.SCORE))


def score(
    plan: Plan, rows: Mapping[str, list[replies.ReplyRow]], view: ScoreView
) -> dict[str, Scored]:
    """Payoffs by snapshot id."""
    return {p.id: payoffs_of(p, rows[p.id], view.value, view.reference) for p in plan.snapshots}
