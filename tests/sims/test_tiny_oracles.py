"""The tiny transformer against an independent numpy forward, printed numbers, and the order of its draws."""

import numpy as np
import pytest

from porism.sims.tiny_transformer import TinyConfig

EXACT = 1e-14  # float64, a few hundred operations of size 1; differences seen are below 1e-15
LAST = (0.330677062469, 0.904748441314, 0.646998275677, -0.205599120832, -0.869169633817)


@pytest.fixture
def torch(needs):
    return needs("torch")


def naive(config, weights, tokens):
    """Loops over tokens and heads; relu, rms norm of weight one, causal, tied head."""
    c, half = config, config.head_size // 2
    it = iter(weights)
    table = next(it)
    places = next(it) if c.position == "learned" else None

    def normed(h):
        return h / np.sqrt((h**2).mean() + 1e-5)

    def turned(vector, position):
        if c.position != "rope":
            return vector
        z = vector[:half] + 1j * vector[half:]
        z = z * np.exp(1j * position * c.rope_base ** -(np.arange(half) / half))
        return np.concatenate([z.real, z.imag])

    stream = [table[t] + (0 if places is None else places[p]) for p, t in enumerate(tokens)]
    for _ in range(c.layers):
        q, k, v, o, up, down = (next(it) for _ in range(6))
        keys, values, after = [], [], []
        for p, h in enumerate(stream):
            n = normed(h)
            keys.append([turned(part, p) for part in (k @ n).reshape(c.groups, -1)])
            values.append((v @ n).reshape(c.groups, -1))
            out = []
            for head, query in enumerate((q @ n).reshape(c.heads, -1)):
                group = head // (c.heads // c.groups)
                scores = [turned(query, p) @ key[group] / np.sqrt(c.head_size) for key in keys]
                share = np.exp(scores) / np.exp(scores).sum()
                out.append(sum(s * value[group] for s, value in zip(share, values, strict=True)))
            after.append(h + o @ np.concatenate(out))
        stream = [h + down @ np.maximum(up @ normed(h), 0) for h in after]
    return np.array([table @ normed(h) for h in stream])


def filled(torch, **fields):
    from porism.sims.tiny_transformer import TinyTransformer

    model = TinyTransformer(TinyConfig(vocab=5, d=4, act="relu", **fields)).double()
    weights = [model.embedding, *([model.positions] if hasattr(model, "positions") else [])]
    weights += [layer.weight for layer in model.named_linears().values()]
    with torch.no_grad():
        for i, weight in enumerate(weights):
            row = torch.arange(weight.shape[0], dtype=torch.float64)[:, None]
            column = torch.arange(weight.shape[1], dtype=torch.float64)
            weight.copy_(0.5 * torch.sin(1 + row + 2 * column + 10 * i))
    return model, [weight.detach().numpy() for weight in weights]


@pytest.mark.full
def test_numeric_oracle(torch):
    model, weights = filled(torch, layers=1, heads=2, kv_heads=1)
    out = model(torch.tensor([[1, 3, 0, 2]]))[0].detach().numpy()
    assert out[-1] == pytest.approx(LAST, abs=6e-13)  # half a unit of the last digit printed
    assert out.sum() == pytest.approx(1.759437984459, abs=6e-13)
    assert np.abs(out - naive(model.config, weights, [1, 3, 0, 2])).max() < EXACT


@pytest.mark.full
@pytest.mark.parametrize("position", ["rope", "learned", "none"])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_forward_equals_loops(torch, position, kv_heads):
    model, weights = filled(torch, layers=2, heads=2, kv_heads=kv_heads, position=position)
    tokens = [4, 0, 0, 3, 1, 2]
    out = model(torch.tensor([tokens]))[0].detach().numpy()
    assert np.abs(out - naive(model.config, weights, tokens)).max() < EXACT


COUNTS = [
    (12_704, {"vocab": 50, "d": 32, "layers": 1, "kv_heads": 1, "act": "swiglu"}),
    (113_280, {"vocab": 96, "position": "learned", "norm": "layer"}),
    (104_768, {"vocab": 96}),
    (314_016, {"vocab": 96, "d": 96, "layers": 3, "kv_heads": 2}),
    (799_872, {"vocab": 96, "d": 128, "layers": 4}),
    (353_952, {"vocab": 512, "d": 96, "layers": 3, "kv_heads": 2}),
    (28_944, {"vocab": 12, "d": 48, "layers": 1, "tie": False}),
    (56_688, {"vocab": 12, "d": 48, "tie": False}),
    (56_976, {"input_dim": 4, "n_out": 10, "d": 48, "position": "learned", "max_len": 16}),
    (58_752, {"input_dim": 2, "n_out": 1, "d": 48, "position": "learned", "max_len": 64}),
]


@pytest.mark.parametrize(("count", "fields"), COUNTS)
def test_parameter_counts(count, fields):
    assert TinyConfig(**fields).n_parameters == count


@pytest.mark.full
@pytest.mark.parametrize("fields", [*(f for _, f in COUNTS), {"vocab": 7, "readout": "token", "n_out": 3}])
def test_models_have_as_many_parameters_as_the_config_says(torch, fields):
    from porism.sims.tiny_transformer import TinyTransformer

    config = TinyConfig(**fields)
    assert sum(p.numel() for p in TinyTransformer(config).parameters()) == config.n_parameters


@pytest.mark.full
def test_seeded_oracle(torch):
    from porism.sims.tiny_transformer import TinyTransformer

    model = TinyTransformer(TinyConfig(vocab=96), seed=0)
    digits = 6e-11  # half a unit of the last digit printed
    embedding = (-0.0225167964, -0.0230472032, -0.0050115716)
    assert model.embedding[0, :3].tolist() == pytest.approx(embedding, abs=digits)
    q = (0.1067339852, 0.1043909565, 0.0947766677)
    assert model.blocks[0].q.weight[0, :3].tolist() == pytest.approx(q, abs=digits)
    out = model.double()(torch.arange(8)[None])[0, -1, :3].tolist()
    assert out == pytest.approx((0.1597208837, -0.2227541648, 0.0588851789), abs=digits)


@pytest.mark.full
def test_draws_follow_the_contract_order(torch):
    from porism.sims.tiny_transformer import TinyTransformer

    config = TinyConfig(
        input_dim=3, n_out=2, d=8, heads=2, act="swiglu", position="learned", max_len=5, readout="token"
    )
    model = TinyTransformer(config, seed=4)
    draws = torch.Generator().manual_seed(4)
    expected = [(model.input_map.weight, 3**-0.5), (model.positions, 0.02), (model.readout_token, 0.02)]
    for block in model.blocks:
        for name in ("q", "k", "v", "o", "up", "gate", "down"):
            weight = getattr(block, name).weight
            std = weight.shape[1] ** -0.5 * (0.5 if name in ("o", "down") else 1)  # 1 / sqrt(2 * 2)
            expected.append((weight, std))
    expected.append((model.head.weight, 8**-0.5))
    assert model.positions.shape == (6, 8)  # one more for the token that is appended
    for weight, std in expected:
        torch.testing.assert_close(weight.detach(), torch.randn(weight.shape, generator=draws) * std)
    assert list(model.named_linears()) == [
        f"blocks.{i}.{part}" for i in range(2) for part in ("q", "k", "v", "o", "up", "gate", "down")
    ]
