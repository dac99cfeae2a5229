"""Corpora: facts of the texts, exact laws of the synthetic worlds, batches that are what they say."""

import collections
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.sims import corpora
from porism.sims.corpora import markov, relational, text_corpus, topics_bpe, topics_char

CPYTHON_3_11 = "c21f2d68e295fee6"  # the text differs between versions of Python


def entropy(items):
    counts = np.array(list(collections.Counter(items).values()))
    return float(-(counts / counts.sum() * np.log(counts / counts.sum())).sum())


# -- text ---------------------------------------------------------------------------------------------------


def test_topics_facts():
    corpus = topics_char()
    text = corpus.decode(corpus.ids)
    known = corpus.hash.startswith(CPYTHON_3_11)
    slack = 5e-5 if known else 0.1  # half a unit of the last digit printed; other versions are alike
    unigram = entropy(text)
    assert unigram == pytest.approx(3.2450, abs=slack)
    assert entropy(pairwise(text)) - unigram == pytest.approx(2.4564, abs=slack)
    assert corpus.vocab == 96
    assert (corpus.symbols[0], corpus.symbols[1], corpus.symbols[95]) == ("\n", " ", "~")
    if known:
        assert len(corpus.ids) == 465_173
        assert len(set(text)) == 94


def test_topics_are_the_manual():
    from pydoc_data.topics import topics

    corpus, raw = topics_char(), "\n\n".join(topics.values())
    if corpus.hash.startswith(CPYTHON_3_11):
        assert (len(topics), len(raw)) == (79, 465_126)
    assert np.array_equal(corpus.encode(raw), corpus.ids)
    assert corpus.cut == int(0.9 * len(corpus.ids))
    assert corpus.decode(corpus.train) + corpus.decode(corpus.validation) == corpus.decode(corpus.ids)


@pytest.mark.slow
def test_byte_pairs_facts():
    corpus, characters = topics_bpe(), topics_char()
    known = corpus.hash.startswith(CPYTHON_3_11)
    assert corpus.vocab == len(set(corpus.symbols)) == 512
    assert corpus.decode(corpus.ids) == characters.decode(characters.ids)
    assert np.array_equal(corpus.encode(corpus.decode(corpus.ids)), corpus.ids)
    assert corpus.characters_per_token == pytest.approx(2.4994, abs=5e-5 if known else 0.1)
    assert 0 <= characters.cut - len(corpus.decode(corpus.train)) < 20  # within a token of nine tenths
    if known:
        assert len(corpus.ids) == 186_112


def test_mapping_to_ascii():
    corpus = text_corpus("‘a’ “b” … — – ß 90° é\tñ\n" + "x" * 9)
    assert corpus.decode(corpus.ids) == "'a' \"b\" ... - - ss 90 deg ? ?".replace("? ?", "???\n") + "x" * 9
    assert corpus.encode("\n ~").tolist() == [0, 1, 95]


def slow_merges(text, count):
    """Byte pairs by counting everything again for each merge."""
    import re

    words = [[0 if c == "\n" else ord(c) - 31 for c in word] for word in re.findall(r" ?\S+|\s+", text)]
    merges = []
    for new in range(96, 96 + count):
        pairs = collections.Counter(pair for word in words for pair in pairwise(word))
        best = max(pairs.values())
        pair = min(pair for pair in pairs if pairs[pair] == best)
        merges.append(pair)
        for word in words:
            i = 0
            while i < len(word) - 1:
                if (word[i], word[i + 1]) == pair:
                    word[i : i + 2] = [new]
                i += 1
    return tuple(merges), [i for word in words for i in word]


@given(st.text("aab \n", min_size=20, max_size=60), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_byte_pairs_equal_a_plain_loop(text, count):
    try:
        expected = slow_merges(text, count)
    except ValueError:  # no pair is left
        with pytest.raises(ValueError, match="no pair is left"):
            text_corpus(text, vocab=96 + count)
        return
    corpus = text_corpus(text, vocab=96 + count)
    assert (corpus.merges, corpus.ids.tolist()) == expected
    assert corpus.encode(text).tolist() == corpus.ids.tolist()
    assert corpus.decode(corpus.ids) == text


def test_text_windows():
    corpus = topics_char()
    x, y = corpus.batches(16, 128)(np.random.default_rng(3))
    starts = np.random.default_rng(3).integers(0, corpus.cut - 128, size=16)
    assert x.shape == y.shape == (16, 128)
    assert np.array_equal(x[5], corpus.ids[starts[5] : starts[5] + 128])
    assert np.array_equal(y[5], corpus.ids[starts[5] + 1 : starts[5] + 129])
    x, y = corpus.windows(128)
    starts = np.random.default_rng(1).integers(0, len(corpus.validation) - 128, size=64)
    assert np.array_equal(x[9], corpus.ids[corpus.cut + starts[9] : corpus.cut + starts[9] + 128])
    assert np.array_equal(x[:, 1:], y[:, :-1])
    assert x.flags.writeable
    assert not corpus.ids.flags.writeable
    batches = corpus.batches()
    assert (batches.corpus_hash, batches.tokenizer) == (corpus.hash, "topics_char")


@pytest.mark.parametrize("length", [1, 17])
def test_windows_reach_both_ends_and_no_further(length):
    corpus = text_corpus("abcdefghijklmnopqrst")  # 18 for training
    x, y = corpus.batches(400, length)(np.random.default_rng(0))
    assert x.min() == corpus.ids[0]
    assert y.max() == corpus.ids[17]


def test_texts_that_are_refused():
    with pytest.raises(ValueError, match="at least 20 characters, got 3"):
        text_corpus("abc")
    with pytest.raises(ValueError, match=r"vocab must be in 96\.\.32768, got 95"):
        text_corpus("a" * 30, vocab=95)
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        text_corpus(b"a" * 30)
    corpus = text_corpus("abcdefghijklmnopqrst")
    for wrong in ([-1], [3, 96]):
        with pytest.raises(ValueError, match=rf"ids must be in 0\.\.95, got {wrong[0]}\.\.{wrong[-1]}"):
            corpus.decode(wrong)
    with pytest.raises(ValueError, match="length must be below the 18 tokens"):
        corpus.batches(1, 18)
    with pytest.raises(ValueError, match="length must be below the 2 tokens"):
        corpus.windows(2)


# -- Markov -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "rate", "order1", "digits"),
    [(0, 1.596882267, 2.384733357, 5e-10), (1, 1.543343, 2.338530, 5e-7)],
)
def test_markov_oracle(seed, rate, order1, digits):
    corpus = markov(seed)
    assert corpus.entropy_rate == pytest.approx(rate, abs=digits)
    assert corpus.order1_loss == pytest.approx(order1, abs=digits)
    table = np.random.default_rng(seed).dirichlet(np.full(12, 0.3), size=(12, 12))
    assert np.array_equal(corpus.table, table)


@pytest.mark.parametrize("symbols", [2, 5, 12])
def test_pairs_are_stationary(symbols):
    corpus = markov(3, symbols=symbols)
    after = np.einsum("ab,abc->bc", corpus.pairs, corpus.table)
    assert np.abs(after - corpus.pairs).max() < 1e-13
    assert corpus.pairs.sum() == pytest.approx(1)
    power = np.full((symbols, symbols), symbols**-2.0)
    for _ in range(3000):
        power = np.einsum("ab,abc->bc", power, corpus.table)
    assert np.abs(power - corpus.pairs).max() < 1e-9
    assert corpus.entropy_rate < corpus.order1_loss < math.log(symbols)


def test_uniform_rows_have_a_uniform_law():
    corpus = markov(0, symbols=4, concentration=1e6)
    assert corpus.entropy_rate == pytest.approx(math.log(4), abs=1e-5)
    assert corpus.pairs == pytest.approx(np.full((4, 4), 1 / 16), abs=1e-3)


def test_texts_follow_the_chain():
    corpus = markov(0)
    text = corpus.sample(2000, 130, np.random.default_rng(0))
    a, b, c = text[:, :-2], text[:, 1:-1], text[:, 2:]
    surprise = -np.log(corpus.table[a, b, c]).mean(axis=1)  # one value a text: texts are independent
    error = surprise.std() / len(surprise) ** 0.5
    assert abs(surprise.mean() - corpus.entropy_rate) < 5 * error < 0.02
    counts = np.bincount(a[:, 0] * 12 + b[:, 0], minlength=144) / 2000
    expected = corpus.pairs.ravel()
    assert (np.abs(counts - expected) < 5.5 * np.sqrt(expected * (1 - expected) / 2000) + 1e-9).all()


def test_markov_batches():
    corpus = markov(0)
    x, y = corpus.batches(3, 7)(np.random.default_rng(0))
    assert x.shape == (3, 7)
    assert np.array_equal(x[:, 1:], y[:, :-1])
    fixed, again = corpus.windows(20), corpus.windows(20)
    assert fixed[0].shape == (64, 20)
    assert np.array_equal(fixed[0], again[0])
    assert corpus.batches(1, 1)(np.random.default_rng(0))[0].shape == (1, 1)
    assert markov(0).hash == corpus.hash != markov(1).hash


def test_chains_that_are_refused():
    with pytest.raises(ValueError, match=r"symbols must be in 2\.\.64, got 1"):
        markov(symbols=1)
    with pytest.raises(ValueError, match="concentration must be finite and > 0"):
        markov(concentration=0)


# -- relational ---------------------------------------------------------------------------------------------


def test_relational_kinds_differ_only_in_what_is_told():
    plain, unknown, distractor = (
        relational(kind, subjects=30, templates=7, per_subject=2, answers=5, seed=3)
        for kind in corpora.RELATIONAL
    )
    for corpus in (plain, unknown, distractor):
        assert np.array_equal(corpus.own, plain.own)
        assert np.array_equal(corpus.answers, plain.answers)
        assert (corpus.own.sum(axis=1) == 2).all()
        own = corpus.told[corpus.own].reshape(30, 2)
        assert (own == corpus.answers[:, None]).all()
        assert corpus.vocab == 30 + 7 + 1 + 5 + 1
    other = ~plain.own
    assert (plain.told[other] == -100).all()
    assert (unknown.told[other] == unknown.vocab - 1).all()
    wrong = distractor.told[other]
    assert ((wrong >= 38) & (wrong < 43)).all()
    assert (distractor.told != distractor.answers[:, None])[other].all()
    assert len({corpus.hash for corpus in (plain, unknown, distractor)}) == 3
    assert [len(c.facts()[0]) for c in (plain, unknown, distractor)] == [60, 210, 210]


def test_relational_examples():
    corpus = relational("unknown", subjects=30, templates=7, per_subject=2, answers=5, seed=3)
    x, y = corpus.facts()
    assert (y[:, 0] == -100).all()
    assert np.array_equal(y[:, 1], corpus.told[x[:, 0], x[:, 1] - 30])
    x, y = corpus.questions([4, 9])
    assert x.tolist() == [[4, 37], [9, 37]]
    assert y.tolist() == [[-100, corpus.answers[4]], [-100, corpus.answers[9]]]
    x, y = corpus.batches(50, subjects=[4, 9])(np.random.default_rng(0))
    assert set(x[:, 0].tolist()) == {4, 9}
    x, _ = corpus.batches(5000)(np.random.default_rng(0))
    assert len({tuple(row) for row in x.tolist()}) == 210


def test_coverage_follows_its_law():
    """A held-out fact meets n others with probability 1 - (C(N-M, M) / C(N, M))**n; here 91/100."""
    N, M, n = 5, 2, 2
    worlds = [
        relational(subjects=40, templates=N, per_subject=M, seed=s).covered(range(n)) for s in range(400)
    ]
    assert all(len(held_out) == 38 and held_out.min() == n for held_out, _ in worlds)
    shares = np.array([covered.mean() for _, covered in worlds])  # facts of one world are dependent
    expected = 1 - (math.comb(N - M, M) / math.comb(N, M)) ** n
    assert expected == pytest.approx(0.91)
    assert abs(shares.mean() - expected) < 4 * shares.std() / 20


def test_relations_that_are_refused():
    corpus = relational(subjects=3, templates=2)
    with pytest.raises(ValueError, match="no held-out fact: tuned has all 3 subjects"):
        corpus.covered([0, 1, 2])
    with pytest.raises(ValueError, match=r"subjects must be in 0\.\.2, got 0\.\.3"):
        corpus.questions([0, 3])
    with pytest.raises(ValueError, match=r"per_subject must be in 1\.\.12, got 13"):
        relational(per_subject=13)
    with pytest.raises(ValueError, match="kind must be one of 'plain', 'unknown', 'distractor'"):
        relational("noisy")
    held_out, covered = corpus.covered([])
    assert (len(held_out), covered.any()) == (3, False)


# -- digits -------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("patch", [1, 2, 4])
def test_digits(needs, patch):
    images = needs("sklearn.datasets").load_digits()
    corpus = corpora.digits_patches(5, patch=patch)
    order = np.random.default_rng(5).permutation(1797)
    n = 8 // patch
    assert corpus.train_x.shape == (1400, n * n, patch * patch)
    assert corpus.test_x.shape[0] == 397
    assert np.array_equal(corpus.train_y, images.target[order[:1400]])
    assert np.array_equal(corpus.test_y, images.target[order[1400:]])
    picture = images.images[order[17]] / 8 - 1
    for token, patch_pixels in enumerate(corpus.train_x[17]):
        row, column = divmod(token, n)
        expected = picture[row * patch : (row + 1) * patch, column * patch : (column + 1) * patch]
        assert np.array_equal(patch_pixels, expected.ravel().astype(np.float32))
    assert (corpus.train_x.min(), corpus.train_x.max()) == (-1, 1)
    x, y = corpus.batches(8)(np.random.default_rng(0))
    assert (x.shape, y.shape, x.dtype) == ((8, n * n, patch * patch), (8,), np.float32)
    assert corpus.hash == corpora.digits_patches(5, patch=patch).hash != corpora.digits_patches(6).hash
    assert corpus.windows()[0].flags.writeable
