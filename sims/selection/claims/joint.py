"""Claims on choosing samples and parameters together: DS-6, DS-7."""

import itertools

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.selection._estimates import joint_shares
from porism.sims.selection._scores import score_matrix
from porism.sims.selection.claims.scores import SOURCE
from porism.sims.selection.matrices import FAMILIES, biclique_matrix, draw_matrix
from porism.sims.selection.worlds import tanh_world
from porism.theory.selection import joint_select, score_oracle

__all__ = ["biclique", "fractions", "marginals", "one_axis"]

Floats = NDArray[np.float64]


@claim(
    "DS-6",
    kind="theorem",
    source=SOURCE,
    statement="One axis at a time, top-k is optimal for the first-order improvement: over all sets of k "
    "samples for any given set of parameters the best one is the top of the rows summed over it, and "
    "likewise for columns; a model gives these sums without its matrix.",
    control="rows summed over all parameters",
)
def one_axis(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, lost, apart = 20 if scale == "smoke" else 60, 0.0, 0.0
    for number in range(draws):
        world = tanh_world(n=7, inputs=2, width=2, rng=rng)
        G = score_matrix(world)
        oracle, (n, P) = score_oracle(*world.arguments), G.shape
        chosen = np.sort(rng.permutation(P if number % 2 == 0 else n)[:3])
        own, M = (oracle.rows, G) if number % 2 == 0 else (oracle.columns, G.T)
        sums = np.asarray(own(chosen))
        apart = max(apart, float(np.abs(sums - M[:, chosen].sum(1)).max() / np.abs(G).max()))
        if broken:
            sums = M.sum(1)
        picked = np.argsort(-sums)[:3]
        values = [M[list(rows)][:, chosen].sum() for rows in itertools.combinations(range(len(M)), 3)]
        lost = max(lost, float(max(values) - M[picked][:, chosen].sum()) / float(np.abs(G).max()))
    return Evidence(
        lost <= 1e-12 and apart <= 1e-12,
        lost,
        0.0,
        1e-12,
        "rounding of sums of some ten entries, over the largest",
        draws,
        {"sums of the model off the full matrix (tolerance 1e-12)": apart},
        quantity="largest loss of top-k against all subsets, over the largest entry",
    )


@claim(
    "DS-6b",
    kind="refuted",
    source="a natural reading of the abstract",
    statement="The top rows and the top columns, each by its own sums, are close to the best joint choice. "
    "(There is no constant: 0.2 of 10 on a 3 x 3 matrix, eps of 1 by scaling, and less than 0 on others.)",
    control="products of non-negative vectors, where one shot is optimal",
)
def marginals(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, shares, below = 20 if scale == "smoke" else 200, [], 0
    for _ in range(draws):
        eps = float(rng.uniform(0.005, 0.02))
        small = np.array([[1, -1, eps / 2], [-1, 1, eps / 2], [eps, eps, eps]])
        signed = draw_matrix("positive" if broken else "signed", 8, 9, rng)
        G, k, count = (signed, 3, 4) if broken else (small[rng.permutation(3)][:, rng.permutation(3)], 1, 1)
        found, best = (joint_select(G, k, count, method).value for method in ("one_shot", "exact"))
        shares.append(found / best)
        below += joint_select(signed, 3, 4).value < 0
    known = 10 * np.array([[1, -1, 0.01], [-1, 1, 0.01], [0.02, 0.02, 0.02]])
    return Evidence(
        max(shares) <= 0.02 + 1e-12 and below > 0,
        max(shares),
        "a constant, by the wording",
        0.02,
        "the family's own eps, up to 0.02",
        draws,
        {
            "known matrix, one shot": joint_select(known, 1, 1).value,
            "known matrix, best": float(known.max()),
            "signed products of value below 0": f"{below} of {draws}",
        },
        quantity="largest share of the best that one shot has",
    )


@claim(
    "DS-6c",
    kind="theorem",
    source="balanced biclique: Garey and Johnson 1979, GT24; our reduction",
    statement="The joint choice is NP-hard: with 1 on the edges of a bipartite graph and a large penalty "
    "elsewhere, the best k x k choice is worth k^2 if and only if the graph has a biclique K_kk.",
    control="one shot in place of the best choice",
)
def biclique(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, wrong, has = 30 if scale == "smoke" else 300, 0, 0
    for _ in range(draws):
        n, P, k = 6, 6, 3
        edges = rng.random((n, P)) < 0.6
        # by neighbourhoods: k vertices on the left with k common neighbours
        there = any(edges[list(rows)].all(0).sum() >= k for rows in itertools.combinations(range(n), k))
        value = joint_select(biclique_matrix(edges), k, k, "one_shot" if broken else "exact").value
        wrong += (value == k**2) != there
        has += there
    return Evidence(
        wrong == 0 and 0 < has < draws,
        wrong,
        0,
        0.0,
        "exact integers",
        draws,
        {"graphs with K_33": has},
        quantity="graphs decided wrongly",
    )


@claim(
    "DS-7",
    kind="empirical",
    source=SOURCE,
    statement="On 8 x 9 matrices with k = 3, l = 4 one shot has on average less than 0.9 of the best for "
    "Gaussian entries, signed products and real gradients, alternating from it more than 0.85 and at least "
    "as much on each, and with 20 random starts more than 0.99.",
    control="an alternation that does not sum rows anew under its columns",
)
def fractions(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 250 if scale == "smoke" else 300  # shares of signed products spread by 0.22 about 0.90
    numbers: dict[str, float] = {}
    most, least, restarts, worse = 0.0, np.inf, np.inf, 0
    for family in FAMILIES:
        found = []
        for _ in range(draws):
            G = draw_matrix(family, 8, 9, rng)
            once, step, many = joint_shares(G, 3, 4, rng)
            if broken:
                rows = np.sort(np.argsort(-G.sum(1), kind="stable")[:3])
                value = float(np.sort(G[rows].sum(0))[-4:].sum())
                step = many = value / joint_select(G, 3, 4, "exact").value
            worse += step < once - 1e-12
            found.append((once, step, many))
        mean = np.mean(found, axis=0)
        names = ("one shot", "alternating", "20 starts")
        numbers |= {f"{family}, {name}": float(x) for name, x in zip(names, mean, strict=True)}
        numbers[f"{family}, one shot, least"] = float(np.min(found, axis=0)[0])
        if family != "positive":
            most, least, restarts = max(most, mean[0]), min(least, mean[1]), min(restarts, mean[2])
    return Evidence(
        bool(most < 0.9 and least > 0.85 and restarts > 0.99 and not worse),
        float(restarts),
        "above 0.99",
        0.0,
        "a trend over draws, no tolerance",
        draws,
        numbers,
        quantity="least mean share of the best with 20 starts",
    )
