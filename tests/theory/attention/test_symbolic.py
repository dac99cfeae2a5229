"""The derivations equal what the numeric functions compute."""

import numpy as np
import pytest

from porism.theory.attention import AttentionConfig, RopeLayout, cost_model, project_to_commutant
from porism.theory.attention import rope_commutant_residual as guard

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def derived(needs):
    needs("sympy")
    from porism.theory.attention import symbolic

    return symbolic


def test_one_frequency(derived):
    import sympy as sy

    apart, solution = derived.on_one_frequency()
    names = {str(s): s for s in apart.rhs.free_symbols | solution.rhs.free_symbols}
    entries = np.random.default_rng(0).standard_normal(4)
    values = dict(zip("abcd", entries, strict=True))
    t, layout = 0.7, RopeLayout("half", 2, [1.0])
    R = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    N = entries.reshape(2, 2)
    found = apart.rhs.subs({names[k]: v for k, v in values.items()} | {names["theta"]: t})
    np.testing.assert_allclose(np.array(found, float), R @ N - N @ R, atol=1e-15)
    fine = project_to_commutant(N, layout)
    solved = solution.rhs.subs({names["x"]: fine[0, 0], names["y"]: fine[1, 0]})
    np.testing.assert_allclose(np.array(solved, float), fine)
    assert sy.simplify(
        apart.rhs.subs(dict(zip(sy.symbols("a b c d", real=True), solution.rhs, strict=True)))
    ) == sy.zeros(2)


def test_across_frequencies(derived):
    between, beside = derived.across_frequencies()
    rng = np.random.default_rng(1)
    for first, second in rng.uniform(0.1, 3, (5, 2)):
        R = [np.array([[np.cos(w), -np.sin(w)], [np.sin(w), np.cos(w)]]) for w in (first, second)]
        system = np.kron(R[0], np.eye(2)) - np.kron(np.eye(2), R[1].T)
        values = dict(zip(sorted(between.rhs.free_symbols, key=str), (first, second), strict=True))
        assert float(between.rhs.subs(values)) == pytest.approx(np.linalg.det(system), abs=1e-12)
        assert float(beside.rhs.subs(values)) == pytest.approx(np.linalg.det(R[0] - np.eye(2)), abs=1e-14)


def test_guard(derived):
    same, apart = derived.guard()
    entries = np.random.default_rng(2).standard_normal(4)
    values = dict(zip(sorted(same.rhs.free_symbols, key=str), entries, strict=True))
    N = entries.reshape(2, 2)
    assert float(same.rhs.subs(values)) == pytest.approx(2 * guard(N, RopeLayout("half", 2, [1.0])) ** 2)
    off = np.zeros((4, 4))
    off[:2, 2:] = N  # between the two pairs of the interleaved layout
    assert float(apart.rhs.subs(values)) == pytest.approx(
        2 * guard(off, RopeLayout("interleaved", 4, [1.0, 0.3])) ** 2
    )


def test_pays(derived):
    ratio, edge = derived.pays()
    names = {str(s): s for s in ratio.rhs.free_symbols}
    values = {names["D"]: 1024, names["P"]: 4, names["G"]: 8}
    folded, kept = (cost_model(AttentionConfig(1024, 4, 4, 8, 64, f)).flops_per_token for f in (True, False))
    assert float(ratio.rhs.subs(values)) == pytest.approx(folded / kept)
    at = edge.rhs.subs({s: values[names[str(s)]] for s in edge.rhs.free_symbols})
    assert float(ratio.rhs.subs(values | {names["P"]: at})) == pytest.approx(1)


def test_rounding(derived):
    """Rounded numbers of many scales: a relative error of 0.42 units."""
    from porism.sims.attention import round_bfloat16

    rng = np.random.default_rng(3)
    x = rng.standard_normal((1000, 1000)) * np.exp2(rng.uniform(0, 1, (1000, 1)))
    error = np.square(round_bfloat16(x) - x).sum(1) / np.square(x).sum(1)
    law = derived.rounding().rhs
    expected = float(law.subs(dict.fromkeys(law.free_symbols, 2.0**-8)))
    # some 3 % a row, of 1000 rows
    assert error.mean() == pytest.approx(expected, rel=0.005)
