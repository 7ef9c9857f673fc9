"""What is generated from the registers, against text written by hand."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as xml

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import describe, table

CONFIG = KernelConfig.fit(JoinConfig(units=64, tests=6, key_bits=24))
DOCUMENT = Path(__file__).parents[3] / "docs" / "hardware" / "pipeline.md"

OFFSETS = {
    "CTRL": 0x00,
    "GIER": 0x04,
    "IP_IER": 0x08,
    "IP_ISR": 0x0C,
    "passes": 0x10,
    "tuples": 0x1C,
    "window": 0x28,
    "results": 0x34,
    "pass_count": 0x40,
    "tuple_count": 0x48,
    "window_count": 0x50,
    "result_words": 0x58,
    "table_0": 0x60,
    "table_1": 0x68,
    "status": 0xA0,
    "mode": 0xA8,
}


def test_table():
    described = table(CONFIG)
    assert {entry["name"]: entry["offset"] for entry in described["registers"]} == OFFSETS
    assert described["geometry"]["tuple_slot_bits"] == 512
    assert described["geometry"]["window_slot_bits"] == 256
    assert described["geometry"]["stream_key_bits"] == [24] * 12
    assert described["status"]["PAUSED"] == 1
    assert json.loads(json.dumps(described)) == described


def test_c_header():
    text = describe(CONFIG).c_header()
    for name, offset in OFFSETS.items():
        assert f"#define PENSTOCK_{name.upper()} 0x{offset:02X}u\n" in text
    assert "#define PENSTOCK_CTRL_AP_DONE (1u << 1)\n" in text
    assert "#define PENSTOCK_STATUS_READ_ERROR 7u\n" in text
    assert "#define PENSTOCK_HEADER_CYCLES 24u  /* 64 bits */\n" in text
    names = re.findall(r"#define (\w+) ", text)
    assert len(names) == len(set(names))


def test_kernel_xml():
    root = xml.fromstring(describe(CONFIG).kernel_xml())
    kernel = root.find("kernel")
    assert root.attrib == {"versionMajor": "1", "versionMinor": "6"}
    assert kernel.get("hwControlProtocol") == "ap_ctrl_hs"
    ports = {p.get("name"): (p.get("mode"), p.get("dataWidth")) for p in kernel.iter("port")}
    assert ports == {
        "s_axi_control": ("slave", "32"),
        **{f"m_axi_gmem{k}": ("master", "512") for k in range(3)},
    }
    found = [
        (a.get("name"), int(a.get("offset"), 16), a.get("addressQualifier"), a.get("port"))
        for a in kernel.iter("arg")
    ]
    assert found[0] == ("passes", 0x10, "1", "m_axi_gmem0")
    assert found[3] == ("results", 0x34, "1", "m_axi_gmem2")
    assert found[-2:] == [
        ("table_1", 0x68, "0", "s_axi_control"),
        ("mode", 0xA8, "0", "s_axi_control"),
    ]
    assert [a.get("id") for a in kernel.iter("arg")] == [str(k) for k in range(11)]


def test_documents_agree():
    assert describe(CONFIG).documentation() in DOCUMENT.read_text(encoding="utf-8")
