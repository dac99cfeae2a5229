"""Each derivation against the numeric function that uses it."""

import pytest
from helpers import number

from porism.theory.alignment import (
    covariance_error,
    haar_moments,
    head_start,
    linear_drop,
    spike_eigenvalue,
    spike_overlap,
    subcritical_enrichment,
    symbolic,
)

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]


def test_overlap(sy):
    value, share, threshold = symbolic.overlap()
    for ell, gamma in ((3, 2), (6, 8), (5, 0.1)):
        assert number(value.rhs, ell=ell, gamma=gamma) == pytest.approx(spike_eigenvalue(ell, gamma))
        assert number(share.rhs, ell=ell, gamma=gamma) == pytest.approx(spike_overlap(ell, gamma))
    assert threshold.rhs == sy.sqrt(sy.Symbol("gamma", positive=True))


def test_enrichment(sy):
    law = symbolic.enrichment().rhs
    for ell, gamma, x in ((1, 4, 4), (0.5, 2, 1), (2, 9, 16)):
        found = number(law, ell=ell, gamma=gamma, **{"lambda": x})
        assert found == pytest.approx(subcritical_enrichment(ell, gamma, x))
    ell, gamma, x = sy.symbols("ell gamma lambda", positive=True)
    outlier = symbolic.overlap()[0].rhs
    assert sy.simplify(1 / law - ell * (outlier - x) / (gamma * (1 + ell))) == 0


def test_sample_error():
    error, start = symbolic.sample_error()
    for ell, gamma in ((8, 4), (3, 0.5), (40, 9)):
        assert number(error.rhs, ell=ell, gamma=gamma) == pytest.approx(covariance_error(ell, gamma))
    assert number(start.rhs, gamma=4) == 3


def test_head_start():
    drop, delay = symbolic.head_start()
    found = number(drop.rhs, s=0.7, g=1.3, a=0.2, t=2)
    assert found == pytest.approx(linear_drop(2, 0.2, 0.7, 1.3))
    assert number(delay.rhs, s=1, g=2, a_1=0.4, a_2=0.01) == pytest.approx(head_start(0.4, 0.01, 1, 2))


def test_captured_moments():
    for law, value in zip(symbolic.captured_moments(), haar_moments(24, 3), strict=True):
        assert number(law.rhs, d=24, r=3) == pytest.approx(value)


def test_debiased_scatter():
    equation = symbolic.debiased_scatter()
    assert (equation.lhs - equation.rhs).expand() == 0
    values = dict(zip(("x_1", "x_2", "x_3", "x_4"), (3, 1, -2, -2), strict=True))
    assert number(equation.lhs, **values) == 15 / 4  # the worked case, along its basis
