import pytest

from penstock.hw.window.config import WindowConfig


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"depth": 24}, ValueError, "depth must be a power of two, not 24"),
        ({"depth": 1}, ValueError, "depth must be 2 to 1048576, not 1"),
        ({"depth": 64, "banks": 64}, ValueError, "depth must be 128 to 1048576, not 64"),
        ({"depth": "8"}, TypeError, "depth must be an integer, not '8'"),
        ({"depth": True}, TypeError, "depth must be an integer, not True"),
        ({"banks": 3}, ValueError, "banks must be a power of two, not 3"),
        ({"banks": 128}, ValueError, "banks must be 1 to 64, not 128"),
        ({"tests": 9}, ValueError, "tests must be 0 to 8, not 9"),
        ({"key_bits": 0}, ValueError, "key_bits must be 1 to 4096, not 0"),
        ({"key_bits": 65, "tests": 1}, ValueError, "key_bits must be 2 to 64, not 65"),
        ({"time_bits": 65}, ValueError, "time_bits must be 0 to 64, not 65"),
        ({"payload_a_bits": 0}, ValueError, "payload_a_bits must be 1 to 4096, not 0"),
        ({"payload_b_bits": 0}, ValueError, "payload_b_bits must be 1 to 4096, not 0"),
        ({"parallel": 1}, TypeError, "parallel must be a bool, not 1"),
        ({"outputs": 3}, ValueError, "outputs must be 1 to 2, not 3"),
        ({"memory_b": "bram"}, ValueError, "memory_b must be auto or uram, not 'bram'"),
        ({"records": 6}, ValueError, "records must be 7 to 1024, not 6"),
        ({"records": 7, "memory_a": "uram"}, ValueError, "records must be 8 to 1024, not 7"),
        ({"counter_bits": 65}, ValueError, "counter_bits must be 1 to 64, not 65"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        WindowConfig(**arguments)


def test_widths():
    equality = WindowConfig(key_bits=104)
    assert (equality.window_bits, equality.probe_bits) == (104, 104)
    band = WindowConfig(tests=3, key_bits=24)
    assert (band.window_bits, band.probe_bits) == (72, 144)
    assert (band.band.tests, band.band.key_bits) == (3, 24)
    banked = WindowConfig(depth=1 << 16, banks=64)
    assert (banked.slot_bits, banked.bank_bits) == (16, 6)


def test_round_cycles():
    one = WindowConfig(depth=1 << 16)
    assert [one.round_cycles(rows, 0) for rows in (0, 1, 65536)] == [2, 3, 65538]
    many = WindowConfig(depth=1 << 16, banks=64)
    assert [many.round_cycles(0, rows) for rows in (0, 1, 2, 66, 65536)] == [2, 3, 3, 4, 1026]
