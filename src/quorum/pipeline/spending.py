"""Prices and hard caps of a run: what a call may cost is booked before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from quorum.backends.base import Backend
from quorum.config.view import RuntimeView
from quorum.errors import BudgetError
from quorum.pipeline import artifacts
from quorum.pricing.cost import bill, cost, usd_text, worst_case
from quorum.pricing.history import read_usage
from quorum.pricing.prices import Prices
from quorum.pricing.table import Price
from quorum.records import Request, Usage
from quorum.runtime.caps import Account, Amount, Caps, worst_tokens
from quorum.runtime.store import GenerationStore

TABLE = Path("data/prices/prices.csv")


def load_prices(root: Path, runtime: RuntimeView) -> Prices:
    """The prices of a project: the user's rows, our table, genai-prices where asked for."""
    rules = runtime.prices
    file = cast("str | None", rules["file"])
    table = root / TABLE
    return Prices.load(
        table if table.exists() else None,
        None if file is None else Path(artifacts.shown(root / file)),
        use_genai_prices=bool(rules["genai_prices"]),
        confirmed=bool(rules["confirmed"]),
    )


def provider_of(backend: Backend) -> str:
    """Whose price counts: the backend's provider, or the host of another server."""
    base_url = getattr(backend, "base_url", None)
    return backend.target.backend if base_url is None else str(urlsplit(base_url).hostname)


def price_of(backend: Backend, prices: Prices) -> Price | None:
    """The price of the backend's model; 0 from a local one, None where nobody knows it."""
    target = backend.target
    if not backend.capabilities.priced:
        return Price.local(target.backend, target.model)
    return prices.find(provider_of(backend), target.model)


def mode_of(backend: Backend) -> str:
    """``batch`` where answers come within a day at half the price, else ``sync``."""
    return str(getattr(backend, "mode", "sync"))


def check_caps(backend: Backend, runtime: RuntimeView, prices: Prices) -> Caps:
    """The caps of a run.

    Raises:
        BudgetError: Calls cost money and there is no cap in USD, or one that cannot hold because
            the model has no price.
    """
    given = runtime.caps
    max_usd = given["max_usd"]
    if backend.capabilities.priced and max_usd is None:
        raise BudgetError(
            "budget.max_usd",
            f"backend={backend.target.backend} costs money, and nothing says how much it may",
            allowed="US dollars, or none for no cap",
            mend="See what it would cost: quorum forecast. Then: -S '++budget.max_usd=5'",
        )
    usd = None if max_usd in (None, "none") else Decimal(str(max_usd))
    if usd is not None and backend.capabilities.priced:
        prices.require(provider_of(backend), backend.target.model)
    return Caps(
        max_usd=usd,
        max_calls=cast("int | None", given["max_calls"]),
        max_tokens=cast("int | None", given["max_tokens"]),
    )


@contextmanager
def account(
    root: Path, run: str, backend: Backend, runtime: RuntimeView, store: GenerationStore
) -> Iterator[Account | None]:
    """The account that a run's calls are booked in; None where nothing is capped.

    Args:
        root: The project's folder.
        run: The run's own account, where the settings name none.
        backend: Who answers.
        runtime: Caps and where prices are looked up.
        store: Where the books lie.

    Raises:
        BudgetError: See ``check_caps``.
    """
    prices = load_prices(root, runtime)
    caps = check_caps(backend, runtime, prices)
    if caps == Caps():
        yield None
        return
    worst, actual = amounts(backend, price_of(backend, prices))
    name = str(runtime.caps["account"] or run)
    with Account(store, name, caps, worst, actual) as opened:
        yield opened


def cost_so_far(
    root: Path, folder: Path, backend: Backend, runtime: RuntimeView
) -> dict[str, object]:
    """What the calls of a run cost, over all its resumptions.

    ``possible_usd`` is what attempts without a reply may have cost besides; null where a model has
    no price.
    """
    price = price_of(backend, load_prices(root, runtime))
    found = bill(read_usage(folder / "usage.csv"), lambda _backend, _model: price)
    return {
        "known_usd": usd_text(found.known_usd),
        "possible_usd": usd_text(found.possible_usd),
        "n_possible": found.n_possible,
        "status": found.status if backend.capabilities.priced else "local",
    }


def amounts(
    backend: Backend, price: Price | None
) -> tuple[Callable[[Request], Amount], Callable[[Usage], Amount]]:
    """What a request may take at most, and what an answer took; an unknown price counts as 0."""
    mode = mode_of(backend)

    def worst(request: Request) -> Amount:
        sent, _ = worst_tokens(request, 0)
        written = _ceiling(backend, request)  # thinking included, which max_tokens leaves out
        usd = Decimal(0) if price is None else worst_case(sent, written, price, mode)
        return Amount(usd, 1, sent + written)

    def actual(usage: Usage) -> Amount:
        usd = Decimal(0) if price is None else cost(usage, price, mode)
        return Amount(usd, 1, usage.input_tokens + usage.output_tokens)

    return worst, actual


def _ceiling(backend: Backend, request: Request) -> int:
    """The most tokens that a reply can be charged with."""
    own = getattr(backend, "output_ceiling", None)
    if own is not None:
        return int(own(request))
    if request.choices or request.continuation is not None:
        return max(1, len(request.continuation or ""))
    return int(cast("int", request.options.get("max_tokens") or 1))
