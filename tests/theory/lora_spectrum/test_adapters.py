"""Adapters written by hand; `test_peft` holds the reader against peft itself."""

import math

import numpy as np
import pytest

from porism.theory.lora_spectrum import AdapterSpectrum, read_adapter_spectrum

WEIGHTS = "adapter_model.safetensors"


def values(tensors, module):
    B, A = (tensors[f"base_model.model.{module}.lora_{side}.weight"].astype(float) for side in ("B", "A"))
    return np.linalg.svd(B @ A, compute_uv=False)[: B.shape[1]]


def test_plain(write, factors):
    tensors = factors(["h.10.q", "h.2.q", "h.2.v"])
    found = read_adapter_spectrum(write(tensors))
    assert found.modules == ("h.2.q", "h.2.v", "h.10.q")  # layer 2 before layer 10
    for name, row in found.spectra.items():
        assert row == pytest.approx(2 * values(tensors, name), rel=1e-12)
    assert found.rank.tolist() == [2, 2, 2]
    assert found.scaling.tolist() == [2, 2, 2]
    assert found.shape.tolist() == [[5, 6]] * 3
    assert found.kind.tolist() == ["linear"] * 3
    assert found.unread == ()
    assert not found.dora


def test_patterns_fit_from_a_dot_to_the_end_and_the_first_counts(write, factors):
    names = ["h.1.q", "h.1.xq", "h.11.q", "h.1.q_norm"]
    path = write(
        factors(names),
        alpha_pattern={"h.1.q": 6, "q": 8, r".*\.x.": 10, "h.1": 100},
        lora_alpha=4,
    )
    found = dict(zip(names, [6, 10, 8, 4], strict=True))
    spectrum = read_adapter_spectrum(path)
    assert {m: s * 2 for m, s in zip(spectrum.modules, spectrum.scaling, strict=True)} == found


def test_rank_pattern_and_rslora(write, factors):
    tensors = factors(["q"], r=2) | factors(["v"], r=3)
    config = {"rank_pattern": {"v": 3}, "alpha_pattern": {"v": 12}, "use_rslora": True}
    found = read_adapter_spectrum(write(tensors, **config))
    assert found.rank.tolist() == [2, 3]
    assert found.scaling == pytest.approx([4 / math.sqrt(2), 12 / math.sqrt(3)], rel=1e-15)
    assert found.spectra["v"] == pytest.approx(12 / math.sqrt(3) * values(tensors, "v"), rel=1e-12)


def test_a_config_of_an_old_version(write, factors):
    path = write(factors(["q"]), rank_pattern=None, alpha_pattern=None, target_parameters=None)
    assert read_adapter_spectrum(path).scaling.tolist() == [2]


def test_dtypes(write, factors):
    tensors = factors(["q"], dtype=np.float64)
    exact = read_adapter_spectrum(write(tensors)).spectra["q"]
    assert exact == pytest.approx(2 * values(tensors, "q"), rel=1e-13)
    half = {name: array.astype(np.float16) for name, array in tensors.items()}
    assert read_adapter_spectrum(write(half)).spectra["q"] == pytest.approx(2 * values(half, "q"), rel=1e-12)
    single = {name: array.astype(np.float32) for name, array in tensors.items()}
    cut = {name: (array.view(np.uint32) >> 16).astype(np.uint16) for name, array in single.items()}
    kept = {name: (array.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, array in single.items()}
    found = read_adapter_spectrum(write(cut)).spectra["q"]
    assert found == pytest.approx(2 * values(kept, "q"), rel=1e-12)
    assert not np.allclose(found, exact, rtol=1e-4)


def test_the_rest_is_listed_and_not_read(write, factors):
    rest = {
        "base_model.model.head.weight": np.zeros((3, 3), dtype=np.int64),  # a type that would be refused
        "base_model.model.q.lora_B.bias": np.full(5, np.nan, dtype=np.float32),
    }
    found = read_adapter_spectrum(write(rest | factors(["q"])))
    assert found.unread == tuple(rest)


def test_embedding_and_convolution(write):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 3, 2, 2)), rng.normal(size=(4, 2, 1, 1))
    E, F = rng.normal(size=(2, 7)), rng.normal(size=(3, 2))
    p = "base_model.model."
    tensors = {
        f"{p}emb.lora_embedding_A": E,
        f"{p}emb.lora_embedding_B": F,
        f"{p}conv.lora_A.weight": A,
        f"{p}conv.lora_B.weight": B,
    }
    found = read_adapter_spectrum(write(tensors, lora_alpha=2))
    assert dict(zip(found.modules, found.kind.tolist(), strict=True)) == {"conv": "conv", "emb": "embedding"}
    assert found.shape.tolist() == [[4, 12], [3, 7]]
    conv = np.linalg.svd(np.einsum("or,rikl->oikl", B[:, :, 0, 0], A).reshape(4, -1), compute_uv=False)
    assert found.spectra["conv"] == pytest.approx(conv[:2], rel=1e-12)
    assert found.spectra["emb"] == pytest.approx(np.linalg.svd(F @ E, compute_uv=False)[:2], rel=1e-12)


def test_grouped_convolution(write):
    """Each group of outputs sees its own share of the r rows."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(4, 3, 2, 2)), rng.normal(size=(6, 2, 1, 1))
    tensors = {"base_model.model.c.lora_A.weight": A, "base_model.model.c.lora_B.weight": B}
    found = read_adapter_spectrum(write(tensors, r=4, lora_alpha=4))
    patches = A.reshape(4, -1)
    product = np.concatenate([B[:3, :, 0, 0] @ patches[:2], B[3:, :, 0, 0] @ patches[2:]])
    expected = np.linalg.svd(product, compute_uv=False)[:4]
    assert found.spectra["c"] == pytest.approx(expected, rel=1e-12)


def test_stacked_experts(write):
    rng = np.random.default_rng(0)
    E, r, m, n = 3, 2, 5, 6
    A, B = rng.normal(size=(E * r, n)), rng.normal(size=(m, r * E))
    key = "base_model.model.mlp.experts.base_layer"
    tensors = {f"{key}.lora_A.weight": A, f"{key}.lora_B.weight": B}
    config = {"target_parameters": ["experts.up", "experts.down"], "alpha_pattern": {"q": 7}}
    found = read_adapter_spectrum(write(tensors, **config))
    assert found.modules == tuple(f"mlp.experts.base_layer[{e}]" for e in range(E))
    for e, row in enumerate(found.spectra.values()):
        product = 2 * B.reshape(m, r, E)[:, :, e] @ A.reshape(E, r, n)[e]
        assert row == pytest.approx(np.linalg.svd(product, compute_uv=False)[:r], rel=1e-12)
    with pytest.raises(ValueError, match=r"may stand for any of .*'mlp.experts.up'.*does not say which"):
        read_adapter_spectrum(write(tensors, **(config | {"alpha_pattern": {"down": 7}})))


def test_dora_warns(write, factors):
    tensors = factors(["q"])
    with pytest.warns(UserWarning, match="spectrum is of BA before magnitude rescaling"):
        found = read_adapter_spectrum(write(tensors, use_dora=True))
    assert found.dora
    magnitude = {"base_model.model.q.lora_magnitude_vector": np.ones(5)}
    with pytest.warns(UserWarning, match="before magnitude rescaling"):
        read_adapter_spectrum(write(tensors | magnitude))


def test_missing_pair(write, factors):
    tensors = factors(["h.q", "h.v"])
    del tensors["base_model.model.h.v.lora_B.weight"]
    with pytest.raises(KeyError, match=r"h\.v has lora_A but no lora_B"):
        read_adapter_spectrum(write(tensors))


def test_folders(write, factors, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        read_adapter_spectrum(tmp_path / "nowhere")
    path = write(factors(["q"]))
    with pytest.raises(FileNotFoundError, match="got a file; pass the folder"):
        read_adapter_spectrum(path / WEIGHTS)
    (path / "other").mkdir()
    for name in (WEIGHTS, "adapter_config.json"):
        (path / name).rename(path / "other" / name)
    with pytest.raises(
        FileNotFoundError,
        match=r"adapter_config\.json and adapter_model\.safetensors is missing; pass one .* \['other'\]",
    ):
        read_adapter_spectrum(path)
    (path / "other" / WEIGHTS).rename(path / "other" / "adapter_model.bin")
    with pytest.raises(FileNotFoundError, match="is a pickle and can run code"):
        read_adapter_spectrum(path / "other")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "LOHA"}, "must have peft_type 'LORA', got 'LOHA'"),
        ({"r": None}, "has no usable r, got None"),
        ({"r": 0}, "has no usable r, got 0"),
        ({"r": True}, "has no usable r, got True"),
        ({"lora_alpha": "8"}, "has no usable lora_alpha, got '8'"),
        ({"alpha_pattern": {"(": 3}}, "has no usable alpha_pattern"),
        ({"rank_pattern": [3]}, "has no usable rank_pattern"),
        ({"target_parameters": "experts"}, "has no usable target_parameters"),
        ({"kasa_config": {"beta": 1}}, "has kasa_config, with which the update is not B @ A"),
        ({"r": 3}, r"q must have the rank 3 of its config, got factors of shapes \(5, 2\) and \(2, 6\)"),
    ],
)
def test_bad_configs(write, factors, config, message):
    with pytest.raises(ValueError, match=message):
        read_adapter_spectrum(write(factors(["q"]), **config))


@pytest.mark.parametrize("text", ["", "[1]", "{", "\x00"])
def test_config_that_is_no_json_object(write, factors, text):
    path = write(factors(["q"]))
    (path / "adapter_config.json").write_text(text)
    with pytest.raises(ValueError, match=r"adapter_config\.json (is not a JSON file|must have peft_type)"):
        read_adapter_spectrum(path)


def test_every_truncation_is_one_clear_error(write, factors):
    path = write(factors(["q"]))
    whole = (path / WEIGHTS).read_bytes()
    for size in range(len(whole)):
        (path / WEIGHTS).write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"is not a whole safetensors file: .*save the adapter again"):
            read_adapter_spectrum(path)
    (path / WEIGHTS).write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match=f"announces {len(whole)} bytes, the file has {len(whole) + 1}"):
        read_adapter_spectrum(path)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{}x",
        b"\xff\xff",
        b'{"a": 3}',
        b'{"a": {"dtype": "F32", "shape": [1]}}',
        b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [0], "data_offsets": [4, 4]}}',
        b'{"a": {"dtype": 5, "shape": [1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}',
        b"[" * 100_000,
        b"\x80\x04\x95pickle",
    ],
)
def test_wrong_headers(write, factors, header):
    path = write(factors(["q"]))
    (path / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        read_adapter_spectrum(path)


def test_wrong_tensors(write, factors):
    tensors = factors(["q"])
    name = "base_model.model.q.lora_A.weight"
    with pytest.raises(ValueError, match=r"q\.lora_A\.weight of .* must be finite, got NaN or infinity"):
        read_adapter_spectrum(write(tensors | {name: np.full((2, 6), np.inf)}))
    with pytest.raises(ValueError, match="must be one of F64, F32, F16, BF16, got I64"):
        read_adapter_spectrum(write(tensors | {name: np.ones((2, 6), dtype=np.int64)}))
    with pytest.raises(ValueError, match=r"lora_A and lora_B of q must be matrices, got shapes \(0,\)"):
        read_adapter_spectrum(write(tensors | {name: np.ones(0)}))
    with pytest.raises(ValueError, match=r"has no lora_A and lora_B, got .*head"):
        read_adapter_spectrum(write({"head.weight": np.ones(3)}))


def test_statistics_save_and_plot(write, factors, tmp_path):
    found = read_adapter_spectrum(write(factors(["h.q", "h.v"])))
    for k, row in enumerate(found.spectra.values()):
        p = row / row.sum()
        assert found.stable_rank[k] == pytest.approx((row**2).sum() / row[0] ** 2, rel=1e-12)
        assert found.effective_rank[k] == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-12)
        expected = (row**2).sum() ** 2 / (row**4).sum()
        assert found.participation_ratio[k] == pytest.approx(expected, rel=1e-12)
    found.save(tmp_path / "spectrum.npz")
    back = AdapterSpectrum.load(tmp_path / "spectrum.npz")
    assert back.modules == found.modules
    assert np.array_equal(back.spectra["h.v"], found.spectra["h.v"])
    assert back.kind.tolist() == found.kind.tolist()
    ax = found.plot()
    assert ax.get_yscale() == "log"
    assert [line.get_ydata().tolist() for line in ax.lines] == [s.tolist() for s in found.spectra.values()]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["h.q", "h.v"]


def test_plot_of_a_fresh_adapter(write, factors):
    tensors = {name: array * ("lora_A" in name) for name, array in factors(map(str, range(9))).items()}
    ax = read_adapter_spectrum(write(tensors)).plot()  # B = 0: nothing to show on a logarithmic axis
    assert ax.get_yscale() == "linear"
    assert ax.get_legend() is None


def test_statistics_of_a_fresh_adapter_are_zero(write, factors):
    tensors = {name: array * ("lora_A" in name) for name, array in factors(["q"]).items()}
    found = read_adapter_spectrum(write(tensors))
    assert found.stable_rank == found.effective_rank == found.participation_ratio == 0


@pytest.mark.full
def test_frame(write, factors, needs):
    needs("pandas")
    found = read_adapter_spectrum(
        write(factors(["q"]) | factors(["v"], r=3), rank_pattern={"v": 3}, alpha_pattern={"v": 9})
    )
    frame = found.to_frame()
    assert list(frame) == [
        "module", "index", "singular_value", "rank", "scaling", "stable_rank", "effective_rank"
    ]  # fmt: skip
    assert frame["module"].tolist() == ["q"] * 2 + ["v"] * 3
    assert frame["index"].tolist() == [0, 1, 0, 1, 2]
    assert frame["scaling"].tolist() == [2, 2, 3, 3, 3]
    assert frame["singular_value"].tolist() == [*found.spectra["q"], *found.spectra["v"]]
    assert frame["stable_rank"].tolist() == np.repeat(found.stable_rank, [2, 3]).tolist()


def test_reader_agrees_with_the_library(write, factors, needs):
    library = needs("safetensors.numpy")
    tensors = factors(["q", "v"])
    loaded = library.load((write(tensors) / WEIGHTS).read_bytes())  # what we wrote by hand is the format
    assert {name: array.tolist() for name, array in loaded.items()} == {
        name: array.tolist() for name, array in tensors.items()
    }
