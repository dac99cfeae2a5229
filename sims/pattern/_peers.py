"""Other ways to order a matrix against a mask, each with what its user would pass; all return two orders."""

import json
import shutil
import subprocess
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.theory.pattern import Mask

__all__ = ["PEERS", "has_seriation", "spectral_labels", "two_sided"]

Array = NDArray[np.float64]
Orders = tuple[NDArray[Any], NDArray[Any]]

SERIATION = ("ARSA", "QAP_2SUM", "R2E", "Spectral", "OLO")
"""Methods of R's seriation."""


def _frank_wolfe(starts: int) -> Callable[[Array, Mask], Orders]:
    def run(A: Array, mask: Mask) -> Orders:
        from scipy.optimize import quadratic_assignment

        best: Any = None
        for k in range(starts):
            options = {"rng": np.random.default_rng(k), "P0": "barycenter" if k == 0 else "randomized"}
            found = quadratic_assignment(mask.penalty, A**2, method="faq", options=options)
            best = found if best is None or found.fun < best.fun else best
        return best.col_ind, best.col_ind

    return run


def _two_opt(A: Array, mask: Mask) -> Orders:
    from scipy.optimize import quadratic_assignment

    found = quadratic_assignment(mask.penalty, A**2, method="2opt", options={"rng": np.random.default_rng(0)})
    return found.col_ind, found.col_ind


def _cuthill_mckee(A: Array, mask: Mask) -> Orders:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    count = int(mask.S.sum())
    top = np.partition(A**2, -count, axis=None)[-count] <= A**2
    return _either_way(reverse_cuthill_mckee(csr_matrix(top | top.T), symmetric_mode=True), A, mask)


def _fiedler(A: Array, mask: Mask) -> Orders:
    graph = A**2 + (A**2).T
    laplacian = np.diag(graph.sum(axis=0)) - graph
    return _either_way(np.argsort(np.linalg.eigh(laplacian)[1][:, 1]), A, mask)


def _either_way(order: NDArray[Any], A: Array, mask: Mask) -> Orders:
    outside = [float((mask.penalty * A[np.ix_(p, p)] ** 2).sum()) for p in (order, order[::-1])]
    p = order if outside[0] <= outside[1] else order[::-1]
    return p, p


def spectral_labels(name: str) -> Callable[[Array, Mask], Orders]:
    """Row and column labels by a spectral method of scikit-learn, told the number of blocks, else 4."""

    def run(A: Array, mask: Mask) -> Orders:
        cluster = require("sklearn.cluster", "data")
        blocks = len(mask.params.get("row_sizes", (0,) * 4))
        model = getattr(cluster, name)(n_clusters=blocks, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(A**2)
        return model.row_labels_, model.column_labels_

    return run


def two_sided(name: str) -> Callable[[Array, Mask], Orders]:
    """Rows and columns sorted by such labels; common masks use the row labels."""

    def run(A: Array, mask: Mask) -> Orders:
        rows, columns = spectral_labels(name)(A, mask)
        return np.argsort(rows, kind="stable"), np.argsort(columns, kind="stable")

    return run


def _one_sided(name: str) -> Callable[[Array, Mask], Orders]:
    def run(A: Array, mask: Mask) -> Orders:
        rows, _ = two_sided(name)(A, mask)
        return rows, rows

    return run


def _seriation(method: str) -> Callable[[Array, Mask], Orders]:
    script = (
        "m <- as.matrix(read.csv(file('stdin'), header=FALSE)); set.seed(0); library(seriation);"
        f"cat(get_order(seriate(as.dist(max(m) - m), method='{method}')) - 1, sep=',')"
    )

    def run(A: Array, mask: Mask) -> Orders:
        text = "\n".join(",".join(map(repr, row)) for row in (A**2 + (A**2).T).tolist())
        done = subprocess.run(
            ["Rscript", "-e", script], input=text, capture_output=True, text=True, check=True
        )
        return _either_way(np.array(json.loads(f"[{done.stdout}]")), A, mask)

    return run


PEERS: dict[str, tuple[str, Callable[[Array, Mask], Orders]]] = {
    "FAQ x1": ("scipy", _frank_wolfe(1)),
    "FAQ x10": ("scipy", _frank_wolfe(10)),
    "2opt": ("scipy", _two_opt),
    "RCM of the top entries": ("scipy", _cuthill_mckee),
    "Fiedler": ("scipy", _fiedler),
    "SpectralCoclustering": ("sklearn", _one_sided("SpectralCoclustering")),
    "SpectralBiclustering": ("sklearn", _one_sided("SpectralBiclustering")),
    **{f"seriation {method}": ("R", _seriation(method)) for method in SERIATION},
}
"""Name, and the package it needs ("R": Rscript with seriation) with the function."""


def has_seriation() -> bool:
    """Whether Rscript and its package are here."""
    if shutil.which("Rscript") is None:
        return False
    return subprocess.run(["Rscript", "-e", "library(seriation)"], capture_output=True).returncode == 0
