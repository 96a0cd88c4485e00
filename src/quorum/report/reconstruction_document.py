"""The diagnostics of a reconstruction, read from their JSON form into typed records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorum.errors import InputError
from quorum.report.reconstruction_reading import Node
from quorum.report.reconstruction_records import (
    MIN_CELL,
    Cell,
    CvPoint,
    Diagnostics,
    Entropy,
    ModeRow,
    Option,
    Paired,
    Persona,
    Question,
    Record,
    Target,
)

_OF_THE_FIT = ("mass", "n_active", "effective_size")  # metrics that know no target


def read_diagnostics(source: Mapping[str, object]) -> Diagnostics:
    """The typed record of ``diagnostics.json``.

    Raises:
        InputError: A field is missing or of the wrong kind, a number is not finite, a name stands
            twice, a value of a sealed test is given, or real people would be shown as persons or
            in a group below MIN_CELL.
    """
    node = Node("diagnostics", source)
    if source.get("schema") != 1:
        raise InputError("diagnostics.schema", "is not known here", got=source.get("schema"))
    node.need_choice("study", ("reconstruction",))
    is_panel = node.need_choice("respondents", ("model", "panel")) == "panel"
    split = node.need_child("split")
    cleaning = node.give_child("cleaning")
    personas = tuple(_persona(item) for item in node.give_children("personas"))
    if is_panel and personas:
        raise InputError(
            "diagnostics.personas", "real people are never shown one by one", allowed="null"
        )
    is_sealed = split.need_choice("test", ("open", "sealed")) == "sealed"
    targets = _targets(node, is_sealed=is_sealed)
    level = node.number("level")
    if level is None or not 0.0 < level < 1.0:
        raise InputError("diagnostics.level", "must lie between 0 and 1", got=level)
    return Diagnostics(
        is_panel=is_panel,
        label=node.need_text("label"),
        level=level,
        policy=_policy(node, targets),
        seed=Node(node.where, {"seed": source.get("seed")}).scalars()["seed"],
        survey=node.give_child("survey").scalars(),
        split=_without(split, "pair").scalars(),
        pair=split.give_texts("pair"),
        is_sealed=is_sealed,
        cleaning=_without(cleaning, "counts").scalars(),
        cleaning_counts=tuple(
            (item.need_text("reason"), item.need_count("n"))
            for item in cleaning.give_children("counts")
        ),
        elicitation=node.give_child("elicitation").scalars(),
        targets=targets,
        personas=personas,
        cells=tuple(_cell(item, is_panel=is_panel) for item in node.give_children("cells")),
        position_bias=node.give_child("position_bias").items,
        entropy=None if source.get("entropy") is None else _entropy(node.need_child("entropy")),
        modes=tuple(_mode(item) for item in node.give_children("mode_summary")),
        stop_reason=node.give_text("stop_reason"),
        notes=node.give_texts("notes"),
    )


def _targets(node: Node, *, is_sealed: bool) -> tuple[Target, ...]:
    targets = tuple(_target(item) for item in node.need_children("targets"))
    if not targets:
        raise InputError(node.at("targets"), "is empty", allowed="one target or more")
    _unique(node.at("targets"), [target.name for target in targets])
    if is_sealed:
        for place, target in enumerate(targets):
            _check_sealed(target, f"{node.at('targets')}[{place}]")
    return targets


def _without(node: Node, *names: str) -> Node:
    return Node(node.where, {key: node.items[key] for key in node.items if key not in names})


def _unique(where: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(where, "a name stands twice", got=name)
        seen.add(name)


def _check_sealed(target: Target, where: str) -> None:
    """Nothing that rests on a test question's target may stand there while the test is sealed."""
    tested = {question.id for question in target.questions if question.split == "test"}
    leaks = [
        question.id
        for question in target.questions
        if question.id in tested
        and (question.mse, question.total_variation, question.is_modal_right) != (None,) * 3
    ]
    leaks += [
        f"{question.id} {option.label}"
        for question in target.questions
        for option in question.options
        if question.id in tested and option.target is not None
    ]
    leaks += [
        record.metric
        for record in target.records
        if record.split == "test" and record.value is not None and record.metric not in _OF_THE_FIT
    ]
    leaks += [
        f"difference to {row.against}"
        for row in target.paired
        if row.split == "test" and row.difference is not None
    ]
    leaks += [name for name, _, lost in target.uncovered if name in tested and lost is not None]
    leaks += ["interval_coverage.test"] if target.test_coverage is not None else []
    if leaks:
        raise InputError(
            where,
            "the test is sealed and yet a value of it is written",
            got=leaks[0],
            allowed="null",
        )


def _policy(node: Node, targets: tuple[Target, ...]) -> str:
    """The primary policy: as given, else ``project`` where there is one, else the first name."""
    found = {
        policy
        for target in targets
        for question in target.questions
        for option in question.options
        for policy in option.predicted
    }
    given = node.give_text("policy")
    if given and found and given not in found:
        raise InputError(
            node.at("policy"),
            "no prediction has this policy",
            got=given,
            allowed=", ".join(sorted(found)),
        )
    return given or ("project" if "project" in found else min(found, default=""))


def _target(node: Node) -> Target:
    fit = node.need_child("fit")
    coverage = node.give_child("interval_coverage")
    questions = tuple(_question(item) for item in node.need_children("questions"))
    _unique(node.at("questions"), [question.id for question in questions])
    return Target(
        name=node.need_text("target"),
        fit=_without(fit, "solver", "cv").scalars(),
        solver=fit.give_child("solver").scalars(),
        cv=tuple(_cv_point(item) for item in fit.give_children("cv")),
        questions=questions,
        records=tuple(_record(item) for item in node.need_children("records")),
        paired=tuple(_paired(item) for item in node.need_children("paired")),
        cv_coverage=coverage.give_number("train_cv"),
        test_coverage=coverage.give_number("test"),
        coverage_reason=coverage.give_text("reason"),
        noise_floor=node.give_number("noise_floor"),
        noise_floor_reason=node.give_text("noise_floor_reason"),
        uncovered=tuple(
            (item.need_text("question"), item.need_text("option"), item.number("target"))
            for item in node.give_children("uncovered")
        ),
        misfit=tuple(
            (item.need_text("question"), item.number("max_error"))
            for item in node.give_children("misfit")
        ),
    )


def _question(node: Node) -> Question:
    options = tuple(_option(item) for item in node.need_children("options"))
    _unique(node.at("options"), [option.label for option in options])
    return Question(
        id=node.need_text("id"),
        text=node.need_text("text"),
        topic=node.give_text("topic"),
        split=node.need_choice("split", ("train", "test")),
        is_ordinal=bool(node.give_flag("ordinal")),
        n=node.give_number("n"),
        mse=node.number("mse"),
        total_variation=node.number("total_variation"),
        is_modal_right=node.give_flag("is_modal_right"),
        reason=node.give_text("reason"),
        options=options,
    )


def _option(node: Node) -> Option:
    low, high = node.number("low"), node.number("high")
    if low is not None and high is not None and low > high:
        raise InputError(node.where, "low lies above high", got=(low, high))
    return Option(
        label=node.need_text("label"),
        text=node.give_text("text"),
        target=node.number("target"),
        low=low,
        high=high,
        pool_mean=node.number("pool_mean"),
        predicted=node.need_child("predicted").numbers(),
    )


def _record(node: Node) -> Record:
    return Record(
        metric=node.need_text("metric"),
        value=node.number("value"),
        reason=node.give_text("reason"),
        split=node.give_text("split"),
        unit=node.give_text("unit"),
        policy=node.give_text("policy"),
        n_questions=node.give_count("n_questions"),
        coverage=node.give_number("coverage"),
        source=node.need_text("source"),
    )


def _paired(node: Node) -> Paired:
    return Paired(
        against=node.need_text("against"),
        split=node.need_text("split"),
        metric=node.need_text("metric"),
        difference=node.number("difference"),
        low=node.number("low"),
        high=node.number("high"),
        n_blocks=node.give_count("n_blocks"),
        reason=node.give_text("reason"),
    )


def _cv_point(node: Node) -> CvPoint:
    lam = node.number("lam")
    if lam is not None and lam < 0.0:
        raise InputError(node.at("lam"), "must be a number from 0 on or null", got=lam)
    return CvPoint(
        lam=lam,
        anchor=node.give_text("anchor"),
        mse=node.number("mse"),
        se=node.give_number("se"),
        is_chosen=bool(node.give_flag("chosen")),
    )


def _persona(node: Node) -> Persona:
    return Persona(
        id=node.need_text("id"),
        mode=node.give_text("mode"),
        text=node.need_text("text"),
        weights=node.give_child("weights").numbers(),
    )


def _cell(node: Node, *, is_panel: bool) -> Cell:
    n = node.need_count("n")
    if is_panel and n < MIN_CELL:
        raise InputError(
            node.at("n"),
            "so small a group of real people is not shown",
            got=n,
            allowed="10 or more",
        )
    return Cell(
        attribute=node.need_text("attribute"),
        value=node.need_text("value"),
        n=n,
        share=node.give_number("share"),
        weights=node.give_child("weights").numbers(),
    )


def _entropy(node: Node) -> Entropy:
    return Entropy(
        aggregate=tuple(
            (item.need_count("round"), item.give_count("n_personas"), item.number("entropy"))
            for item in node.give_children("aggregate")
        ),
        modes=tuple(
            (
                item.need_count("round"),
                item.need_text("mode"),
                item.give_count("n"),
                item.number("entropy"),
                item.give_number("shrunken"),
                item.give_number("probability"),
            )
            for item in node.give_children("modes")
        ),
        questions=tuple(
            (item.need_count("round"), item.need_text("question"), item.number("entropy"))
            for item in node.give_children("questions")
        ),
    )


def _mode(node: Node) -> ModeRow:
    return ModeRow(
        mode=node.need_text("mode"),
        n_personas=node.need_count("n_personas"),
        mean_entropy=node.give_number("mean_entropy"),
        total_weight=node.give_number("total_weight"),
    )
