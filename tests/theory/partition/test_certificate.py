"""Certificates as things: JSON, verification against tampering, one table through all formats."""

import dataclasses
import json
import math
from fractions import Fraction as F

import numpy as np
import pytest

from porism.theory.partition import (
    BoundaryTieError,
    Certificate,
    CertificateMismatch,
    MonotoneClass,
    OrderedPartition,
    RelativeThreshold,
    Semivalue,
    Sign,
    SmallCoalitions,
    Threshold,
    TopK,
    UtilityTable,
    certify_partition,
)

SH = Semivalue.shapley()
O5 = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
O7 = UtilityTable.from_array([0, 3, 3, 5, 1, 4, 4, 6])
O10 = UtilityTable.from_array([2, 3, 0, 4, 2, 5, 1, 6])
O14 = UtilityTable.from_array([0, 1, 1, 1, 4, 5, 5, 6, 4, 5, 5, 6, 9, 10, 10, 11])
PART = UtilityTable.from_pairs(
    [m for m in range(16) if m != 3], O14.scores[[m for m in range(16) if m != 3]], 4
)
OPTIONS = {
    "failing": (O5, SH, TopK(1), {}),
    "robust": (O14, SH, TopK(2), {}),
    "tied": (O7, SH, TopK(1), {"ties": "weak"}),
    "undecided": (PART, SH, TopK(2), {"missing": "range"}),
    "monotone": (PART, SH, TopK(2), {"missing": "monotone"}),
    "small": (O14, SH, TopK(2), {"small": SmallCoalitions(2)}),
    "bounded small": (O14, Semivalue.beta(1, 4), TopK(2), {"small": SmallCoalitions(2, "range", (0, 4))}),
    "free": (O14, SH, TopK(2), {"small": SmallCoalitions(2, "free")}),
    "size-only": (O14, SH, TopK(2), {"small": SmallCoalitions(2, "size-only")}),
    "concave": (
        UtilityTable.from_array([0, 3, 0, 2, 1, 5, 7, 12]),
        SH,
        TopK(1),
        {"transforms": MonotoneClass("concave")},
    ),
    "convex blocks": (
        O14,
        SH,
        OrderedPartition([[3], [2], [0], [1]]),
        {"transforms": MonotoneClass("convex"), "ties": "weak"},
    ),
    "slope": (O5, SH, TopK(1), {"transforms": MonotoneClass(max_slope_ratio=1.7)}),
    "rounded": (
        UtilityTable.from_array(O5.scores + 0.01),
        SH,
        TopK(1),
        {"transforms": MonotoneClass(decimals=1)},
    ),
    "sign": (O10, SH, Sign(), {}),
    "threshold": (O10, SH, Threshold(0.25), {"transforms": MonotoneClass(range_normalised=True)}),
    "mean": (O10, Semivalue.weighted_banzhaf(0.1), RelativeThreshold(), {}),
    "weakly": (O14, SH, TopK(2), {"strict": "weakly-increasing", "radii": ("slope",)}),
    "numpy numbers": (
        O14,
        SH,
        TopK(np.int64(2)),
        {
            "small": SmallCoalitions(np.int32(2), "range", np.array([0, 4.0])),
            "transforms": MonotoneClass(decimals=np.int64(3)),
        },
    ),
    "weights": (O7, Semivalue.from_weights(["1/4", "1/4", "1/4"]), TopK(2), {}),
}


def make(name):
    t, sv, decision, options = OPTIONS[name]
    return t, certify_partition(t, sv, decision, **options)


@pytest.mark.parametrize("name", OPTIONS)
def test_json_comes_back_equal_and_verifies(name, tmp_path):
    t, c = make(name)
    text = c.to_json(tmp_path / "c.json")
    assert (tmp_path / "c.json").read_text() == text
    for back in (
        Certificate.from_json(text),
        Certificate.from_json(tmp_path / "c.json"),
        Certificate.from_json(str(tmp_path / "c.json")),
    ):
        assert back == c
        assert back.to_json() == text
        back.verify(t)
    assert (back.semivalue, back.transforms, back.small) == (OPTIONS[name][1], c.transforms, c.small)
    assert back.small == OPTIONS[name][3].get("small")
    plain = json.loads(text)
    assert plain["verdict"] == c.verdict
    assert plain["format_version"] == 1
    assert F(plain["level_margin"]) == c.level_margin
    if c.witness is not None:
        again = Certificate.from_json(text).witness
        assert again == c.witness
        assert again.check(t, OPTIONS[name][1])[2] == c.witness.check(t, OPTIONS[name][1])[2]


def test_json_layout():
    _, c = make("robust")
    plain = json.loads(c.to_json())
    assert plain["slope_radius"] == "inf"
    assert isinstance(plain["level_margin"], str)
    _, c = make("failing")
    plain = json.loads(c.to_json())
    assert (plain["level_margin"], plain["witness"]["epsilon"]) == ("-1/2", "1/4")
    assert [7.0, 1.75] in plain["witness"]["transform_points"]
    assert plain["table_sha256"] == O5.sha256
    assert plain["assumptions"]["class"]["max_slope_ratio"] == "inf"


@pytest.mark.parametrize("text", ["{}", '{"verdict": "robust"}', "{", '{"format_version": 1, "decision": 3}'])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match="certificate"):
        Certificate.from_json(text)
    newer = make("robust")[1].to_json().replace('"format_version": 1', '"format_version": 99')
    with pytest.raises(ValueError, match="99 is newer"):
        Certificate.from_json(newer)


def refused(lie, t):
    """A mismatch; another decision may not even fit the table."""
    try:
        lie.verify(t)
    except CertificateMismatch:
        return True
    except BoundaryTieError:
        return isinstance(lie.decision, TopK)
    return False


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "numpy numbers"])
def test_every_tampered_field_is_found(name):
    t, c = make(name)
    values = list(c.semivalues)
    values[0] += 1e-9
    other = "robust" if c.verdict != "robust" else "not_robust"
    lies = {
        "verdict": [v for v in ("robust", "not_robust", "undecided") if v != c.verdict],
        "strict": [not c.strict],
        "members": [c.blocks[1]],
        "blocks": [c.blocks[::-1]],
        "semivalues": [tuple(values)],
        "base_gap": [c.base_gap + 1],
        "level_margin": [c.level_margin + F(1, 10**9), None],
        "level": [c.level + 1],
        "pair": [tuple((i + 1) % t.n_players for i in c.pair)],
        "table_sha256": ["0" * 64],
        "permanent_ties": [(*c.permanent_ties, (0, 1))],
        "decision": [TopK(3 if t.n_players == 4 else 2 if len(c.members) == 1 else 1)],
    }
    if c.slope_radius is not None:
        lies["slope_radius"] = [1.5, math.inf if c.slope_radius < math.inf else 3.0]
        lies["slope_pair"] = [(1, 0)]
    if c.score_margin is not None and name != "free":
        lies["score_margin"] = [c.score_margin + 0.5]
    if c.statistics:
        lies["statistics"] = [{**c.statistics, "upper": "1/7"}, {}]
    assert other in lies["verdict"]
    c.verify(t)
    for field, wrong in lies.items():
        for value in wrong:
            assert refused(dataclasses.replace(c, **{field: value}), t), f"{field}={value} passed"


@pytest.mark.parametrize(
    "name", ["failing", "small", "free", "concave", "slope", "rounded", "sign", "threshold"]
)
def test_every_tampered_witness_is_found(name):
    t, c = make(name)
    assert c.verdict == "not_robust"
    w = c.witness
    points = w.transform_points
    lies = {
        "missing": None,
        "identity": dataclasses.replace(w, transform_points=((0.0, 0.0), (100.0, 100.0)), completion=None),
        "decreasing": dataclasses.replace(w, transform_points=tuple((x, -y) for x, y in points)),
        "the pair turned round": dataclasses.replace(w, pair=w.pair[::-1] if len(w.pair) == 2 else (9,)),
        "two of one block": dataclasses.replace(w, pair=(c.blocks[-1] * 2)[:2]),
    }
    if w.completion is not None:
        lies["a score out of its bounds"] = dataclasses.replace(
            w, completion=tuple((m, s + 1e6) for m, s in w.completion)
        )
        lies["another coalition"] = dataclasses.replace(w, completion=(*w.completion, (15, -3.0)))
    if name == "slope":
        lies["too steep"] = dataclasses.replace(
            w, transform_points=((0.0, 0.0), (7.0, 7.0), (10.0, 90.0), (12.0, 92.0))
        )
    if name == "concave":
        lies["convex"] = dataclasses.replace(w, transform_points=tuple((x, y**3) for x, y in points))
    for what, lie in lies.items():
        assert refused(dataclasses.replace(c, witness=lie), t), what


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-10, 1.0, 1e10, 1e17, 1e150, 1e300])
def test_witness_of_a_tie_at_every_scale(scale):
    """Neither the jump nor the slope beside it is lost in rounding."""
    t = UtilityTable.from_array(scale * np.array([0, 4, 0, 6, 0, 6, 10, 12.0]))
    c = certify_partition(t, SH, TopK(1), ties="weak")
    assert (np.diff(c.witness.transform(t.levels())) > 0).all()
    assert c.witness.check(t, SH)[2] == pytest.approx(-0.5, rel=1e-12)  # D = -1/2, and the tie adds nothing
    assert c.witness.epsilon == 1 or scale != 1.0
    c.verify(t)
    same = dataclasses.replace(c.witness, transform_points=((0.0, 0.0), (12 * scale, 12 * scale)))
    assert refused(dataclasses.replace(c, witness=same), t)


def test_a_class_too_wide_by_less_than_rounding_verifies():
    """kappa* = 7/3, and the float above it is asked for: no float64 witness can show the difference."""
    t = UtilityTable.from_array([3, 8, 5, 6, 3, 2, 5, 2])
    ratio = MonotoneClass("concave", 2.3333333333333335)
    c = certify_partition(t, Semivalue.weighted_banzhaf(0.3), TopK(1), transforms=ratio, ties="weak")
    assert c.verdict == "not_robust"
    assert abs(c.witness.check(t, c.semivalue)[2]) < 2**-49 * c.witness.transform_points[-1][1]
    c.verify(t)


def test_verify_refuses_another_table():
    _, c = make("failing")
    with pytest.raises(CertificateMismatch, match="table_sha256"):
        c.verify(UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 13]))


def test_same_json_from_every_format_and_row_order(tmp_path, needs):
    rng = np.random.default_rng(0)
    v = rng.normal(size=16)
    v[3], v[5], v[9] = 0.0, -0.0, 0.1 + 0.2
    whole = UtilityTable.from_array(v)
    keep = [m for m in range(16) if m not in (6, 11)]
    some = UtilityTable.from_pairs(np.array(keep), v[keep], 4)
    for number, (t, options) in enumerate(((whole, {}), (some, {"missing": "range"}))):
        expected = certify_partition(t, SH, TopK(2), **options).to_json()
        known = np.flatnonzero(~np.isnan(t.scores))
        for _ in range(3):
            known = rng.permutation(known)
            rows = [[i for i in rng.permutation(4).tolist() if m >> i & 1] for m in known.tolist()]
            bits = (known[:, None] >> np.arange(4) & 1).astype(bool)
            for given in (rows, known, known.astype(np.uint8), bits, bits.astype(np.int8), known.tolist()):
                again = UtilityTable.from_pairs(given, t.scores[known], 4)
                assert certify_partition(again, SH, TopK(2), **options).to_json() == expected
        needs("pandas")
        needs("pyarrow")
        for suffix in ("npz", "csv", "json", "parquet", "CSV"):
            file = tmp_path / f"{number}.{suffix}"
            t.save(file)
            loaded = UtilityTable.load(file)
            assert loaded.n_players == 4
            assert np.array_equal(loaded.scores, t.scores, equal_nan=True)
            assert certify_partition(loaded, SH, TopK(2), **options).to_json() == expected


def test_zero_has_one_sign():
    """-0.0 and 0.0 are one score: same hash, same JSON, whichever row comes first."""
    for scores in ([0.0, 1, 3, -0.0], [-0.0, 1, 3, 0.0]):
        a = UtilityTable.from_array(scores)
        assert a.sha256 == UtilityTable.from_array([0, 1, 3, 0]).sha256
        c = certify_partition(a, SH, TopK(1))
        assert c.to_json() == certify_partition(UtilityTable.from_array([0, 1, 3, 0]), SH, TopK(1)).to_json()
        assert "-0.0" not in c.to_json()
    texts = set()
    for zeros in ((0.0, 0.0), (-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0)):
        v = [-2, zeros[0], zeros[1], -1, -2, -1, -1, 3]
        texts.add(certify_partition(UtilityTable.from_array(v), SH, TopK(1), ties="weak").to_json())
    assert len(texts) == 1
    assert "-0.0" not in texts.pop()


def test_hash_is_of_the_scores_in_mask_order():
    import hashlib

    v = np.array([0.5, 1, 3, 4])
    assert UtilityTable.from_array(v).sha256 == hashlib.sha256(v.astype("<f8").tobytes()).hexdigest()
    part = UtilityTable.from_pairs([0, 2, 3], v[[0, 2, 3]], 2)
    gap = np.array([0.5, np.nan, 3, 4])
    assert part.sha256 == hashlib.sha256(gap.astype("<f8").tobytes()).hexdigest()


def test_summary_and_html():
    _, c = make("failing")
    assert c.summary() == "NOT ROBUST  k=1  margin=-1/2  slope_radius=1.66667  score_margin=-3"
    assert make("robust")[1].summary().startswith("ROBUST  k=2  margin=0  slope_radius=inf  score_margin=3")
    assert "-1/2" in c._repr_html_()


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    _, c = make("failing")
    files = [tmp_path / "t.npz", tmp_path / "t.csv", tmp_path / "t.json"]
    for file in files:
        O5.save(file)
    c.to_json(tmp_path / "c.json")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    for file in files:
        with pytest.raises(KeyboardInterrupt):
            O14.save(file)
    with pytest.raises(KeyboardInterrupt):
        make("robust")[1].to_json(tmp_path / "c.json")
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_plot_returns_axes():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ax = make("sign")[1].plot()
    assert len(ax.patches) == 3
    assert ax.get_xlabel()
    pyplot.close("all")
