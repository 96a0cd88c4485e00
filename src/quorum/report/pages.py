"""The self-contained pages of an attribution run: an index and a page a snapshot.

A page is one file: its style, script and charts stand inside it, its content security policy
forbids any request and any script but its own, and its text depends on its arguments alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from quorum.errors import InputError
from quorum.report.charts import digits_for
from quorum.report.convergence import convergence_view
from quorum.report.document import Attribution, read_attribution, table, texts
from quorum.report.escape import file_slug, script_json, visible_label, visible_text
from quorum.report.masked import masked_view
from quorum.report.mean_curves import mean_curves_view
from quorum.report.views import View, index_row, snapshot_view

Fact = tuple[str, str]

_SHARED_FACTS = (  # mostly the same for all snapshots of a run
    ("Estimator", "estimator"),
    ("Estimand", "estimand"),
    ("Control variate", "control_variate"),
    ("Value function", "value_function"),
    ("Reference", "reference"),
    ("Normaliser", "normaliser"),
    ("Partitioner", "partitioner"),
    ("Absence", "absence"),
)
_INPUT_FACTS = (
    ("Input", "title"),
    ("Input file", "name"),
    ("Licence of the input", "licence"),
    ("Attribution of the input", "attribution"),
    ("Citation", "citation"),
)
_PLACED = frozenset(
    [
        "run_id",
        "title",
        "settings_digest",
        "seed",
        "quorum",
        "input",
        "backend",
        "n_requests",
        "notes",
    ]
)


def attribution_pages(
    attributions: Sequence[Mapping[str, object]],
    run: Mapping[str, object],
    replies: Mapping[str, Mapping[str, object]] | None = None,
) -> dict[str, str]:
    """All pages of a run: path → text, ``report.html`` and ``snapshots/<slug>.html``.

    Args:
        attributions: The objects of ``attributions.jsonl``, in the order of the index.
        run: What the run is: ``title``, ``run_id``, ``settings_digest``, ``seed``, ``quorum``
            (version), ``input``, ``backend``, ``n_requests`` (distinct requests of the whole run)
            and ``notes``, all optional; the manifest of the first snapshot stands in. Any other
            entry is shown under its own name.
        replies: Masked generations by snapshot (``masked_view``); None where none were kept.

    Raises:
        InputError: An object is not an attribution, or two have the same snapshot id.
    """
    read = [read_attribution(source) for source in attributions]
    ids = [attribution.snapshot for attribution in read]
    doubled = (
        sorted({name for name in ids if ids.count(name) > 1}) if len(set(ids)) < len(ids) else []
    )
    if doubled:
        raise InputError("report", "two snapshots have the same id", got=doubled[0])
    slugs = [file_slug(name) for name in ids]
    manifest = {**(read[0].manifest if read else {}), **run}
    common: View = {
        "title": visible_text(str(manifest.get("title") or "Attribution report")),
        "label": _label(table(manifest, "backend")),
    }
    pages = {"report.html": _index_page(read, slugs, manifest, run, common)}
    for position, (source, attribution) in enumerate(zip(attributions, read, strict=True)):
        pages[f"snapshots/{slugs[position]}.html"] = _snapshot_page(
            source,
            attribution,
            {**common, "masked": masked_view(attribution, (replies or {}).get(ids[position], {}))},
            previous=_link(ids, slugs, position - 1),
            following=_link(ids, slugs, position + 1),
        )
    return pages


@cache
def environment() -> Environment:
    """The templates of this package: autoescape everywhere, an undefined name is an error."""
    return Environment(
        loader=PackageLoader("quorum.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def script_view(*names: str) -> View:
    """The script of a page from files of this package, and the digest that its policy allows."""
    script = "".join(environment().get_template(name).render() for name in names)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {
        "script": Markup(script),  # noqa: S704 - our own files
        "script_hash": f"sha256-{digest}",
    }


def _index_page(
    read: Sequence[Attribution],
    slugs: Sequence[str],
    manifest: Mapping[str, object],
    run: Mapping[str, object],
    common: View,
) -> str:
    numbers = [
        number
        for attribution in read
        for number in (attribution.base_value, attribution.grand_value, *attribution.raw_values)
    ]
    digits = digits_for(numbers)
    return (
        environment()
        .get_template("report.html")
        .render(
            **common,
            facts=_run_facts(read, manifest, run),
            notes=[visible_text(note) for note in texts(run, "notes")],
            rows=[index_row(item, slug, digits) for item, slug in zip(read, slugs, strict=True)],
            curves=mean_curves_view(read),
            **script_view("sort.js", "index.js"),
        )
    )


def _snapshot_page(
    source: Mapping[str, object],
    attribution: Attribution,
    common: View,
    *,
    previous: View | None,
    following: View | None,
) -> str:
    view = snapshot_view(attribution)
    indices = range(attribution.n_players)
    return (
        environment()
        .get_template("snapshot.html")
        .render(
            **common,
            s=view,
            convergence=convergence_view(attribution),
            facts=_snapshot_facts(attribution, view),
            has_intervals=any(attribution.interval(index) is not None for index in indices),
            show_roles=len({player.role for player in attribution.players}) > 1,
            previous=previous,
            following=following,
            data=Markup(script_json(source)),  # noqa: S704 - script_json cannot end the element
        )
    )


def _link(ids: Sequence[str], slugs: Sequence[str], position: int) -> View | None:
    if not 0 <= position < len(ids):
        return None
    return {"href": f"{slugs[position]}.html", "name": visible_label(ids[position], limit=40)}


def _label(backend: Mapping[str, object]) -> str:
    model = visible_text(str(backend.get("model") or "a language model"))
    return f"Replies were written by {model}, not by people. Values describe that model's replies."


def _distinct(read: Sequence[Attribution], name: str) -> str:
    return ", ".join(sorted({item.texts[name] for item in read if item.texts[name]}))


def _sum(counts: Sequence[int | None]) -> str:
    known = [count for count in counts if count is not None]
    missing = len(counts) - len(known)
    return f"{sum(known):,}" + (f" ({missing} snapshots not recorded)" if missing else "")


def _run_facts(
    read: Sequence[Attribution], manifest: Mapping[str, object], run: Mapping[str, object]
) -> list[Fact]:
    """The run's facts, each a name and a text, those that were not given left out."""
    n_requests = run.get("n_requests")
    requests = (
        f"{n_requests:,}"
        if isinstance(n_requests, int)
        else f"{_sum([item.n_requests for item in read])} (sum over snapshots)"
    )
    facts = _backend_facts(table(manifest, "backend"))
    facts += [(label, _distinct(read, name)) for label, name in _SHARED_FACTS]
    facts += [
        ("Snapshots", f"{len(read):,}"),
        ("Players", _sum([item.n_players for item in read])),
        ("Coalitions", _sum([item.n_coalitions for item in read])),
        ("Requests it rests on", requests),
    ]
    source = table(manifest, "input")
    facts += [(label, _shown(source.get(name))) for label, name in _INPUT_FACTS]
    facts += [
        ("Seed", _shown(manifest.get("seed"))),
        ("Quorum", _shown(manifest.get("quorum"))),
        ("Settings digest", _shown(manifest.get("settings_digest"))),
        ("Run", _shown(manifest.get("run_id")) or _distinct(read, "run_id")),
    ]
    facts += [(_name(key), _shown(run[key])) for key in sorted(run) if key not in _PLACED]
    return [(label, value) for label, value in facts if value]


def _snapshot_facts(attribution: Attribution, view: View) -> list[Fact]:
    noise = view["noise"]
    assert isinstance(noise, list)
    facts = [
        ("v(∅), payoff without any player", str(view["base_value"])),
        ("v(N), payoff of the whole prompt", str(view["grand_value"])),
        ("Efficiency residual", f"{view['residual']} (v(N) − v(∅) − Σ values)"),
        ("Players", f"{attribution.n_players:,}"),
        ("Coalitions", str(view["n_coalitions"])),
        ("Requests", f"{view['n_requests']} distinct"),
        ("Budget bound by", str(view["binding"])),
        ("Protected share of the prompt", str(view["protected"])),
        *((label, visible_text(attribution.texts[name])) for label, name in _SHARED_FACTS),
        *((f"Noise: {name}", value) for name, value in noise),
        *_backend_facts(table(attribution.manifest, "backend")),
        ("Settings digest", _shown(attribution.manifest.get("settings_digest"))),
        ("Snapshot digest", visible_text(attribution.texts["snapshot_digest"])),
        ("Run", visible_text(attribution.texts["run_id"])),
    ]
    return [(label, value) for label, value in facts if value]


def _backend_facts(backend: Mapping[str, object]) -> list[Fact]:
    return [
        ("Model", _shown(backend.get("model"))),
        ("Backend", _shown(backend.get("name"))),
        ("Identity", _shown(backend.get("identity"))),
    ]


def _name(key: str) -> str:
    return visible_text(key.replace("_", " ").capitalize())


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(value[key])}" for key in sorted(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(_shown(item) for item in value)
    return visible_text(str(value))
