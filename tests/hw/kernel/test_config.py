import pytest

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.layout import HEADER, Slots
from penstock.hw.kernel.registers import REGISTERS, RegisterMap, Table

JOIN = JoinConfig(units=8, tests=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"burst_words": 48}, "burst_words must be a power of two, 1 to 64, not 48"),
        ({"burst_words": 128}, "burst_words must be a power of two, 1 to 64, not 128"),
        ({"lane_records": 2}, "lane_records must be a power of two, 4 to 1024, not 2"),
        ({"read_words": 32}, "must hold a burst of 64 words, not 32 and 256"),
        (
            {"join": JoinConfig(units=8, tests=2, position_bits=16)},
            "position_bits must be 32, not 16",
        ),
        (
            {"join": JoinConfig(units=512, tests=2)},
            "ordinal_bits must be 31 for 16 blocks, not 32",
        ),
        ({"pipelines": 17}, "pipelines must be 1 to 16, not 17"),
        ({"pipelines": 16}, "ordinal_bits must be 31 for 16 blocks, not 32"),
        ({"lead_tuples": 24}, "lead_tuples must be a power of two, 4 to 1024, not 24"),
    ],
)
def test_bad_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        KernelConfig(**{"join": JOIN, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"join": "big"}, "join must be a JoinConfig, not 'big'"),
        ({"read_words": 512.0}, "read_words must be an integer, not 512.0"),
        ({"write_words": True}, "write_words must be an integer, not True"),
        ({"pipelines": "two"}, "pipelines must be an integer, not 'two'"),
    ],
)
def test_bad_kinds(arguments, message):
    with pytest.raises(TypeError, match=message):
        KernelConfig(**{"join": JOIN, **arguments})


@pytest.mark.parametrize(
    ("units", "per_block", "pipelines", "ordinal_bits"),
    [(8, 32, 1, 32), (256, 32, 1, 32), (288, 32, 1, 31), (90, 2, 1, 29), (256, 32, 3, 30)],
)
def test_records_name_every_block(units, per_block, pipelines, ordinal_bits):
    """Ordinal and number in the lane share 32 bits, and each block has a lane of its own number."""
    join = JoinConfig(units=units, units_per_block=per_block, tests=1)
    config = KernelConfig.fit(join, pipelines)
    assert config.units == units * pipelines
    assert config.join.ordinal_bits == ordinal_bits
    lanes = [config.blocks_of(lane) for lane in range(config.lanes)]
    assert sorted(block for lane in lanes for block in lane) == [*range(config.blocks)]
    assert max(map(len, lanes)) <= 1 << config.member_bits


@pytest.mark.parametrize(
    ("item_bits", "bits", "words", "per_word"),
    [(1, 8, 1, 64), (64, 64, 1, 8), (65, 128, 1, 4), (300, 512, 1, 1), (513, 1024, 2, 1)],
)
def test_slots(item_bits, bits, words, per_word):
    slots = Slots(item_bits)
    assert (slots.bits, slots.words, 1 << slots.per_word_log2) == (bits, words, per_word)


def test_the_header_is_a_word():
    assert sum(HEADER.values()) == 512


def test_registers_do_not_overlap():
    taken = set()
    registers = RegisterMap(REGISTERS, {Table.name: 8})
    for register in REGISTERS:
        for _, offset in registers.instances(register):
            words = {offset + 4 * word for word in range(register.bits // 32)}
            assert not words & taken
            taken |= words
        assert register.__doc__
