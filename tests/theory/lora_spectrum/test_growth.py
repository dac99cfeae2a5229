import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from porism.errors import NumericalWarning
from porism.theory.lora_spectrum import GrowthUniformity, SpectrumHistory, growth_uniformity


def path(g, times=(0, 1, 2)):
    """Spectra (T, r) whose roots grow from zero at the rates g."""
    return np.square(np.multiply.outer(np.asarray(times, dtype=float), np.asarray(g, dtype=float)))


def test_oracle_case_8():
    found = growth_uniformity(path([4, 2, 1, 1]))
    assert found.mean == pytest.approx(0.727272727, abs=5e-10)
    assert found.mean == pytest.approx(64 / (4 * 22), rel=1e-14)
    assert found.increments.tolist() == [[8, 4, 2, 2]]
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_range_and_scale(g, scale):
    found = growth_uniformity(path(g, (0, 1)))
    if not any(np.square(g) > 0):
        assert math.isnan(found.per_module[0])
        return
    value = found.per_module[0]
    # at most a few roundings around the ends 1/r and 1, which equal and lone growth reach
    assert 1 / len(g) - 1e-14 <= value <= 1 + 1e-14
    naive = (
        sum(found.increments[0]) ** 2 / len(g) / sum(x**2 for x in found.increments[0] / max(g)) / max(g) ** 2
    )
    assert value == pytest.approx(naive, rel=1e-12)
    # squares of rates below 1e-150 vanish in the input already
    if min((x for x in g if x > 0), default=1) > 1e-100:
        again = growth_uniformity(path(np.array(g) * scale, (0, 1))).per_module[0]
        assert again == pytest.approx(value, rel=1e-10)


def test_equal_growth_and_lone_growth():
    assert growth_uniformity(path([3] * 5)).mean == pytest.approx(1, rel=1e-14)
    assert growth_uniformity(path([3, 0, 0, 0])).mean == pytest.approx(0.25, rel=1e-14)
    shifted = np.square(np.array([[5, 3, 1], [6, 4, 2.0]]))  # equal growth from an unequal start
    assert growth_uniformity(shifted).mean == pytest.approx(1, rel=1e-14)
    # the shape factor of Muon multiplies all rates alike
    assert growth_uniformity(path(np.full(5, 12**0.25))).mean == pytest.approx(1, rel=1e-14)


def test_tiny_growth():
    assert growth_uniformity(path([4e-100, 2e-100, 1e-100, 1e-100], (0, 1))).mean == pytest.approx(64 / 88)


def test_values_are_compared_in_sorted_order():
    crossing = np.square(np.array([[3.0, 1.0], [2.0, 4.0]]))
    assert growth_uniformity(crossing, window=(0, 1)).increments.tolist() == [[1, 1]]


def test_modules_and_their_mean():
    found = growth_uniformity({"q": path([1, 1]), "v": path([1, 0]), "dead": path([0, 0])})
    assert found.modules == ("q", "v", "dead")
    assert found.per_module[:2] == pytest.approx([1, 0.5], rel=1e-14)
    assert math.isnan(found.per_module[2])
    assert found.mean == pytest.approx(0.75)
    assert (found.low, found.high) == pytest.approx((0.5, 1))  # resamples of two are .5, .75 and 1
    dead = growth_uniformity({"a": path([0, 0]), "b": path([0])})
    assert all(math.isnan(x) for x in (dead.mean, dead.low, dead.high))


def test_modules_of_different_rank():
    found = growth_uniformity({"q": path([1, 1, 1]), "v": path([1, 0])})
    assert found.per_module == pytest.approx([1, 0.5], rel=1e-14)
    assert np.array_equal(found.increments, [[2, 2, 2], [2, 0, np.nan]], equal_nan=True)


def test_all_forms_agree():
    rng = np.random.default_rng(0)
    g = rng.random((3, 4))
    array = np.stack([path(row) for row in g], axis=1)  # (T, K, r)
    forms = [
        array,
        array.tolist(),
        {str(k): array[:, k] for k in range(3)},
        [{str(k): row for k, row in enumerate(rows)} for rows in array],
        SpectrumHistory(np.arange(3), {str(k): array[:, k] for k in range(3)}),
    ]
    results = [growth_uniformity(form, window=(0, 2)) for form in forms]
    for found in results:
        assert found.per_module == pytest.approx(g.sum(1) ** 2 / 4 / (g**2).sum(1), rel=1e-12)
        assert (found.mean, found.low, found.high) == (results[0].mean, results[0].low, results[0].high)
        assert found.modules == ("0", "1", "2")
    assert results[0].low < results[0].mean < results[0].high


@pytest.mark.full
def test_tensors_at_each_checkpoint(needs):
    """What product_singular_values makes of tensors."""
    torch = needs("torch")
    maps = [{"a": torch.tensor(row), "b": torch.tensor(row[:2])} for row in path([4, 2, 1, 1])]
    found = growth_uniformity(maps, window=(0, 2))
    assert found.increments[0].tolist() == [8, 4, 2, 2]
    with pytest.raises(ValueError, match=r"other rank \['a \(4 to 2\)'\]"):
        growth_uniformity([maps[0], maps[1] | {"a": maps[1]["b"]}])
    rows = torch.tensor(path([4, 2, 1, 1])).bfloat16().requires_grad_()  # small integers, exact in bfloat16
    for form in (rows, {"a": rows}, [{"a": row} for row in rows]):
        assert growth_uniformity(form, window=(0, 2)).increments.tolist() == [[8, 4, 2, 2]]


@pytest.mark.full
def test_frame(needs):
    pandas = needs("pandas")
    rows = [
        {"step": step, "module": m, "index": i, "singular_value": (step * (i + 1)) ** 2}
        for step in (20, 0, 10)
        for m in ("b", "a")
        for i in (1, 0)
    ]
    frame = pandas.DataFrame(rows)
    found = growth_uniformity(frame)
    assert found.window == (0, 20)
    assert found.modules == ("b", "a")
    assert found.increments.tolist() == [[40, 20]] * 2
    with pytest.raises(ValueError, match=r"got none named \['index'\]"):
        growth_uniformity(frame.drop(columns="index"))
    with pytest.raises(ValueError, match="got no module"):
        growth_uniformity(frame[:0])
    with pytest.raises(ValueError, match=r"checkpoint 2 \(step 20\) differs .*other rank \['a \(2 to 1\)'\]"):
        growth_uniformity(frame.drop(index=2))


def test_window_ends_before_the_first_saturation():
    roots = np.minimum(np.multiply.outer(np.arange(8.0), [1, 1, 1]), [9, 9, 4.0])
    found = growth_uniformity(np.square(roots), steps=np.arange(8) * 10)
    assert found.window == (0, 40)  # the third value is at its target from step 40 on
    assert found.mean == pytest.approx(1, rel=1e-14)
    assert not found.saturated
    late = growth_uniformity(np.square(roots), steps=np.arange(8) * 10, window=(0, 70))
    assert late.saturated
    assert late.mean == pytest.approx(18**2 / 3 / (2 * 49 + 16), rel=1e-14)
    part = growth_uniformity(np.square(roots), steps=np.arange(8) * 10, window=(10, 30))
    assert part.window == (10, 30)
    assert part.increments.tolist() == [[2, 2, 2]]
    assert not part.saturated


def test_one_module_ends_the_window_of_all():
    slow, stopped = path([1, 1], range(6)), path([1, 1], [0, 1, 2, 2.001, 3, 4])
    assert growth_uniformity({"a": slow, "b": stopped}).window == (0, 2)
    # 1 % of a value is what counts: 2 % passes
    assert growth_uniformity({"b": path([1, 1], [0, 1, 2, 2 * 1.02**0.5, 3, 4])}).window == (0, 5)


def test_dead_values_do_not_end_the_window():
    found = growth_uniformity(path([1, 0], range(5)))
    assert found.window == (0, 4)
    assert found.mean == pytest.approx(0.5)


def test_saturation_in_the_first_interval_warns():
    values = path([1, 1], [1, 1.001, 2])
    with pytest.warns(NumericalWarning, match=r"pass window=\(k0, k1\)"):
        found = growth_uniformity(values)
    assert found.window == (0, 1)
    assert found.saturated
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert growth_uniformity(values, window=(0, 2)).window == (0, 2)
        assert growth_uniformity(values[:2]).saturated  # two checkpoints leave no choice


def test_seeds():
    values = np.stack([path(row) for row in np.random.default_rng(0).random((6, 4))], axis=1)
    first = growth_uniformity(values)
    assert growth_uniformity(values).low == first.low
    assert growth_uniformity(values, seed=np.random.default_rng(0)).low == first.low
    assert growth_uniformity(values, seed=1).low != first.low
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    growth_uniformity(values, seed=None)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_interval_is_that_of_all_resamples():
    """With three modules there are 27 equally likely resamples: the percentiles are known."""
    U = np.array([1, 0.5, 0.8])
    values = {str(k): path([1 + x, 1 - x]) for k, x in enumerate(np.sqrt(1 / U - 1))}
    found = growth_uniformity(values, n_boot=20_000)
    assert found.per_module == pytest.approx(U, rel=1e-12)
    means = np.sort([(a + b + c) / 3 for a in U for b in U for c in U])
    # mass 1/27 = 3.7 % stands at each end, more than the 2.5 % left out, by 8 standard errors of 20 000 draws
    assert (found.low, found.high) == pytest.approx((means[0], means[-1]))


@pytest.mark.full
@pytest.mark.parametrize("K", [12, 40])
def test_coverage_of_the_interval(K):
    """Modules with U from a normal law of mean .7: the interval holds .7 as often as theory says.

    The percentile interval is mean +- 1.96 s sqrt((K - 1) / K) / sqrt(K) up to the noise of the resamples, so
    its coverage is that of Student's t with K - 1 degrees of freedom.
    """
    trials, rng = 600, np.random.default_rng(1)
    U = rng.normal(0.7, 0.04, size=(trials, K))  # stays inside (.5, 1), where the construction below works
    assert U.min() > 0.5
    assert U.max() < 1
    x = np.sqrt(1 / U - 1)  # rates 1 + x and 1 - x have U = 1 / (1 + x^2)
    held = 0
    for row in x:
        values = np.stack([np.zeros((K, 2)), np.square(np.stack([1 + row, 1 - row], axis=1))])
        found = growth_uniformity(values, n_boot=1000)
        held += found.low <= 0.7 <= found.high
    expected = 2 * stats.t.cdf(1.96 * math.sqrt((K - 1) / K), K - 1) - 1
    low, high = stats.binomtest(held, trials).proportion_ci(0.999, "exact")
    assert low <= expected <= high
    assert low <= 0.96  # and not wider than it says


def test_differences_between_checkpoints_are_listed():
    first = {"q": np.ones(2), "v": np.ones(2), "k": np.ones(3)}
    second = {"q": np.ones(2), "o": np.ones(2), "k": np.ones(1)}
    message = (
        r"checkpoint 1 \(step 5\) differs .* missing \['v'\], new \['o'\], other rank \['k \(3 to 1\)'\]"
    )
    with pytest.raises(ValueError, match=message):
        growth_uniformity([first, second], steps=[0, 5])
    for steps in (None, [0]):  # too few steps do not hide what differs
        with pytest.raises(ValueError, match=r"checkpoint 1 differs"):
            growth_uniformity([first, second], steps=steps)
    with pytest.raises(ValueError, match=r"same checkpoints for every module, got \{'a': 3, 'b': 2\}"):
        growth_uniformity({"a": path([1, 1]), "b": path([1, 1], (0, 1))})


def test_bad_input():
    values = path([1, 2])
    with pytest.raises(ValueError, match="at least two checkpoints, got 1"):
        growth_uniformity(values[:1])
    with pytest.raises(ValueError, match=r"must be an array \(T, r\) or \(T, K, r\), got shape \(3,\)"):
        growth_uniformity(values[:, 0])
    with pytest.raises(ValueError, match="got no module"):
        growth_uniformity({})
    with pytest.raises(ValueError, match=r"module a must have shape \(T, r\), got \(3,\)"):
        growth_uniformity({"a": values[:, 0]})
    with pytest.raises(ValueError, match="module a must be a rectangular array, got rows of unequal length"):
        growth_uniformity({"a": [[1, 2], [3]]})
    with pytest.raises(TypeError, match="module a must be real numbers, got dtype"):
        growth_uniformity({"a": values.astype(str)})
    with pytest.raises(ValueError, match=r"must be finite and >= 0, got -1.0 in module 0 at step 0"):
        growth_uniformity(values - 1)
    with pytest.raises(ValueError, match="steps must be 3 increasing numbers"):
        growth_uniformity(values, steps=[0, 1])
    with pytest.raises(ValueError, match="steps must be 3 increasing numbers"):
        growth_uniformity(values, steps=[0, 2, 1])
    with pytest.raises(ValueError, match=r"two of the recorded steps, got 7; choose from \[0.0, 1.0, 2.0\]"):
        growth_uniformity(values, window=(0, 7))
    with pytest.raises(ValueError, match=r"k0 < k1, got \(2, 1\); swap them"):
        growth_uniformity(values, window=(2, 1))
    with pytest.raises(TypeError, match="window must be a pair of steps"):
        growth_uniformity(values, window=3)
    with pytest.raises(ValueError, match="n_boot must be >= 1"):
        growth_uniformity(values, n_boot=0)
    with pytest.raises(TypeError, match="seed must be an int"):
        growth_uniformity(values, seed=0.5)


def test_result_saves(tmp_path):
    found = growth_uniformity({"q": path([1, 1, 1]), "v": path([1, 0])})
    found.save(tmp_path / "growth.npz")
    back = GrowthUniformity.load(tmp_path / "growth.npz")
    assert back.modules == found.modules
    assert back.window == found.window
    assert (back.low, back.mean, back.high) == (found.low, found.mean, found.high)
    assert np.array_equal(back.increments, found.increments, equal_nan=True)
