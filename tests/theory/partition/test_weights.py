"""Weights of semivalues: rationals, logarithms at ten thousand players, integers and their width."""

import math
import sys
import warnings
from fractions import Fraction as F

import numpy as np
import pytest

from porism.theory.partition import Semivalue, TopK, UtilityTable, certify_partition, semivalues

SH, BZ = Semivalue.shapley(), Semivalue.banzhaf()
N = 10_000


@pytest.mark.parametrize("name", ["shapley", "banzhaf", "quarter", "tenth", "beta41", "beta32", "loo"])
def test_weights_against_the_definition(brute, name):
    sv = brute.semivalue(name)
    for n in (1, 2, 3, 7, 12):
        p = brute.weights(name, n)
        assert list(sv.exact_weights(n)) == p
        assert sum(math.comb(n - 1, s) * x for s, x in enumerate(p)) == 1
        with np.errstate(divide="ignore"):
            logs = [math.log(x.numerator) - math.log(x.denominator) if x else -math.inf for x in p]
        assert sv.log_weights(n) == pytest.approx(logs, abs=1e-13)
        assert sv.mass(n) == pytest.approx(
            [float(math.comb(n - 1, s) * x) for s, x in enumerate(p)], abs=1e-14
        )
        if n > 1:
            q = [p[s - 1] + p[s] for s in range(1, n)]
            assert list(sv.exact_pair_weights(n)) == [0, *q, 0]
            mass = [float(math.comb(n - 2, s - 1) * x) for s, x in enumerate(q, 1)]
            assert sv.pair_mass(n) == pytest.approx(mass, abs=1e-14)
            assert sum(mass) == pytest.approx(1, abs=1e-14)
            whole = sv.integer_pair_weights(n)
            if whole is not None:
                integers, scale = whole
                assert integers.dtype == np.int64
                assert [F(int(x), scale) for x in integers] == [0, *q, 0]
    with pytest.raises(ValueError, match="at least 2"):
        sv.pair_mass(1)


def test_shapley_at_ten_thousand_players():
    log_p = SH.log_weights(N)
    middle = (N - 1) // 2
    exact = -math.log(N) - math.log(math.comb(N - 1, middle))
    assert log_p.min() == pytest.approx(exact, abs=1e-9)
    assert round(log_p.min()) == -6935
    assert log_p[0] == log_p[-1] == -math.log(N)
    assert SH.pair_mass(N) == pytest.approx(np.full(N - 1, 1 / (N - 1)), rel=1e-12)


@pytest.mark.parametrize(
    "sv",
    [
        BZ,
        Semivalue.weighted_banzhaf(0.1),
        Semivalue.beta(16, 1),
        Semivalue.beta(1, 32),
        Semivalue.beta("1/2", "1/3"),
        SH,
    ],
    ids=str,
)
def test_masses_at_ten_thousand_players_sum_to_one(sv):
    mass = sv.mass(N)
    assert mass.shape == (N,)
    assert math.fsum(mass) == pytest.approx(1, abs=1e-12)
    assert math.fsum(sv.pair_mass(N)) == pytest.approx(1, abs=1e-12)
    assert np.isfinite(sv.log_weights(N)).all()


def test_weighted_banzhaf_reaches_minus_23000():
    assert int(Semivalue.weighted_banzhaf(0.1).log_weights(N)[-1]) == -23023


def test_log_mass_against_forty_digits(needs):
    """The recurrence keeps log P within 1e-12; gammaln in double precision would be off by 2e-11."""
    mpmath = needs("mpmath")
    with mpmath.workdps(40):
        for a, b in ((4, 1), (1, 32), (F(1, 2), F(1, 3))):
            sv = Semivalue.beta(a, b)
            a, b = (
                mpmath.mpf(F(a).numerator) / F(a).denominator,
                mpmath.mpf(F(b).numerator) / F(b).denominator,
            )
            log_p = sv.log_weights(N)
            for s in (0, 1, 17, 2500, 4999, 7777, N - 2, N - 1):
                choose = mpmath.loggamma(N) - mpmath.loggamma(s + 1) - mpmath.loggamma(N - s)
                top = mpmath.loggamma(s + b) + mpmath.loggamma(N - 1 - s + a) - mpmath.loggamma(N - 1 + a + b)
                weight = top - mpmath.loggamma(a) - mpmath.loggamma(b) + mpmath.loggamma(a + b)
                assert abs(log_p[s] + choose - (weight + choose)) < 2e-12 + 4e-16 * abs(weight)
        w = mpmath.mpf(0.1)
        log_p = Semivalue.weighted_banzhaf(0.1).log_weights(N)
        for s in (0, 999, 5000, N - 1):
            exact = s * mpmath.log(w) + (N - 1 - s) * mpmath.log(1 - w)
            assert abs(log_p[s] - exact) < 1e-15 * abs(exact) * 4


def test_integer_weights_of_shapley():
    """PR-20: lcm(1..n-1) q_s is an integer, and the sums fit 62 bits up to n = 43."""
    for n in range(2, 44):
        integers, scale = SH.integer_pair_weights(n)
        common = math.lcm(*range(1, n))
        assert common % scale == 0
        for s in range(1, n):
            assert F(int(integers[s]), scale) == F(1, (n - 1) * math.comb(n - 2, s - 1))
            assert (common * F(1, (n - 1) * math.comb(n - 2, s - 1))).denominator == 1
        assert (integers[0], integers[n]) == (0, 0)
    assert SH.integer_pair_weights(44) is None
    integers, scale = BZ.integer_pair_weights(24)
    assert (set(integers[1:24].tolist()), scale) == ({1}, 2**22)
    integers, scale = Semivalue.leave_one_out().integer_pair_weights(30)
    assert (integers.tolist(), scale) == ([0] * 29 + [1, 0], 1)


@pytest.mark.parametrize(
    ("sv", "bits"),
    [
        (Semivalue.beta(4, 1), 34),
        (Semivalue.beta(16, 1), 49),
        (Semivalue.beta(1, 16), 53),
        (Semivalue.weighted_banzhaf("1/3"), 36),
        (Semivalue.weighted_banzhaf("1/4"), 45),
        (Semivalue.weighted_banzhaf("1/5"), 52),
        (Semivalue.beta(1, 32), 67),
        (Semivalue.weighted_banzhaf("1/10"), 74),
    ],
    ids=str,
)
def test_bits_at_24_players(sv, bits):
    q = sv.exact_pair_weights(24)
    scale = math.lcm(*(x.denominator for x in q))
    total = sum(math.comb(22, s - 1) * q[s] for s in range(1, 24)) * scale
    assert total == scale  # pair masses sum to one
    assert bits - 4 <= int(total).bit_length() <= bits + 1
    assert (sv.integer_pair_weights(24) is None) is (bits > 62)


def test_numpy_and_text_parameters_are_exact():
    """A NumPy integer inside a Fraction would overflow silently."""
    for kind in (np.int64, np.int8, np.uint16):
        assert Semivalue.beta(kind(16), kind(1)).exact_weights(24) == Semivalue.beta(16, 1).exact_weights(24)
    assert Semivalue.weighted_banzhaf(np.float64(0.1)) == Semivalue.weighted_banzhaf(0.1)
    assert Semivalue.weighted_banzhaf(np.float32(0.25)) == Semivalue.weighted_banzhaf("1/4")
    assert (
        Semivalue.weighted_banzhaf("0.1")
        == Semivalue.weighted_banzhaf(F(1, 10))
        != Semivalue.weighted_banzhaf(0.1)
    )
    p = np.array([0.25, 0.125, 0.5])
    assert Semivalue.from_weights(p).exact_weights(3) == (F(1, 4), F(1, 8), F(1, 2))


def test_names_come_back():
    for sv in (
        SH,
        BZ,
        Semivalue.leave_one_out(),
        Semivalue.beta(4, 1),
        Semivalue.beta("1/2", 3),
        Semivalue.weighted_banzhaf(0.1),
        Semivalue.from_weights(["1/3", "2/3"]),
    ):
        assert Semivalue.parse(str(sv)) == sv
    assert Semivalue.parse(" Beta:4,1 ") == Semivalue.beta(4, 1)
    assert Semivalue.parse("wbanzhaf:0.25") == Semivalue.weighted_banzhaf(F(1, 4))
    for text in ("shap", "beta:4", "beta", "banzhaf:2", "wbanzhaf:", ""):
        with pytest.raises(ValueError, match="semivalue must be"):
            Semivalue.parse(text)
    with pytest.raises(ValueError, match="alpha"):
        Semivalue.parse("beta:x,1")


@pytest.mark.parametrize("scale", [1.0, 1e-290, 1e300])
def test_fold_stays_within_its_bound(brute, scale):
    """|float - exact| <= 1e-12 max|v|, also where large scores cancel."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 10, 12):
        v = rng.normal(size=2**n) * scale * 10.0 ** rng.integers(-8, 1, 2**n)
        t = UtilityTable.from_array(v)
        for sv in (SH, BZ, Semivalue.beta(1, 32), Semivalue.leave_one_out()):
            exact = np.array([float(x) for x in semivalues(t, sv, exact=True)])
            assert np.abs(semivalues(t, sv) - exact).max() <= 1e-12 * np.abs(v).max()


def test_extreme_scores_certify(brute):
    rng = np.random.default_rng(1)
    p, seen = brute.weights("shapley", 3), set()
    for values in ([0, 5e-324, 1e-310, 1.0], [-1e300, 0.0, 1e300, 3e-300], [1.0, 1 + 2**-52, 2.0, 1e16]):
        for _ in range(12):
            v = rng.choice(values, 8)
            if v.min() == v.max():
                continue
            t = UtilityTable.from_array(v)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                c = certify_partition(t, SH, TopK(1), ties="weak")
            rows = brute.pairs(c.blocks)
            assert (c.level_margin, c.level, c.pair) == brute.margin(v, p, rows)
            kappa = brute.slope_radius(v, p, rows)
            assert c.slope_radius == (
                kappa if kappa == math.inf else float(min(kappa, F(sys.float_info.max)))
            )
            assert c.score_margin == float(brute.quantile_margin(v, p, rows))
            assert c.robust is (c.level_margin >= 0)  # also where kappa* is beyond float64
            seen.add(c.robust)
    assert seen == {True, False}
