"""Each prediction policy on predictions whose results are known on paper."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.errors import RefusedError, SettingsError
from quorum.reconstruction.policies import apply_policy, is_distribution, nearest_distribution

SIZES = (2, 2, 2, 2)
# short of 1, above 1, with a negative share, nothing
RAW = np.array([0.3, 0.5, 0.9, 0.6, -0.2, 1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("policy", "expected", "covered", "counts"),
    [
        ("raw", RAW, (1, 1, 1, 1), {}),
        ("clip", [0.3, 0.5, 0.9, 0.6, 0, 1, 0, 0], (1, 1, 1, 1), {"changed": 1}),
        (
            "renormalise",
            [0.375, 0.625, 0.6, 0.4, 0, 1, 0, 0],
            (1, 1, 1, 0),
            {"changed": 3, "no_mass": 1},
        ),
        ("project", [0.4, 0.6, 0.65, 0.35, 0, 1, 0.5, 0.5], (1, 1, 1, 1), {"changed": 4}),
        ("anchor", [0.4, 0.6, 0.6, 0.4, 0, 1, 0.5, 0.5], (1, 1, 1, 1), {"changed": 4}),
        ("drop", RAW, (0, 0, 0, 0), {"not_a_distribution": 4}),
    ],
)
def test_a_policy_gives_the_known_prediction(
    policy: str, expected: list[float], covered: tuple[int, ...], counts: dict[str, int]
) -> None:
    found = apply_policy(policy, RAW, SIZES)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    assert tuple(found.covered.astype(int)) == covered
    assert found.counts == counts


def test_the_anchor_fills_from_its_own_shares() -> None:
    p0 = np.array([0.9, 0.1, 0.5, 0.5, 0.5, 0.5, 0.2, 0.8])
    found = apply_policy("anchor", RAW, SIZES, p0)
    np.testing.assert_allclose(found.values[:2], [0.3 + 0.2 * 0.9, 0.5 + 0.2 * 0.1])
    np.testing.assert_allclose(found.values[6:], [0.2, 0.8])


def test_strict_passes_distributions_and_refuses_others_with_their_number() -> None:
    good = np.array([0.4, 0.6, 1.0, 0.0])
    assert apply_policy("strict", good, (2, 2)).covered.all()
    with pytest.raises(RefusedError, match="the prediction of 4 questions is no distribution"):
        apply_policy("strict", RAW, SIZES)


def test_drop_keeps_what_is_a_distribution() -> None:
    found = apply_policy("drop", np.array([0.4, 0.6, 0.5, 0.6]), (2, 2))
    assert found.covered.tolist() == [True, False]


def test_rounding_does_not_make_a_distribution_none() -> None:
    assert is_distribution(np.array([1.0 + 5e-7, -5e-10]), (2,)).all()
    assert not is_distribution(np.array([1.0 + 5e-6, 0.0]), (2,)).any()


def test_the_nearest_distribution_beats_random_ones() -> None:
    rng = np.random.default_rng(0)
    v = rng.normal(size=5)
    best = nearest_distribution(v)
    others = rng.dirichlet(np.ones(5), size=2000)
    assert best.sum() == pytest.approx(1)
    assert ((others - v) ** 2).sum(axis=1).min() >= ((best - v) ** 2).sum()


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(SettingsError, match="allowed raw, clip, renormalise, project"):
        apply_policy("mend", RAW, SIZES)  # type: ignore[arg-type]
