from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from quorum.report.reconstruction import reconstruction_pages

Document = dict[str, Any]
Make = Callable[..., Document]
Read = Callable[[str], Any]

RUN = {"run_id": "cd" * 32, "quorum": "0.2.0", "backend": {"name": "embedded", "model": "tiny"}}
EVIL = "</script><script>alert(1)</script><b onclick=x>\"'{{ 7*7 }}</div></details>"


@pytest.fixture
def pages(diagnostics: Make) -> dict[str, str]:
    return reconstruction_pages(diagnostics(), RUN)


def test_there_are_two_pages_and_they_link_to_each_other(
    pages: dict[str, str], read_page: Read
) -> None:
    assert list(pages) == ["report.html", "diagnostics.html"]
    report, details = (read_page(page) for page in pages.values())
    assert "diagnostics.html" in report.links
    assert "report.html" in details.links


@pytest.mark.parametrize("respondents", ["model", "panel"])
@pytest.mark.parametrize("targets", [("population",), ("population", "party=A", "party=B", "x=C")])
def test_pages_ask_for_nothing_and_hold_no_script_but_the_one_that_sorts_targets(
    diagnostics: Make, read_page: Read, respondents: str, targets: tuple[str, ...]
) -> None:
    source = diagnostics(respondents=respondents, targets=targets)
    pages = reconstruction_pages(source, RUN)
    for name, page in pages.items():
        reader = read_page(page)
        local = [link for link in reader.links if link.startswith("#")]
        assert {link.removeprefix("#") for link in local} <= set(reader.ids)
        assert set(reader.links) - set(local) <= set(pages)
        assert len(reader.ids) == len(set(reader.ids))
        assert "url(" not in page
        assert "@import" not in page
        assert not {"img", "link", "iframe", "object", "base"} & set(reader.tags)
        assert "default-src 'none'" in page
        has_script = name == "report.html" and len(targets) > 1
        assert reader.tags.count("script") == int(has_script)
        assert ("script-src 'none'" in page) is not has_script


def test_pages_depend_on_their_arguments_alone(diagnostics: Make, pages: dict[str, str]) -> None:
    again = json.loads(json.dumps(diagnostics(), sort_keys=True))
    again["targets"][0]["fit"] = diagnostics()["targets"][0]["fit"]  # facts stand as they are given
    for name in ("survey", "cleaning", "elicitation", "split", "position_bias"):
        again[name] = diagnostics()[name]
    turned = dict(reversed(list(again.items())))
    assert reconstruction_pages(turned, dict(reversed(list(RUN.items())))) == pages


def test_the_answer_stands_before_everything_else(pages: dict[str, str], read_page: Read) -> None:
    text = read_page(pages["report.html"]).text
    order = [
        "Yes: closer to the target than every baseline compared",
        "Paired differences",
        "Errors beside the baselines, policy project",
        "Predicted against target share",
        "Worst questions",
        "Who carries the weight",
        "The run",
    ]
    places = [text.rindex(part) if part == "The run" else text.index(part) for part in order]
    assert places == sorted(places)


def test_a_paired_difference_is_said_with_its_interval(diagnostics: Make, read_page: Read) -> None:
    source = diagnostics()
    source["targets"][0]["paired"] = [
        paired("pool_mean", -0.0121, -0.0181, -0.0066),
        paired("uniform", 0.02, 0.01, 0.03),
        paired("equal_weights", 0.001, -0.002, 0.004),
    ]
    text = read_page(reconstruction_pages(source, RUN)["report.html"]).text
    assert "−0.0121 (90 % interval −0.0181 to −0.0066)" in text
    for verdict in ("closer", "further", "no clear difference"):
        assert verdict in text
    assert "In part: closer to the target than some baselines, not all." in text


@pytest.mark.parametrize(
    ("ends", "head"),
    [
        ((-0.03, -0.01), "Yes: closer to the target than every baseline compared."),
        ((-0.03, 0.01), "No clear difference from the baselines."),
        ((0.01, 0.03), "No: further from the target than a baseline."),
        ((None, None), "No clear difference from the baselines."),
    ],
)
def test_an_interval_that_holds_zero_is_no_success(
    diagnostics: Make, read_page: Read, ends: tuple[float | None, float | None], head: str
) -> None:
    source = diagnostics()
    source["targets"][0]["paired"] = [paired("pool_mean", -0.0, *ends)]
    assert head in read_page(reconstruction_pages(source, RUN)["report.html"]).text


def test_an_unknown_difference_is_not_counted_as_success(
    diagnostics: Make, read_page: Read
) -> None:
    source = diagnostics()
    source["targets"][0]["paired"] = [
        paired("pool_mean", None, None, None) | {"reason": "one block only"}
    ]
    text = read_page(reconstruction_pages(source, RUN)["report.html"]).text
    assert "Not known." in text
    assert "not available: one block only" in text


def test_a_difference_of_cross_validation_does_not_pass_for_one_of_the_test(
    diagnostics: Make, read_page: Read
) -> None:
    source = diagnostics(is_sealed=True)
    source["targets"][0]["paired"] += [paired("uniform", -0.02, -0.03, -0.01) | {"split": "cv"}]
    text = read_page(reconstruction_pages(source, RUN)["report.html"]).text
    assert (
        "So far, on cross-validation (the test is sealed),"
        " yes: closer to the target than every baseline compared." in text
    )


@pytest.mark.parametrize(
    ("floor", "reason", "shown"),
    [
        (None, "no question has a number of answers", "not available: no question has a number"),
        (0.002, "3 questions have no number of answers", "0.00200 (3 questions have no number"),
        (0.002, None, "0.00200"),
    ],
)
def test_the_noise_floor_says_what_it_leaves_out(
    diagnostics: Make, read_page: Read, floor: float | None, reason: str | None, shown: str
) -> None:
    source = diagnostics()
    source["targets"][0] |= {"noise_floor": floor, "noise_floor_reason": reason}
    for page in reconstruction_pages(source, RUN).values():
        assert shown in read_page(page).text


def paired(against: str, difference: float | None, low: float | None, high: float | None) -> Any:
    row = {"against": against, "split": "test", "metric": "mse", "n_blocks": 3, "reason": None}
    return row | {"difference": difference, "low": low, "high": high}


def test_the_fits_errors_stand_beside_the_baselines_and_cv_left_of_test(
    diagnostics: Make, read_page: Read
) -> None:
    source = diagnostics()
    sizes = {"fit": 0.0148, "uniform": 0.0545, "pool_mean": 0.0378, "equal_weights": 0.0379}
    base = {"metric": "mse", "unit": "cell", "policy": "project", "reason": None}
    base |= {"n_questions": 5, "coverage": 1.0, "group": None, "seed": 0}
    records = [
        base | {"split": "test", "source": name, "value": v} for name, v in reversed(sizes.items())
    ]
    records += [base | {"split": "cv", "source": "fit", "value": 0.0151}]
    records += [base | {"split": "test", "source": "fit", "value": 0.99, "policy": "raw"}]
    source["targets"][0]["records"] = records
    page = reconstruction_pages(source, RUN)["report.html"]
    row = page[page.index('<th scope="row">MSE</th>') :].split("</tr>")[0]
    # cv of the fit, test of the fit (policy project, not raw), equal weights, pool mean, uniform
    values = [cell.split("<")[0] for cell in row.split('<td class="n">')[1:]]
    assert values == ["0.0151", "0.0148", "0.0379", "0.0378", "0.0545"]


def test_without_a_record_cv_mse_is_the_curves_chosen_point(
    diagnostics: Make, read_page: Read
) -> None:
    source = diagnostics()
    target = source["targets"][0]
    target["records"] = [item for item in target["records"] if item["split"] != "cv"]
    target["fit"]["cv"] = [{"lam": 0.1, "anchor": "pool", "mse": 0.0321, "se": 0, "chosen": True}]
    page = reconstruction_pages(source, RUN)["report.html"]
    row = page[page.index('<th scope="row">MSE</th>') :].split("</tr>")[0]
    assert row.split('<td class="n">')[1].startswith("0.0321<")


@pytest.mark.parametrize("respondents", ["model", "panel"])
def test_every_page_table_and_figure_says_what_the_answers_are(
    diagnostics: Make, read_page: Read, respondents: str
) -> None:
    badge = {"model": "model-generated", "panel": "real people"}[respondents]
    source = diagnostics(respondents=respondents)
    for page in reconstruction_pages(source, RUN).values():
        reader = read_page(page)
        assert source["label"] in reader.text
        assert len(reader.captions) == reader.tags.count("table")
        assert all(badge in caption for caption in reader.captions)
        assert page.count("<figcaption>") == reader.tags.count("figure")
    source["label"] = "Negative control: letters drawn by a coin."
    for page in reconstruction_pages(source, RUN).values():
        reader = read_page(page)
        assert all("negative control" in caption for caption in reader.captions)


def test_every_question_is_predicted_against_its_target_with_an_interval(
    diagnostics: Make, read_page: Read
) -> None:
    source = diagnostics()
    question = source["targets"][0]["questions"][2]
    question["options"] = [
        {
            "label": "A",
            "text": "Yes",
            "target": 0.345,
            "low": 0.249,
            "high": 0.569,
            "pool_mean": 0.372,
            "predicted": {"raw": -0.011, "project": 0.409},
        }
    ]
    page = reconstruction_pages(source, RUN)["diagnostics.html"]
    row = page[page.index("A <bdi>Yes</bdi>") :].split("</tr>")[0]
    for shown in (">34.5<", ">40.9<", "24.9–56.9", ">−1.1<", ">37.2<"):
        assert shown in row
    assert 'style="--p:40.9;--t:34.5;--l:24.9;--h:56.9"' in row
    text = read_page(page).text
    assert all(item["text"] in text for item in source["targets"][0]["questions"])


def test_the_worst_questions_are_those_of_the_test_by_their_error(
    diagnostics: Make, read_page: Read
) -> None:
    source = diagnostics()
    for index, question in enumerate(source["targets"][0]["questions"]):
        question["mse"] = 0.001 * index if question["split"] == "test" else 0.9
    text = read_page(reconstruction_pages(source, RUN)["report.html"]).text
    # of twelve questions 3, 5, 8 and 10 are test questions
    places = [text.index(f"{name} In your view") for name in ("Q10", "Q8", "Q5", "Q3")]
    assert places == sorted(places)
    assert "The 4 test questions with the largest MSE" in text
    assert "Q1 In your view" not in text


def test_the_checker_finds_solver_curve_entropy_cleaning_and_position_bias(
    pages: dict[str, str], read_page: Read
) -> None:
    reader = read_page(pages["diagnostics.html"])
    for shown in ("nnls", "1.15.0", "187", "Optimality gap", "3.1e−13", "λ chosen by", "chosen"):
        assert shown in reader.text
    for shown in ("ambiguous", "out of range", "Entropy of the pool’s answers", "Total weight"):
        assert shown in reader.text.replace("_", " ")
    for shown in ("1 of 2", "62.0", "Reversal mean", "0.214", "Position bias"):
        assert shown in reader.text
    assert "not available: no question was asked in two orders" in reader.text
    for shown in (
        "Largest misfits: 1",
        "Options that nobody in the pool answers: 1",
        "0.41",
        "Q1, Q12",
    ):
        assert shown in reader.text
    for shown in ("active personas, heaviest first", "You are 18 years old."):
        assert shown in reader.text


def test_both_pages_say_what_the_run_rests_on(pages: dict[str, str], read_page: Read) -> None:
    for page in pages.values():
        text = read_page(page).text
        for shown in ("US voters 2020", "CC0-1.0", "The Voter Project", "Voter Project (2021)"):
            assert shown in text
        for shown in ("cd" * 32, "tiny", "Shares of 2 questions were renormalised", "logprob"):
            assert shown in text


def test_real_people_are_shown_as_groups(diagnostics: Make, read_page: Read) -> None:
    pages = reconstruction_pages(diagnostics(respondents="panel"), RUN)
    for page in pages.values():
        text = read_page(page).text
        assert "Groups of at least ten respondents" in text
        assert "Independent" in text
        assert "active personas" not in text
    text = read_page(pages["diagnostics.html"]).text
    assert "Not available: recorded respondents are not generated." in text
    assert "Not available: recorded answers have no shown order." in text


def test_a_sealed_test_is_said_and_cross_validation_stands_in_its_place(
    diagnostics: Make, read_page: Read
) -> None:
    pages = reconstruction_pages(diagnostics(is_sealed=True), RUN)
    for page in pages.values():
        text = read_page(page).text
        assert "The test is sealed." in text
        assert "sealed" in text
    report = read_page(pages["report.html"]).text
    assert "Not known: the test is sealed." in report
    assert "[1] not available: sealed" in report
    assert "training questions with the largest MSE" in report
    row = pages["report.html"].split('<th scope="row">MSE</th>')[1].split("</tr>")[0]
    # cv: fit 0.0148, equal weights ×2.4, pool mean ×2.5, uniform ×3.6; then the sealed test
    values = [cell.split("<")[0] for cell in row.split('<td class="n">')[1:]]
    assert values == ["0.0148", "0.0355", "0.0370", "0.0533", "n/a [1]"]


def test_several_targets_begin_with_a_table_of_targets(diagnostics: Make, read_page: Read) -> None:
    targets = ("population", "party=Democrat", "party=Republican", "region=South")
    pages = reconstruction_pages(diagnostics(targets=targets), RUN)
    report = read_page(pages["report.html"])
    assert report.text.index("cv_mse") < report.text.index("test_mse")
    assert "Closer than uniform in 3 of 4 targets; no clear difference in 1." in report.text
    assert [link for link in report.links if link.startswith("#t")][1:] == [
        "#t1",
        "#t2",
        "#t3",
        "#t4",
    ]
    assert pages["report.html"].count('<details class="target"') == 4
    # texts of many targets are cut in the tables and stand whole in one list
    text = read_page(pages["diagnostics.html"]).text
    for question in diagnostics()["targets"][0]["questions"]:
        assert text.count(question["text"]) == 1


def test_foreign_text_is_never_markup(diagnostics: Make, read_page: Read) -> None:
    plain, evil = diagnostics(), _poisoned(diagnostics())
    assert evil["label"] != plain["label"]
    harmless = reconstruction_pages(_poisoned(plain, "harmless text"), {"x": "x", "notes": ["x"]})
    pages = reconstruction_pages(evil, {"title": EVIL, EVIL: EVIL, "notes": [EVIL]})
    for page, other in zip(pages.values(), harmless.values(), strict=True):
        reader = read_page(page)
        assert set(reader.tags) == set(read_page(other).tags)
        assert "<script" not in page
        assert EVIL in reader.text
        assert "\"'49" not in reader.text


_WORDS = {"split", "study", "respondents", "test", "policy", "against", "source", "target"}


def _poisoned(value: Any, text: str = EVIL, name: str = "") -> Any:
    """The document with every text replaced that is free to be anything."""
    if isinstance(value, dict):
        return {key: _poisoned(item, text, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_poisoned(item, text, name) for item in value]
    if isinstance(value, str) and name not in _WORDS:
        keeps_apart = name in ("label", "id", "question", "mode")
        return f"{text}{value}" if keeps_apart else text
    return value


def test_control_characters_and_lone_surrogates_are_shown_escaped(
    diagnostics: Make, read_page: Read
) -> None:
    source = diagnostics()
    source["targets"][0]["questions"][2]["text"] = "a\x00b \ud800 c\u202e"
    source["personas"][0]["text"] = "\x1b[31mred"
    page = reconstruction_pages(source, RUN)["diagnostics.html"]
    page.encode("utf-8")
    text = read_page(page).text
    assert r"a\x00b \ud800 c\u202e" in text
    assert r"\x1b[31mred" in text


def test_what_is_null_is_said_with_its_reason_and_never_as_none(
    diagnostics: Make, read_page: Read
) -> None:
    source = copy.deepcopy(diagnostics())
    target = source["targets"][0]
    target["noise_floor"] = None
    target["interval_coverage"] = {"train_cv": None, "test": None, "reason": "fewer than 3 blocks"}
    target["questions"][2] |= {"mse": None, "total_variation": None, "is_modal_right": None}
    target["questions"][2]["reason"] = "the group was not asked"
    for option in target["questions"][2]["options"]:
        option |= {"target": None, "low": None, "high": None, "pool_mean": None}
    source |= {"position_bias": None, "entropy": None, "mode_summary": None, "notes": None}
    source["cleaning"]["counts"] = []
    pages = reconstruction_pages(source, {})
    text = read_page(pages["diagnostics.html"]).text
    assert text.count("not available: fewer than 3 blocks") == 2
    assert "MSE not available: the group was not asked" in text
    assert "Not available: no audit was recorded." in text
    assert "No answer was cleaned." in text
    assert "[1] not available: MSE of uniform shares is 0" in text
    for page in pages.values():
        shown = read_page(page).text
        assert "None" not in shown
        assert "nan" not in shown.lower().split()


def test_long_words_and_right_to_left_text_have_their_direction(
    diagnostics: Make, read_page: Read
) -> None:
    source = diagnostics()
    question = source["targets"][0]["questions"][2]
    question["text"] = "ما هي أفضل طريقة؟"
    question["options"][0]["text"] = "שלום " * 100
    question["options"][1]["text"] = "x" * 500
    page = reconstruction_pages(source, RUN)["diagnostics.html"]
    assert '<span dir="auto">ما هي أفضل طريقة؟</span>' in page
    assert f"<bdi>{('שלום ' * 100).strip()}</bdi>" in page
    assert f"<bdi>{'x' * 500}</bdi>" in page


def test_seventy_eight_questions_and_twenty_five_targets_stay_under_three_megabytes(
    diagnostics: Make,
) -> None:
    targets = ["population", *(f"group={index}" for index in range(24))]
    pages = reconstruction_pages(diagnostics(n_questions=78, targets=targets), RUN)
    assert max(len(page.encode()) for page in pages.values()) < 3_000_000


def test_colours_follow_the_readers_choice_and_structure_is_announced(
    pages: dict[str, str],
) -> None:
    for page in pages.values():
        assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
        assert page.count("<h1") == 1
        assert page.count("prefers-color-scheme: dark") >= 2
        assert page.count('role="img" aria-label="') == page.count('role="img"')
