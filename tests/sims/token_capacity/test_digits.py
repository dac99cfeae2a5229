"""Digits: the gradient is the selected one, runs do not touch each other, arms are what they say."""

import numpy as np
import pytest

from porism.sims.token_capacity import SubsetBackprop
from porism.sims.token_capacity.digits import (
    ARMS,
    KINDS,
    DigitArms,
    compare_arms,
    finetune,
    layer_moments,
    pretrain,
)

NAMES = [
    ("ln_1", "norm_1"),
    ("ln_2", "norm_2"),
    ("attn.c_proj", "o"),
    ("mlp.c_fc", "up"),
    ("mlp.c_proj", "down"),
]
SETS = [[16], [13, 14, 15, 16], [0, 1, 2, 16], [2, 5, 11, 16], list(range(17))]


@pytest.fixture
def model(needs):
    needs("torch")
    from porism.sims.token_capacity import _digits_model

    return _digits_model


@pytest.fixture
def weights(torch, model):
    """Two runs in float64, moved away from the zeros and ones that hide errors."""
    generator = torch.Generator().manual_seed(5)
    return {
        name: (value.double() + 0.2 * torch.randn(value.shape, generator=generator)).requires_grad_()
        for name, value in model.start([0, 1]).items()
    }


@pytest.fixture
def patches(torch):
    return torch.randn(2, 3, 16, 4, generator=torch.Generator().manual_seed(6), dtype=torch.float64)


@pytest.fixture
def pixels(needs):
    needs("torch")
    needs("sklearn")


def gradients(torch, weights, hidden):
    found = torch.autograd.grad((hidden[:, :, -1] ** 2).sum(), weights.values(), allow_unused=True)
    return {name: g for name, g in zip(weights, found, strict=True) if g is not None}


def cut_everywhere(torch, w, run, patches, causal, chosen):
    """One run of the same net, written again, where every activation outside S is a constant."""
    selected = torch.zeros(17, dtype=torch.bool)
    selected[chosen] = True

    def cut(z):
        return torch.where(selected[None, :, None], z, z.detach())

    def linear(name, z):
        return cut(z @ w[f"{name}.weight"][run] + w[f"{name}.bias"][run])

    def norm(name, z):
        z = (z - z.mean(-1, keepdim=True)) / (z.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        return cut(z * w[f"{name}.weight"][run] + w[f"{name}.bias"][run])

    x = patches[run] @ w["input.weight"][run] + w["input.bias"][run]
    h = cut(torch.cat([x, w["readout"][run].expand(len(x), 1, 32)], 1) + w["positions"][run])
    for layer in range(2):
        z = norm(f"{layer}.norm_1", h)
        q, k, v = (linear(f"{layer}.{part}", z).view(len(h), 17, 2, 16) for part in "qkv")
        scores = torch.einsum("nihd,njhd->nhij", q, k) / 4
        if causal:
            scores = scores.masked_fill(torch.ones(17, 17, dtype=torch.bool).triu(1), float("-inf"))
        mixed = cut(torch.einsum("nhij,njhd->nihd", scores.softmax(-1), v).reshape(h.shape))
        h = cut(h + linear(f"{layer}.o", mixed))
        up = linear(f"{layer}.up", norm(f"{layer}.norm_2", h))
        up = cut(0.5 * up * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (up + 0.044715 * up**3))))
        h = cut(h + linear(f"{layer}.down", up))
    return norm("norm", h)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("chosen", SETS, ids=str)
def test_gradient_is_the_selected_one(torch, model, weights, patches, causal, chosen):
    positions = torch.tensor(chosen).expand(2, 3, -1)
    got = gradients(torch, weights, model.replay(weights, patches, causal, positions))
    naive = torch.stack(
        [cut_everywhere(torch, weights, run, patches, causal, chosen)[:, chosen] for run in range(2)]
    )
    wanted = gradients(torch, weights, naive)
    for name, g in wanted.items():
        # float64: rounding of a few hundred operations, relative to the largest entry
        assert float((got[name] - g).abs().max()) <= 1e-11 * max(float(g.abs().max()), 1e-3), name
    if len(chosen) == 17:
        full = gradients(torch, weights, model.replay(weights, patches, causal, None))
        assert all(torch.allclose(got[name], full[name], rtol=1e-10, atol=1e-12) for name in full)
    else:
        full = gradients(torch, weights, model.replay(weights, patches, causal, None))
        assert not torch.allclose(got["0.v.weight"], full["0.v.weight"], rtol=1e-3)


@pytest.mark.parametrize("chosen", SETS[:4], ids=str)
def test_gradient_is_that_of_subset_backprop(torch, hf, model, weights, patches, chosen):
    """The causal net is a GPT-2: the package's own two passes give the same."""
    config = hf.GPT2Config(
        vocab_size=5, n_embd=32, n_layer=2, n_head=2, n_positions=17, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=1, eos_token_id=2, attn_implementation="sdpa",
    )  # fmt: skip
    positions = torch.tensor(chosen)
    mine = gradients(torch, weights, model.replay(weights, patches, True, positions.expand(2, 3, -1)))
    for run in range(2):
        net = hf.GPT2Model(config).double().eval()
        w = {name: value[run].detach() for name, value in weights.items()}
        state = {"wpe.weight": w["positions"], "ln_f.weight": w["norm.weight"], "ln_f.bias": w["norm.bias"]}
        for layer in range(2):
            for theirs, ours in NAMES:
                for part in ("weight", "bias"):
                    state[f"h.{layer}.{theirs}.{part}"] = w[f"{layer}.{ours}.{part}"]
            for part in ("weight", "bias"):
                state[f"h.{layer}.attn.c_attn.{part}"] = torch.cat(
                    [w[f"{layer}.{x}.{part}"] for x in "qkv"], -1
                )
        net.load_state_dict(state, strict=False)
        x = patches[run] @ w["input.weight"] + w["input.bias"]
        x = torch.cat([x, w["readout"].expand(3, 1, 32)], 1)
        out = SubsetBackprop(net).forward(positions.expand(3, -1).contiguous(), inputs_embeds=x).hidden
        (out[:, -1] ** 2).sum().backward()
        for theirs, ours in (
            ("h.0.mlp.c_fc.weight", "0.up.weight"),
            ("h.1.ln_2.bias", "1.norm_2.bias"),
            ("h.0.attn.c_proj.weight", "0.o.weight"),
            ("wpe.weight", "positions"),
        ):
            g = net.get_parameter(theirs).grad
            assert float((mine[ours][run] - g).abs().max()) <= 1e-11 * float(g.abs().max())
        fused = net.get_parameter("h.0.attn.c_attn.weight").grad
        parts = torch.cat([mine[f"0.{part}.weight"][run] for part in "qkv"], -1)
        assert float((parts - fused).abs().max()) <= 1e-11 * float(fused.abs().max())


def test_a_readout_outside_has_no_gradient(torch, model, weights, patches):
    hidden = cut_everywhere(torch, weights, 0, patches, True, [12, 13, 14, 15])[None]
    assert all(not g.any() for g in gradients(torch, weights, hidden).values())


def test_orders(needs):
    needs("torch")
    from porism.sims.token_capacity.digits import _positions

    rngs = [np.random.default_rng(seed) for seed in (0, 1)]
    assert _positions(4, "suffix", 3, rngs)[1, 2].tolist() == [13, 14, 15, 16]
    assert _positions(4, "earliest", 3, rngs)[0, 0].tolist() == [0, 1, 2, 16]
    assert _positions(1, "random", 3, rngs).tolist() == [[[16]] * 3] * 2
    assert _positions(17, "random", 3, rngs) is None
    drawn = _positions(8, "random", 400, rngs).numpy()
    assert (drawn[..., -1] == 16).all()
    assert all(len(set(row)) == 8 for row in drawn.reshape(-1, 8).tolist())
    share = np.bincount(drawn[..., :-1].ravel(), minlength=16) / 800
    # 7 of 16 patches; 800 draws a patch: 5 standard errors of 0.018
    np.testing.assert_allclose(share, 7 / 16, atol=0.09)
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize("kind", KINDS)
def test_runs_are_independent_and_learn(pixels, kind):
    both, alone = pretrain(kind, steps=40, seeds=[3, 5]), pretrain(kind, steps=40, seeds=[5])
    # float32 sums in another order; Adam carries differences on
    np.testing.assert_allclose(both.loss[:, 1], alone.loss[:, 0], rtol=2e-3)
    assert not np.allclose(both.loss[:, 0], both.loss[:, 1], rtol=2e-2)
    # pixels have variance 0.56: better than any constant
    assert both.loss[-5:].mean() < 0.5 < both.loss[0].min()
    before = {name: value.copy() for name, value in both.weights.items()}
    found = finetune(both, 4, steps=3)
    assert all(np.array_equal(before[name], value) for name, value in both.weights.items())
    np.testing.assert_allclose(found * 397, np.round(found * 397), atol=1e-9)
    np.testing.assert_array_equal(found, finetune(both, 4, steps=3))


def test_unread_stays_where_it_starts(pixels):
    base = pretrain("causal", steps=2, seeds=[0])
    start = finetune(base, 4, steps=0)
    np.testing.assert_array_equal(finetune(base, 4, "unread", steps=9), start)
    assert not np.array_equal(finetune(base, 0, steps=9), start)  # the classifier alone does learn


def test_moments(pixels):
    """Norms without scale give rows of length sqrt(32), and the readout is the same in every image."""
    (first, second) = layer_moments("causal", "smoke", pretrain_steps=0)
    assert first.shape == (4, 17, 32, 32)
    # eps = 1e-5 of the norm, against variances of about 0.1 and more
    np.testing.assert_allclose(np.trace(first, axis1=2, axis2=3), 512 * 32, rtol=1e-3)
    values = np.linalg.eigvalsh(first[0, 16])
    assert values[-2] < 1e-6 * values[-1]
    assert np.linalg.eigvalsh(first[0, 0])[-2] > 1e-3 * values[-1]
    assert not np.allclose(first, second)


def test_arms_and_gaps():
    accuracy = np.array([[0.5, 0.7], [0.9, 0.8]])
    found = DigitArms("causal", 9, np.array([4, 17]), ("random", "suffix"), accuracy)
    np.testing.assert_array_equal(found.arm(4, "random"), [0.5, 0.7])
    mean, error = found.gap(4, "random")
    assert mean == pytest.approx(-0.25)
    assert error == pytest.approx(0.15)  # gaps -0.4 and -0.1: half their difference
    assert np.isnan(DigitArms("causal", 9, found.k, found.order, accuracy[:, :1]).gap(17)[1])
    with pytest.raises(ValueError, match="k and order must be an arm that was run, got 4 and 'suffix'"):
        found.arm(4)


def test_saved_and_loaded(tmp_path):
    found = DigitArms("causal", 9, np.array([4, 17]), ("random", "suffix"), np.array([[0.5], [0.9]]))
    found.save(tmp_path / "arms.npz")
    again = DigitArms.load(tmp_path / "arms.npz")
    assert again.order == found.order
    np.testing.assert_array_equal(again.arm(17), [0.9])


def test_comparison(pixels):
    found = compare_arms("causal", "smoke", arms=((4, "random"), (17, "suffix")), seed=7)
    assert compare_arms("causal", "smoke", arms=((4, "random"), (17, "suffix")), seed=7) is found
    base = pretrain("causal", steps=10, seeds=[7, 8])
    np.testing.assert_array_equal(found.arm(4, "random"), finetune(base, 4, "random", steps=2))
    assert (found.kind, found.pretrain_steps) == ("causal", 10)


def test_bad_input(pixels):
    with pytest.raises(ValueError, match="kind must be one of"):
        pretrain("sideways")
    with pytest.raises(ValueError, match="seeds must hold at least one seed, got none"):
        pretrain("causal", seeds=[])
    with pytest.raises(ValueError, match="steps"):
        pretrain("causal", steps=-1)
    base = pretrain("causal", steps=0, seeds=[0])
    for arguments, words in (
        ((18,), "k must"),
        ((17, "unread"), "k must"),
        ((4, "last"), "order must be one of"),
    ):
        with pytest.raises(ValueError, match=words):
            finetune(base, *arguments)
    with pytest.raises(ValueError, match="lr"):
        finetune(base, 4, lr=0.0)
    with pytest.raises(TypeError, match="k must"):
        finetune(base, 4.0)


@pytest.mark.full
def test_full_wins_after_short_pretraining(pixels):
    """Seeds that no world was settled on; five standard errors apart, or chance."""
    arms = ((0, "suffix"), (1, "suffix"), (17, "suffix"), (4, "unread"))
    assert set(arms) < set(ARMS)
    found = compare_arms("causal", "paper", arms=arms, seed=50)
    gap, error = found.gap(1)
    assert gap < -3 * error
    assert found.arm(17).mean() > 0.75 > found.arm(0).mean()
    assert found.arm(4, "unread").max() < 0.2
