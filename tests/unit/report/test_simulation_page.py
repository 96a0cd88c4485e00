"""The page of a sweep: small multiples, the same numbers in tables, and nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from made_sweeps import SHOWN, statistics, summary

from quorum.errors import InputError
from quorum.report.simulation import LABEL, shown_number, simulation_page
from quorum.report.simulation_charts import FOOT, SHAPES, small_multiples
from quorum.report.simulation_plots import SERIES_COLUMNS, series_rows
from quorum.report.simulation_series import MAX_PANELS, MAX_SERIES, figure


def page(**run: object) -> str:
    return simulation_page(summary(), SHOWN, {"title": "A <sweep>", "seed": 0, **run})


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL).split())


class Checker(HTMLParser):
    """Every element that is opened is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in {"meta", "br", "path", "!doctype"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_figure_has_a_panel_a_game_a_line_an_estimator_and_budgets_along_the_axis() -> None:
    found = figure(summary(), SHOWN)
    assert [panel.name for panel in found.panels] == ["game textsim", "game glove"]
    assert found.series == ("mc", "gp <b>")
    assert (found.axis, found.labels) == ("budget", ("3n", "all"))
    point = found.panels[0].series[0].points[1]
    assert (point.place, point.mean, point.low, point.n) == (1, 0.01, 0.005, 4)


def test_an_option_of_the_lines_part_belongs_to_the_line() -> None:
    given = summary(("textsim",))
    for cell in given["cells"]:
        cell["varied"] = {
            "budget": cell["varied"]["budget"],
            "estimator": "complementary",
            "estimator.control_variate": cell["varied"]["estimator"],
        }
    found = figure(given, SHOWN)
    assert found.series == (
        "complementary, control_variate mc",
        "complementary, control_variate gp <b>",
    )
    assert len(found.panels) == 1


def test_baselines_are_lines_of_their_own_from_the_worlds_of_their_place() -> None:
    given = summary(("textsim",))
    for cell in given["cells"]:
        cell["metrics"]["nmse_uniform"] = statistics(0.5)
    found = figure(given, {**SHOWN, "baselines": ["nmse_uniform"]})
    (panel,) = found.panels
    last = panel.series[-1]
    assert (last.name, last.is_baseline, [p.mean for p in last.points]) == (
        "uniform",
        True,
        [0.5, 0.5],
    )
    assert found.series == ("mc", "gp <b>", "uniform")


def test_what_is_too_much_for_the_charts_is_counted() -> None:
    many = summary(tuple(f"g{k}" for k in range(MAX_PANELS + 3)))
    found = figure(many, SHOWN)
    assert (len(found.panels), found.n_hidden) == (MAX_PANELS, 3)
    assert MAX_SERIES == len(SHAPES) == len(set(SHAPES))


def test_the_axis_is_logarithmic_and_zero_stands_at_its_foot() -> None:
    (first, _) = small_multiples(figure(summary(), SHOWN))
    ticks = {text: float(y) for y, text in first["y_ticks"]}
    assert list(ticks) == ["0", "1e−2", "1e−1", "1"]
    assert ticks["1e−2"] - ticks["1e−1"] == pytest.approx(ticks["1e−1"] - ticks["1"], abs=0.2)
    mc, gp = first["series"]
    ys = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", mc["line"])]
    assert ys == [ticks["1e−1"], ticks["1e−2"]]
    assert float(re.findall(r"[ML][\d.]+ ([\d.]+)", gp["line"])[1]) == ticks["0"]
    assert FOOT < -10


def test_each_line_has_a_shape_of_its_own_in_the_chart_and_in_the_key() -> None:
    html = page()
    for index in (1, 2):
        assert f'class="m c{index}" d="M12 6{SHAPES[index - 1]}"' in html
        assert html.count(SHAPES[index - 1]) == 1 + 2 * 2  # key, and two points in two panels


def test_lines_at_one_place_stand_side_by_side() -> None:
    first, _ = small_multiples(figure(summary(), SHOWN))
    xs = [re.match(r"M([\d.]+)", series["line"]).group(1) for series in first["series"]]
    assert float(xs[1]) - float(xs[0]) == pytest.approx(5.0, abs=0.2)


def test_every_number_of_a_chart_stands_in_the_table_beside_it() -> None:
    text = text_of(page())
    assert "3n 0.1 (0.05 to 0.15) 0.01 (0.005 to 0.015)" in text
    assert "all 0.01 (0.005 to 0.015) 0 (0 to 0)" in text


def test_the_table_of_cells_holds_every_metric_with_its_error_or_its_reason() -> None:
    text = text_of(page())
    assert "textsim-mc-3n 3n mc textsim 4 0.1 ± 0.025 –" in text
    assert "coverage: every true value is 0" in text


def test_the_page_says_that_it_is_synthetic() -> None:
    html = page()
    assert '<span class="badge">synthetic</span>' in html
    assert LABEL in html


def test_the_page_is_self_contained_without_script_and_repeatable() -> None:
    html = page()
    assert html == page()
    assert "default-src 'none'" in html
    assert "script-src 'none'" in html
    assert re.search(r"(?:src|href)\s*=\s*\"(?!#)|url\(|https?://|<script", html) is None
    assert "prefers-color-scheme: dark" in html


def test_foreign_text_is_text() -> None:
    html = page()
    assert "<b>" not in html
    assert "A &lt;sweep&gt;" in html
    assert "gp &lt;b&gt;" in html


def test_elements_close_and_scrolling_parts_can_be_reached_by_keyboard() -> None:
    checker = Checker()
    checker.feed(page())
    assert checker.open == []
    for tag, attributes in checker.attributes:
        if attributes.get("class") == "scroll":
            assert (tag, attributes["tabindex"], attributes["role"]) == ("div", "0", "region")
            assert attributes.get("aria-label") or attributes.get("aria-labelledby")
        if tag == "svg" and attributes.get("role") == "img":
            assert attributes["aria-label"]
    ids = {a["id"] for _, a in checker.attributes if "id" in a}
    assert {"charts", "cells", "about"} <= ids


def test_rows_for_plots_are_the_points_of_the_charts() -> None:
    rows = series_rows(summary(), SHOWN)
    assert len(rows) == 8
    assert tuple(rows[0]) == SERIES_COLUMNS
    assert (rows[0]["panel"], rows[0]["series"], rows[0]["x"]) == ("game textsim", "mc", "3n")
    assert rows[0]["log10_mean"] == pytest.approx(-1)
    zero = next(row for row in rows if row["mean"] == 0)
    assert zero["log10_mean"] is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "–"), (0.0, "0"), (-0.5, "−0.5"), (0.012345678, "0.01235"), (1e-9, "1.00e−09"),
     (12345.6, "12,346"), (3.0, "3")],
)  # fmt: skip
def test_numbers_have_four_figures(value: float | None, expected: str) -> None:
    assert shown_number(value) == expected


def test_a_sweep_of_one_cell_has_one_panel_and_one_place() -> None:
    given = summary(("textsim",))
    given["cells"] = [{**given["cells"][0], "varied": {}}]
    found = figure(given, SHOWN)
    assert (found.axis, found.labels, found.series) == ("", ("",), ("estimator",))
    assert "All cells" in text_of(simulation_page(given, SHOWN, {}))


def test_what_is_no_summary_is_refused() -> None:
    with pytest.raises(InputError, match="has no cell"):
        figure({}, SHOWN)
    with pytest.raises(InputError, match="lacks the metric of its charts, got 'test_mse'"):
        figure(summary(), {**SHOWN, "headline": "test_mse"})
