"""Streaming moments: against loops, over batches, paddings and merges; transactions, hooks, memory."""

import contextlib
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from porism.theory.token_capacity import HiddenStateMoments, PositionMoments
from porism.theory.token_capacity._bins import layout

pytestmark = pytest.mark.full


@pytest.fixture
def torch(needs):
    return needs("torch")


@pytest.fixture
def reader(torch):
    """A model whose watched maps read the batch itself, at two layers, the second one negated and scaled."""

    class Reader(torch.nn.Module):
        def __init__(self, d=3, broken=None, mixed=False):
            super().__init__()
            self.q = torch.nn.Linear(d, 2, bias=False)
            self.up = torch.nn.Linear(d + mixed, 2, bias=False)
            self.drop = torch.nn.Dropout(0.5)
            self.broken, self.mixed = broken, mixed

        def forward(self, x, attention_mask=None, position_ids=None):
            if self.broken == "raise":
                raise KeyError("broken")
            if self.broken == "flat":
                return self.q(x.flatten(1))
            self.q(x)
            x = -2 * self.drop(x)
            if self.broken == "nan":
                x = x.clone()
                x[-1, -1] = float("nan")
            if self.broken != "skip":
                return self.up(torch.cat([x, x[..., :1]], -1) if self.mixed else x)
            return x

    return Reader


def data(seed=0, N=12, T=7, d=3, ragged="left"):
    rng = np.random.default_rng(seed)
    X, lengths = rng.normal(size=(N, T, d)), rng.integers(1, T + 1, N)
    lengths[0] = T
    column = np.arange(T)
    mask = column >= T - lengths[:, None] if ragged == "left" else column < lengths[:, None]
    if ragged == "holes":
        mask = rng.random((N, T)) < 0.6
        mask[:, 2] = mask[0] = True
    return X, mask


def collect(torch, model, X, mask, sizes=(5, 4, 3), **options):
    with HiddenStateMoments(model, **options) as watch:
        begin = 0
        for size in sizes:
            rows = slice(begin, begin + size)
            keep = mask[rows].any(0)  # batches of different width
            if options.get("align") == "absolute":
                keep[:] = True
            watch.update(
                x=torch.tensor(X[rows][:, keep]).float(), attention_mask=torch.tensor(mask[rows][:, keep])
            )
            begin += size
    return watch.result()


@pytest.mark.parametrize("align", ["end", "start", "absolute"])
@pytest.mark.parametrize("ragged", ["left", "right", "holes"])
@pytest.mark.parametrize("max_bins", [64, 4, 1])
def test_against_loops(plain, torch, reader, align, ragged, max_bins):
    X, mask = data(ragged=ragged)
    X = X.astype(np.float32).astype(np.float64)
    found = collect(torch, reader(), X, mask, align=align, max_bins=max_bins)
    edges = layout(7, max_bins)
    second, count = plain.moments(X, mask, align, edges)
    assert found.count.tolist() == count.tolist()
    assert found.layers == ("q", "up")
    assert found.bins[:, 0].tolist() == edges.tolist()
    assert found.bins[-1, 1] == 7
    # float64 products of float32 numbers: only the order of sums differs
    np.testing.assert_allclose(found.second, np.stack([second, 4 * second]), rtol=0, atol=1e-12)
    ranks = found.effective_ranks()
    assert ranks.shape == (2, len(edges))
    np.testing.assert_allclose(ranks[0], ranks[1], rtol=1e-12)


@pytest.mark.parametrize("align", ["end", "start"])
def test_streaming_equals_one_batch(torch, reader, align):
    X, mask = data()
    options = {"align": align, "max_bins": 4}
    whole = collect(torch, reader(), X, mask, sizes=(12,), **options)
    order = np.argsort(mask.sum(1), kind="stable")  # short rows first: bins are merged on the way
    for rows, sizes in ((np.arange(12), (1,) * 12), (order, (2,) * 6), (order[::-1], (7, 5))):
        found = collect(torch, reader(), X[rows], mask[rows], sizes=sizes, **options)
        assert found.count.tolist() == whole.count.tolist()
        assert found.bins.tolist() == whole.bins.tolist()
        np.testing.assert_allclose(found.second, whole.second, rtol=0, atol=1e-12)


def test_merging_is_exact(torch, reader):
    """Whole numbers make every sum exact, so merged bins equal sums of single ones to the bit."""
    X, mask = data(1, T=20)
    X = np.rint(4 * X)
    fine = collect(torch, reader(), X, mask, sizes=(12,), max_bins=20)
    for order in (np.arange(12), np.argsort(mask.sum(1))):
        coarse = collect(torch, reader(), X[order], mask[order], sizes=(3, 3, 6), max_bins=8)
        for b, (start, stop) in enumerate(coarse.bins.tolist()):
            assert coarse.count[b] == fine.count[start:stop].sum()
            assert (coarse.second[:, b] == fine.second[:, start:stop].sum(1)).all()


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.integers(1, 12),
    st.sampled_from(["end", "start", "absolute"]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([8, 20], 8, "end")
@example([12, 13, 40], 12, "start")
def test_merging_of_any_lengths(plain, torch, reader, lengths, max_bins, align):
    """Rows of one length a batch, in any order of lengths, whole numbers: exact."""
    rng, model = np.random.default_rng(sum(lengths)), reader(2)
    longest = max(lengths)
    X, mask = np.zeros((2 * len(lengths), longest, 2)), np.zeros((2 * len(lengths), longest), bool)
    with HiddenStateMoments(model, ["q"], align=align, max_bins=max_bins) as watch:
        for i, length in enumerate(lengths):
            rows = rng.integers(-9, 10, (2, length, 2))
            X[2 * i : 2 * i + 2, :length], mask[2 * i : 2 * i + 2, :length] = rows, True
            watch.update(x=torch.tensor(rows).float())
    found = watch.result()
    second, count = plain.moments(X, mask, align, layout(longest, max_bins))
    assert (found.second[0] == second).all()
    assert found.count.tolist() == count.tolist()
    assert found.bins[-1, 1] == longest
    assert (found.bins[1:, 0] == found.bins[:-1, 1]).all()


def test_padding_may_hold_anything(torch, reader):
    X, mask = data()
    clean = collect(torch, reader(), X, mask)
    for filler in (np.nan, np.inf, 1e30):
        dirty = np.where(mask[..., None], X, filler)
        found = collect(torch, reader(), dirty, mask)
        assert (found.second == clean.second).all()
    aligned_right = np.stack([np.concatenate([x[m], x[~m]]) for x, m in zip(X, mask, strict=True)])
    found = collect(torch, reader(), aligned_right, np.sort(mask, 1)[:, ::-1])
    np.testing.assert_allclose(found.second, clean.second, rtol=0, atol=1e-12)


def test_oracle_10(torch, reader):
    pairs = np.array([[[1.0, 0], [1, 1]], [[1, 1], [2, 0]], [[0, 2], [0, 1]]])  # examples, positions, width
    found = collect(torch, reader(2), pairs, np.ones((3, 2), bool), sizes=(2, 1), cross=True, align="start")
    assert found.cross.shape == (2, 2, 2, 2, 2)
    alignment = found.alignments()
    np.testing.assert_allclose(alignment[:, 0, 1], 18 / 31, rtol=1e-12)
    A, B = (pairs[:, t] @ pairs[:, t].T for t in (0, 1))
    assert alignment[0, 1, 0] == pytest.approx(
        (A * B).sum() / np.linalg.norm(A) / np.linalg.norm(B), rel=1e-12
    )
    np.testing.assert_allclose(alignment[:, [0, 1], [0, 1]], 1, rtol=1e-12)


def test_cross_moments(torch, reader):
    X, mask = data(3)
    X = X.astype(np.float32).astype(np.float64)
    found = collect(torch, reader(), X, mask, cross=True)
    moved = np.zeros_like(X)
    for n in range(len(X)):
        rows = X[n][mask[n]][::-1]
        moved[n, : len(rows)] = rows
    expected = np.einsum("nsi,ntj->stij", moved, moved)
    np.testing.assert_allclose(found.cross[0], expected, rtol=0, atol=1e-12)
    for t in range(7):
        np.testing.assert_allclose(found.cross[:, t, t], found.second[:, t], rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="need cross moments, got none"):
        collect(torch, reader(), X, mask).alignments()
    with pytest.raises(ValueError, match="need inputs as they are"):
        collect(torch, reader(), X, mask, cross=True, sketch=2).alignments()
    with pytest.raises(ValueError, match="at most 4 tokens, got 7"):
        collect(torch, reader(), X, mask, cross=True, max_bins=4)
    long = np.ones((1, 33, 3))
    with pytest.raises(ValueError, match="at most 32 tokens, got 33"):
        collect(torch, reader(), long, np.ones((1, 33), bool), sizes=(1,), cross=True)


def test_sketch(torch, reader):
    X, mask = data(4, N=60, d=40)
    model = reader(40)
    whole = collect(torch, model, X, mask, sizes=(60,))
    found = collect(torch, model, X, mask, sizes=(30, 30), sketch=8)
    assert (found.sketched, whole.sketched) == (True, False)
    assert found.second.shape == (2, 7, 8, 8)
    again = collect(torch, model, X, mask, sizes=(30, 30), sketch=8)
    assert (again.second == found.second).all()
    other = collect(torch, model, X, mask, sizes=(30, 30), sketch=8, seed=1)
    assert (other.second != found.second).any()
    assert (found.effective_ranks()[:, 0] < whole.effective_ranks()[:, 0]).all()  # biased low
    draws = torch.Generator().manual_seed(0)
    R = torch.randn((40, 8), generator=draws, dtype=torch.float64).numpy() / 8**0.5
    np.testing.assert_allclose(found.second[0], R.T @ whole.second[0] @ R, rtol=0, atol=1e-9)
    mixed = reader(40, mixed=True)
    assert collect(torch, mixed, X, mask, sizes=(60,), sketch=8).second.shape == (2, 7, 8, 8)
    with pytest.raises(ValueError, match="layer up reads width 41, others 40"):
        collect(torch, mixed, X, mask, sizes=(60,))


@pytest.mark.parametrize(
    ("broken", "error", "message"),
    [
        ("nan", ValueError, r"layer up reads a value .* batch 1, row 3, aligned position 0 \(end\)"),
        ("raise", KeyError, "broken"),
        ("skip", RuntimeError, "layer up did not run"),
        ("flat", ValueError, r"layer q must read \(B, T, d\) with \(B, T\) = \(4, 7\), got \(4, 21\)"),
    ],
)
def test_all_or_nothing(torch, reader, broken, error, message):
    X, _ = data()
    model = reader()
    model.train()
    model.drop.eval()  # a mode of its own
    state = torch.random.get_rng_state()
    with pytest.raises(error, match=message), HiddenStateMoments(model, max_bins=4) as watch:  # noqa: PT012
        watch.update(x=torch.tensor(X[:4, :3]).float(), attention_mask=torch.ones(4, 3))
        before = watch.result()
        model.broken = broken
        with pytest.raises(error, match=message):
            watch.update(x=torch.tensor(X[:4]).float(), attention_mask=torch.ones(4, 7))
        after = watch.result()
        assert (after.second == before.second).all()
        assert after.bins.tolist() == before.bins.tolist()
        assert after.count.tolist() == before.count.tolist() == [4, 4, 4]
        assert watch.batches == 1
        watch.update(x=torch.tensor(X[:4]).float(), attention_mask=torch.ones(4, 7))
    assert model.training
    assert not model.drop.training
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert (torch.random.get_rng_state() == state).all()


def test_drain_hands_over_and_clears(torch, reader):
    X, _ = data()
    x = torch.tensor(X).float()
    with HiddenStateMoments(reader()) as watch:
        watch.update(x=x)
        whole, parts = watch.result(), list(watch.drain())
        assert [part.layers for part in parts] == [(name,) for name in whole.layers]
        for i, part in enumerate(parts):
            assert (part.second[0] == whole.second[i]).all()
            assert (part.count == whole.count).all()
            assert (part.bins == whole.bins).all()
        assert watch.batches == 0
        with pytest.raises(ValueError, match="there are no moments yet"):
            next(watch.drain())
        watch.update(x=x[:, :3])
        assert watch.result().bins.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_no_gradient_and_other_calls(torch, reader):
    X, _ = data()
    model = reader().train()
    x = torch.tensor(X).float().requires_grad_()
    with HiddenStateMoments(model) as watch:
        watch.update(x=x)
        before = watch.result()
        out = model(x)  # the user's own pass does not count
        assert out.requires_grad
        assert (watch.result().second == before.second).all()
        with pytest.raises(RuntimeError, match="being watched already"), watch:
            pass
    with pytest.raises(RuntimeError, match="update must be called inside"):
        watch.update(x=x)
    # dropout is off in update although the model is in training mode
    np.testing.assert_allclose(before.second[1], 4 * before.second[0], rtol=1e-6)


def test_bad_input(torch, reader):
    model, x = reader(), torch.ones(2, 4, 3)
    with pytest.raises(ValueError, match="there are no moments yet"):
        HiddenStateMoments(model).result()
    for options, message in (
        ({"max_bins": 0}, "max_bins must be >= 1"),
        ({"sketch": 0}, "sketch must be >= 1"),
        ({"align": "left"}, "align must be one of"),
        ({"layers": ["nope"]}, "'nope'; it has q, up"),
        ({"layers": ["drop"]}, "must name linear maps"),
        ({"layers": []}, "at least one"),
        ({"layers": ["q", "q"]}, "distinct"),
        ({"layers": "q"}, r"pass \['q'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            HiddenStateMoments(model, **options)
    with pytest.raises(TypeError, match="cross must be True or False"):
        HiddenStateMoments(model, cross=1)
    with pytest.raises(ValueError, match="found no query projection"):
        HiddenStateMoments(torch.nn.Linear(2, 2))
    with HiddenStateMoments(model, ["q"]) as watch:
        with pytest.raises(ValueError, match=r"^row 1 is all padding"):
            watch.update(x=x, attention_mask=torch.tensor([[1] * 4, [0] * 4]))
        with pytest.raises(ValueError, match=r"shape \(2, 4\), got \(2, 3\)"):
            watch.update(x=x, attention_mask=torch.ones(2, 3))
        with pytest.raises(NotImplementedError, match="4 axes"):
            watch.update(x=x, attention_mask=torch.ones(2, 1, 4, 4))
        with pytest.raises(NotImplementedError, match="packed sequences"):
            watch.update(x=x, position_ids=torch.tensor([[0, 1, 0, 1]] * 2))
        with pytest.raises(NotImplementedError, match="past_key_values"):
            watch.update(x=x, past_key_values=[1])
        with pytest.raises(NotImplementedError, match="output_attentions"):
            watch.update(x=x, output_attentions=True)
        with pytest.raises(ValueError, match="at least one row"):
            watch.update(x=x[:0])
        with pytest.raises(ValueError, match="pass input_ids"):
            watch.update(attention_mask=torch.ones(2, 4))
        watch.update(
            x=x,
            position_ids=torch.tensor([[7, 7, 0, 1]] * 2),
            attention_mask=torch.tensor([[0, 0, 1, 1]] * 2),
        )
    assert watch.result().count.tolist() == [2, 2]


def test_half_precision(torch, reader):
    X, mask = data()
    expected = collect(torch, reader(), X, mask)
    model = reader().bfloat16()
    with HiddenStateMoments(model) as watch:
        watch.update(x=torch.tensor(X).bfloat16(), attention_mask=torch.tensor(mask))
    # each factor is rounded to 2^-9
    np.testing.assert_allclose(
        watch.result().second, expected.second, atol=2**-7 * abs(expected.second).max()
    )


@contextlib.contextmanager
def peak_of_tensors(torch):
    """Most bytes of storages alive at once among those made inside."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        alive = peak = 0

        def __init__(self):
            super().__init__()
            self.known = set()

        def forget(self, key, size):
            self.alive -= size
            self.known.discard(key)

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                    storage = tensor.untyped_storage()
                    if storage._cdata not in self.known:
                        self.known.add(storage._cdata)
                        self.alive += storage.nbytes()
                        weakref.finalize(storage, self.forget, storage._cdata, storage.nbytes())
            self.peak = max(self.peak, self.alive)
            return out

    with Watch() as watch:
        yield watch


def test_peak_does_not_grow_with_examples(torch, reader):
    model = reader(24)

    def peak(batches):
        rng = np.random.default_rng(0)
        with peak_of_tensors(torch) as memory, HiddenStateMoments(model, max_bins=4) as watch:
            for _ in range(batches):
                watch.update(x=torch.from_numpy(rng.normal(size=(32, 6, 24)).astype(np.float32)))
        return memory.peak

    few, many = peak(2), peak(32)  # N = 64 and 1024
    assert few > 2 * 4 * 24 * 24 * 8  # it does see the accumulators
    assert many == few


def test_saved(torch, reader, tmp_path):
    X, mask = data()
    found = collect(torch, reader(), X, mask, cross=True)
    found.save(tmp_path / "m.npz")
    again = PositionMoments.load(tmp_path / "m.npz")
    assert (again.cross == found.cross).all()
    assert (again.layers, again.align, again.sketched) == (("q", "up"), "end", False)


def test_a_batch_waits_as_rows_or_as_sums(torch, reader):
    """Whichever is smaller: 3200 rows of 8 numbers against 4 matrices of 64, then 2 rows."""
    model, seen = reader(8), []
    with HiddenStateMoments(model, max_bins=4) as watch:
        model.up.register_forward_pre_hook(
            lambda module, args: seen.append((len(watch._pass.kept[0]), watch._pass.second[0] is None))
        )
        watch.update(x=torch.ones(64, 50, 8))
        watch.update(x=torch.ones(1, 2, 8))
    assert seen == [(0, False), (1, True)]
    np.testing.assert_array_equal(watch.result().second[0, :, 0, 0], [65, 65, 64, 64 * 47])
