import pytest

from porism.sims.pattern import HeadRecord, HeadRecords


def test_alpha_is_a_probability():
    record = HeadRecord(0, 0, "sink1", 0.1, 0.9, 8 / 9, 0.01, 0.02, "none", "rows")
    records = HeadRecords((record,), 99, (84,), False, 0)
    assert (records.counts(), records.counts(adjusted=True)) == ({"sink1": 1}, {"none": 1})
    for bad in (5, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"^alpha must be in \[0, 1\]"):
            records.best(bad)
