"""The pages that tests/browser opens: each made by the code that makes it in a run.

To add a page, write a maker and a row of PAGES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from made_attributions import make_attribution, make_replies
from made_budgets import BUDGET
from made_diagnostics import make_diagnostics
from made_sweeps import SHOWN, summary

from quorum.report.budget import budget_page
from quorum.report.inspection import inspection_page
from quorum.report.pages import attribution_pages, environment
from quorum.report.reconstruction import reconstruction_pages
from quorum.report.simulation import simulation_page

HOSTILE = "</script><b>x \x00\x1b[31m\u202eabc\ufeff {{ 7*7 }} " + "W" * 300
ARABIC = "ما هي أفضل طريقة لطهي الأرز؟ 12 دقيقة"
HEBREW = "מהי הדרך הטובה ביותר לבשל אורז?"
MIXED = f"Translate {ARABIC} and {HEBREW} to English (RTL!), 3 × 4."


@dataclass(frozen=True, slots=True)
class Made:
    """A page and texts that a reader must see on it."""

    html: str
    shown: tuple[str, ...]


def snapshot(name: str, prompt: str, *shown: str) -> Made:
    """The page of a snapshot whose prompt is this text."""
    source = make_attribution(name, prompt)
    pages = attribution_pages([source], {}, {name: make_replies(source)})
    (page,) = (text for path, text in pages.items() if path.startswith("snapshots/"))
    return Made(page, shown)


def index() -> Made:
    """The index of several snapshots, one of them without payoffs."""
    prompts = {"lions": "Do lions roar ?", "Über/uns": ARABIC, "mixed": MIXED, "odd": HOSTILE}
    sources = [make_attribution(name, prompt) for name, prompt in prompts.items()]
    capped = make_attribution("capped")
    capped |= {"raw_values": None, "values": None, "values_reason": "a cap", "base_value": None}
    pages = attribution_pages([*sources, capped], {"title": "Animals", "n_requests": 21})
    return Made(pages["report.html"], ("Do lions roar ?", ARABIC, "+0.400", "not available: a cap"))


def long_prompt() -> Made:
    """500 players."""
    return snapshot("long", " ".join(f"token{k}" for k in range(500)), "token499", "+0.4000")


def hostile() -> Made:
    """Text that would be markup, control characters, a word that no line holds."""
    source = make_attribution(HOSTILE, f"{HOSTILE} roars")
    source |= {"base_generation": HOSTILE, "empty_generation": HOSTILE, "notes": [HOSTILE]}
    source["manifest"] = {"backend": {"name": HOSTILE, "model": HOSTILE}}
    replies = make_replies(source)
    assert isinstance(replies["shown"], list)
    replies["shown"][0] |= {"generation": HOSTILE}
    pages = attribution_pages([source], {"title": HOSTILE}, {HOSTILE: replies})
    (page,) = (text for path, text in pages.items() if path.startswith("snapshots/"))
    return Made(page, ("</script><b>x", "\\x00\\x1b[31m\\u202eabc", "{{ 7*7 }}"))


def reconstruction(page: str, *shown: str, **how: object) -> Made:
    """A page of a reconstruction; ``how`` goes to the maker of diagnostics."""
    diagnostics = make_diagnostics(**how)  # type: ignore[arg-type]
    pages = reconstruction_pages(diagnostics, {"run_id": "cd" * 32, "quorum": "0.2.0"})
    return Made(pages[page], shown)


def inspection() -> Made:
    """A run of which little is left, with foreign texts."""
    rows = [
        {"metric": HOSTILE, "value": 0.25, "n": 3},
        {"metric": ARABIC, "value": None, "n": 4},
    ]
    facts = [("Run", HOSTILE), ("Run id", "cd" * 32), ("Model", HEBREW)]
    tables = [("Numbers", rows, "3 more are in the run's own tables.")]
    page = inspection_page(MIXED, HOSTILE, facts, tables, [HOSTILE], ["weights.csv"])
    return Made(page, ("cd" * 32, "0.25", "weights.csv", "</script><b>x"))


def aggregation() -> Made:
    """The page of tables across runs: its body as its own tests know it, under any page's head."""
    golden = Path(__file__).parents[1] / "unit/aggregation/golden/table.html"
    head = environment().get_template("page.html").render().partition("<body>")[0]
    head = head.replace("<title></title>", "<title>Tables</title>")
    return Made(head + golden.read_text(encoding="utf-8"), ("B2",))


GROUPS = ("population", "party=Democrat", "party=Republican", "a long name of a group=and value")
PAGES: list[tuple[str, Callable[[], Made]]] = [
    ("index", index),
    ("snapshot", lambda: snapshot("lions", "Do lions roar ?", "+0.4000", "[+0.2355, +0.5645]")),
    ("long prompt", long_prompt),
    ("right to left", lambda: snapshot("rtl", f"{ARABIC} {HEBREW}", "الأرز؟", "+0.4000")),
    ("mixed directions", lambda: snapshot("mixed", MIXED, "Translate", "הטובה", "−0.2000")),
    ("hostile text", hostile),
    ("report", lambda: reconstruction("report.html", "Did it work?", "cv_mse", "Q3")),
    (
        "report of groups",
        lambda: reconstruction("report.html", "Republican", "23.4", targets=GROUPS),
    ),
    ("report of a panel", lambda: reconstruction("report.html", "Female", respondents="panel")),
    ("diagnostics", lambda: reconstruction("diagnostics.html", "nnls", "Entropy", n_questions=40)),
    (
        "sealed diagnostics",
        lambda: reconstruction("diagnostics.html", "sealed", targets=GROUPS, is_sealed=True),
    ),
    ("budget", lambda: Made(budget_page(BUDGET), ("412,345 (300,000 to 600,001)", "at risk"))),
    ("inspection", inspection),
    ("aggregation", aggregation),
    (
        "sweep",
        lambda: Made(
            simulation_page(summary(), SHOWN, {"title": "A sweep"}), ("gp <b>", "textsim")
        ),
    ),
]
