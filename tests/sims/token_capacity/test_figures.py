"""Figures show what the data functions return, and the data functions what the theory says."""

import numpy as np
import pytest
from helpers import panel

from porism.sims.drawing import LOOKS
from porism.sims.token_capacity import _figure_data as data
from porism.sims.token_capacity import _training_data as training
from porism.sims.token_capacity import measure_saved_bytes
from porism.sims.token_capacity._position_figures import ORDER_LOOKS
from porism.sims.token_capacity._training_figures import ARM_LOOKS, PRETRAINING, SMOKE_ARMS
from porism.sims.token_capacity.digits import KINDS, compare_arms
from porism.theory.token_capacity import coverage, effective_rank, min_positions


def curves(ax):
    """Labelled lines by label, those of error bars included."""
    found = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    return found | {bars.get_label(): bars.lines[0] for bars in ax.containers if hasattr(bars, "has_yerr")}


def y_of(ax, label):
    (line,) = (line for name, line in curves(ax).items() if name.startswith(label))
    return np.asarray(line.get_ydata(), dtype=np.float64)


def test_the_set_is_complete():
    assert set(ARM_LOOKS) == set(training.MEMORY_ARMS)
    assert len({look[:3] for look in ARM_LOOKS.values()}) == len(ARM_LOOKS)
    assert len({look[0] for look in ORDER_LOOKS.values()}) == 3 < len(LOOKS)


def test_width(draw):
    ax = draw("F1", 1)
    widths, found = data.width_ranks("smoke", 1)
    right = panel(ax, "participation")
    for family, word in (("features", "random features"), ("independent", "independent")):
        np.testing.assert_allclose(y_of(ax, word), found[family][:, 0].mean(0))
        np.testing.assert_allclose(y_of(right, word), found[family][:, 1].mean(0))
    law = curves(right)["N d / (N + d + 1)"]
    d, values = law.get_data()
    np.testing.assert_allclose(values, 64 * d / (65 + d))
    # participation ratio by definition; entries of variance 1 / d do not matter to it
    seen = np.interp(np.log(widths), np.log(d), values)
    np.testing.assert_allclose(found["independent"][:, 1].mean(0), seen, rtol=0.06)
    assert found["independent"][:, 0, -1].min() > 50
    assert found["features"][:, 0, -1].max() < 10


def test_width_levels_off_or_fills_up():
    """At widths of the paper scale: one family has reached its limit, the other one N."""
    _, found = data.width_ranks("paper", 3)
    features, independent = (found[name][:, 0].mean(0) for name in ("features", "independent"))
    assert features[-1] / features[-2] < 1.03
    assert features[-1] < 9
    assert independent[-1] > 63
    assert independent[2] / independent[1] > 1.4


def test_bounds(draw):
    ax = draw("F2", 2)
    heights = sorted(bar.get_height() for bar in ax.patches)
    m = 32  # 4 m / (m + 1), 2 m and 2 sqrt(m), by hand
    wanted = [(4 * m / (m + 1)) ** 2, 2 * m, 4 * m, 2 * m, 1.000074079939, 6, 6, 6]
    np.testing.assert_allclose(heights, sorted(wanted), rtol=1e-6)
    words = [text.get_text() for text in ax.texts]
    assert words == ["no bound", "holds", "no bound", "holds"]
    excess = data.rank_excess("smoke", 2)
    assert excess["weighted"].max() < 1e-9
    assert min(excess["unweighted"].max(), excess["participation"].max()) > 0.2
    right = panel(ax, "100 random kernels")
    shown = {part.get_label(): part.get_data() for part in right.patches}
    (name,) = (label for label in shown if label.startswith("entropy rank, weighted"))
    assert name.endswith("at most 0.00")
    values, edges, _ = shown[name]
    assert values.sum() == pytest.approx(1)
    assert not values[edges[:-1] >= 0].any()
    (name,) = (label for label in shown if label.startswith("entropy rank, unweighted"))
    assert name.endswith(f"at most {excess['unweighted'].max():+.2f}")
    above = excess["unweighted"] > 1e-9
    assert shown[name][0][edges[:-1] >= 0].sum() == pytest.approx(above.mean())


def test_interchange(draw):
    ax = draw("F3", 3)
    noise, error, bound = data.interchange_errors("smoke", 3)
    np.testing.assert_allclose(y_of(ax, "error"), np.median(error, 1))
    np.testing.assert_allclose(y_of(ax, "bound"), np.median(bound, 1))
    assert (error <= bound).all()
    # both vanish with the noise, in proportion
    np.testing.assert_allclose(error[0] / noise[0], error[1] / noise[1], rtol=0.5)
    assert bound[0].max() < 2e-3
    middle, right = panel(ax, "same inputs"), panel(ax, "same directions")
    np.testing.assert_allclose(y_of(middle, "inputs"), 1)
    assert np.ptp(y_of(middle, "kernels")) > 0.2
    np.testing.assert_allclose(y_of(right, "inputs, centred"), 1, rtol=1e-9)
    assert y_of(right, "inputs, uncentred")[-1] < 0.4
    # two kernels of the same inputs and unrelated gradients, written out
    rng = np.random.default_rng(3)
    X, G, Z = rng.standard_normal((32, 16)), rng.standard_normal((32, 4)), rng.standard_normal((32, 4))
    K, L = ((X @ X.T) * (g @ g.T) for g in (G, Z))
    wanted = (K * L).sum() / np.sqrt((K**2).sum() * (L**2).sum())
    assert data.forward_only("smoke", 3)[1][0, 1, -1] == pytest.approx(wanted)


def test_causal_chain(draw):
    ax = draw("F4", 4)
    found, ranks = data.chain(4), data.averages("smoke", 4)
    n = found["prefixes"]
    assert n[:5].tolist() == [1, 2, 4, 8, 16]
    assert n[6] == n[5]  # the delimiter
    assert (np.diff(n) >= 0).all()
    np.testing.assert_array_equal(y_of(ax, "distinct prefixes"), n)
    np.testing.assert_array_equal(y_of(ax, "after layer 3"), found["ranks"][-1])
    assert (found["ranks"] <= n).all()
    np.testing.assert_array_equal(found["ranks"][-1], n)
    dip = y_of(panel(ax, "(i)"), "rank of the embeddings")
    assert dip.tolist() == [1, 2, 2, 2, 2, 2, 1, 2, 2, 2]
    fall = panel(ax, "(ii)")
    values = ranks["uncentred"].mean(0)
    np.testing.assert_allclose(curves(fall)["mean 0.45"].get_ydata(), values)
    assert values[-1] < 3 < 15 < values[0]
    assert np.ptp(ranks["mean zero"].mean(0)) < 3
    assert fall.get_title(loc="left").endswith(f"{values[0]:.1f} to {values[-1]:.1f}")
    narrow = panel(ax, "(iii)")
    assert y_of(narrow, "width 8, linear")[1:].min() > 0.2
    for word in ("width 64, linear", "width 8, Gaussian"):
        assert y_of(narrow, word).max() < 1e-6  # directions are kept where eigenvalues exceed 1e-10


def test_averages_by_hand():
    from porism.sims.token_capacity.worlds import causal_averages

    rng = np.random.default_rng(5)
    X = causal_averages(rng)
    p = np.linalg.svd(X[:, 9], compute_uv=False) ** 2
    p /= p.sum()
    assert data.averages("smoke", 5)["uncentred"][0, 9] == pytest.approx(np.exp(-(p * np.log(p)).sum()))


def test_energy(draw):
    ax = draw("F5", 6)
    found = data.energies("smoke", 6)
    for place, loss in ((ax, "all"), (panel(ax, "last"), "last")):
        for std in (0.02, 0.2):
            for layer in (1, 3):
                energy = found[loss, std, layer]
                shown = curves(place)[f"layer {layer}, weights of size {std:g}"].get_ydata()
                np.testing.assert_allclose(shown, energy / energy.mean())
    for std in (0.02, 0.2):
        energy = found["all", std, 1]
        assert energy[0] > 20 * energy[-1]
        assert np.corrcoef(np.arange(16), np.argsort(np.argsort(energy)))[0, 1] < -0.8
    assert found["last", 0.02, 3][0] < 2 * found["last", 0.02, 3][-1]
    (text,) = ax.texts
    assert f"{found['all', 0.02, 1][0] / found['all', 0.02, 1][-1]:,.0f}" in text.get_text()


def test_energy_is_the_trace_of_the_kernel(needs):
    """Against squared norms of weight gradients, one example and position at a time."""
    torch = needs("torch")
    needs("transformers")
    from porism.sims.token_capacity.worlds import random_model

    found = data.energies("smoke", 6)["all", 0.02, 1]
    rng = np.random.default_rng(6)
    ids, labels = (torch.from_numpy(rng.integers(3, 31, (8, 16))) for _ in range(2))
    model = random_model("llama", rng, std=0.02, jitter=0.0, layers=4, width=32)
    layer, total = model.model.layers[1].self_attn.v_proj, np.zeros(16)
    for n in range(8):
        kept = []
        hook = layer.register_forward_hook(lambda _, inputs, out, kept=kept: kept.extend((inputs[0], out)))
        logits = model(input_ids=ids[n : n + 1]).logits
        hook.remove()
        loss = torch.nn.functional.cross_entropy(logits[0], labels[n])
        (g,) = torch.autograd.grad(loss, kept[1])
        for t in range(16):
            total[t] += float((g[0, t][:, None] * kept[0][0, t].detach()).square().sum())
    np.testing.assert_allclose(found, total, rtol=1e-5)  # the model rounds its norms to float32


def test_coverages(draw):
    ax = draw("F6", 7)
    for title, found in (
        ("real text", data.text_coverage("smoke", 7)),
        ("digits", data.digit_coverage("causal", "smoke", 7)),
    ):
        place = panel(ax, title)
        for name, (_, _, _, word) in ORDER_LOOKS.items():
            values = found[name]
            np.testing.assert_allclose(y_of(place, word), values.mean(0))
            assert (np.diff(values, axis=1) >= -1e-9).all()
            np.testing.assert_allclose(values[:, -1], values[0, -1], rtol=0.02)
            stars = [min_positions(curve, data.EPS) for curve in values]
            (label,) = (text for text in curves(place) if text.startswith(word))
            assert label.split("k* = ")[1].split(" to ") in (
                [str(min(stars))],
                [str(min(stars)), str(max(stars))],
            )


def test_orders_of_coverage():
    """Position 0 (the last one) holds a direction of its own, position 3 (the first) most energy."""
    second = np.stack([np.diag(row) for row in np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 0.1], [0, 0, 9]])])
    found = data._worst([second, second[:, :2, :2]], 4, 0, np.random.default_rng(0), draws=3)
    np.testing.assert_allclose(found["suffix"][0], coverage(second, [0, 1, 2, 3]))
    np.testing.assert_allclose(found["earliest"][0], coverage(second, [0, 3, 2, 1]))
    assert found["random"].shape == (3, 4)
    np.testing.assert_allclose(found["random"][:, [0, -1]], found["suffix"][:, [0, -1]].repeat(3, 0))


@pytest.mark.full
def test_accuracy(draw):
    ax = draw("F7", 8)
    for kind in KINDS:
        for steps in PRETRAINING["smoke"]:
            found = compare_arms(kind, "smoke", pretrain_steps=steps, arms=SMOKE_ARMS, seed=8)
            place = panel(ax, f"{kind}, {steps} steps")
            np.testing.assert_allclose(y_of(place, "full"), found.arm(17).mean())
            np.testing.assert_allclose(y_of(place, "last k"), [found.arm(4).mean()])
            np.testing.assert_allclose(y_of(place, "random k"), [found.arm(4, "random").mean()])
            np.testing.assert_allclose(y_of(place, "classifier"), found.arm(0).mean())
            np.testing.assert_allclose(y_of(place, "readout"), found.arm(4, "unread").mean())
            bars = next(part for part in place.containers if part.get_label() == "last k")
            low, high = bars.lines[2][0].get_segments()[0][:, 1]
            a, b = found.arm(4)
            assert (high - low) / 2 == pytest.approx(abs(a - b) / 2)  # standard error of two values
            best = max(("suffix", "random"), key=lambda order: found.arm(4, order).mean())
            gap, error = found.gap(4, best)
            assert place.get_xlabel().endswith(f"gap to full: {gap:+.3f} ± {error:.3f} (best k ≤ 4)")
            dots = [line.get_ydata() for line in place.lines if line.get_marker() == "."]
            assert any(np.array_equal(seeds, found.arm(4)) for seeds in dots)


def test_memory(draw, torch, hf):
    ax = draw("F8")
    for kind, title in training.HEADS.items():
        k, found = training.memory_curves(kind, "smoke")
        place = panel(ax, title)
        for arm, (_, _, _, word) in ARM_LOOKS.items():
            np.testing.assert_allclose(y_of(place, word), found[arm] / 2**20)
        assert (found["ours"] < found["concat+SDPA"]).all()
        assert (found["concat+SDPA"] < found["TokenTune-style"]).all()
        assert (found["ours"] < found["full"]).all()
        # straight lines in k: the crossing between points is exact
        slopes = np.diff(found["ours"]) / np.diff(k)
        np.testing.assert_allclose(slopes[0], slopes[1], rtol=0.01)
    k, found = training.memory_curves("llama", "smoke")
    meets = training.crossing(k, found["ours"], found["checkpointing"])
    assert k[0] < meets < k[-1]
    (text,) = panel(ax, training.HEADS["llama"]).texts
    assert text.get_text().startswith(f"k = {meets:.0f}")


def test_crossing():
    k = np.array([1, 3, 9])
    assert training.crossing(k, np.array([0.0, 4, 16]), np.array([3.0, 3, 3])) == pytest.approx(2.5)
    assert training.crossing(k, np.array([4.0, 5, 6]), np.array([3.0, 3, 3])) is None  # above from the start
    assert training.crossing(k, np.array([0.0, 1, 2]), np.array([3.0, 3, 3])) is None  # below throughout


def test_memory_at_the_crossing(torch, hf):
    """On either side of the mark the two schemes change places."""
    from porism.sims.token_capacity import SubsetBackprop, _peers

    k, found = training.memory_curves("llama", "smoke")
    meets = training.crossing(k, found["ours"], found["checkpointing"])
    model = _peers.model("llama", width=64, layers=1, length=128)
    ids, step = torch.arange(128)[None], SubsetBackprop(model, verify="never")
    for below, wanted in ((int(meets), True), (int(meets) + 1, False)):

        def run(count=below):
            return (
                model.get_output_embeddings()(step.forward(count, input_ids=ids).hidden).logsumexp(-1).sum()
            )

        limit = np.interp(below, k, found["checkpointing"])
        assert (measure_saved_bytes(run, model) < limit) == wanted


def test_cosines(draw):
    ax = draw("F9", 9)
    k, suffix = training.suffix_cosines("smoke", 9)
    numbers, subsets = training.subset_cosines("smoke", 9)
    for i, word in enumerate(training.GROUPS):
        np.testing.assert_allclose(y_of(ax, word), suffix[:, i].mean(0))
    np.testing.assert_allclose(suffix[:, 0], 1, atol=1e-6)  # float32 norms of the model
    np.testing.assert_allclose(suffix[..., -1], 1, atol=1e-6)  # all positions
    assert suffix[:, 1:, 0].max() < 0.99
    assert suffix[:, 2:, 0].max() < suffix[:, 1, 0].min()
    right = panel(ax, "bidirectional")
    for std, values in subsets.items():
        np.testing.assert_allclose(curves(right)[f"weights of size {std:g}"].get_ydata(), values.mean(0))
        np.testing.assert_allclose(values[:, -1], 1, atol=1e-9)
    assert subsets[0.02][:, 1].min() > 0.9 > 0.85 > subsets[0.4][:, 1].max()
    assert (k[-1], numbers[-1]) == (8, 9)


def test_full_gradient_of_the_cosines(torch, hf):
    """All positions selected is the ordinary backward pass."""
    model, ids, labels = training._model("llama", 0.4, 8, np.random.default_rng(1))
    got = training._gradients(model, ids, labels, 8, -1)
    torch.nn.functional.cross_entropy(model(input_ids=ids).logits[:, -1], labels).backward()
    for name, value in model.named_parameters():
        assert float((got[name] - value.grad).abs().max()) <= 1e-5 * float(value.grad.abs().max())


def test_ranks_of_a_layer_by_numpy(torch, hf):
    from porism.sims.token_capacity.worlds import delimited_rows, random_model

    rng = np.random.default_rng(4)
    ids = delimited_rows(rng, 64, 10)
    model = random_model("gpt2", rng, width=64)
    with torch.no_grad():
        states = model.base_model(input_ids=torch.from_numpy(ids), output_hidden_states=True).hidden_states
    X = states[2][:, 4].numpy()
    assert data.chain(4)["ranks"][2, 4] == np.linalg.matrix_rank(X, tol=1e-9 * np.linalg.norm(X, 2))
    assert float(effective_rank(X @ X.T)) <= 16
