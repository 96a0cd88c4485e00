"""What the next ``dvc repro`` would ask for, against the store of this moment."""

from __future__ import annotations

from pathlib import Path

from quorum.config.compose import Settings
from quorum.config.reconstruction_stages import generate_view, partition_view
from quorum.config.stages import runtime_view
from quorum.pipeline.forecasting import Forecast
from quorum.pipeline.reconstruction.forecasting import live_forecast
from quorum.pipeline.reconstruction.partition import prepare
from quorum.pipeline.reconstruction.questions import Targets, sides


def forecast(root: Path, settings: Settings) -> Forecast:
    """The forecast of a run with these settings: ``rows``, ``totals`` and what they rest on."""
    prepared = prepare(root, partition_view(root, settings))
    train = {q.id for q in sides(prepared.questions)["train"]}
    targets = Targets(
        {
            name: {q: shares for q, shares in by_question.items() if q in train}
            for name, by_question in prepared.targets.items()
        },
        {q: share for q, share in prepared.refused.items() if q in train},
    )
    return live_forecast(
        root,
        prepared.questions,
        targets,
        str(prepared.split["by"]),
        generate_view(root, settings),
        runtime_view(settings),
    )
