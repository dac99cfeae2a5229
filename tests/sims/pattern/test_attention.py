import numpy as np
import pytest

from porism.errors import NumericalWarning
from porism.sims.pattern import HeadRecords, default_masks, random_softmax, scan_attention
from porism.theory.pattern import masks
from porism.theory.pattern.nulls import holm, null_moments

pytestmark = pytest.mark.full


@pytest.fixture
def torch(needs):
    return needs("torch")


@pytest.fixture
def toy(torch):
    """A stand-in: hands out given maps (layers, B, H, T, T), each through a wrapper that passes them on."""

    class SelfAttention(torch.nn.Module):
        def __init__(self, maps):
            super().__init__()
            self.maps = maps

        def forward(self, x):
            return x, self.maps

    class Attention(torch.nn.Module):
        def __init__(self, maps):
            super().__init__()
            self.self = SelfAttention(maps)
            self.dropout = torch.nn.Dropout()

        def forward(self, x):
            out, maps = self.self(x)
            return out + 1, maps

    class Toy(torch.nn.Module):
        def __init__(self, maps, fail=False):
            super().__init__()
            self.layers = torch.nn.ModuleList(
                Attention(None if m is None else torch.as_tensor(m)) for m in maps
            )
            self.fail, self.modes = fail, []

        def forward(self, x, attention_mask=None):
            self.modes.append(self.training)
            for layer in self.layers:
                x, _ = layer(x)
            if self.fail:
                raise RuntimeError("broken on purpose")
            return x

    return Toy


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def soft(*shape, seed=0, scale=1.0):
    z = scale * np.random.default_rng(seed).normal(size=shape)
    return np.exp(z) / np.exp(z).sum(-1, keepdims=True)


def test_values_and_nulls(toy, torch):
    maps = soft(2, 1, 3, 10, 10)
    result = scan_attention(toy(maps), torch.zeros(1, 10), random_state=0)
    assert [(r.layer, r.head) for r in result][::3] == [
        (layer, head) for layer in (0, 1) for head in range(3)
    ]
    assert len(result) == 2 * 3 * 3  # wrappers pass maps on and are not counted again
    for record in result:
        mask = default_masks(10, False)[record.mask]
        a = maps[record.layer, 0, record.head]
        assert record.mass_outside == pytest.approx((mask.penalty * a**2).sum() / (a**2).sum(), abs=1e-12)
        mean, variance = null_moments(a, mask)
        assert record.null_mean == pytest.approx(mean, abs=5 * (variance / 99) ** 0.5 + 1e-12)
        assert record.effect == pytest.approx(1 - record.mass_outside / record.null_mean)
    first = list(result)[:3]
    assert [r.p_holm for r in first] == pytest.approx(holm([r.p_value for r in first]).tolist())
    assert (result.n_tokens, result.causal, result.n_null, result.seed) == ((10,), False, 99, 0)


def test_planted_heads_are_named(toy, torch):
    T = 24
    base = 0.02 * soft(T, T)
    sink, local, noise = base.copy(), base.copy(), soft(T, T, seed=5)
    sink[:, 0] += 1
    local[np.arange(T), np.maximum(np.arange(T) - 2, 0)] += 1
    maps = np.stack([a / a.sum(1, keepdims=True) for a in (sink, local, noise)])[None, None]
    result = scan_attention(toy(maps), torch.zeros(1, T), random_state=0)
    best = result.best()
    winners = [record and record.mask for record in best.values()]
    # where the rest is spread evenly, one column and four have the same effect on average: either may win
    assert winners[0] in ("sink1", "sink4")
    assert winners[1:] == ["local", None]
    assert result.counts() == {winners[0]: 1, "local": 1, "none": 1}
    assert "local: 1 (by layer 1)" in result.summary()


def test_a_part_repeats_the_whole(toy, torch):
    maps = soft(3, 2, 4, 9, 9)
    whole = scan_attention(toy(maps), torch.zeros(2, 9), random_state=7, n_null=9)
    part = scan_attention(toy(maps), torch.zeros(2, 9), random_state=7, n_null=9, layers=[2], heads=[1, 3])
    kept = [r for r in whole if r.layer == 2 and r.head in (1, 3)]
    assert list(part) == kept
    assert [(r.sample, r.layer, r.head) for r in whole] == sorted((r.sample, r.layer, r.head) for r in whole)
    for name, value, top in (("layers", [3], 2), ("heads", [4], 3)):
        with pytest.raises(ValueError, match=rf"{name} must be in 0..{top}"):
            scan_attention(toy(maps), torch.zeros(2, 9), n_null=9, **{name: value})
    with pytest.raises(ValueError, match="must name at least one"):
        scan_attention(toy(maps), torch.zeros(2, 9), layers=[])
    with pytest.raises(TypeError, match=r"^heads must be a sequence of ints, got 1; pass \[1\]$"):
        scan_attention(toy(maps), torch.zeros(2, 9), heads=1)
    with pytest.raises(ValueError, match=r"^inputs must have a sample of 2 tokens or more"):
        scan_attention(toy(maps[..., :1, :1]), torch.zeros(2, 1))


def test_padding_is_cropped_on_both_sides(toy, torch):
    """Any placement of the padding gives the records of the bare map, whatever stands in padded cells."""
    bare = soft(1, 1, 2, 9, 9)
    padded = soft(1, 3, 2, 12, 12, seed=4)
    keep = np.zeros((3, 12), dtype=bool)
    for sample, places in enumerate((range(9), range(3, 12), [*range(4), *range(6, 11)])):
        keep[sample, list(places)] = True
        for head in range(2):
            padded[0, sample, head][np.ix_(list(places), list(places))] = bare[0, 0, head]
    inputs = {"x": torch.zeros(3, 12), "attention_mask": torch.as_tensor(keep.astype(int))}
    found = scan_attention(toy(padded), inputs, n_null=9, random_state=0)
    expected = scan_attention(toy(bare), torch.zeros(1, 9), n_null=9, random_state=0)
    assert found.n_tokens == (9, 9, 9)
    for sample in range(3):
        mine = [(r.layer, r.head, r.mask, r.mass_outside) for r in found if r.sample == sample]
        assert mine == [(r.layer, r.head, r.mask, r.mass_outside) for r in expected]
    keep[1] = False
    inputs["attention_mask"] = torch.as_tensor(keep)
    with pytest.raises(ValueError, match="must keep a token of every sample, got none in row 1"):
        scan_attention(toy(padded), inputs, n_null=9)
    inputs["attention_mask"] = torch.ones(3, 5)
    with pytest.raises(ValueError, match="attention_mask must have 12 columns, got 5"):
        scan_attention(toy(padded), inputs, n_null=9)


@pytest.mark.parametrize("fail", [False, True])
def test_nothing_is_left_behind(toy, torch, fail):
    model = toy(soft(2, 1, 2, 8, 8), fail=fail)
    model.train()
    model.layers[1].dropout.eval()  # modes are mixed, as when a part is frozen
    own = model.layers[0].self.register_forward_hook(lambda *a: None)
    modes = [module.training for module in model.modules()]
    before = hooks(model)
    state = torch.random.get_rng_state()
    if fail:
        with pytest.raises(RuntimeError, match="broken on purpose"):
            scan_attention(model, torch.zeros(1, 8), n_null=3)
    else:
        scan_attention(model, torch.zeros(1, 8), n_null=3)
    assert hooks(model) == before == 1
    assert [module.training for module in model.modules()] == modes
    assert model.modes == [False]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.is_grad_enabled()
    own.remove()


def test_an_error_while_reading_leaves_nothing_behind(toy, torch):
    maps = soft(2, 1, 2, 8, 8)
    maps[1, 0, 1, 3, 3] = np.nan
    model = toy(maps)
    with pytest.raises(ValueError, match="layer 1, head 1 has NaN"):
        scan_attention(model, torch.zeros(1, 8), n_null=3)
    assert hooks(model) == 0
    assert model.training
    maps[1, 0, 1] = 0
    with pytest.raises(ValueError, match="layer 1, head 1 is zero everywhere"):
        scan_attention(toy(maps), torch.zeros(1, 8), n_null=3)


def test_missing_maps(toy, torch):
    with pytest.raises(
        ValueError, match=r"^attention weights are None: load the model with attn_implementation='eager'"
    ):
        scan_attention(toy([None, None]), torch.zeros(1, 8))
    with pytest.raises(ValueError, match="model must have attention modules that return maps"):
        scan_attention(torch.nn.Linear(8, 8), torch.zeros(1, 8))
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module"):
        scan_attention(lambda x: x, torch.zeros(1, 8))


def test_half_precision_is_cast_before_squaring(toy, torch):
    maps = torch.as_tensor(soft(1, 1, 1, 40, 40, scale=0.1)).to(torch.float16)
    maps *= 2**-9  # squares would leave the range of float16
    a = maps.double().numpy()[0, 0, 0]
    result = scan_attention(toy(maps[None][0]), torch.zeros(1, 40), n_null=9)
    mask = default_masks(40, False)["local"]
    assert next(r for r in result if r.mask == "local").mass_outside == pytest.approx(
        (mask.penalty * a**2).sum() / (a**2).sum(), abs=1e-12
    )


def test_causal_heads(toy, torch):
    a = random_softmax(16, 1.0, causal=True, random_state=0)
    result = scan_attention(toy(a[None, None, None]), torch.zeros(1, 16), n_null=199, random_state=0)
    assert result.causal
    local = next(r for r in result if r.mask == "local")
    mask = masks.toeplitz(16, range(5), causal=True)
    mean, variance = null_moments(a, mask, admissible="causal")
    assert local.null_mean == pytest.approx(mean, abs=5 * (variance / 199) ** 0.5)
    open_mean, _ = null_moments(a, mask)
    assert abs(local.null_mean - open_mean) > 0.1  # shuffles across the triangle would be another null
    forced = scan_attention(toy(a[None, None, None]), torch.zeros(1, 16), n_null=9, causal=False)
    assert not forced.causal


def test_sinks_are_stripped_for_content_only(toy, torch):
    """PD-18: blocks behind a sink show only once it is stripped; positional masks see the whole map."""
    T, rng = 24, np.random.default_rng(0)
    a = 0.01 + 0.02 * rng.random((T, T)) + 0.2 * np.kron(np.eye(4), np.ones((6, 6)))
    a[:, 0] = 4
    a /= a.sum(1, keepdims=True)
    model = toy(a[None, None, None])
    plain = scan_attention(model, torch.zeros(1, T), random_state=0)
    assert {r.mask for r in plain} == {"sink1", "sink4", "local"}
    stripped = {r.mask: r for r in scan_attention(model, torch.zeros(1, T), random_state=0, strip_sinks=1)}
    assert stripped["sink1"].mass_outside == next(r for r in plain if r.mask == "sink1").mass_outside
    assert (stripped["sink1"].stripped, stripped["block"].stripped) == (0, 1)
    assert stripped["block"].null == "rows_without_sinks(1)"
    b = a.copy()
    b[:, 0] = 0
    b /= b.sum(1, keepdims=True)
    block = masks.block_diagonal([6] * 4)
    assert stripped["block"].mass_outside == pytest.approx((block.penalty * b**2).sum() / (b**2).sum())
    assert stripped["block"].p_value == 0.01
    with pytest.warns(NumericalWarning, match=r"content masks \['block'\] were tested with the sinks"):
        raw = scan_attention(model, torch.zeros(1, T), {"block": block}, random_state=0)
    assert next(iter(raw)).effect < stripped["block"].effect / 4


def test_orders(toy, torch):
    maps = soft(1, 1, 1, 6, 6)
    with pytest.raises(ValueError, match=r"^independent reordering of an attention map is not interpretable"):
        scan_attention(toy(maps), torch.zeros(1, 6), order="independent")
    options = {"n_null": 3, "random_state": 0, "strip_sinks": 1}
    free = scan_attention(
        toy(maps), torch.zeros(1, 6), order="independent", allow_independent=True, **options
    )
    common = scan_attention(toy(maps), torch.zeros(1, 6), order="common", **options)
    fixed = scan_attention(toy(maps), torch.zeros(1, 6), **options)
    for f, c, n in zip(free, common, fixed, strict=True):
        assert f.mass_outside <= c.mass_outside + 1e-12 <= n.mass_outside + 2e-12
    assert {r.order for r in common} == {"common"}


def test_causal_common_order_is_for_content(toy, torch):
    from porism.theory.pattern import pattern_distance

    a = random_softmax(6, 1.0, causal=True, random_state=0)
    library = {"local": masks.toeplitz(6, [0, 1], causal=True), "hub": masks.hub(6, 1)}
    with pytest.warns(NumericalWarning, match="hub"):
        result = scan_attention(
            toy(a[None, None, None]), torch.zeros(1, 6), library, order="common", n_null=3
        )
    assert {r.mask: r.order for r in result} == {"local": "none", "hub": "common"}
    hub = next(r for r in result if r.mask == "hub")
    fit = pattern_distance(a + a.T, masks.hub(6, 1), order="common")
    assert hub.mass_outside == pytest.approx(fit.mass_outside, abs=1e-12)


def test_libraries(toy, torch):
    maps, x = soft(1, 1, 1, 8, 8), torch.zeros(1, 8)
    for given, names in (
        ("band:1", ["band:1"]),
        (["band:1", masks.sink(8, 8, 2)], ["band:1", "sink(k=2)"]),
        ({"mine": np.eye(8)}, ["mine"]),
        (lambda T, causal: {"made": masks.band(T, 2)}, ["made"]),
    ):
        assert [r.mask for r in scan_attention(toy(maps), x, given, n_null=3)] == names
    with pytest.raises(ValueError, match=r"mask band.* does not match a map of 8 tokens"):
        scan_attention(toy(maps), x, [masks.band(5, 1)], n_null=3)
    with pytest.raises(ValueError, match=r"masks must name at least one mask"):
        scan_attention(toy(maps), x, [], n_null=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_null": 0}, "n_null must be at least 1"),
        ({"order": "both"}, "order must be one of"),
        ({"null": "symmetric_entries"}, "null must be one of"),
        ({"mass": "cube"}, "mass must be one of"),
        ({"causal": "maybe"}, "causal must be True, False or 'auto'"),
        ({"strip_sinks": 8}, "number of sinks must be in 1..7"),
    ],
)
def test_bad_input(toy, torch, options, message):
    with pytest.raises(ValueError, match=message):
        scan_attention(toy(soft(1, 1, 1, 8, 8)), torch.zeros(1, 8), **options)


def test_result_object(toy, torch, tmp_path, needs):
    result = scan_attention(toy(soft(2, 1, 2, 8, 8)), torch.zeros(1, 8), n_null=19, random_state=0)
    result.save(tmp_path / "heads.npz")
    assert HeadRecords.load(tmp_path / "heads.npz") == result
    needs("pandas")
    frame = result.to_frame()
    assert len(frame) == len(result)
    assert list(frame.columns[:8]) == [
        "layer", "head", "mask", "mass_outside", "null_mean", "effect", "p_value", "p_holm",
    ]  # fmt: skip
    assert "none can pass" in result.summary()
    assert "none can pass" not in result.summary(alpha=0.05)
    pyplot = needs("matplotlib.pyplot")
    ax = result.plot(pyplot.figure().subplots(), alpha=1.0, min_effect=-9)
    assert ax.images[0].get_array().shape == (2, 2)
    assert len(ax.texts) == 4
    pyplot.close("all")
