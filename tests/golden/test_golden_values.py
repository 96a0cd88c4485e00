"""Values that are known on paper come out of the real stages, from settings to attributions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from quorum.backends.base import Capabilities
from quorum.backends.scripted import Scripted

ESTIMATORS = ("exact", "mc", "complementary", "neyman_cc", "regression")
YES_NO = {"use": "exact_match", "reference": "base"}

# prompt, where the reply is yes, Shapley and Banzhaf values; a player is a letter
GAMES = {
    "glove": ("a b c", "a.*[bc]", (2 / 3, 1 / 6, 1 / 6), (3 / 4, 1 / 4, 1 / 4)),
    "unanimity": ("a b c d", "a.*b", (1 / 2, 1 / 2, 0, 0), (1 / 2, 1 / 2, 0, 0)),
    "majority": ("a b c", r"\w \w", (1 / 3, 1 / 3, 1 / 3), (1 / 2, 1 / 2, 1 / 2)),
}
BOTH = ("exact", "complementary", "neyman_cc", "regression")


def weights(text: str) -> Mapping[str, object]:
    """A reply is worth 1 for its word a, 2 for b, 3 for c, and so on."""
    return {
        "use": "word_weights",
        "weights": {word: float(i) for i, word in enumerate(text.split(), start=1)},
    }


def attribute(project, text: str, **params: object) -> dict[str, object]:
    project.write_prompts([text])
    project.write_params(**{"budget": {"fraction": 1.0}, **params})
    project.run()
    return project.attributions()["p0"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_words_get_their_weights_whatever_the_estimator(project, estimator):
    found = attribute(project, "a b c", estimator=estimator, value=weights("a b c"))
    assert found["raw_values"] == pytest.approx([1.0, 2.0, 3.0], abs=1e-12)
    assert sum(found["raw_values"]) == pytest.approx(6.0, abs=1e-12)
    assert (found["base_value"], found["grand_value"]) == (0.0, 6.0)
    assert found["n_coalitions"] == 8


@pytest.mark.parametrize(
    "estimator", ["regression", {"use": "complementary", "control_variate": "linear"}]
)
def test_weights_are_exact_from_2n_plus_2_calls(project, estimator):
    text = "a b c d e f g h"
    budget = {"calls_per_player": 2}
    found = attribute(project, text, estimator=estimator, value=weights(text), budget=budget)
    assert found["raw_values"] == pytest.approx(list(range(1, 9)), abs=1e-9)
    assert len(project.calls()) == found["n_requests"] == 18  # 2·8 + 2


def test_a_tenth_of_the_coalitions_is_right_within_three_standard_errors(project):
    text = "a b c d e f g h"
    found = attribute(project, text, value=weights(text), budget={"fraction": 0.1})
    assert found["control_variate"] == "gp"
    assert found["n_coalitions"] == 26  # ⌈0.1·2^8⌉
    errors = np.array(found["raw_values"]) - np.arange(1, 9)
    assert np.all(np.abs(errors) <= 3 * np.array(found["standard_errors"]) + 1e-12)


@pytest.mark.parametrize("is_grouped", [True, False])
def test_grouping_by_prefix_changes_no_value(project, monkeypatch, is_grouped):
    can = Capabilities(continuation=True, seed=True, deterministic=True, prefix_reuse=True)
    monkeypatch.setattr(Scripted, "capabilities", property(lambda self: can))
    runtime = {"group_by_prefix": is_grouped}
    found = attribute(project, "a b c", value=weights("a b c"), runtime=runtime)
    assert found["raw_values"] == pytest.approx([1.0, 2.0, 3.0], abs=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_player_gets_all(project, estimator):
    found = attribute(project, "a", estimator=estimator, value=weights("a"))
    assert found["raw_values"] == [1.0]
    assert found["n_coalitions"] == 2


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("estimand", ["shapley", "banzhaf"])
@pytest.mark.parametrize("game", GAMES)
def test_games_of_voting_and_gloves(project, game, estimator, estimand):
    text, pattern, shapley, banzhaf = GAMES[game]
    rules = [{"regex": pattern, "reply": "yes"}, {"reply": "no"}]
    found = attribute(
        project,
        text,
        backend={"rules": rules},
        value=YES_NO,
        estimator={"use": estimator, "estimand": estimand},
    )
    expected = shapley if estimand == "shapley" else banzhaf
    assert found["raw_values"] == pytest.approx(expected, abs=1e-12)
    assert (found["base_generation"], found["empty_generation"]) == ("yes", "no")


@pytest.mark.parametrize("game", GAMES)
def test_antithetic_permutations_are_exact_where_all_is_paid_for(project, game):
    text, pattern, shapley, _ = GAMES[game]
    rules = [{"regex": pattern, "reply": "yes"}, {"reply": "no"}]
    found = attribute(project, text, backend={"rules": rules}, value=YES_NO, estimator="mc")
    assert found["raw_values"] == pytest.approx(shapley, abs=1e-12)


def test_dummies_get_exactly_nothing(project):
    rules = [{"regex": "a.*b", "reply": "yes"}, {"reply": "no"}]
    found = attribute(project, "a b c d", backend={"rules": rules}, value=YES_NO, estimator="exact")
    assert found["raw_values"][2:] == [0.0, 0.0]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_constant_reply_is_nobodys_doing(project, estimator):
    found = attribute(
        project,
        "a b c",
        backend={"rules": [{"reply": "seven"}]},
        value={"use": "word_weights", "weights": {"seven": 7.0}},
        estimator=estimator,
    )
    assert found["raw_values"] == [0.0, 0.0, 0.0]
    assert (found["base_value"], found["grand_value"]) == (7.0, 7.0)


@pytest.mark.parametrize("estimator", ["regression", "complementary"])
def test_a_game_of_degree_two_is_exact_from_2n_plus_2_calls(project, estimator):
    """v = L + 0.2·L²/8, L = Σ(i + 1) over the players present: φ_i = (i + 1)·1.9."""
    text = "a b c d e f g h"
    letters = text.split()
    rules, payoffs = [], {}
    for mask in range(256):
        present = [i for i in range(8) if mask >> i & 1]
        total = sum(i + 1 for i in present)
        rules.append({"equals": " ".join(letters[i] for i in present), "reply": f"w{total}"})
        payoffs[f"w{total}"] = total + 0.2 * total**2 / 8
    found = attribute(
        project,
        text,
        backend={"rules": rules},
        value={"use": "word_weights", "weights": payoffs},
        budget={"calls_per_player": 2},
        estimator={
            "use": estimator,
            **({"control_variate": "linear"} if estimator == "complementary" else {}),
        },
    )
    expected = [1.9, 3.8, 5.7, 7.6, 9.5, 11.4, 13.3, 15.2]
    assert found["raw_values"] == pytest.approx(expected, abs=1e-9)
    assert found["n_requests"] == 18


@pytest.mark.parametrize("estimator", ["mc", "complementary", "neyman_cc", "regression"])
def test_shapley_values_add_up_to_the_span(project, estimator):
    project.write_prompts(["one two two three four five six seven eight nine", "x y, z: x y!"])
    project.write_params(estimator=estimator, budget={"fraction": 0.1})
    project.run()
    for found in project.attributions().values():
        span = found["grand_value"] - found["base_value"]
        scale = max(1.0, *(abs(v) for v in found["raw_values"]))
        assert abs(sum(found["raw_values"]) - span) <= 1e-9 * scale
        assert abs(found["efficiency_residual"]) <= 1e-9 * scale


def test_the_published_method_is_not_shifted_and_reports_its_residual(project):
    plain = {"use": "complementary", "control_variate": "none"}
    text = "one two two three four five six seven eight nine"
    found = attribute(project, text, estimator=plain, budget={"fraction": 0.1})
    span = found["grand_value"] - found["base_value"]
    residual = sum(found["raw_values"]) - span
    assert abs(residual) > 1e-6
    assert found["efficiency_residual"] == pytest.approx(residual, abs=1e-12)


def test_equal_prompts_are_asked_once(project):
    found = attribute(project, "a a a a a a", value={"use": "word_weights", "weights": {"a": 1.0}})
    assert found["n_coalitions"] == 64
    assert found["n_requests"] == len(project.calls()) == 7  # none to six times "a"
    assert found["raw_values"] == pytest.approx([1.0] * 6, abs=1e-9)


def test_another_placeholder_is_another_request(make_project, project):
    for placeholder in ("A", "B"):
        absence = {"use": "pad", "placeholder": placeholder}
        attribute(project, "x y", absence=absence, value=weights("x y"))
    # "x y" once; "x P", "P y", "P P" for each placeholder P
    assert len(project.calls()) == len(set(project.calls())) == 7


def test_a_placeholder_in_the_prompt_itself_stays_a_player(project):
    found = attribute(
        project, "[MASK] b", absence="pad", partition="words", value=weights("[MASK] b")
    )
    with sqlite3.connect(project.store) as store:
        (n_kept,) = store.execute("SELECT count(*) FROM generation").fetchone()
    store.close()
    assert found["n_coalitions"] == 4
    assert n_kept == found["n_requests"] == 2  # "[MASK] b" and "[MASK] [MASK]", each twice


def test_repeats_above_temperature_zero_are_draws_of_their_own(project):
    found = attribute(
        project,
        "a b",
        backend={"rules": [{"reply": {"choices": ["x", "y"]}}]},
        value={"use": "word_weights", "weights": {"x": 1.0}},
        generation={"temperature": 1.0, "samples": 16},
    )
    assert len(set(project.calls())) == len(project.calls()) == 4 * 16
    rows = (project.root / "data/score/result/payoffs.csv").read_text().splitlines()[1:]
    for row in rows:
        _, _, _, payoff, n_samples, spread = row.split(",")
        share = float(payoff)  # of x among the 16 draws
        assert 0 < share < 1
        assert n_samples == "16"
        assert float(spread) == pytest.approx((share * (1 - share) * 16 / 15) ** 0.5, abs=1e-12)
    assert found["noise"]["n_repeats"] == 16


def test_three_kindred_words_are_three_words(project: object, make_project: Callable[..., object]):
    found = attribute(
        project,
        "refund refuse refusal",
        value={"use": "word_weights", "weights": {"refund": 1.0, "refuse": 2.0, "refusal": 4.0}},
    )
    assert found["raw_values"] == pytest.approx([1.0, 2.0, 4.0], abs=1e-12)
