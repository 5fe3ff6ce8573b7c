from __future__ import annotations

import json

import pytest

from braid.core.errors import CorruptError, LogError
from braid.log.sealed import check_format, seal, unseal

RECORD = {"format": 1, "text": "äöü", "numbers": [1, -(2**63), 2**64 - 1]}


def test_a_record_comes_back_and_its_file_is_plain_json():
    data = seal(RECORD)
    assert json.loads(unseal(data, "here")) == RECORD
    assert json.loads(data)["record"] == RECORD


def test_every_single_bit_counts():
    data = seal(RECORD)
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptError, match=r"the/file\.json"):
            unseal(bytes(damaged), "the/file.json")


def test_every_missing_or_added_byte_counts():
    data = seal(RECORD)
    for length in range(len(data)):
        with pytest.raises(CorruptError):
            unseal(data[:length], "here")
    with pytest.raises(CorruptError):
        unseal(data + b"\n", "here")


def test_a_newer_format_is_not_guessed_at():
    with pytest.raises(LogError, match="format 2"):
        check_format(2, "here")
