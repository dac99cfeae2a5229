"""Folding into modules of transformers: equal to the mixes kept, and refused where it would not be."""

import copy

import numpy as np
import pytest

from porism.errors import AssumptionError
from porism.sims.attention import random_mix
from porism.theory.attention import RopeLayout, attend, fold_into, rotate

pytestmark = pytest.mark.full
D, KV, P, HEAD = 32, 2, 2, 8
LAYOUT = RopeLayout.standard("half", HEAD)


@pytest.fixture(scope="module")
def torch(needs):
    needs("transformers")
    return needs("torch")


def module_of(torch, family="llama", heads=KV * P, out=None, **options):
    """Attention of one layer in float64 with random weights, and heads for o_proj."""
    import importlib

    import transformers

    names = {
        "llama": "Llama",
        "qwen3": "Qwen3",
        "olmo2": "Olmo2",
        "bitnet": "BitNet",
        "phi3": "Phi3",
        "gpt_oss": "GptOss",
    }
    name = names[family]
    config = getattr(transformers, f"{name}Config")(
        hidden_size=D, num_attention_heads=heads, num_key_value_heads=KV, intermediate_size=16, vocab_size=40,
        num_hidden_layers=1, attn_implementation="sdpa", pad_token_id=0, **options,
    )  # fmt: skip
    config.head_dim = HEAD
    home = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    module = getattr(home, f"{name}Attention")(config, 0).double().eval()
    if out:
        module.o_proj = torch.nn.Linear(out * HEAD, D, dtype=torch.float64)
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=rng, dtype=torch.float64) / parameter.shape[-1] ** 0.5
            )
    return module


def inputs(torch, T=7):
    """Tokens, and cosines and sines of half-split rotary positions at base 10000."""
    x = torch.randn((2, T, D), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    angle = torch.arange(T)[:, None] * torch.from_numpy(LAYOUT.frequencies)
    angle = torch.cat([angle, angle], -1)[None]
    return {"hidden_states": x, "position_embeddings": (angle.cos(), angle.sin()), "attention_mask": None}


def unit(z, weight, eps):
    return weight * z / np.sqrt(np.square(z).mean(-1, keepdims=True) + eps)


def kept(module, given, M, N, applied="before"):
    """The module with the mixes kept, in NumPy."""
    x, T = given["hidden_states"].numpy(), given["hidden_states"].shape[1]

    def heads(name):
        linear = getattr(module, name)
        out = x @ linear.weight.detach().numpy().T
        if linear.bias is not None:
            out = out + linear.bias.detach().numpy()
        return out.reshape(2, T, -1, HEAD).swapaxes(1, 2)

    def mixed(q):
        q = q.reshape(2, KV, -1, T, HEAD)
        return np.einsum("ngp,bnptd->bngtd" if M.ndim == 3 else "ngepd,bnptd->bngte", M, q).reshape(
            2, -1, T, HEAD
        )

    q, k, v = (heads(f"{letter}_proj") for letter in "qkv")
    if applied == "before":
        q = mixed(q)
    if hasattr(module, "q_norm"):
        q, k = (
            unit(z, norm.weight.detach().numpy(), norm.variance_epsilon)
            for z, norm in ((q, module.q_norm), (k, module.k_norm))
        )
    q, k = (rotate(z, np.arange(T), LAYOUT) for z in (q, k))
    if applied == "after":
        q = mixed(q)
    o = attend(q, k, v, np.tri(T, dtype=bool)).output
    if N is not None:
        o = np.einsum("gh,bhtd->bgtd", N, o)
    return o.swapaxes(1, 2).reshape(2, T, -1) @ module.o_proj.weight.detach().numpy().T


def run(module, given):
    return module(**given)[0].detach().numpy()


@pytest.mark.parametrize(
    ("G", "kind", "applied"),
    [(2, "heads", "before"), (3, "heads", "after"), (3, "any", "before"), (1, "commuting", "after")],
)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_llama(torch, G, kind, applied, implementation):
    rng = np.random.default_rng(0)
    module, given, H = module_of(torch, attention_bias=True), inputs(torch), KV * G
    module.o_proj.bias.data.zero_()
    M = random_mix(KV, G, P, LAYOUT, HEAD, kind, rng)
    N = rng.standard_normal((KV * P, H))
    before = copy.deepcopy(module.state_dict())
    new = fold_into(module, M, N, applied=applied, rope=LAYOUT)
    expected = kept(module, given, M, N, applied)
    module.config._attn_implementation = implementation  # shared, so that a model switches both
    given["attention_mask"] = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    # scores below 100 in double precision; the eager softmax of transformers runs in float32
    exact = 1e-12 if implementation == "sdpa" else 1e-6
    np.testing.assert_allclose(run(new, given), expected, rtol=0, atol=exact * np.abs(expected).max())
    assert new is not module
    assert new.config is module.config
    assert {
        name: bool((value == before[name]).all()) for name, value in module.state_dict().items()
    } == dict.fromkeys(before, True)
    assert (new.q_proj.out_features, new.o_proj.in_features, new.num_key_value_groups) == (
        H * HEAD,
        H * HEAD,
        G,
    )
    assert new.fold_error == {"q_proj": 0, "o_proj": 0}
    plain = fold_into(module, M, N)
    assert np.allclose(run(plain, given), expected, atol=1e-4) == (kind != "any" or applied == "before")


def test_virtual_heads_of_their_own_output(torch):
    """A module that was made for virtual heads: o_proj takes more heads than q_proj gives."""
    rng = np.random.default_rng(1)
    module, given, G = module_of(torch, out=KV * 4), inputs(torch), 4
    module.o_proj.bias.data.zero_()
    M, N = random_mix(KV, G, P, rng=rng), np.eye(8) + np.outer(rng.standard_normal(8), rng.standard_normal(8))
    for output_mix in (None, N):
        new = fold_into(module, M, output_mix)
        expected = kept(module, given, M, output_mix)
        np.testing.assert_allclose(run(new, given), expected, atol=1e-12 * np.abs(expected).max())


def test_query_norm(torch):
    rng = np.random.default_rng(2)
    module, given = module_of(torch, "qwen3", out=KV * 3), inputs(torch)
    module.o_proj.bias.data.zero_()
    M = random_mix(KV, 3, P, rng=rng)
    expected = kept(module, given, M, None)
    found = run(fold_into(module, M), given)
    # the norm of transformers runs in float32 in a model of float64 too: 24 bits through the softmax
    np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())
    assert not np.allclose(found, kept(module, given, M, None, "after"), atol=0.1)
    with pytest.raises(AssumptionError, match=r"a mix after the query norm cannot be folded.*q_norm"):
        fold_into(module, M, applied="after", rope=LAYOUT)


def test_only_one_mix(torch):
    rng = np.random.default_rng(3)
    module, given = module_of(torch), inputs(torch)
    eye = np.broadcast_to(np.eye(P), (KV, P, P))
    N = rng.standard_normal((4, 4))
    new = fold_into(module, output_mix=N)
    assert new.fold_error == {"o_proj": 0}
    np.testing.assert_allclose(run(new, given), kept(module, given, eye, N), atol=1e-12)
    with pytest.raises(ValueError, match=r"^query_mix or output_mix must be given, got None for both; pass"):
        fold_into(module)


def test_types_and_trainable_mixes(torch):
    M = torch.nn.Parameter(torch.randn(KV, P, P, dtype=torch.float64))
    module = module_of(torch, attention_bias=True)
    module.q_proj.weight.requires_grad_(False)
    exact = fold_into(module, M)
    assert not exact.q_proj.weight.requires_grad
    assert exact.q_proj.bias.requires_grad
    for dtype, bits in ((torch.float32, 24), (torch.bfloat16, 8), (torch.float16, 11)):
        low = copy.deepcopy(module).to(dtype)
        new = fold_into(low, M)
        assert new.q_proj.weight.dtype == new.q_proj.bias.dtype == dtype
        # rounding to nearest: at most half a unit, sqrt(1 / (8 log 2)) = 0.42 of it on average
        assert 0.3 * 2.0**-bits < new.fold_error["q_proj"] < 2.0**-bits
        whole = torch.einsum(
            "ngp,npdx->ngdx", M.detach(), low.q_proj.weight.detach().double().view(KV, P, HEAD, D)
        )
        assert bool((new.q_proj.weight == whole.reshape(-1, D).to(dtype)).all())


def test_guard(torch):
    module, M = module_of(torch), random_mix(KV, P, P, head_dim=HEAD, kind="any", rng=0)
    with pytest.raises(AssumptionError, match="mix must commute with the rotation"):
        fold_into(module, M, applied="after", rope=LAYOUT)
    with pytest.raises(ValueError, match="rope must be given for applied='after'"):
        fold_into(module, M, applied="after")
    other = random_mix(KV, P, P, RopeLayout.standard("interleaved", HEAD), HEAD, "commuting", 0)
    with pytest.raises(AssumptionError, match="mix must commute"):
        fold_into(module, other, applied="after", rope=LAYOUT)


HEADS = np.ones((KV, P, P))


def test_parts_that_are_not_known(torch):
    N = np.eye(4)
    with pytest.raises(AssumptionError, match=r"directly before o_proj.*attn_sub_norm"):
        fold_into(module_of(torch, "bitnet"), HEADS, N)
    assert fold_into(module_of(torch, "bitnet"), HEADS).num_key_value_groups == P
    with pytest.raises(AssumptionError, match="got sinks for 4 heads where 6 attend"):
        fold_into(module_of(torch, "gpt_oss"), np.ones((KV, 3, P)), np.ones((4, 6)))
    assert fold_into(module_of(torch, "gpt_oss"), HEADS).num_key_value_groups == P
    with pytest.raises(AssumptionError, match="q_norm must normalise each head, got one of 32"):
        fold_into(module_of(torch, "olmo2"), np.ones((KV, 3, P)), np.ones((4, 6)))
    module, given = module_of(torch, "olmo2"), inputs(torch)
    eye = np.broadcast_to(np.eye(P), (KV, P, P))
    np.testing.assert_allclose(run(fold_into(module, eye), given), run(module, given), atol=1e-12)


def test_fused_and_other_shapes(torch):
    import transformers

    with pytest.raises(TypeError, match="separate projections, got qkv_proj, which fuses them; split"):
        fold_into(module_of(torch, "phi3"), HEADS)
    gpt2 = transformers.GPT2Model(transformers.GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=9))
    with pytest.raises(TypeError, match="separate projections, got c_attn"):
        fold_into(gpt2.h[0].attn, HEADS)
    bert = transformers.BertConfig(
        hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8
    )
    layer = transformers.BertModel(bert).encoder.layer[0].attention.self
    with pytest.raises(
        TypeError, match="without q_proj, k_proj, v_proj, o_proj, head_dim; use fold_query_mix"
    ):
        fold_into(layer, HEADS)
    with pytest.raises(TypeError, match="must be a torch module, got str"):
        fold_into("self_attn", HEADS)


def test_weights_that_hold_no_numbers(torch):
    module = module_of(torch)
    module.q_proj = torch.nn.Linear(D, KV * P * HEAD, device="meta")
    with pytest.raises(TypeError, match="q_proj must hold numbers, got a weight on the meta device"):
        fold_into(module, HEADS)
    module = module_of(torch)
    module.o_proj.weight = torch.nn.Parameter(module.o_proj.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(TypeError, match=r"o_proj must hold plain floating-point numbers.*int8; fold before"):
        fold_into(module, HEADS)
    module = module_of(torch)
    torch.nn.utils.parametrizations.weight_norm(module.q_proj)
    with pytest.raises(TypeError, match="q_proj must be a plain"):
        fold_into(module, HEADS)
    module = module_of(torch)
    module.q_proj = torch.nn.Sequential(module.q_proj)
    with pytest.raises(TypeError, match="got Sequential; merge adapters first"):
        fold_into(module, HEADS)


@pytest.mark.parametrize(
    ("query", "output", "text"),
    [
        (np.ones((KV, 3, P)), None, r"output_mix must have shape .* = \(4, 6\), got none"),
        (np.ones((KV, 3, P)), np.eye(4), r"\(4, 6\), got \(4, 4\) for q_proj of 32 and o_proj of 32"),
        (np.ones((KV, 3, 3)), None, r"mix must be \(n_kv, G, P\)"),
        (np.ones((3, P)), None, r"mix must be \(n_kv, G, P\)"),
        (np.float64(1), None, r"mix must be \(n_kv, G, P\)"),
        (None, np.eye(3), r"got \(3, 3\) for q_proj"),
        (None, np.full((4, 4), np.nan), "output_mix must be finite"),
    ],
)
def test_shapes(torch, query, output, text):
    with pytest.raises(ValueError, match=text):
        fold_into(module_of(torch), query, output)


def test_a_gate_inside_the_projection(torch):
    module = module_of(torch)
    module.q_proj = torch.nn.Linear(D, 2 * KV * P * HEAD + 8, dtype=torch.float64)
    with pytest.raises(ValueError, match="a gate inside q_proj has to be split off"):
        fold_into(module, HEADS)
    module.q_proj = torch.nn.Linear(D, 2 * KV * P * HEAD, dtype=torch.float64)  # as in Qwen3-Next
    for query, output in ((HEADS, None), (None, np.eye(4))):
        with pytest.raises(ValueError, match="mix must"):
            fold_into(module, query, output)
