"""Tables: what they accept, what they keep, what they refuse."""

import json
import pickle

import numpy as np
import pytest

from porism.theory.partition import (
    DuplicateCoalitionError,
    MissingCoalitionsError,
    Semivalue,
    TooManyPlayersError,
    TopK,
    UtilityTable,
    certify_partition,
    is_coalitionally_dominant,
    robust_ks,
    semivalues,
    value_intervals,
)

SH = Semivalue.shapley()


def test_scores_of_every_real_dtype():
    for dtype in (np.int8, np.uint8, np.int64, np.uint64, np.float32, np.float64, np.longdouble, bool):
        scores = np.array([0, 1, 1, 0 if dtype is bool else 4], dtype)
        t = UtilityTable.from_array(scores)
        assert t.scores.dtype == np.float64
        assert t.scores.tolist() == scores.astype(float).tolist()
    assert UtilityTable.from_array(x for x in (0, 1, 3, 4)).scores.tolist() == [0, 1, 3, 4]
    assert UtilityTable.from_array([0, 2**53, 1, 3]).scores[1] == 2**53


def test_float32_levels_are_kept():
    v = np.array([0.1, 0.2, 0.3, 0.7], np.float32)
    t = UtilityTable.from_array(v)
    assert t.levels().tolist() == v.astype(np.float64).tolist()
    assert t.levels(decimals=1).tolist() == [0.1, 0.2, 0.3, 0.7]
    assert certify_partition(t, SH, TopK(1)).level in v.astype(np.float64)


@pytest.mark.parametrize(
    ("scores", "decimals", "levels"),
    [
        ([0, 1e300, 3e300, 4e300], 10, [0, 1e300, 3e300, 4e300]),
        ([0.04, 0.06, 3, 1e20], 308, [0.04, 0.06, 3, 1e20]),
        ([0.04, 0.06, 3, 44], 1, [0, 0.1, 3, 44]),
        ([0.04, 0.06, 3, 44], -308, [0]),
    ],
)
def test_rounding_never_overflows(scores, decimals, levels):
    t = UtilityTable.from_array(scores)
    assert t.levels(decimals).tolist() == t.rounded(decimals).levels().tolist()
    assert t.levels(decimals).tolist() == pytest.approx(levels, rel=2**-51)  # NumPy multiplies and divides


def test_a_frame_is_a_matrix(needs):
    """A DataFrame iterates over its columns, which would be read as masks."""
    frame = needs("pandas").DataFrame([[True, False], [True, True]])
    assert UtilityTable.from_pairs(frame, [1.0, 3.0]).missing() == [(), (1,)]


def test_big_integers_are_not_rounded_silently():
    for v in ([0, 1, 3, 2**53 + 1], np.array([0, 1, 3, 2**63 + 3], np.uint64), [0, 1, 3, -(2**53) - 1]):
        with pytest.raises(ValueError, match=r"2\*\*53"):
            UtilityTable.from_array(v)
        with pytest.raises(ValueError, match=r"2\*\*53"):
            UtilityTable.from_pairs([0, 1, 2, 3], v)


def test_inputs_are_neither_changed_nor_kept():
    v = np.array([0, 5, 0, 7, 0, 7, 10, 12.0])
    wide = np.repeat(v, 2)
    views = [v, wide[::2], v[::-1][::-1], np.asfortranarray(v)]
    frozen = v.copy()
    frozen.setflags(write=False)
    reference = certify_partition(UtilityTable.from_array(v), SH, TopK(1))
    for given in (*views, frozen):
        before = given.copy()
        t = UtilityTable.from_array(given)
        assert certify_partition(t, SH, TopK(1)) == reference
        assert np.array_equal(given, before)
        assert not np.shares_memory(given, t.scores)
    v[0] = 99
    assert UtilityTable.from_array(frozen).scores[0] == 0
    t = UtilityTable.from_array(frozen)
    with pytest.raises(ValueError, match="read-only"):
        t.scores[0] = 1
    bits = np.array([[0, 1], [1, 1], [0, 0], [1, 0]], bool)
    bits.setflags(write=False)
    masks = np.array([2, 3, 0, 1], np.uint64)
    masks.setflags(write=False)
    for rows in (
        bits,
        np.asfortranarray(bits),
        masks,
        np.repeat(masks, 2)[::2],
        [[1], [0, 1], [], [0]],
        [{1}, frozenset((0, 1)), (), range(1)],
        [np.array([1]), np.array([0, 1]), [], [np.int8(0)]],
    ):
        t = UtilityTable.from_pairs(rows, [3, 4, 0, 1])
        assert t.scores.tolist() == [0, 1, 3, 4]
    t = UtilityTable.from_pairs((c for c in [[1], [0, 1], [], [0]]), (x for x in (3, 4, 0, 1)))
    assert t.is_complete


def test_a_pickled_table_stays_read_only():
    for t in (UtilityTable.from_array([0, 1, 3, 4]), UtilityTable.from_pairs([[0], [1]], [1.0, 2.0])):
        back = pickle.loads(pickle.dumps(t))
        assert back.sha256 == t.sha256
        assert not back.scores.flags.writeable


def test_certifying_leaves_the_table_alone():
    v = np.random.default_rng(0).integers(0, 5, 32).astype(float)
    t = UtilityTable.from_array(v)
    for act in (
        lambda: certify_partition(t, SH, TopK(2), ties="weak"),
        lambda: robust_ks(t, SH),
        lambda: value_intervals(t, SH),
        lambda: semivalues(t, SH),
        lambda: t.rounded(0),
        lambda: t.levels(1),
        lambda: is_coalitionally_dominant(t, [0]),
    ):
        act()
        assert np.array_equal(t.scores, v)


def test_number_of_players():
    assert UtilityTable.from_pairs([[0], [3]], [1, 2]).n_players == 4
    assert UtilityTable.from_pairs([[0], [3]], [1, 2], n=6).n_players == 6
    assert UtilityTable.from_pairs(np.array([1, 8]), [1, 2]).n_players == 4
    assert UtilityTable.from_pairs(np.eye(3, dtype=bool), [1, 2, 3]).n_players == 3
    empty = UtilityTable.from_pairs([], [], n=3)
    assert (empty.n_players, empty.is_complete, len(empty.missing(None))) == (3, False, 8)
    with pytest.raises(MissingCoalitionsError):
        certify_partition(empty, SH, TopK(1), missing="range")


def test_one_player():
    t = UtilityTable.from_array([1, 3])
    assert semivalues(t, SH).tolist() == [2.0]
    with pytest.raises(ValueError, match=r"k must be in 1..n-1, got k=1, n=1"):
        certify_partition(t, SH, TopK(1))
    assert value_intervals(t, SH).tolist() == [[2.0, 2.0]]
    with pytest.raises(ValueError, match="at least 2 players"):
        robust_ks(t, SH)


def test_masks_of_64_players():
    masks = np.array([0, 1 << 63, (1 << 64) - 1, 0b101], np.uint64)
    for given in (masks, [int(m) for m in masks]):
        t = UtilityTable.from_pairs(given, [0, 1, 2, 3])
        assert t.n_players == 64
        assert t.sampled.dense().sum(axis=1).tolist() == [0, 1, 64, 2]
        assert t.sampled.dense()[1, 63]
    with pytest.raises(ValueError, match="64 players"):
        UtilityTable.from_pairs([1 << 64], [1])
    with pytest.raises(TooManyPlayersError, match=r"24 \* 2\*\*64 bytes"):
        _ = t.scores
    with pytest.raises(ValueError, match=r"row [12] holds player 63, but n=8"):
        UtilityTable.from_pairs(masks, [0, 1, 2, 3], n=8)


def test_ten_thousand_players():
    rows = [[0, 9_999], [5], []]
    t = UtilityTable.from_pairs(rows, [2.0, 1.0, 0.0], n=10_000)
    assert t.sampled.members.shape == (3, 1250)
    assert not t.is_dense
    assert not t.is_complete
    assert t.levels().tolist() == [0, 1, 2]
    assert "10000" in repr(t)
    with pytest.raises(TooManyPlayersError, match="target='estimate'"):
        certify_partition(t, SH, TopK(1))


def test_size_limits():
    v = np.zeros(1 << 11)
    v[-1] = 1
    with pytest.raises(TooManyPlayersError) as caught:
        UtilityTable.from_array(v, max_players=10)
    for word in ("at most 10", "got 11", f"{24 << 11} bytes", "target='estimate'", "max_players=11"):
        assert word in str(caught.value)
    assert UtilityTable.from_array(v, max_players=11).n_players == 11
    with pytest.raises(TooManyPlayersError, match=r"at most 30 .*use target='estimate'$"):
        _ = UtilityTable.from_pairs([[0], [30]], [1, 2]).scores
    few = UtilityTable.from_pairs([[0], [24]], [1, 2])
    assert not few.is_dense
    with pytest.raises(TooManyPlayersError, match=f"{24 << 25} bytes"):
        certify_partition(few, SH, TopK(1))
    twenty_eight = UtilityTable.from_pairs([[0], [27]], [1, 2])
    with pytest.raises(TooManyPlayersError, match=f"{24 << 28} bytes \\(6.0 GiB\\)"):
        semivalues(twenty_eight, SH)


def test_a_sampled_table_says_that_it_is_not_dense():
    """Five players are not too many: the rows just do not make a table."""
    t = UtilityTable.from_samples(np.eye(5, dtype=bool), np.arange(5.0))
    for act in (
        lambda: certify_partition(t, SH, TopK(1)),
        lambda: semivalues(t, SH),
        lambda: robust_ks(t, SH),
    ):
        with pytest.raises(ValueError, match="target='estimate'") as caught:
            act()
        assert "at most 24" not in str(caught.value)
        assert "from_pairs" in str(caught.value)


def test_duplicates():
    rows, scores = [[0], [0, 1], [], [1], [1, 0]], [1.0, 4.0, 0.0, 3.0, 5.0]
    with pytest.raises(DuplicateCoalitionError) as caught:
        UtilityTable.from_pairs(rows, scores)
    for word in ("{0, 1}", "4.0", "5.0", "row 4", "on_duplicate"):
        assert word in str(caught.value)
    assert UtilityTable.from_pairs(rows, scores, on_duplicate="mean").scores.tolist() == [0, 1, 3, 4.5]
    first = UtilityTable.from_pairs(rows, scores, on_duplicate="first")
    assert first.scores.tolist() == [0, 1, 3, 4]
    assert first.sampled.n_rows == 5  # the sampled view keeps every row
    same = UtilityTable.from_pairs(rows, [1.0, 4.0, 0.0, 3.0, 4.0])
    assert same.scores.tolist() == [0, 1, 3, 4]
    assert same.sampled.n_rows == 5
    with pytest.raises(ValueError, match="on_duplicate"):
        UtilityTable.from_pairs(rows, scores, on_duplicate="last")
    means = {
        UtilityTable.from_pairs(
            np.ones((3, 1), bool), np.array([0.1, 0.2, 0.3])[order], on_duplicate="mean"
        ).scores[1]
        for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0])
    }
    assert len(means) == 1  # a mean does not depend on the order of the rows
    assert means.pop() == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ([[0], [1, "a"]], TypeError, ["row 1", "'a'", "str"]),
        ([["0"], [1]], TypeError, ["row 0"]),
        ([[0], [1.0]], TypeError, ["row 1", "float"]),
        ([[0], [True]], TypeError, ["row 1", "bool"]),
        ([[0], [None]], TypeError, ["row 1"]),
        ([[0], None], TypeError, ["row 1"]),
        ([[0], "01"], TypeError, ["row 1"]),
        ([[0], 3], TypeError, ["row 1"]),
        ([[0], [-1]], ValueError, ["row 1", "negative"]),
        ([[0], [2, 2]], ValueError, ["row 1", "player 2", "twice"]),
        ([[0], [7]], ValueError, ["row 1", "player 7", "n=5"]),
        ([1, -2], ValueError, ["row 1", "negative"]),
        (np.array([1, 1 << 6]), ValueError, ["row 1", "player 6", "n=5"]),
        (np.array([1.0, 2.0]), TypeError, ["float64"]),
        (np.array([[0.0, 1], [1, 1]]), TypeError, ["float64"]),
        (np.array([[0, 2], [1, 1]]), TypeError, ["0/1"]),
        (np.array(["a", "b"]), TypeError, ["<U1"]),
        (np.ones((2, 3), bool), ValueError, ["n=5", "3"]),
        (np.ones((2, 3, 1), bool), TypeError, ["(2, 3, 1)"]),
        ([[0], [1], [2]], ValueError, ["one entry a coalition (3)", "2"]),
    ],
)
def test_bad_coalitions(rows, error, words):
    with pytest.raises(error) as caught:
        UtilityTable.from_pairs(rows, [1.0, 2.0], n=5)
    for word in ("coalition", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("scores", "error", "words"),
    [
        ([0, 1, 2], ValueError, ["expected 2**n scores", "(3,)"]),
        ([], ValueError, ["expected 2**n scores"]),
        ([1.0], ValueError, ["expected 2**n scores"]),
        (np.zeros((2, 2)), ValueError, ["expected 2**n scores", "(2, 2)"]),
        (5.0, ValueError, ["expected 2**n scores"]),
        ([0, 1, 2, float("nan")], ValueError, ["score of coalition {0, 1} is nan"]),
        ([0, float("inf"), 2, 3], ValueError, ["score of coalition {0} is inf"]),
        ([0, 1, None, 3], TypeError, ["object"]),
        (None, TypeError, ["object"]),
        (["0", "1"], TypeError, ["<U1"]),
        ("0123", TypeError, ["<U"]),
        (np.array([0, 1j]), TypeError, ["complex128"]),
        ([[0], [1, 2]], ValueError, ["scores", "unequal"]),
    ],
)
def test_bad_scores(scores, error, words):
    with pytest.raises(error) as caught:
        UtilityTable.from_array(scores)
    for word in words:
        assert word in str(caught.value)


def test_bad_scores_of_pairs_name_coalition_and_row():
    with pytest.raises(ValueError, match=r"score of coalition \{0, 2\} is nan \(row 1\)"):
        UtilityTable.from_pairs([[1], [2, 0]], [1.0, float("nan")])
    with pytest.raises(ValueError, match=r"score of coalition \{1\} is -inf"):
        UtilityTable.from_pairs(np.array([2, 3]), [-np.inf, float("nan")])
    with pytest.raises(ValueError, match=r"score of coalition \{\} is nan"):
        UtilityTable.from_samples(np.zeros((1, 3), bool), [np.nan])
    with pytest.raises(ValueError, match=r"n must be >= 1"):
        UtilityTable.from_pairs([[0]], [1.0], n=0)
    with pytest.raises(TypeError, match="n must be an int"):
        UtilityTable.from_pairs([[0]], [1.0], n=2.0)
    with pytest.raises(ValueError, match="one entry"):
        UtilityTable.from_pairs([[0], [1]], np.array([[1.0, 2.0]]))


def test_files_of_other_layouts(tmp_path):
    expected = [0, 1, 3, 4]
    layouts = {
        "bits.npz": {"coalitions": np.array([[0, 1], [1, 1], [0, 0], [1, 0]], bool), "scores": [3, 4, 0, 1]},
        "bytes.npz": {
            "coalitions": np.array([[0, 1], [1, 1], [0, 0], [1, 0]], np.uint8),
            "scores": [3, 4, 0, 1],
        },
        "masks.npz": {"coalitions": np.array([2, 3, 0, 1], np.uint64), "scores": [3, 4, 0, 1]},
        "dense.npz": {"scores": expected},
        "shapiq.npz": {
            "coalitions": np.array([[0, 1], [1, 1], [0, 0], [1, 0]], bool),
            "values": [3.0, 4, 0, 1],
            "n_players": 2,
            "normalization_value": 0.0,
        },
    }
    for name, arrays in layouts.items():
        np.savez(tmp_path / name, **arrays)
    texts = {
        "a.csv": "coalition,score\n1,3\n0 1,4\n,0\n0,1\n",
        "bom.csv": "\ufeffscore,coalition,note\r\n3,1,x\r\n4,1 0,y\r\n0,,z\r\n1,0,\r\n",
        "b.json": json.dumps({"coalitions": [[1], [0, 1], [], [0]], "scores": [3, 4, 0, 1]}),
        "c.json": json.dumps({"scores": expected}),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in [*layouts, *texts]:
        assert UtilityTable.load(tmp_path / name).scores.tolist() == expected, name
        assert UtilityTable.load(str(tmp_path / name)).is_complete
    (tmp_path / "m.csv").write_text("coalition,score\n2,3\n3,4\n0,0\n1,1\n")
    assert UtilityTable.load(tmp_path / "m.csv", masks=True).scores.tolist() == expected
    assert UtilityTable.load(tmp_path / "a.csv", n=3).n_players == 3
    (tmp_path / "twice.csv").write_text("coalition,score\n0,3\n0,4\n,0\n")
    with pytest.raises(DuplicateCoalitionError):
        UtilityTable.load(tmp_path / "twice.csv")
    assert UtilityTable.load(tmp_path / "twice.csv", on_duplicate="mean").scores.tolist() == [0, 3.5]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.txt", b"", [".npz, .csv", "t.txt"]),
        ("t", b"", ["must end in"]),
        ("t.csv", b"", ["columns coalition and score"]),
        ("t.csv", b"a,b\n1,2\n", ["columns coalition and score", "'a'"]),
        ("t.csv", b"coalition,score\n0,1\n1,x\n", ["row 1", "'x'"]),
        ("t.csv", b"coalition,score\n0,1\n1\n", ["row 1 (line 3) must have 2 cells", "got 1"]),
        ("t.csv", b"coalition,score\n,0\n\n0,1,3\n", ["row 1 (line 4)", "got 3; separate players by spaces"]),
        ("t.csv", b"coalition,score\n0,1\n1;2,1\n", ["row 1", "'1;2'"]),
        ("t.csv", b"coalition,score\n0,1\n1,nan\n", ["score of coalition {1} is nan", "row 1"]),
        ("t.csv", b"\xff\xfe\x00coalition", ["t.csv"]),
        ("t.csv", b"coalition,score\n", ["at least one row"]),
        ("t.csv", b"coalition,score,score\n0,1,2\n", ["coalition and score, once each"]),
        ("t.csv", b"coalition,score\n0_1,1\n", ["row 0 must name a coalition by players", "'0_1'"]),
        ("t.csv", b"coalition,score\n0,1_0\n", ["row 0 has no number as score", "'1_0'"]),
        ("t.json", b'{"scores": [0, 1, 3, 4], "n_players": 3}', ["n must be 2", "2**2 scores", "got n=3"]),
        ("t.json", b"[1, 2]", ["object"]),
        ("t.json", b"{", ["not JSON"]),
        ("t.json", b'{"scores": 3}', ["list 'scores'"]),
        ("t.json", b'{"scores": [1, 2], "coalitions": [["x"], [1]]}', ["row 0"]),
        ("t.npz", b"", ["t.npz"]),
        ("t.npz", b"nonsense", ["t.npz"]),
        ("t.npz", b"PK\x03\x04broken", ["t.npz"]),
        ("t.npz", {"other": np.zeros(2)}, ["'scores'", "other"]),
        ("t.npz", {"values": np.zeros(2)}, ["'scores'"]),
        ("t.npz", {"scores": np.array([None, 1], object)}, ["t.npz"]),
    ],
)
def test_bad_files(tmp_path, name, content, words):
    file = tmp_path / name
    if isinstance(content, dict):
        np.savez(file, **content)
    else:
        file.write_bytes(content)
    with pytest.raises((ValueError, TypeError)) as caught:
        UtilityTable.load(file)
    for word in words:
        assert word in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        UtilityTable.load(tmp_path / "absent.npz")


def test_saved_tables_come_back(tmp_path):
    rng = np.random.default_rng(0)
    some = UtilityTable.from_pairs([[0], [2], []], [0.1, 1 / 3, -5e-324], n=5)
    for suffix in ("npz", "csv", "json"):
        some.save(tmp_path / f"some.{suffix}")
        back = UtilityTable.load(tmp_path / f"some.{suffix}", n=5)
        assert np.array_equal(back.scores, some.scores, equal_nan=True)
    rows = UtilityTable.from_samples(
        rng.random((7, 30)) < 0.5, rng.normal(size=7), design="uniform", score_range=(-9, 9)
    )
    rows.save(tmp_path / "rows.npz")
    back = UtilityTable.load(tmp_path / "rows.npz").sampled
    assert np.array_equal(back.dense(), rows.sampled.dense())
    assert np.array_equal(back.scores, rows.sampled.scores)
    assert (back.design, back.truncated, back.score_range) == ("uniform", False, (-9, 9))
    with pytest.raises(ValueError, match=r"\.npz"):
        rows.save(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="must end in"):
        some.save(tmp_path / "some.xlsx")
    assert UtilityTable.load(tmp_path / "rows.npz").sha256 == rows.sha256
    many = UtilityTable.from_pairs([[0], [29]], [1.0, 2.0])
    many.save(tmp_path / "many.npz")
    assert np.array_equal(UtilityTable.load(tmp_path / "many.npz").sampled.dense(), many.sampled.dense())


def test_number_of_players_survives_csv(tmp_path):
    """Without coalitions of the last player n cannot be read off the rows: npz and json hold it."""
    t = UtilityTable.from_pairs([[0], [1]], [1.0, 2.0], n=4)
    for suffix in ("npz", "json"):
        t.save(tmp_path / f"t.{suffix}")
        assert UtilityTable.load(tmp_path / f"t.{suffix}").n_players == 4
    t.save(tmp_path / "t.csv")
    assert UtilityTable.load(tmp_path / "t.csv", n=4).n_players == 4
    UtilityTable.from_array([0, 1, 3, 4]).save(tmp_path / "whole.npz")
    assert UtilityTable.load(tmp_path / "whole.npz", n=2).n_players == 2
    with pytest.raises(ValueError, match=r"n must be 2, .*got n=3"):
        UtilityTable.load(tmp_path / "whole.npz", n=3)


def test_samples_refuse_what_does_not_fit():
    rng = np.random.default_rng(0)
    members, scores = rng.random((4, 9)) < 0.5, np.arange(4.0)
    packed = np.packbits(members, axis=1, bitorder="little")
    a, b = UtilityTable.from_samples(members, scores), UtilityTable.from_samples(packed, scores, n=9)
    assert np.array_equal(a.sampled.members, b.sampled.members)
    assert a.sha256 == b.sha256
    with pytest.raises(ValueError, match="design must be one of"):
        UtilityTable.from_samples(members, scores, design="iid")
    with pytest.raises(ValueError, match="score_range"):
        UtilityTable.from_samples(members, scores, score_range=(0, 2))
    with pytest.raises(ValueError, match="score_range"):
        UtilityTable.from_samples(members, scores, score_range=(3, 3))
    with pytest.raises(ValueError, match="unit"):
        UtilityTable.from_samples(members, scores, unit=[0, 1])
    with pytest.raises(ValueError, match="rows"):
        UtilityTable.from_samples(members, scores[:3])
    stray = packed.copy()
    stray[2, 1] |= 1 << 5  # player 13 of nine
    with pytest.raises(ValueError, match=r"row 2"):
        UtilityTable.from_samples(stray, scores, n=9)
