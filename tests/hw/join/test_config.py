import pytest

from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.hw.hls.delay import DelayModel
from penstock.hw.join.config import JoinConfig
from penstock.program import GeneralProgram, Mode
from penstock.types import FLOAT64, int_of

PAIRS = frozenset({Mode.PAIRS})
NO_VALUE = GeneralProgram((), (), ops.const(True))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"units": 1}, ValueError, "units must be 2 to 65536, not 1"),
        ({"units": "8"}, TypeError, "units must be an integer, not '8'"),
        ({"units": True}, TypeError, "units must be an integer, not True"),
        ({"units_per_block": 33}, ValueError, "units_per_block must be 1 to 32, not 33"),
        ({"key_bits": 1}, ValueError, "key_bits must be 2 to 64, not 1"),
        ({"tests": 9}, ValueError, "tests must be 0 to 8, not 9"),
        ({"spare_records": 0}, ValueError, "spare_records must be 1 to 65536, not 0"),
        ({"max_load_flits": 0}, ValueError, "max_load_flits must be 1 to 64, not 0"),
        ({"position_bits": 65}, ValueError, "position_bits must be 1 to 64, not 65"),
        ({"ordinal_bits": 0}, ValueError, "ordinal_bits must be 1 to 64, not 0"),
        ({"delays": 3}, TypeError, "delays must be a DelayModel, not 3"),
        ({"tests": 0}, ValueError, "exactly one of tests and program .* not 0 and None"),
        ({"tests": 0, "program": 5}, TypeError, "program must be a GeneralProgram, not 5"),
        ({"modes": {Mode.PAIRS}}, TypeError, "modes must be a frozenset of modes, not {.*}"),
        ({"modes": frozenset({Mode.SUM})}, ValueError, "modes must have PAIRS among them"),
        ({"modes": PAIRS | {Mode.SUM}}, ValueError, "value_bits must be given .* not 0"),
        ({"value_bits": 8}, ValueError, "value_bits must be given .* for no others, not 8"),
        ({"value_bits": 65}, ValueError, "value_bits must be 0 to 64, not 65"),
        (
            {"modes": PAIRS | {Mode.NEAREST}, "value_bits": 8},
            ValueError,
            "modes of a band build cannot have NEAREST among them",
        ),
        (
            {"tests": 0, "program": NO_VALUE, "modes": PAIRS | {Mode.MAX}},
            ValueError,
            "program must have a value for modes that fold one",
        ),
        (
            {"modes": PAIRS | {Mode.SUM}, "value_bits": 33},
            DeviceError,
            "a value of 33 bits is too wide to be summed.*",
        ),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        JoinConfig(**{"tests": 2, **arguments})


def test_a_program_that_cannot_be_built():
    dtype = FLOAT64.as_nullable(False)
    predicate = ops.lt(ops.key("s", 0, dtype), ops.key("w", 0, dtype))
    with pytest.raises(DeviceError, match="declare a fixed-point scale"):
        JoinConfig(program=GeneralProgram((dtype,), (dtype,), predicate))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lut_ps": 0}, "lut_ps must be positive, not 0"),
        ({"period_ps": 600}, "period_ps must leave room for a register and a LUT, not 600"),
    ],
)
def test_bad_delays(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        DelayModel(**arguments)
    with pytest.raises(TypeError, match="must be an integer"):
        DelayModel(**dict.fromkeys(arguments, 1.5))


def test_band_widths():
    config = JoinConfig(tests=2, key_bits=24, units=70)
    assert (config.window_bits, config.stream_bits) == (48, 96)
    assert (config.payload_bits, config.load_flits) == (48, 2)
    assert [len(config.units_of(block)) for block in range(config.blocks)] == [32, 32, 6]


def test_widths_with_aggregates():
    """A value travels beside the keys, and what is folded fits one flit."""
    config = JoinConfig(tests=1, key_bits=8, units=70, modes=PAIRS | {Mode.COUNT})
    assert (config.window_bits, config.stream_bits) == (8, 16)
    assert (config.payload_bits, config.part_bits, config.load_flits) == (32, 16, 1)
    modes = PAIRS | {Mode.SUM, Mode.MIN}
    config = JoinConfig(tests=2, key_bits=32, modes=modes, value_bits=32)
    assert (config.window_bits, config.stream_bits) == (96, 128)
    assert (config.payload_bits, config.part_bits, config.load_flits) == (65, 64, 2)
    assert JoinConfig(tests=2).folding is None


def test_general_widths():
    """A flit holds a window tuple, and as much of a stream tuple as two flits need."""
    narrow, wide = int_of(8, nullable=False), int_of(60, nullable=False)
    for stream, window, payload, flits in (
        ((narrow,), (narrow,), 8, 1),
        ((wide,), (narrow,), 30, 2),
        ((narrow,), (wide,), 60, 1),
        ((), (narrow,), 8, 1),
    ):
        keys = [ops.key("w", i, dtype) for i, dtype in enumerate(window)]
        program = GeneralProgram(stream, window, ops.lt(keys[0], ops.const(3)))
        config = JoinConfig(program=program)
        assert (config.payload_bits, config.load_flits) == (payload, flits)


def test_equal_builds_are_one_key():
    assert hash(JoinConfig(tests=2)) == hash(JoinConfig(tests=2))
    assert JoinConfig(tests=2) != JoinConfig(tests=3)
    with pytest.raises(ValueError, match="only a general program has a schedule"):
        _ = JoinConfig(tests=2).schedule
