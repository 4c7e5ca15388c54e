/* Lines over the last minutes, as SVG; beside it what a person who does not see it gets: a sentence as its name, and a
 * table. Where nothing is known there is a gap, not a line. */

const WINDOW_MS = 5 * 60 * 1000;
const GAP_MS = 5000; /* between two samples: something was missing */

/* The next round number: of 1, 2 or 5 times a power of ten, of the unit where it is one of bytes. */
function roundUp(value, isBytes) {
  let scale = 1;
  if (isBytes) while (value / scale >= 1024) scale *= 1024;
  const power = Math.pow(10, Math.floor(Math.log10(Math.max(value / scale, 1))));
  const step = [1, 2, 5, 10].find(n => n * power * scale >= value) ?? 10;
  return step * power * scale;
}

function linePath(samples, pick, now, top) {
  let path = "", last = null;
  for (const sample of samples) {
    const value = pick(sample);
    if (value === null || value === undefined) {
      last = null;
      continue;
    }
    const x = 300 * (1 - (now - sample.at) / WINDOW_MS), y = 100 - 100 * value / top;
    path += `${last !== null && sample.at - last < GAP_MS ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    last = sample.at;
  }
  return path;
}

function summary(samples, pick) {
  const values = samples.map(pick).filter(value => value !== null && value !== undefined);
  if (!values.length) return null;
  return {now: values[values.length - 1], least: Math.min(...values), most: Math.max(...values),
          mean: values.reduce((a, b) => a + b, 0) / values.length};
}

/* `series`: [{name, style, pick(sample)}]; `format` gives a value its unit. Returns {element, draw(samples, now)}. */
function chart(title, series, format, isBytes) {
  const svg = makeSvg("svg", {viewBox: "0 0 300 100", preserveAspectRatio: "none", role: "img"});
  for (const y of [0, 50, 100]) svg.append(makeSvg("line", {x1: 0, x2: 300, y1: y, y2: y}));
  const paths = series.map(one => svg.appendChild(makeSvg("path", {class: one.style})));
  const top = make("span", {class: "top", "aria-hidden": "true"}), middle = make("span", {class: "middle", "aria-hidden": "true"});
  const values = series.map(() => make("strong"));
  const legend = make("ul", {class: "legend"}, ...series.map((one, i) =>
    make("li", {}, make("span", {class: `key-line ${one.style}`, "aria-hidden": "true"}), `${one.name} `, values[i])));
  const rows = series.map(one => {
    const cells = ["now", "least", "mean", "most"].map(() => make("td", {class: "number"}));
    return {element: make("tr", {}, make("th", {scope: "row"}, one.name), ...cells), cells};
  });
  const table = make("table", {}, make("caption", {class: "hidden"}, `${title}, the last five minutes`),
    make("thead", {}, make("tr", {}, ...["", "Now", "Least", "Mean", "Most"].map((name, i) =>
      i ? make("th", {scope: "col", class: "number"}, name) : make("td", {})))),
    make("tbody", {}, ...rows.map(row => row.element)));
  const heading = make("h3", {}, title);
  const element = make("figure", {class: "chart"}, heading, legend,
    make("div", {class: "plot"}, svg, top, middle),
    make("div", {class: "axis", "aria-hidden": "true"}, make("span", {}, "5 min ago"), make("span", {}, "now")),
    make("details", {}, make("summary", {}, "As a table", make("span", {class: "hidden"}, `: ${title}`)), table));
  function draw(samples, now) {
    const all = series.map(one => summary(samples, one.pick));
    const most = roundUp(Math.max(1, ...all.map(one => one?.most ?? 0)), isBytes);
    put(top, format(most));
    put(middle, format(most / 2));
    const said = series.map((one, i) => all[i] ? `${one.name} ${format(all[i].now)}, at most ${format(all[i].most)}` : `${one.name} unknown`);
    putAttribute(svg, "aria-label", `${title}, the last five minutes: ${said.join("; ")}`);
    series.forEach((one, i) => {
      putAttribute(paths[i], "d", linePath(samples, one.pick, now, most));
      put(values[i], format(all[i]?.now));
      ["now", "least", "mean", "most"].forEach((key, k) => put(rows[i].cells[k], format(all[i]?.[key])));
    });
  }
  return {element, heading, draw};
}
