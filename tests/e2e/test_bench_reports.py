"""Reports of tests/bench: what a day's report keeps, and what its table and charts say. Nothing is measured."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import chart  # noqa: E402
import report  # noqa: E402


def row(label, values, wanted=None, least=True):
    return {"label": label, "values": values, "wanted": wanted, "least": least}


def describe(records):
    rows = [row(record["name"], record["pairs"], 2) for record in records]
    cells = [[r["label"], report.wanted(r), report.verdict(r)] for r in rows]
    return report.table(["case", "wanted", ""], cells) + "\n", {"ratios": ("ratios", chart.bars("Ratios", rows, ".2f"))}


class Options:
    cpus, threads, pairs, resume, render = "0", 1, 3, False, False


def run(folder, cases, values, options=Options):
    measured = []

    def measure(case, progress):
        measured.append(case["name"])
        for value in values:
            progress.pair(str(value))
        return {"pairs": values}

    day = report.Day("test", folder, ["a", "b", "c"])
    text = report.run(day, [{"name": name} for name in cases], options, measure, describe)
    return measured, text, day


def test_cases_of_several_runs_become_one_report(tmp_path):
    run(tmp_path, ["c", "a"], [1, 1, 4])
    measured, text, day = run(tmp_path, ["b", "a"], [2, 3, 4])
    assert measured == ["b", "a"]
    records = json.loads(day.file(".json").read_text())
    assert [(record["name"], record["pairs"]) for record in records] == [("a", [2, 3, 4]), ("b", [2, 3, 4]), ("c", [1, 1, 4])]
    assert all(record["commit"] and record["machine"] and record["at"] for record in records)
    lines = text.splitlines()
    assert lines[2:5] == ["| a | ≥ 2 | met |", "| b | ≥ 2 | met |", "| c | ≥ 2 | short |"]
    assert day.file(".md").read_text() == text
    assert f"({day.file('-ratios.svg').name})" in text and day.file("-ratios.svg").exists()


def test_what_is_there_is_not_measured_again(tmp_path):
    class Resumed(Options):
        resume = True

    run(tmp_path, ["a"], [1, 2, 3])
    run(tmp_path, ["b"], [1, 2])  # cut short: fewer pairs than are asked for
    assert run(tmp_path, ["a", "b", "c"], [5, 5, 5], Resumed)[0] == ["b", "c"]


def test_rendering_measures_nothing(tmp_path):
    class Rendered(Options):
        render = True

    _, text, day = run(tmp_path, ["a", "b"], [1, 2, 3])
    day.file(".md").unlink()
    assert run(tmp_path, ["a", "b"], [5, 5, 5], Rendered)[:2] == ([], text)
    assert day.file(".md").exists()


@pytest.mark.parametrize(
    "wanted, least, met", [(None, True, None), (2, True, True), (2.1, True, False), (2, False, True), (1.9, False, False)]
)
def test_the_median_is_held_against_the_bar(wanted, least, met):
    assert chart.met(row("x", [1, 2, 9], wanted, least)) is met


def shapes(svg, tag):
    return ElementTree.fromstring(svg).findall(f"{{http://www.w3.org/2000/svg}}{tag}")


@pytest.mark.parametrize("scale", [0.001, 1, 700])
def test_charts_are_drawn_to_scale_and_within_bounds(scale):
    rows = [row("<one> & only", [1 * scale, 2 * scale, 3 * scale]), row("b", [4 * scale], 3.5 * scale), row("c", [0])]
    svg = chart.bars("Bars", rows, ".3g", reference=scale)
    widths = [float(rect.get("width")) for rect in shapes(svg, "rect")[1:]]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2) and widths[2] == 0
    for line in shapes(svg, "line"):
        assert chart.LABELS <= float(line.get("x1")) <= float(line.get("x2")) <= chart.WIDTH - chart.NUMBERS + 0.1
    dots = shapes(chart.strips("Strips", rows, ".3g", reference=scale), "circle")
    assert len(dots) == 5
    at = [float(dot.get("cx")) for dot in dots]
    assert at[1] - at[0] == pytest.approx(at[2] - at[1], abs=0.2)
    assert "<one> & only" in [text.text for text in shapes(svg, "text")]


@pytest.mark.parametrize("name", ["compare", "serve"])
def test_the_reports_of_the_repository_are_what_their_figures_give(name, tmp_path):
    """The .md and .svg files are made, not edited."""
    import importlib.util
    from importlib.machinery import SourceFileLoader

    loader = SourceFileLoader(f"bench_{name}", str(BENCH / name))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(script)
    reports = sorted((BENCH / "results").glob(f"{name}-*.json"))
    assert reports
    for figures in reports:
        day = report.Day(name, tmp_path, [])
        day.stem = tmp_path / figures.stem
        day.records = json.loads(figures.read_text())
        day.write(*script.describe(day.records))
        for made in tmp_path.glob(f"{figures.stem}*"):
            assert made.read_text() == (BENCH / "results" / made.name).read_text(), made.name
