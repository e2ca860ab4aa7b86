#!/usr/bin/env python3
"""Writes build/bench.json as a table between the markers of README.md."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- bench:begin -->\n", "<!-- bench:end -->"


def number(x):
    return "–" if x is None else f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def main():
    entries = json.loads((ROOT / "build/bench.json").read_text())
    rows = ["| work | unit | Isotone | peer | | ratio | of the machine's limit |", "|---|---|---|---|---|---|---|"]
    before = None
    for e in entries:
        if e["ours"] is None or (e["peer_name"] and e["peer"] is None):
            continue
        again = e["work"] == before
        before = e["work"]
        rows.append(f"| {'' if again else e['work']} | {'' if again else e['unit']} | {'' if again else number(e['ours'])} | {number(e['peer'])} | "
                    f"{e['peer_name'] or ''} | **{e['ratio']:.2f}** | {'' if again or e['share_of_limit'] is None else format(e['share_of_limit'], '.0%')} |")
    path = ROOT / "README.md"
    head, rest = path.read_text().split(BEGIN)
    path.write_text(head + BEGIN + "\n".join(rows) + "\n" + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
