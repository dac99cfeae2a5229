"""Worlds of token capacity against definitions, by finite steps, closed forms and other routes."""

from fractions import Fraction

import numpy as np
import pytest

from porism.sims.token_capacity import worlds
from porism.theory.token_capacity import effective_rank


def test_rows_with_a_constant_token():
    ids = worlds.delimited_rows(0, 50, 9, delimiter=4)
    assert (ids[:, 0] == 3).all()
    assert (ids[:, 4] == 6).all()
    assert set(np.unique(np.delete(ids, [0, 4], axis=1))) == {4, 5}
    assert set(np.unique(worlds.delimited_rows(0, 50, 9, delimiter=None)[:, 1:])) == {4, 5}
    assert np.array_equal(ids, worlds.delimited_rows(0, 50, 9, delimiter=4))
    with pytest.raises(ValueError, match=r"delimiter must be in 1\.\.8"):
        worlds.delimited_rows(0, 5, 9, delimiter=9)


def test_averages_by_their_definition():
    X = worlds.causal_averages(3, 5, 7, 2, mean=0.3)
    tokens = 0.3 + np.random.default_rng(3).standard_normal((5, 7, 2))
    for t in range(7):
        assert X[:, t] == pytest.approx(tokens[:, : t + 1].mean(1), abs=1e-14)


def test_widths():
    """Independent entries have rows of length about 1; features keep the rank of their data in the limit."""
    wide = worlds.width_family("independent", [4, 4096], 0, rows=6)
    assert [X.shape for X in wide] == [(6, 4), (6, 4096)]
    # the squared length has standard deviation sqrt(2 / 4096) = 0.022
    assert (wide[1] ** 2).sum(1) == pytest.approx(np.ones(6), abs=0.11)
    features = worlds.width_family("features", [64, 2048], 0)
    ranks = [float(effective_rank(X @ X.T)) for X in features]
    assert min(float(X.min()) for X in features) == 0
    assert ranks[1] < 10
    line = worlds.width_family("features", [500], 0, dim=1)[0]  # two rays
    assert np.linalg.matrix_rank(line) == 2
    with pytest.raises(ValueError, match="kind must be one of 'features'"):
        worlds.width_family("other", [4], 0)


def test_an_orbit_is_closed():
    orbit = worlds.cyclic_orbit([5, 1, 2, 2])
    assert sorted(orbit.tolist()) == sorted(np.roll(orbit, 1, axis=1).tolist())
    assert all(sorted(orbit[:, t].tolist()) == [1, 2, 2, 5] for t in range(4))
    with pytest.raises(ValueError, match="sequence must have shape"):
        worlds.cyclic_orbit([[1, 2]])


@pytest.mark.parametrize("readout", ["all", "first"])
def test_gradients_of_the_symmetric_net(readout):
    """Against a central difference of the value, which knows nothing of positions."""
    rng = np.random.default_rng(1)
    net = worlds.symmetric_net(rng, length=5, places=0.7, readout=readout)
    ids = rng.integers(12, size=(3, 5))
    X, G = net.watch(ids)
    step = rng.standard_normal(net.weight.shape)
    h = 1e-5  # truncation h^2, rounding 1e-16 / h
    slope = (net.value(ids, net.weight + h * step) - net.value(ids, net.weight - h * step)) / (2 * h)
    assert np.einsum("nto,oi,nti->n", G, step, X) == pytest.approx(slope, rel=1e-7, abs=1e-7)


def test_the_symmetry_and_what_breaks_it():
    orbit, shuffled = worlds.cyclic_orbit(np.arange(8)), np.arange(8)[[3, 1, 7, 0, 2, 6, 5, 4]]
    ids = np.concatenate([orbit, shuffled[None]])
    assert np.ptp(worlds.symmetric_net(2).value(ids)) < 1e-12
    assert np.ptp(worlds.symmetric_net(2, places=1.0).value(ids)) > 1e-2
    assert np.ptp(worlds.symmetric_net(2, readout="first").value(ids)) > 1e-2


def test_the_scalar_net():
    """Oracle O-8, and the full gradient by the polynomial that the output is."""
    half = Fraction(1, 2)
    cases = {
        (2,): (Fraction(5, 2), Fraction(5, 2)),
        (1, 2): (Fraction(157, 36), Fraction(157, 36)),
        (0, 2): (Fraction(32, 9), Fraction(131, 36)),
        (0, 1, 2): (Fraction(11, 2), Fraction(11, 2)),
    }
    for S, (cut, true) in cases.items():
        found = worlds.scalar_net(S)
        assert (found.full, found.cut, found.true) == (Fraction(11, 2), cut, true)

    def out(w, x=(1, 2, 3)):
        h = [x[t] + sum(w * u for u in x[: t + 1]) / (t + 1) for t in range(3)]
        return h[2] + sum(w * u for u in h) / 3

    # a quadratic: its central difference is exact
    assert (out(half + 1) - out(half - 1)) / 2 == Fraction(11, 2)
    with pytest.raises(ValueError, match=r"selected must be in 0\.\.2"):
        worlds.scalar_net([3])


@pytest.mark.full
@pytest.mark.parametrize("family", worlds.MODELS)
def test_random_models(torch, hf, family):
    before = torch.random.get_rng_state()
    model, twin, other = (worlds.random_model(family, seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    weights = [torch.cat([p.flatten() for p in m.parameters()]) for m in (model, twin, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert model.dtype == torch.float64
    assert not model.training
    ids = torch.arange(3, 11)[None]
    changed = ids.clone()
    changed[0, 7] = 20
    first, second = (model.base_model(input_ids=x).last_hidden_state[0, 3] for x in (ids, changed))
    assert bool((first == second).all()) == (family != "bert")
    assert type(model).__name__.lower().startswith(family)


@pytest.mark.full
def test_shapes_that_do_not_fit(torch, hf):
    with pytest.raises(ValueError, match="heads must divide width=16, got 3"):
        worlds.random_model("llama", 0, heads=3)
    with pytest.raises(ValueError, match="key_heads must divide heads=4, got 3"):
        worlds.random_model("llama", 0, key_heads=3)
    with pytest.raises(ValueError, match="family must be one of 'llama'"):
        worlds.random_model("t5", 0)


@pytest.mark.full
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_gradients_by_position(torch, hf, family):
    """Their sum over positions is the gradient of the weight that autograd finds."""
    model = worlds.random_model(family, 0, layers=2)
    ids = torch.arange(3, 15).reshape(2, 6)

    def run():
        return model(input_ids=ids).logits.pow(2).sum()

    found = worlds.position_gradients(model, run)
    found.pop("lm_head")  # GPT-2 ties it to the embedding
    named = dict(model.named_parameters())
    true = torch.autograd.grad(run(), [named[f"{name}.weight"] for name in found])
    for (x, g), whole in zip(found.values(), true, strict=True):
        own = np.einsum("nto,nti->oi", g, x)
        own = own.T if family == "gpt2" else own  # whose maps are stored transposed
        assert own == pytest.approx(whole.numpy(), rel=1e-10, abs=1e-10 * float(whole.abs().max()))
    one = worlds.position_gradients(model, run, list(found)[:1])
    assert list(one) == list(found)[:1]
    with pytest.raises(ValueError, match="names must be one of"):
        worlds.position_gradients(model, run, ["nothing"])


@pytest.mark.full
def test_bytes_of_the_arms(torch, hf):
    shape = {"layers": 2, "width": 32, "heads": 4}
    full, subset, check = (worlds.saved_bytes("llama", arm, 64, 4, **shape) for arm in worlds.ARMS)
    assert subset < full
    assert check < full
    # checkpointing keeps at least each layer's input
    assert check >= 2 * 64 * 32 * 4
    assert worlds.saved_bytes("llama", "subset", 64, 4, rng=5, **shape) == subset
    with pytest.raises(ValueError, match="arm must be one of 'full'"):
        worlds.saved_bytes("llama", "other", 64, 4)
    with pytest.raises(ValueError, match=r"k must be in 1\.\.64"):
        worlds.saved_bytes("llama", "full", 64, 65)
