"""Tables that the queries of this folder are asked about, always the same."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

TS = pa.timestamp("us", tz="UTC")
BASE = dt.datetime(2024, 5, 6, 8, 0, 0, tzinfo=dt.UTC)


def _at(seconds):
    return [
        None if s is None else BASE + dt.timedelta(microseconds=round(float(s) * 1e6))
        for s in seconds
    ]


def _dec(values, places):
    return [None if v is None else Decimal(int(v)).scaleb(-places) for v in values]


def _holes(rng, values, share):
    return [None if rng.random() < share else v for v in values]


def _pick(rng, choices, n):
    return [choices[i] for i in rng.integers(0, len(choices), n)]


def _table(**cols):
    return pa.table({k: pa.array(v, type=ty) for k, (v, ty) in cols.items()})


def tables():
    rng = np.random.default_rng(20240506)
    S, I4, I8, F8, B = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()
    out = {}

    # rides: requests of riders; cabs: position pings of cabs (lon, lat in a city)
    n = 150
    t = np.sort(rng.integers(0, 9000, n))
    t[10] = t[11]
    t[50] = t[51] = t[52]
    out["rides"] = _table(
        ride_id=(np.arange(1, n + 1), I8),
        rider=(
            _holes(
                rng,
                _pick(
                    rng,
                    [
                        "Ada",
                        "bob ",
                        "Carl",
                        " dora",
                        "Eve",
                        "MÜLLER",
                        "Zoë",
                        "Strauß",
                        "ivan",
                        "Judy",
                    ],
                    n,
                ),
                0.06,
            ),
            S,
        ),
        district=(_pick(rng, ["Mitte", "Kreuzberg", "Pankow", "Wedding"], n), S),
        lon=(np.round(rng.uniform(13.30, 13.50, n), 5), F8),
        lat=(np.round(rng.uniform(52.45, 52.57, n), 5), F8),
        fare=(_holes(rng, _dec(rng.integers(450, 6500, n), 2), 0.08), pa.decimal128(8, 2)),
        passengers=(rng.integers(1, 6, n), I4),
        vip=(_holes(rng, [bool(x) for x in rng.random(n) < 0.25], 0.05), B),
        t=(_at(t), TS),
    )
    n = 260
    t = np.sort(rng.integers(0, 9000, n))
    t[5] = t[6]
    t[100] = t[101]
    cab = rng.integers(1, 31, n)
    names = [
        "Anna K.",
        "bo li",
        "  Chen Wu",
        "D'Angelo",
        "émile zola",
        "Farid ",
        "GUS",
        "heidi-m",
        "Ivo",
        "Jürgen",
    ]
    out["cabs"] = _table(
        ping_id=(np.arange(1, n + 1), I8),
        cab_id=(cab, I4),
        driver=([names[c % 10] for c in cab], S),
        plate=([f"B-{'XYZ'[c % 3]}{'KLMN'[c % 4]} {1000 + 37 * int(c)}" for c in cab], S),
        seats=([int(4 + 2 * (c % 3 == 0)) for c in cab], I4),
        free=([bool(x) for x in rng.random(n) < 0.7], B),
        lon=(np.round(rng.uniform(13.30, 13.50, n), 5), F8),
        lat=(np.round(rng.uniform(52.45, 52.57, n), 5), F8),
        t=(_at(t), TS),
    )

    # trades, quotes
    syms = ["AAPL", "MSFT", "GOOG", "TSLA", "NVDA"]
    mid0 = {"AAPL": 182.0, "MSFT": 407.0, "GOOG": 168.0, "TSLA": 184.0, "NVDA": 905.0}
    n = 300
    t = np.sort(np.round(rng.uniform(0, 3600, n), 3))
    t[20] = t[21]
    t[200] = t[201]
    sy = _pick(rng, syms, n)
    mid = {s: mid0[s] for s in syms}
    bid, ask = [], []
    for s in sy:
        mid[s] = round(mid[s] * (1 + float(rng.normal(0, 0.001))), 2)
        bid.append(round(mid[s] - float(rng.integers(1, 6)) / 100, 2))
        ask.append(round(mid[s] + float(rng.integers(1, 6)) / 100, 2))
    out["quotes"] = _table(
        quote_id=(np.arange(1, n + 1), I8),
        sym=(sy, S),
        bid=(_holes(rng, bid, 0.03), F8),
        ask=(ask, F8),
        bsize=(rng.integers(0, 12, n) * 100, I4),
        asize=(rng.integers(0, 12, n) * 100, I4),
        t=(_at(t), TS),
    )
    n = 150
    t = np.sort(np.round(rng.uniform(60, 3600, n), 3))
    t[30] = t[31]
    sy = _pick(rng, [*syms, "IBM"], n)
    px = [round((mid0.get(s, 166.0)) * (1 + float(rng.normal(0, 0.004))), 2) for s in sy]
    out["trades"] = _table(
        trade_id=(np.arange(1, n + 1), I8),
        sym=(sy, S),
        px=(px, F8),
        qty=(rng.integers(1, 40, n) * 10, I4),
        side=(_pick(rng, ["B", "S"], n), S),
        venue=(_holes(rng, _pick(rng, ["XNAS", "XNYS", "BATS"], n), 0.1), S),
        t=(_at(t), TS),
    )

    # users, impressions, clicks
    n = 60
    users = [f"u{i:03d}" for i in range(1, n + 1)]
    out["users"] = _table(
        usr=(users, S),
        country=(_holes(rng, _pick(rng, ["DE", "FR", "US", "us", "GB"], n), 0.05), S),
        signup=(
            [dt.date(2022, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 850, n)],
            pa.date32(),
        ),
        email=(
            [f"{u}@{'mail.example' if i % 3 else 'Corp.Example'}" for i, u in enumerate(users)],
            S,
        ),
        premium=([bool(x) for x in rng.random(n) < 0.3], B),
    )
    n = 200
    t = np.sort(rng.integers(0, 10800, n))
    t[40] = t[41]
    t[90] = t[91]
    iad = rng.integers(1, 16, n)
    iu = [None if rng.random() < 0.04 else users[i] for i in rng.integers(0, 45, n)]
    out["impressions"] = _table(
        imp_id=(np.arange(1001, 1001 + n), I8),
        ad_id=(iad, I4),
        usr=(iu, S),
        site=(
            _pick(rng, ["news.example", "Sport.example", "blog.example", "www.shop.example"], n),
            S,
        ),
        cost=(_dec(rng.integers(10, 900, n), 4), pa.decimal128(10, 4)),
        t=(_at(t), TS),
    )
    rows = []
    for k in rng.permutation(n)[:110]:
        rows.append((int(iad[k]), iu[k], int(t[k]) + int(rng.exponential(700))))
    for _ in range(45):
        rows.append(
            (int(rng.integers(1, 18)), users[int(rng.integers(0, 60))], int(rng.integers(0, 12000)))
        )
    rows.sort(key=lambda r: r[2])
    rows[12] = (rows[12][0], rows[12][1], rows[13][2])
    m = len(rows)
    src = _pick(rng, ["google", "bing", "news+letter", "Facebook"], m)
    out["clicks"] = _table(
        click_id=(np.arange(1, m + 1), I8),
        ad_id=([r[0] for r in rows], I4),
        usr=([r[1] for r in rows], S),
        url=(
            [
                f"https://shop.example/p/{int(p)}?utm_source={s}&utm_campaign=spring{int(p) % 3}"
                if rng.random() > 0.12
                else f"http://shop.example/cart/{int(p)}"
                for p, s in zip(rng.integers(100, 140, m), src, strict=False)
            ],
            S,
        ),
        t=(_at([r[2] for r in rows]), TS),
    )

    # orders, payments, shipments
    n = 120
    t = np.sort(rng.integers(0, 28800, n))
    t[7] = t[8]
    t[70] = t[71]
    amount = rng.integers(500, 30000, n)
    out["orders"] = _table(
        order_id=(np.arange(5001, 5001 + n), I8),
        usr=([users[i] for i in rng.integers(0, 40, n)], S),
        product=(
            _pick(
                rng,
                ["SKU-0042-blue", "SKU-0042-red", "SKU-0107-XL", "sku-0200-green", "GIFT CARD"],
                n,
            ),
            S,
        ),
        amount=(_dec(amount, 2), pa.decimal128(10, 2)),
        items=(rng.integers(1, 7, n), I4),
        ship_to=(
            _holes(
                rng,
                _pick(
                    rng,
                    [
                        "10115 Berlin, DE",
                        "75001 Paris, FR",
                        "SW1A London, GB",
                        "10001 New York, US",
                        "80331 München, DE",
                    ],
                    n,
                ),
                0.05,
            ),
            S,
        ),
        t=(_at(t), TS),
    )
    rows = []
    for i in range(n):
        for _ in range(int(rng.choice([0, 1, 1, 1, 1, 2]))):
            a = (
                int(amount[i])
                if rng.random() < 0.85
                else int(amount[i]) + int(rng.integers(-300, 300))
            )
            rows.append(
                (5001 + i, a, int(t[i]) + int(rng.exponential(1500)), bool(rng.random() < 0.85))
            )
    for _ in range(8):
        rows.append((None, int(rng.integers(500, 30000)), int(rng.integers(0, 28800)), True))
    rows.sort(key=lambda r: r[2])
    m = len(rows)
    out["payments"] = _table(
        pay_id=(np.arange(1, m + 1), I8),
        order_id=([r[0] for r in rows], I8),
        method=(_holes(rng, _pick(rng, ["card", "PayPal", "CARD", "sepa", "invoice"], m), 0.05), S),
        paid=(_dec([max(r[1], 100) for r in rows], 2), pa.decimal128(10, 2)),
        ok=([r[3] for r in rows], B),
        t=(_at([r[2] for r in rows]), TS),
    )
    rows = []
    for i in range(n):
        if rng.random() < 0.85:
            rows.append((5001 + i, int(t[i]) + int(rng.integers(600, 21600))))
        if rng.random() < 0.12:
            rows.append((5001 + i, int(t[i]) + int(rng.integers(600, 28800))))
    rows.sort(key=lambda r: r[1])
    m = len(rows)
    out["shipments"] = _table(
        ship_id=(np.arange(1, m + 1), I8),
        order_id=([r[0] for r in rows], I8),
        carrier=(_pick(rng, ["DHL", "dpd", "UPS ", "Hermes"], m), S),
        weight=(_holes(rng, [float(x) for x in np.round(rng.uniform(0.1, 12, m), 2)], 0.06), F8),
        promised=(
            [dt.date(2024, 5, 7) + dt.timedelta(days=int(d)) for d in rng.integers(0, 5, m)],
            pa.date32(),
        ),
        t=(_at([r[1] for r in rows]), TS),
    )

    # readings of sensors, alerts, room bookings (intervals), rooms' limits are in alerts
    rooms = ["A-101", "A-102", "B-201", "B-202", "C-301", "C-302"]
    n = 300
    t = np.sort(rng.integers(0, 7200, n))
    t[33] = t[34]
    t[150] = t[151]
    sid = rng.integers(1, 13, n)
    temp = np.round(20 + 3 * np.sin(t / 900.0) + rng.normal(0, 1.2, n), 2)
    out["readings"] = _table(
        reading_id=(np.arange(1, n + 1), I8),
        sensor_id=(sid, I4),
        room=([rooms[s % 6] for s in sid], S),
        temp=(_holes(rng, [float(x) for x in temp], 0.05), F8),
        hum=(_holes(rng, [float(x) for x in np.round(rng.uniform(25, 75, n), 1)], 0.1), F8),
        t=(_at(t), TS),
    )
    n = 70
    t = np.sort(rng.integers(0, 7200, n))
    t[9] = t[10]
    out["alerts"] = _table(
        alert_id=(np.arange(1, n + 1), I8),
        room=(_pick(rng, [*rooms, "D-999"], n), S),
        severity=(rng.integers(1, 5, n), I4),
        msg=(
            _holes(
                rng,
                _pick(
                    rng,
                    [
                        "door open",
                        "TEMP high: 25C",
                        "temp high: 31C",
                        "motion",
                        "smoke? code=E42",
                        "battery low",
                    ],
                    n,
                ),
                0.04,
            ),
            S,
        ),
        t=(_at(t), TS),
    )
    n = 90
    start = np.sort(rng.integers(0, 24, n) * 300)
    end = start + rng.integers(1, 9, n) * 300
    out["bookings"] = _table(
        booking_id=(np.arange(1, n + 1), I8),
        room=(_pick(rng, rooms, n), S),
        owner=([users[i] for i in rng.integers(0, 20, n)], S),
        seats=(rng.integers(2, 30, n), I4),
        t0=(_at(start), TS),
        t1=(_holes(rng, _at(end), 0.05), TS),
    )

    # dns answers and connections
    n = 130
    t = np.sort(np.round(rng.uniform(0, 3600, n), 6))
    t[14] = t[15]
    client = [
        f"10.0.{a}.{b}" for a, b in zip(rng.integers(1, 4, n), rng.integers(1, 13, n), strict=False)
    ]
    doms = [
        "cdn.example.com",
        "API.example.com",
        "evil-c2.test",
        "mail.example.org",
        "x7f3k9q2.dga.test",
        "www.example.net.",
    ]
    qn = _pick(rng, doms, n)
    ans = [
        None if rng.random() < 0.07 else f"203.0.{113 + doms.index(q) % 2}.{int(a)}"
        for q, a in zip(qn, rng.integers(1, 20, n), strict=False)
    ]
    out["dns"] = _table(
        dns_id=(np.arange(1, n + 1), I8),
        client=(client, S),
        query=(qn, S),
        answer=(ans, S),
        ttl=(rng.choice([30, 60, 300], n), I4),
        t=(_at(t), TS),
    )
    rows = []
    for k in rng.permutation(n)[:100]:
        if ans[k] is not None:
            rows.append((client[k], ans[k], float(t[k]) + float(rng.exponential(25))))
    for _ in range(70):
        rows.append(
            (
                f"10.0.{int(rng.integers(1, 4))}.{int(rng.integers(1, 13))}",
                f"203.0.{113 + int(rng.integers(0, 2))}.{int(rng.integers(1, 20))}",
                float(rng.uniform(0, 3700)),
            )
        )
    rows.sort(key=lambda r: r[2])
    m = len(rows)
    out["conns"] = _table(
        conn_id=(np.arange(1, m + 1), I8),
        src=([r[0] for r in rows], S),
        dst=([r[1] for r in rows], S),
        dport=(rng.choice([80, 443, 22, 8443, 53], m), I4),
        bytes=(rng.integers(0, 5_000_000, m), I8),
        t=(_at([round(r[2], 6) for r in rows]), TS),
    )

    # zones: a grid of boxes over the city (dimension table)
    lon0 = [round(13.30 + 0.025 * i, 3) for i in range(8) for _ in range(8)]
    lat0 = [round(52.45 + 0.015 * j, 3) for _ in range(8) for j in range(8)]
    n = 64
    out["zones"] = _table(
        zone_id=(np.arange(1, n + 1), I4),
        name=([f"Z{i // 8}{i % 8}" for i in range(n)], S),
        lon0=(lon0, F8),
        lon1=([round(x + 0.025, 3) for x in lon0], F8),
        lat0=(lat0, F8),
        lat1=([round(y + 0.015, 3) for y in lat0], F8),
        surcharge=(_dec(rng.integers(0, 400, n), 2), pa.decimal128(6, 2)),
    )
    return out
