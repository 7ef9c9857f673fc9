import pytest

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import REGISTERS, TABLE
from penstock.hw.join.kernel.layout import HEADER
from penstock.hw.kernel.registers import RegisterMap
from penstock.hw.kernel.slots import Slots

JOIN = JoinConfig(units=8, tests=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"burst_words": 48}, "burst_words must be a power of two, 1 to 64, not 48"),
        ({"burst_words": 128}, "burst_words must be a power of two, 1 to 64, not 128"),
        ({"word_bits": 64, "burst_words": 512}, "a power of two, 1 to 256, not 512"),
        ({"word_bits": 32}, "word_bits must be one of 64, 128, 256, 512, not 32"),
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
    ("units", "per_block", "pipelines", "word_bits", "ordinal_bits"),
    [
        (8, 32, 1, 512, 32),
        (256, 32, 1, 512, 32),
        (256, 32, 1, 64, 29),
        (288, 32, 1, 512, 31),
        (90, 2, 1, 512, 29),
        (256, 32, 3, 512, 30),
        (256, 32, 3, 128, 28),
    ],
)
def test_records_name_every_block(units, per_block, pipelines, word_bits, ordinal_bits):
    """Ordinal and number in the lane share 32 bits, and each block has a lane of its own number."""
    join = JoinConfig(units=units, units_per_block=per_block, tests=1)
    config = KernelConfig.fit(join, pipelines, word_bits)
    assert config.units == units * pipelines
    assert config.join.ordinal_bits == ordinal_bits
    lanes = [config.blocks_of(lane) for lane in range(config.used_lanes)]
    assert sorted(block for lane in lanes for block in lane) == [*range(config.blocks)]
    assert max(map(len, lanes)) <= 1 << config.member_bits


@pytest.mark.parametrize(
    ("item_bits", "word_bits", "bits", "words", "per_word"),
    [
        (1, 512, 8, 1, 64),
        (64, 512, 64, 1, 8),
        (65, 512, 128, 1, 4),
        (300, 512, 512, 1, 1),
        (513, 512, 1024, 2, 1),
        (64, 64, 64, 1, 1),
        (65, 64, 128, 2, 1),
        (130, 64, 192, 3, 1),
        (40, 128, 64, 1, 2),
    ],
)
def test_slots(item_bits, word_bits, bits, words, per_word):
    slots = Slots(item_bits, word_bits)
    assert (slots.bits, slots.words, 1 << slots.per_word_log2) == (bits, words, per_word)


def test_the_header_fills_its_place():
    assert sum(HEADER.values()) == 512


def test_registers_do_not_overlap():
    taken = set()
    registers = RegisterMap(REGISTERS, {TABLE.name: 8})
    for register in registers.registers:
        for _, offset in registers.instances(register):
            words = {offset + 4 * word for word in range(register.bits // 32)}
            assert not words & taken
            taken |= words
        assert register.text
