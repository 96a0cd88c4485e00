"""What the pages of a reconstruction show, as typed records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorum.report.reconstruction_reading import Scalar

MIN_CELL = 10  # people: a smaller group of real people is never shown


@dataclass(frozen=True, slots=True)
class Option:
    """An answer option: shares 0..1; None where undefined or sealed.

    ``low`` and ``high`` are the ends of the interval around the primary policy's prediction.
    """

    label: str
    text: str
    target: float | None
    low: float | None
    high: float | None
    pool_mean: float | None
    predicted: Mapping[str, float | None]  # policy → share


@dataclass(frozen=True, slots=True)
class Question:
    """A question of one target, with its options in their order."""

    id: str
    text: str
    topic: str
    split: str  # "train" | "test"
    is_ordinal: bool
    n: float | None
    mse: float | None
    total_variation: float | None
    is_modal_right: bool | None
    reason: str  # why mse is null
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A metric record; ``source`` is the fit or a baseline; a null value has its reason."""

    metric: str
    value: float | None
    reason: str
    split: str
    unit: str
    policy: str
    n_questions: int | None
    coverage: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Paired:
    """Fit minus baseline, of one metric: below 0 the fit is closer to the target."""

    against: str
    split: str
    metric: str
    difference: float | None
    low: float | None
    high: float | None
    n_blocks: int | None
    reason: str

    def verdict(self) -> str:
        """``closer``, ``further``, ``unclear`` (the interval holds 0) or ``unknown``."""
        if self.difference is None:
            return "unknown"
        if self.low is None or self.high is None or self.low <= 0.0 <= self.high:
            return "unclear"
        return "closer" if self.high < 0.0 else "further"


@dataclass(frozen=True, slots=True)
class CvPoint:
    """A point of the cross-validation curve: mean squared error and its standard error."""

    lam: float | None
    anchor: str
    mse: float | None
    se: float | None
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Target:
    """One target (the population or a group) and the fit to it."""

    name: str
    fit: Mapping[str, Scalar]
    solver: Mapping[str, Scalar]
    cv: tuple[CvPoint, ...]
    questions: tuple[Question, ...]
    records: tuple[Record, ...]
    paired: tuple[Paired, ...]
    cv_coverage: float | None
    test_coverage: float | None
    coverage_reason: str
    noise_floor: float | None
    noise_floor_reason: str  # why it is null, or what it leaves out
    uncovered: tuple[tuple[str, str, float | None], ...]  # question, option, lost share
    misfit: tuple[tuple[str, float | None], ...]  # question, largest error

    def record(self, metric: str, split: str, source: str) -> Record | None:
        """The first record of a metric, a split and a source; None where there is none."""
        for item in self.records:
            if (item.metric, item.split, item.source) == (metric, split, source):
                return item
        return None


@dataclass(frozen=True, slots=True)
class Persona:
    """A model respondent and its ensemble weight in each target's fit."""

    id: str
    mode: str
    text: str
    weights: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Cell:
    """A group of at least MIN_CELL real people: its share of them, its ensemble weights."""

    attribute: str
    value: str
    n: int
    share: float | None
    weights: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Entropy:
    """Entropies 0..1 by round of active generation."""

    aggregate: tuple[tuple[int, int | None, float | None], ...]  # round, personas, entropy
    modes: tuple[tuple[int, str, int | None, float | None, float | None, float | None], ...]
    questions: tuple[tuple[int, str, float | None], ...]  # round, question, entropy


@dataclass(frozen=True, slots=True)
class ModeRow:
    """A mode's line of the summary; the weight is that of the first target's fit."""

    mode: str
    n_personas: int
    mean_entropy: float | None
    total_weight: float | None


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """All that the pages of a reconstruction show."""

    is_panel: bool
    label: str
    level: float
    policy: str  # the primary one
    seed: Scalar
    survey: Mapping[str, Scalar]
    split: Mapping[str, Scalar]
    pair: tuple[str, ...]  # the two most similar questions across the split
    is_sealed: bool
    cleaning: Mapping[str, Scalar]
    cleaning_counts: tuple[tuple[str, int], ...]
    elicitation: Mapping[str, Scalar]
    targets: tuple[Target, ...]
    personas: tuple[Persona, ...]
    cells: tuple[Cell, ...]
    position_bias: Mapping[str, object]
    entropy: Entropy | None
    modes: tuple[ModeRow, ...]
    stop_reason: str
    notes: tuple[str, ...]

    @property
    def badge(self) -> str:
        """What the answers are, in two or three words, for every page and table."""
        if "negative control" in self.label.lower():
            return "negative control"
        return "real people" if self.is_panel else "model-generated"
