"""Memory and time of a step beside full passes, checkpointing and TokenTune's attention; kernels; moments."""

import pytest

from porism.sims.token_capacity.benchmarks import BENCHMARKS

MEASURES = {benchmark.__name__: benchmark for benchmark in BENCHMARKS}


@pytest.fixture
def row(request, capsys):
    found = MEASURES[request.param]()
    with capsys.disabled():
        print(f"\n  {found}")
    if "missing" in found:
        assert "differ" not in found["missing"], found["missing"]
        pytest.skip(found["missing"])
    return found


def on(*names):
    return pytest.mark.parametrize("row", names, indirect=True)


@on("saved bytes, llama, k=64")
def test_grouped_heads(row):
    saved = row["saved"]
    assert saved["ours"] <= 0.45 * saved["TokenTune-style"]
    assert saved["ours"] <= 0.12 * saved["full"]
    assert row["peak"]["ours"] < row["peak"]["checkpointing"] < row["peak"]["full"]


@on("saved bytes, gpt2, k=64")
def test_plain_heads(row):
    saved = row["saved"]
    assert saved["ours"] <= 0.75 * saved["TokenTune-style"]
    assert saved["ours"] <= 0.16 * saved["full"]
    assert saved["checkpointing"] < saved["ours"]  # where it is the better choice, for bytes saved
    assert row["peak"]["ours"] < row["peak"]["checkpointing"] < row["peak"]["full"]


@on("saved bytes, bert, k=64")
def test_plain_heads_of_an_encoder(row):
    """Keys and values alone are 0.113 of the full pass, whose activations are fewer than GPT-2's."""
    saved = row["saved"]
    assert saved["ours"] <= 0.75 * saved["TokenTune-style"]
    assert saved["checkpointing"] < saved["ours"]


@pytest.mark.xfail(strict=True, reason="found 0.178: the bar is met with the activations of GPT-2")
@on("saved bytes, bert, k=64")
def test_encoder_against_full(row):
    assert row["saved"]["ours"] <= 0.16 * row["saved"]["full"]


@on(
    "saved bytes, llama, k=16",
    "saved bytes, llama, k=256",
    "saved bytes, llama lora, k=64",
    "saved bytes, llama dora, k=64",
)
def test_other_sizes_and_adapters(row):
    saved = row["saved"]
    assert saved["ours"] <= 0.45 * saved["TokenTune-style"]
    assert saved["ours"] < saved["concat+SDPA"] < saved["full"]


@on("saved bytes, llama, k=16")
def test_few_key_heads_and_few_positions_save_less_than_checkpoints(row):
    assert row["saved"]["ours"] <= 0.6 * row["saved"]["checkpointing"]


@on("depth, 8 heads on 2")
def test_deep_with_few_key_heads(row):
    assert row["ratio"] > 1.1


@on("depth, 8 heads on 8")
def test_deep_with_all_key_heads(row):
    """Here checkpointing is the better choice."""
    assert row["ratio"] < 0.9


@on("exact")
def test_gradient_is_what_it_is_defined_as(row):
    assert len(row["gaps"]) == 6
    assert row["agreement"] <= 1e-12


@on(
    *(
        f"step against {peer}, {kind}"
        for kind in ("llama", "gpt2", "bert")
        for peer in ("full", "checkpointing")
    )
)
def test_time(row):
    assert row["ours_s"] <= 0.8 * row["peer_s"]


@on("kernel against Jacobians, N=64")
def test_kernel(row):
    assert row["agreement"] <= 1e-10
    assert row["ours"] <= 0.2 * row["theirs"]
    assert row["ours_s"] <= 0.5 * row["peer_s"]


@on("kernel against Jacobians by position, N=64")
def test_kernel_position_by_position(row):
    """A peer that holds the Jacobians of one position at a time."""
    assert row["ours"] < row["theirs"]
    assert row["ours_s"] <= 0.5 * row["peer_s"]


@on("kernel against products, N=64", "kernel against products, N=512")
def test_kernel_against_products(row):
    """Reported; the work is the same but for symmetry, checks and memory."""
    assert row["agreement"] <= 1e-10
    assert row["ratio"] > 0


@on("diagnostics")
def test_moments_do_not_grow(row):
    few, many = row["ours"]
    assert many <= 1.05 * few
    assert row["theirs"][1] >= 10 * row["theirs"][0]
