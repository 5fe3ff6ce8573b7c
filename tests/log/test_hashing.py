from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.errors import SchemaError
from braid.log import hash_rows
from tests.log.keys import COLUMNS

GOLDEN = {
    "bool": [-6698625589789238999, 3614696996920510707, 42],
    "int8": [3614696996920510707, 2017008487422258757, 8632298611707923906, 4160238337661960656, 42],
    "int16": [3614696996920510707, 2017008487422258757, 8952525448871805501, -904511417458573795, 42],
    "int32": [3614696996920510707, 2017008487422258757, 1508894993788531228, 2073849959933241805, 42],
    "int64": [-5252525462095825812, 3858142552250413010, -3246596055638297850, -8619748838626508300, 42],
    "float": [
        3614696996920510707,
        3614696996920510707,
        6163473420726370430,
        2692338816207849720,
        -7580553461823983095,
        42,
    ],
    "double": [
        -5252525462095825812,
        -5252525462095825812,
        7738255526519901366,
        -3127944061524951246,
        5810986238603807492,
        42,
    ],
    "date": [2017008487422258757, 4183429117450946631, 42],
    "timestamp": [-9221344757539345515, -7036193023314737888, 42],
    "timestamp_ntz": [-7036193023314737888, 42],
    "duration": [-4689643654173594857, 42],
    "string": [
        -7444071767201028348,
        -8582455328737087284,
        1675867960567726058,
        7674411940659483319,
        1970519911039448685,
        -1716462135722163746,
        5202031258905353636,
        -8411362631970189001,
        -1616742550048217284,
        42,
    ],
    "binary": [-7444071767201028348, -8959994473701255385, 8193143745704273617, 5536689004903505647, 42],
    "decimal_short": [-5252525462095825812, -2573642654262063070, 2162198894918931945, 42],
    "decimal_long": [
        -8959994473701255385,
        -4006032525457443936,
        -5998106174972408993,
        6715097930120473301,
        -7898411661632158123,
        -6459515886037897956,
        2657851292443253618,
        -4045576785621496215,
        -47190729175993179,
        -2254039905620870768,
        42,
    ],
    "struct": [8510603489595372987, -5636050478767222463, -6698625589789238999, 42],
}
"""What Spark 4.3 gives for `xxhash64` of `COLUMNS`; `test_hashing_spark.py` compares with Spark itself."""


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_has_the_hash_that_spark_gives(name):
    assert hash_rows([COLUMNS[name]]).tolist() == GOLDEN[name]


@pytest.mark.parametrize("name", COLUMNS)
def test_slices_and_dictionaries_hash_like_the_whole(name):
    column = COLUMNS[name]
    assert hash_rows([column[1:]]).tolist() == GOLDEN[name][1:]
    assert hash_rows([column[1:-1][1:]]).tolist() == GOLDEN[name][2:-1]
    assert hash_rows([column[:0]]).tolist() == []
    if name != "struct":
        assert hash_rows([column.dictionary_encode()[1:]]).tolist() == GOLDEN[name][1:]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("string", pa.large_string()),
        ("string", pa.string_view()),
        ("string", pa.large_binary()),
        ("binary", pa.binary_view()),
        ("date", pa.date64()),
        ("timestamp", pa.timestamp("ns", "UTC")),
        ("duration", pa.duration("ns")),
        ("decimal_short", pa.decimal256(18, 2)),
        ("decimal_long", pa.decimal256(38, 0)),
    ],
)
def test_other_forms_of_the_same_values_hash_alike(name, kind):
    assert hash_rows([COLUMNS[name].cast(kind)]).tolist() == GOLDEN[name]


def test_widths_that_spark_lacks_hash_as_the_next_wider_one():
    assert hash_rows([pa.array([7], pa.uint8())]) == hash_rows([pa.array([7], pa.int32())])
    assert hash_rows([pa.array([7], pa.uint32())]) == hash_rows([pa.array([7], pa.int64())])
    assert hash_rows([pa.array([2**64 - 1], pa.uint64())]) == hash_rows([pa.array([-1], pa.int64())])
    assert hash_rows([pa.array([b"abcd"], pa.binary(4))]) == hash_rows([pa.array([b"abcd"])])


def test_columns_are_chained_and_null_changes_nothing():
    a, b = pa.array(["x", None, "x", None]), pa.array([1, 1, None, None])
    both = hash_rows([a, b])
    assert len(set(both.tolist())) == 4
    assert both[1] == hash_rows([b])[0]
    assert both[2] == hash_rows([a])[0]
    assert both[3] == 42
    assert hash_rows([a, pa.nulls(4)]).tolist() == hash_rows([a]).tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=12), st.binary(max_size=150)), min_size=1, max_size=30)
)
def test_bytes_hash_as_the_reference_does(values):
    expected = [42 if v is None else xxhash.xxh64_intdigest(v, seed=42) for v in values]
    assert hash_rows([pa.array(values, pa.binary())]).view(np.uint64).tolist() == expected


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([{"a": [1]}])])
def test_types_that_cannot_be_keys_are_refused(column):
    with pytest.raises(SchemaError, match=r"list<.*> cannot be a key"):
        hash_rows([column])


def test_a_key_needs_columns():
    with pytest.raises(SchemaError, match="at least one column"):
        hash_rows([])
