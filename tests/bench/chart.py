"""Charts as SVG text: a row for each case, values along a common axis that begins at zero.

A row is {"label", "values", "wanted", "least"}: what was measured, pair by pair; the bar that was set for the median, None
where there is none; and whether it is a floor (True) or a ceiling."""

import math
import statistics
from xml.sax.saxutils import escape

WIDTH, LABELS, NUMBERS, ROW, HEAD, FOOT = 760, 210, 90, 24, 34, 30
MET, SHORT, PLAIN, WANTED = "#2e8b57", "#d2691e", "#5b7fa6", "#b00020"


def met(row):
    """Whether the median reaches what is wanted; None: nothing is."""
    if row["wanted"] is None:
        return None
    median = statistics.median(row["values"])
    return median >= row["wanted"] if row["least"] else median <= row["wanted"]


def color(row):
    return {None: PLAIN, True: MET, False: SHORT}[met(row)]


def nice_step(largest):
    """A round distance of grid lines, of which there are four to ten."""
    power = 10 ** math.floor(math.log10(largest / 4))
    return max(step * power for step in (1, 2, 5) if largest / (step * power) >= 4)


class Chart:
    def __init__(self, title, rows, form):
        self.rows, self.form, self.parts = rows, form, []
        self.height = HEAD + ROW * len(rows) + FOOT
        largest = max([*(value for row in rows for value in row["values"]), *(row["wanted"] or 0 for row in rows), 1e-9])
        self.step = nice_step(largest)
        self.end = self.step * math.ceil(largest / self.step)
        self.text(8, 20, title, size=14)
        for i in range(round(self.end / self.step) + 1):
            at = self.x(i * self.step)
            self.line(at, HEAD, at, self.height - FOOT, "#ddd")
            self.text(at, self.height - 12, f"{i * self.step:{form}}", anchor="middle", fill="#666")
        for i, row in enumerate(rows):
            self.text(LABELS - 8, self.middle(i) + 4, row["label"], anchor="end")

    def x(self, value):
        return LABELS + (WIDTH - LABELS - NUMBERS) * value / self.end

    @staticmethod
    def middle(i):
        return HEAD + ROW * i + ROW / 2

    def line(self, x1, y1, x2, y2, stroke, width=1, dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-width="{width}"{dashes}/>'
        )

    def text(self, x, y, text, size=12, anchor="start", fill="#222"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
        )

    def reference(self, value, row=None):
        """What values are held against: all, or those of a row."""
        top, bottom = (HEAD, self.height - FOOT) if row is None else (self.middle(row) - 11, self.middle(row) + 11)
        if value <= self.end:
            self.line(self.x(value), top, self.x(value), bottom, "#444" if row is None else WANTED, 1 if row is None else 3)

    def median_text(self, i, row):
        self.text(WIDTH - NUMBERS + 10, self.middle(i) + 4, f"{statistics.median(row['values']):{self.form}}", fill=color(row))

    def done(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" '
            f'viewBox="0 0 {WIDTH} {self.height}" font-family="sans-serif">'
        )
        return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *self.parts, "</svg>"]) + "\n"


def bars(title, rows, form, reference=1):
    """Medians as bars, ranges as whiskers, what is wanted as a red mark, and a line at `reference`."""
    chart = Chart(title, rows, form)
    for i, row in enumerate(rows):
        y, low, high = chart.middle(i), min(row["values"]), max(row["values"])
        end = chart.x(statistics.median(row["values"]))
        chart.parts.append(
            f'<rect x="{LABELS}" y="{y - 7:.1f}" width="{end - LABELS:.1f}" height="14" fill="{color(row)}" fill-opacity="0.75"/>'
        )
        chart.line(chart.x(low), y, chart.x(high), y, "#222")
        for value in (low, high):
            chart.line(chart.x(value), y - 4, chart.x(value), y + 4, "#222")
        if row["wanted"] is not None:
            chart.reference(row["wanted"], i)
        chart.median_text(i, row)
    chart.reference(reference)
    return chart.done()


def strips(title, rows, form, reference=1):
    """Each pair as a dot, the later the darker, the median as a mark, and what is wanted as a red one."""
    chart = Chart(title, rows, form)
    chart.reference(reference)
    for i, row in enumerate(rows):
        y, at, n = chart.middle(i), chart.x(statistics.median(row["values"])), len(row["values"])
        chart.line(at, y - 8, at, y + 8, color(row), 2)
        if row["wanted"] is not None:
            chart.reference(row["wanted"], i)
        for j, value in enumerate(row["values"]):
            opacity = 0.35 + 0.65 * (j + 1) / n
            chart.parts.append(
                f'<circle cx="{chart.x(value):.1f}" cy="{y:.1f}" r="3.5" fill="{color(row)}" fill-opacity="{opacity:.2f}"/>'
            )
        chart.median_text(i, row)
    return chart.done()
