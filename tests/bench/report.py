"""A day's report of a benchmark: DIR/NAME-DATE.json has every figure of every pair, .md a table, .svg files its charts.

It grows case by case, over several runs if need be: a case that is measured again takes the place of what was there. All else
is made from the JSON file each time. A record of it is a case (at least "name") with "pairs", and with what it was
measured by and when."""

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import chart

TOP = Path(__file__).resolve().parents[2]


def processor():
    said = subprocess.run(["lscpu", "-J"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    fields = {entry["field"].rstrip(":"): entry["data"] for entry in json.loads(said)["lscpu"]}
    words = [fields.get("Model name"), "family", fields.get("CPU family"), "model", fields.get("Model")]
    return " ".join(str(word) for word in words) + f", {fields.get('CPU(s)')} CPUs, Linux {platform.release()}"


def commit():
    said = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=TOP)
    return said.stdout.strip() or "unknown"


def spread(values, form):
    values = list(values)
    return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def wanted(row):
    """A row of a chart as cells of a table: the bar, and whether its median gets there."""
    return "–" if row["wanted"] is None else f"{'≥' if row['least'] else '≤'} {row['wanted']:.3g}"


def verdict(row):
    return {None: "–", True: "met", False: "short"}[chart.met(row)]


def table(head, rows):
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def parse_settings(words):
    """["numerics=int8"] as {"numerics": "int8"}"""
    return dict(word.split("=", 1) for word in words)


def choose(cases, prefixes, error):
    """Cases whose names begin with one of `prefixes`, all where there are none."""
    chosen = [case for case in cases if not prefixes or any(case["name"].startswith(prefix) for prefix in prefixes)]
    if not chosen:
        error("no such case; there are: " + ", ".join(case["name"] for case in cases))
    return chosen


def add_options(parser):
    parser.add_argument("--cases", action="append", metavar="PREFIX", help="run those whose name begins so; may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of weightd.conf; a variant")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--results", type=Path, help="folder of the day's report; without it, it is printed alone")
    parser.add_argument("--resume", action="store_true", help="leave cases alone that the report has with as many pairs")
    parser.add_argument("--render", action="store_true", help="measure nothing: write table and charts of the report again")


def check_options(parser, options):
    if options.render or options.resume:
        options.results or parser.error("--render and --resume need --results")
    if not options.render:
        options.peer or parser.error("--peer is needed to measure")
    if options.pairs < 1 or not all("=" in word for word in options.set):
        parser.error("--pairs is from 1 on, and --set wants KEY=VALUE")


class Day:
    def __init__(self, name, folder, order):
        """`order`: names of cases, as they are to be listed; others come after them."""
        self.stem = folder and folder / f"{name}-{datetime.date.today()}"
        self.order = order
        self.records = []
        if folder and self.file(".json").exists():
            self.records = json.loads(self.file(".json").read_text())

    def file(self, suffix):
        return self.stem.with_name(self.stem.name + suffix)

    def has(self, name, n_pairs):
        return any(record["name"] == name and len(record["pairs"]) >= n_pairs for record in self.records)

    def put(self, record):
        self.records = [other for other in self.records if other["name"] != record["name"]] + [record]
        known = {name: i for i, name in enumerate(self.order)}
        self.records.sort(key=lambda record: known.get(record["name"], len(known)))  # stable

    def write(self, text, charts):
        """`text`: the report up to its charts; `charts`: {name: (what it shows, SVG)}."""
        if not self.stem:
            return text
        for name, (title, svg) in charts.items():
            file = self.file(f"-{name}.svg")
            file.write_text(svg)
            text += f"\n![{title}]({file.name})\n"
        self.file(".md").write_text(text)
        part = self.file(".json.part")  # a run that is cut short leaves the old file or the new one
        part.write_text(json.dumps(self.records, indent=1) + "\n")
        part.rename(self.file(".json"))
        return text


class Progress:
    """Says on stderr what is measured, and about how long the rest takes."""

    def __init__(self, n_cases, n_pairs):
        self.n_cases, self.n_pairs = n_cases, n_pairs
        self.n_begun = self.n_done = 0
        self.began = time.monotonic()

    def begin(self, name):
        self.n_begun += 1
        self.n_done = (self.n_begun - 1) * self.n_pairs
        self.head = f"[{self.n_begun}/{self.n_cases}] {name}"
        print(f"{self.head}: warming up", file=sys.stderr)

    def pair(self, text):
        self.n_done += 1
        passed = time.monotonic() - self.began
        left = passed / self.n_done * (self.n_cases * self.n_pairs - self.n_done)
        number = (self.n_done - 1) % self.n_pairs + 1
        print(f"{self.head}, pair {number}/{self.n_pairs}: {text}   {left / 60:.0f} min left", file=sys.stderr)


def run(day, chosen, options, measure, describe):
    """Measures the cases one after the other, each into the report as soon as it is done. `measure(case, progress)` returns a
    record's own part, pairs above all; `describe(records)` the report's text and charts. Returns the text."""
    left = [case for case in chosen if not options.render and not (options.resume and day.has(case["name"], options.pairs))]
    progress = Progress(len(left), options.pairs)
    for case in left:
        progress.begin(case["name"])
        about = {"machine": processor(), "cpus": options.cpus, "threads": options.threads, "commit": commit()}
        day.put({**case, **about, "at": time.strftime("%F %H:%M"), **measure(case, progress)})
        day.write(*describe(day.records))
    return day.write(*describe(day.records)) if day.records else "nothing was measured\n"
