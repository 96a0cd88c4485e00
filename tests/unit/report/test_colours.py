"""The two ends of the colour scale stay apart for eyes that lack a kind of cone."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from quorum.report.pages import environment

# Simulation in linear RGB of complete protanopia, deuteranopia and tritanopia.
# Source: Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009), table 1, severity 1.0.
EYES = {
    "typical": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = XYZ.sum(axis=1)
CLEARLY_APART = 30.0  # CIE 1976 ΔE; about 2 can just be told apart side by side


def scheme(name: str) -> dict[str, str]:
    """The custom properties of a colour scheme."""
    css = environment().get_template("style.css").render()
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    text = light if name == "light" else light + dark
    return dict(re.findall(r"--([\w-]+):\s*([^;]+);", text))


def rgb(text: str) -> np.ndarray:
    if text.startswith("#"):
        return np.array([int(text[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.array([float(part) for part in text.split(",")]) / 255


def lab(colour: np.ndarray, eye: str) -> np.ndarray:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(EYES[eye] @ linear, 0.0, 1.0) / WHITE
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: np.ndarray, other: np.ndarray, eye: str) -> float:
    return math.dist(lab(one, eye), lab(other, eye))


def end(colours: dict[str, str], name: str, share: float = 1.0) -> np.ndarray:
    """The ground of a player with this share of the largest value."""
    alpha = share * float(colours["most"])
    return alpha * rgb(colours[name]) + (1 - alpha) * rgb(colours["panel"])


def test_the_distance_is_that_of_the_books() -> None:
    white, black = np.ones(3), np.zeros(3)
    assert distance(white, black, "typical") == pytest.approx(100.0, abs=0.1)
    red, green = np.array([0.8, 0.2, 0.2]), np.array([0.35, 0.47, 0.1])
    assert distance(red, green, "typical") > 2 * distance(red, green, "deuteranopia")


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_ends_of_the_scale_are_apart_for_every_eye(name: str, eye: str) -> None:
    colours = scheme(name)
    for share in (1.0, 0.5):
        positive, negative = (end(colours, sign, share) for sign in ("pos", "neg"))
        assert distance(positive, negative, eye) > share * CLEARLY_APART
    bars = distance(rgb(colours["pos-solid"]), rgb(colours["neg-solid"]), eye)
    assert bars > CLEARLY_APART


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_scale_grows_away_from_the_ground_on_both_sides(name: str) -> None:
    colours = scheme(name)
    for sign in ("pos", "neg"):
        steps = [end(colours, sign, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        far = [distance(steps[0], step, "deuteranopia") for step in steps]
        assert far == sorted(far)
        assert far[-1] > 20.0
