"""Run random queries: python -m tests.own_queries --mode tables --count 1000 --seed 0."""

import argparse
import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.own_queries.making import Maker
from tests.own_queries.running import count_reasons, verdict
from tests.own_queries.shrinking import report, shrink

SETS = 8  # data sets of each query


def main() -> None:
    """Run a range of seeds, and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="tables", choices=["tables", "streams", "workers"])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--decimals", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out", default="build/own_queries")
    parser.add_argument("--breaking", action="store_true", help="change one value of each result")
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    kinds: Counter = Counter()
    reasons: Counter = Counter()
    seen: Counter = Counter()
    began = time.monotonic()
    seed = args.seed
    for seed in range(args.seed, args.seed + args.count):
        if time.monotonic() - began > args.seconds:
            break
        case = Maker(seed // SETS, args.mode, args.decimals).case()
        if seed % SETS:
            rnd = Random(seed)
            data = {n: d.mixed(rnd, args.mode != "tables") for n, d in case.data.items()}
            case = replace(case, data=data)
        what, why = verdict(case, seed, args.breaking)
        kinds[what] += 1
        if what == "refused":
            count_reasons(reasons, why)
        elif what != "rows" and not args.breaking:
            family = f"{what}: " + (why.strip().split("\n")[-1] if what == "error" else why)[:60]
            seen[family] += 1
            path = out / f"{args.mode}{'d' if args.decimals else ''}{seed}.txt"
            print(f"seed {seed}: {family}", flush=True)
            path.write_text(report(shrink(case, seed, what), seed))
    line = {
        "mode": args.mode,
        "decimals": args.decimals,
        "seeds": [args.seed, seed],
        "verdicts": kinds,
    }
    line |= {"reasons": reasons.most_common(), "seconds": round(time.monotonic() - began)}
    with (out / "ledger.jsonl").open("a") as ledger:
        ledger.write(json.dumps(line) + "\n")
    print(dict(kinds), f"{time.monotonic() - began:.0f} s")
    for reason, count in reasons.most_common(60):
        print(count, reason)


if __name__ == "__main__":
    main()
