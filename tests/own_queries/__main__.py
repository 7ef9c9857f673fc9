"""Run random queries: python -m tests.own_queries --mode tables --count 1000 --seed 0."""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from tests.own_queries.making import case_of
from tests.own_queries.running import reason, verdict
from tests.own_queries.shrinking import report, shrink


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
        case = case_of(seed, args.mode, args.decimals)
        what, why = verdict(case, seed, args.breaking)
        kinds[what] += 1
        if what == "refused":
            reasons[reason(why)] += 1
            if reasons[reason(why)] == 1:
                with (out / "refusals.txt").open("a") as examples:
                    examples.write(f"{args.mode} {seed} {why}\n  {case.query.sql()}\n")
        elif what != "rows" and not args.breaking:
            family = f"{what}: " + (why.strip().split("\n")[-1] if what == "error" else why)[:60]
            seen[family] += 1
            path = out / f"{args.mode}{'d' if args.decimals else ''}{seed}.txt"
            sys.stdout.write(f"seed {seed}: {family}\n")
            sys.stdout.flush()
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
    sys.stdout.write(f"{dict(kinds)} {time.monotonic() - began:.0f} s\n")
    for text, count in reasons.most_common(60):
        sys.stdout.write(f"{count} {text}\n")


if __name__ == "__main__":
    main()
