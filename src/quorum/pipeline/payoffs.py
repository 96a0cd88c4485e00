"""From the replies of one snapshot to one payoff a coalition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from quorum.attribution.coalitions import from_hex
from quorum.attribution.values.base import Reply, ValueFunction
from quorum.config.view import Part
from quorum.errors import InputError
from quorum.pipeline.partition import Planned
from quorum.records import Generation

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """A reply where it belongs."""

    coalition: int
    sample: int
    key: str
    generation: Generation

    def order(self) -> tuple[int, int, bool]:
        """Where the reply stands in the outputs: by coalition, repeat, text before score."""
        return self.coalition, self.sample, self.generation.token_logprobs is not None


@dataclass(frozen=True, slots=True)
class Scored:
    """Payoffs of one snapshot, coalitions in ascending order.

    Args:
        coalitions: (m, n), True where the player is present.
        payoffs: (m,), mean over the repeats.
        spreads: (m,), sample standard deviation over the repeats; NaN for a single one.
        n_samples: Repeats a coalition.
        base_generation: The reply to the whole prompt.
        empty_generation: The reply to the empty coalition; None where none was asked for.
        finish_reason: How the base generation ended.
        n_requests: Distinct requests that the payoffs rest on.
        noise: Payoffs of repeats of the whole prompt, where any were asked for.
    """

    coalitions: npt.NDArray[np.bool_]
    payoffs: FloatArray
    spreads: FloatArray
    n_samples: int
    base_generation: str
    empty_generation: str | None
    finish_reason: str
    n_requests: int
    noise: FloatArray | None = None


def payoffs_of(
    planned: Planned, rows: Sequence[ReplyRow], value: Part, reference: str
) -> Scored:
    """Scores the replies against the base generation (or the target).

    Repeats of the whole prompt beyond those that every coalition has measure noise; they are
    scored apart, so that they do not change the corpus of the others.

    Raises:
        InputError: The replies are not those that the value function needs.
    """
    function = cast("ValueFunction", value.make())
    n = len(planned.players)
    grand = (1 << n) - 1
    is_scoring = function.needs == "continuation"
    texts = [row for row in rows if row.generation.token_logprobs is None]
    base = next((r for r in texts if r.coalition == grand and r.sample == 0), None)
    if base is None:
        raise InputError(f"snapshot {planned.id}", "has no base generation", mend="dvc repro -f generate")
    target = planned.snapshot.target if reference == "target" else base.generation.text
    assert target is not None
    used = [r for r in rows if r.generation.token_logprobs is not None] if is_scoring else texts
    samples = 1 + max(r.sample for r in used if r.coalition == 0)
    repeats = [r for r in used if r.coalition == grand]
    extra = [] if is_scoring else [r for r in repeats if r.sample >= samples]
    counted = [r for r in used if is_scoring or r.sample < samples]
    payoffs = function.payoffs([_reply(r) for r in counted], target)
    groups: dict[int, list[float]] = {}
    for row, payoff in zip(counted, payoffs.tolist(), strict=True):
        groups.setdefault(row.coalition, []).append(payoff)
    order = sorted(groups)
    empty = next((r for r in texts if r.coalition == 0 and r.sample == 0), None)
    noise = function.payoffs([_reply(r) for r in repeats], target) if extra else None
    return Scored(
        coalitions=from_hex([f"{bits:x}" for bits in order], n),
        payoffs=np.array([float(np.mean(groups[bits])) for bits in order]),
        spreads=np.array(
            [float(np.std(groups[b], ddof=1)) if len(groups[b]) > 1 else np.nan for b in order]
        ),
        n_samples=samples,
        base_generation=base.generation.text,
        empty_generation=None if empty is None else empty.generation.text,
        finish_reason=base.generation.finish_reason,
        n_requests=len({row.key for row in rows}),
        noise=noise,
    )


def _reply(row: ReplyRow) -> Reply:
    return Reply(row.generation.text, row.generation.token_logprobs)
