"""Section by section: what certificates refuse, and what the message says."""

import warnings
from fractions import Fraction as F

import numpy as np
import pytest

from porism.errors import AssumptionError, NumericalWarning
from porism.theory.partition import (
    BoundaryTieError,
    DegenerateUtilityError,
    MonotoneClass,
    OrderedPartition,
    RelativeThreshold,
    Semivalue,
    Sign,
    SmallCoalitions,
    Threshold,
    TopK,
    UtilityTable,
    certify_partition,
    desirability_matrix,
    is_coalitionally_dominant,
    robust_ks,
    semivalues,
    value_intervals,
)

SH = Semivalue.shapley()
T = UtilityTable.from_array([0, 1, 1, 1, 4, 5, 5, 6, 4, 5, 5, 6, 9, 10, 10, 12])


def says(error, *words):
    return pytest.raises(error, match="(?s)" + "".join(f"(?=.*{w})" for w in words))


@pytest.mark.parametrize("k", [0, -1, 4, 5])
def test_k_out_of_range(k):
    with says(ValueError, rf"k must be in 1..n-1, got k={k}, n=4"):
        certify_partition(T, SH, TopK(k))


@pytest.mark.parametrize("k", [True, 2.0, "2", None, np.float64(2), np.bool_(True)])
def test_k_of_a_wrong_type(k):
    with says(TypeError, "k must be an int"):
        TopK(k)


def test_numpy_integers_are_integers():
    for kind in (np.int64, np.uint8, np.int32):
        c = certify_partition(
            T, SH, TopK(kind(2)), small=SmallCoalitions(kind(1)), transforms=MonotoneClass(decimals=kind(2))
        )
        assert type(c.decision.k) is int
        assert c == certify_partition(
            T, SH, TopK(2), small=SmallCoalitions(1), transforms=MonotoneClass(decimals=2)
        )
        c.to_json()
        assert OrderedPartition([np.array([0, 1], kind), [kind(2)]]) == OrderedPartition([[0, 1], [2]])
        assert is_coalitionally_dominant(T, np.array([2, 3], kind))[0]
        assert Threshold(kind(1)) == Threshold(1)
        assert type(Threshold(kind(1)).tau.numerator) is int
    assert Threshold(np.float32(0.25)) == Threshold(0.25) == Threshold("1/4") == Threshold(F(1, 4))


@pytest.mark.parametrize(
    ("blocks", "error", "words"),
    [
        ([[0, 1], [2]], ValueError, ["missing", r"\[3\]"]),
        ([[0, 1], [2, 3, 4]], ValueError, ["unknown", r"\[4\]"]),
        ([[0, 1], [1, 2, 3]], ValueError, ["overlap", r"\[1\]"]),
        ([[0, 0], [1, 2, 3]], ValueError, [r"\[0\]"]),
        ([[0, 1, 2, 3], []], ValueError, ["nonempty"]),
        ([[0, 1, 2, 3]], ValueError, ["two"]),
        ([], ValueError, ["two"]),
        ([[0.0], [1, 2, 3]], TypeError, ["blocks must be an int"]),
        ([[np.float64(0)], [1, 2, 3]], TypeError, ["blocks must be an int"]),
        ([[True], [0, 2, 3]], TypeError, ["blocks must be an int"]),
        ([["0"], [1, 2, 3]], TypeError, ["blocks"]),
        ([0, 1, 2, 3], TypeError, ["blocks"]),
        (None, TypeError, ["blocks"]),
    ],
)
def test_blocks(blocks, error, words):
    with says(error, *words):
        certify_partition(T, SH, OrderedPartition(blocks), ties="weak")


def test_thresholds():
    with says(ValueError, "not scale-free", "range_normalised", "0.5"):
        certify_partition(T, SH, Threshold(0.5))
    certify_partition(T, SH, Threshold(0))
    for tau in (float("nan"), float("inf"), "x"):
        with says(ValueError, "tau must be finite"):
            Threshold(tau)
    for tau in (True, None, [1]):
        with says(TypeError, "tau must be a number"):
            Threshold(tau)
    with says(ValueError, "reference must be one of 'mean'"):
        RelativeThreshold("median")


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([0.5, 0.5, 0.5, 0.5], [r"sum_s C\(n-1,s\) p_s must be 1", "sum 4"]),
        ([-0.25, 0.25, 0.25, -0.25], ["nonnegative", "-0.25"]),
        ([1, 0, 0, 1e-8], ["1.00000001"]),
        ([], ["none"]),
        ([1, 0, 0, float("nan")], [r"p\[3\]", "nan"]),
    ],
)
def test_bad_weights(weights, words):
    with says(ValueError, *words):
        Semivalue.from_weights(weights)


def test_weights_of_another_size():
    sv = Semivalue.from_weights([0.5, 0.5])
    with says(ValueError, "2 weights for n=4", r"sum_s C\(n-1,s\) p_s must be 1"):
        certify_partition(T, sv, TopK(2))
    Semivalue.from_weights([1 / 3, 0.1, 0.7 - 7 / 30])  # the sum is 1 up to rounding
    with says(TypeError, r"p\[0\]"):
        Semivalue.from_weights([True, 0])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Semivalue.beta(0, 1), ValueError, ["alpha must be positive, got 0"]),
        (lambda: Semivalue.beta(1, -2), ValueError, ["beta must be positive, got -2"]),
        (lambda: Semivalue.beta(float("nan"), 1), ValueError, ["alpha", "nan"]),
        (lambda: Semivalue.beta(None, 1), TypeError, ["alpha", "None"]),
        (lambda: Semivalue.weighted_banzhaf(0), ValueError, [r"w must be in \(0, 1\), got 0"]),
        (lambda: Semivalue.weighted_banzhaf(1.0), ValueError, ["w must be in", "got 1.0"]),
        (lambda: Semivalue.weighted_banzhaf(float("inf")), ValueError, ["w", "inf"]),
        (lambda: Semivalue.weighted_banzhaf(True), TypeError, ["w", "True"]),
        (lambda: Semivalue.weighted_banzhaf("1/0"), ValueError, ["w", "1/0"]),
        (lambda: SmallCoalitions(0), ValueError, ["below", "got 0"]),
        (lambda: SmallCoalitions(2.0), TypeError, ["below must be an int"]),
        (lambda: SmallCoalitions(2, "any"), ValueError, ["values must be one of", "'any'"]),
        (lambda: SmallCoalitions(2, "range", (3, 1)), ValueError, ["lo <= hi", "3"]),
        (lambda: SmallCoalitions(2, "range", (0, float("nan"))), ValueError, ["bounds", "nan"]),
        (lambda: SmallCoalitions(2, "range", (0, float("inf"))), ValueError, ["finite"]),
        (lambda: SmallCoalitions(2, "range", (0, 1, 2)), ValueError, ["bounds", "lo, hi"]),
        (lambda: SmallCoalitions(2, "free", (0, 1)), ValueError, ["bounds must be left out"]),
        (lambda: SmallCoalitions(2, "range", 3), ValueError, ["bounds must be finite", "got 3"]),
        (lambda: Semivalue("owen"), ValueError, ["family must be one of", "'owen'"]),
        (lambda: SH.exact_weights(2.0), TypeError, ["n must be an int"]),
        (lambda: SH.log_weights(0), ValueError, ["n must be >= 1, got 0"]),
        (lambda: MonotoneClass("linear"), ValueError, ["shape must be one of", "'linear'"]),
        (
            lambda: MonotoneClass(max_slope_ratio=0.5),
            ValueError,
            ["max_slope_ratio must be at least 1, got 0.5"],
        ),
        (lambda: MonotoneClass(max_slope_ratio=float("nan")), ValueError, ["max_slope_ratio", "nan"]),
        (lambda: MonotoneClass(max_slope_ratio=True), TypeError, ["max_slope_ratio", "True"]),
        (lambda: MonotoneClass(max_slope_ratio="2"), TypeError, ["max_slope_ratio", "'2'", "inf"]),
        (lambda: MonotoneClass(range_normalised="no"), TypeError, ["must be a bool, got 'no'"]),
        (lambda: MonotoneClass(decimals=309), ValueError, ["decimals must be in -308..308, got 309"]),
        (lambda: MonotoneClass(decimals=1.0), TypeError, ["decimals must be an int"]),
        (lambda: certify_partition(T, SH, TopK(2), small=SmallCoalitions(5)), ValueError, ["below=5", "n=4"]),
        (lambda: certify_partition(T, SH, TopK(2), delta=0), ValueError, ["delta", "got 0"]),
        (lambda: certify_partition(T, SH, TopK(2), delta=1.0), ValueError, ["delta", "got 1.0"]),
        (lambda: certify_partition(T, SH, TopK(2), epsilon=-0.1), ValueError, ["epsilon", "-0.1"]),
        (lambda: certify_partition(T, SH, TopK(2), epsilon=float("nan")), ValueError, ["epsilon", "nan"]),
        (lambda: certify_partition(T, SH, TopK(2), epsilon="x"), TypeError, ["epsilon", "real numbers"]),
        (
            lambda: certify_partition(T, SH, TopK(2), missing="free"),
            ValueError,
            ["missing must be one of", "'free'"],
        ),
        (lambda: certify_partition(T, SH, TopK(2), ties=None), ValueError, ["ties must be one of", "None"]),
        (lambda: certify_partition(T, SH, TopK(2), strict="yes"), ValueError, ["strict must be one of"]),
        (lambda: certify_partition(T, SH, TopK(2), target="sample"), ValueError, ["target must be one of"]),
        (lambda: certify_partition(T, SH, TopK(2), device="tpu"), ValueError, ["device must be one of"]),
        (
            lambda: certify_partition(T, SH, TopK(2), radii=("noise",)),
            ValueError,
            ["radii must be one of", "'noise'"],
        ),
        (lambda: certify_partition(T, SH, 2), TypeError, ["decision must be TopK", "int"]),
        (lambda: certify_partition(T, SH, TopK), TypeError, ["decision must be TopK"]),
        (lambda: certify_partition(T.scores, SH, TopK(2)), TypeError, ["table must be a UtilityTable"]),
        (lambda: certify_partition(T, "shapley", TopK(2)), TypeError, ["sv must be a Semivalue"]),
        (
            lambda: certify_partition(T, SH, TopK(2), transforms="concave"),
            TypeError,
            ["transforms must be a MonotoneClass"],
        ),
        (lambda: certify_partition(T, SH, TopK(2), small=2), TypeError, ["small must be a SmallCoalitions"]),
        *(
            (lambda f=f: f(T.scores, SH), TypeError, ["table must be a UtilityTable, got ndarray"])
            for f in (semivalues, robust_ks, value_intervals)
        ),
        (lambda: semivalues(T, "shapley"), TypeError, ["sv must be a Semivalue, got str"]),
        (lambda: robust_ks(T, "shapley"), TypeError, ["sv must be a Semivalue, got str"]),
        (lambda: desirability_matrix(T.scores), TypeError, ["table must be a UtilityTable"]),
        (lambda: is_coalitionally_dominant(T.scores, [0]), TypeError, ["table must be a UtilityTable"]),
        (lambda: T.missing(-1), ValueError, ["limit must be >= 0, got -1"]),
        (lambda: T.levels(0.5), TypeError, ["decimals must be an int"]),
        (lambda: UtilityTable.from_pairs(None, [1]), TypeError, ["must be a sequence", "NoneType"]),
        (lambda: UtilityTable.from_samples([[0], [0, 1]], [1, 2]), ValueError, ["members", "unequal length"]),
        (lambda: is_coalitionally_dominant(T, []), ValueError, ["members", r"\[\]"]),
        (lambda: is_coalitionally_dominant(T, range(4)), ValueError, ["members", "proper"]),
        (lambda: is_coalitionally_dominant(T, [4]), ValueError, ["members", "4"]),
        (lambda: is_coalitionally_dominant(T, [1.0]), TypeError, ["members must be an int"]),
        (
            lambda: desirability_matrix(UtilityTable.from_array(np.arange(1 << 17))),
            ValueError,
            ["at most 16", "17"],
        ),
    ],
)
def test_values_out_of_range(make, error, words):
    with says(error, *words):
        make()


def test_one_name_and_iterators_are_taken():
    c = certify_partition(T, SH, TopK(2), radii="slope")
    assert c == certify_partition(T, SH, TopK(2), radii=("slope",))
    assert OrderedPartition(iter([iter([1, 0]), (2,)])) == OrderedPartition([[0, 1], [2]])


def test_constant_utility():
    t = UtilityTable.from_array(np.full(8, 3.0))
    for act in (
        lambda: certify_partition(t, SH, TopK(1)),
        lambda: certify_partition(t, SH, TopK(1), ties="weak"),
        lambda: certify_partition(t, SH, Sign()),
        lambda: robust_ks(t, SH),
        lambda: value_intervals(t, SH),
        lambda: certify_partition(t, SH, TopK(1), target="estimate"),
        lambda: certify_partition(
            UtilityTable.from_array(np.arange(8) / 100), SH, TopK(1), transforms=MonotoneClass(decimals=0)
        ),
    ):
        with says(DegenerateUtilityError, "constant utility: every partition is a tie"):
            act()
    assert issubclass(DegenerateUtilityError, AssumptionError)
    part = UtilityTable.from_pairs([[0], [1], []], [2.0, 2.0, 2.0])
    with pytest.raises(DegenerateUtilityError):
        certify_partition(part, SH, TopK(1), missing="range")


def test_boundary_ties_name_players_and_value():
    v = UtilityTable.from_array([0, 3, 3, 5, 1, 4, 4, 6])
    with says(BoundaryTieError, r"\[0, 1\]", "2.5", "ties='weak'"):
        certify_partition(v, SH, TopK(1))
    with says(BoundaryTieError, r"\[0, 1\]", "2.5"):
        certify_partition(v, SH, OrderedPartition([[1], [0], [2]]))
    certify_partition(v, SH, OrderedPartition([[0, 1], [2]]))
    assert issubclass(BoundaryTieError, ValueError)


def test_boxes_refuse_other_decisions():
    part = UtilityTable.from_pairs(np.arange(15), T.scores[:15], 4)
    normal = MonotoneClass(range_normalised=True)
    for act in (
        lambda: certify_partition(part, SH, Threshold(1), missing="range", transforms=normal),
        lambda: certify_partition(part, SH, RelativeThreshold(), missing="range"),
        lambda: certify_partition(T, SH, Sign(), small=SmallCoalitions(1, "size-only")),
        lambda: certify_partition(T, SH, Threshold(1), small=SmallCoalitions(1), transforms=normal),
    ):
        with says(ValueError, "only Sign", "TopK"):
            act()
    certify_partition(part, SH, Sign(), missing="range")


def test_levels_that_rounding_may_have_split_are_named():
    v = np.array([0, 1, 1 + 1e-13, 3.0])
    with pytest.warns(NumericalWarning, match=r"decimals") as caught:
        certify_partition(UtilityTable.from_array(v), SH, TopK(1))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certify_partition(
            UtilityTable.from_array(v), SH, TopK(1), transforms=MonotoneClass(decimals=9), ties="weak"
        )
        certify_partition(UtilityTable.from_array([0, 1e-9, 1, 3]), SH, TopK(1))
        certify_partition(
            UtilityTable.from_array([1e6, 1e6 + 1e-8, 1e6 + 2e-8, 1e6 + 3e-8]), SH, TopK(1), ties="weak"
        )
