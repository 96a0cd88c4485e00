"""HiGHS as a second solver of the same problem (package highspy, the extra ``highs``)."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from quorum.errors import MissingExtraError, RefusedError
from quorum.reconstruction.ensembles.base import FloatArray
from quorum.reconstruction.ensembles.system import Raw, System


def check_highs() -> None:
    """Refuses to go on without the package.

    Raises:
        MissingExtraError: highspy is not installed.
    """
    if importlib.util.find_spec("highspy") is None:
        raise MissingExtraError(
            "ensemble.solver=highs",
            "the package highspy is not installed",
            mend="Install it with: pip install -e '.[highs]'",
        )


def solve_highs(system: System) -> Raw:
    """The weights by HiGHS' active-set method for convex quadratic problems.

    Variables are the weights and the residuals s = A w − b, so that the quadratic part is
    diagonal: no A'A is made.

    Raises:
        MissingExtraError: highspy is not installed.
        RefusedError: HiGHS stopped without a solution.
    """
    check_highs()
    highspy: Any = importlib.import_module("highspy")
    m, n = system.a.shape
    bound = np.inf
    unit = np.sqrt(m)  # rows of order 1: HiGHS' tolerances are absolute
    rows = [scipy.sparse.hstack([scipy.sparse.csc_matrix(unit * system.a), -scipy.sparse.eye(m)])]
    low, high = unit * system.b, unit * system.b
    if system.total != "free":
        ones = scipy.sparse.csc_matrix((np.ones(n), (np.zeros(n, int), np.arange(n))), (1, n + m))
        rows.append(ones)
        low = np.append(low, 1.0 if system.total == "one" else -bound)
        high = np.append(high, 1.0)
    matrix = scipy.sparse.csc_matrix(scipy.sparse.vstack(rows))
    model = highspy.HighsModel()
    lp, hessian = model.lp_, model.hessian_
    lp.num_col_, lp.num_row_ = n + m, matrix.shape[0]
    lp.col_cost_ = np.concatenate([np.full(n, m * system.linear), np.zeros(m)])
    lp.col_lower_ = np.concatenate([np.zeros(n), np.full(m, -bound)])
    lp.col_upper_ = np.full(n + m, bound)
    lp.row_lower_, lp.row_upper_ = low, high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = matrix.indptr
    lp.a_matrix_.index_ = matrix.indices
    lp.a_matrix_.value_ = matrix.data
    hessian.dim_ = n + m
    hessian.format_ = highspy.HessianFormat.kTriangular
    hessian.start_ = np.arange(n + m + 1)
    hessian.index_ = np.arange(n + m)
    hessian.value_ = np.concatenate([np.full(n, 2.0 * m * system.kappa), np.full(m, 2.0)])
    return _run(highspy, model, n)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the banner that HiGHS' constructor writes past Python off the standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _run(highspy: Any, model: Any, n: int) -> Raw:
    with _quiet():
        highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("qp_regularization_value", 0.0)
    highs.setOptionValue("primal_feasibility_tolerance", 1e-9)
    highs.setOptionValue("dual_feasibility_tolerance", 1e-9)
    highs.passModel(model)
    highs.run()
    status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise RefusedError(
            "ensemble.solver=highs",
            "HiGHS stopped without a solution",
            got=highs.modelStatusToString(status),
            mend="Try ensemble.solver=nnls",
        )
    weights: FloatArray = np.asarray(highs.getSolution().col_value[:n], np.float64)
    version = importlib.import_module("importlib.metadata").version("highspy")
    return Raw(weights, "highs", version, int(highs.getInfo().qp_iteration_count))
