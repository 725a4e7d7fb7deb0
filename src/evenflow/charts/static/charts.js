/* Charts of evenflow's pages on uPlot: axes from zero, values on hover and by arrow keys, a table and the
   JSON behind every picture. Texts are set as text, never as HTML. */
"use strict";
const evenflowCharts = (() => {
  const DASHES = [[], [6, 4], [2, 3], [9, 3, 2, 3], [12, 4], [4, 2], [1, 2], [7, 2, 1, 2]];
  const live = new Set();

  function make(tag, options = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "text") element.textContent = value;
      else if (name === "class") element.className = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const seriesColour = (series, index) => colour(`--c${(series.colour ?? index) % 8}`);

  function number(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    if (Number.isInteger(value)) return value.toLocaleString("en");
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    if (size !== 0 && size < 0.001) return value.toExponential(2);
    return value.toLocaleString("en", { maximumSignificantDigits: 4 });
  }

  function short(value) {
    const size = Math.abs(value);
    for (const [limit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= limit) return `${+(value / limit).toPrecision(3)}${letter}`;
    if (size && size < 0.001) return (+value.toPrecision(3)).toExponential();
    return `${+value.toPrecision(3)}`;
  }

  const moment = (seconds) => new Date(seconds * 1000).toLocaleString("sv", { hour12: false });

  /* 24-hour ticks; the first one, and the first of a day, also has the date. */
  function clock(_, ticks, __, ___, step) {
    let before = "";
    return ticks.map((tick) => {
      const [day, time] = moment(tick).split(" ");
      const shown = step >= 86400 ? "" : time.slice(0, step >= 60 ? 5 : 8);
      const date = day === before ? "" : day;
      before = day;
      return shown && date ? `${shown}\n${date}` : shown || date;
    });
  }

  function table(columns, rows) {
    const body = make("tbody");
    for (const row of rows) {
      const line = make("tr");
      for (const cell of row)
        line.append(typeof cell === "number"
          ? make("td", { class: "number", text: number(cell) })
          : make("td", { text: cell ?? "–" }));
      body.append(line);
    }
    const head = make("tr");
    columns.forEach((name, at) => head.append(
      make("th", { scope: "col", text: name, class: typeof rows[0]?.[at] === "number" ? "number" : "" })));
    return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
  }

  function swatch(series, index) {
    const mark = make("span", { class: series.bars || series.points ? "swatch box" : "swatch", "aria-hidden": "true" });
    const own = seriesColour(series, index), dash = (series.dash ?? index) % 8;
    mark.style.borderColor = own;
    if (series.bars || series.points) mark.style.backgroundColor = series.hollow ? "transparent" : own;
    else mark.style.borderTopStyle = dash === 0 ? "solid" : [2, 6].includes(dash) ? "dotted" : "dashed";
    return mark;
  }

  /* Ticks of a log axis: powers of ten that have room for their labels, and 2 and 5 between them if those have. */
  function readable(plot, ticks, at) {
    const scale = plot.scales[at === 0 ? "x" : "y"], needed = at === 0 ? 44 : 20;
    const length = (at === 0 ? plot.bbox.width : plot.bbox.height) / devicePixelRatio
      || (at === 0 ? plot.width : plot.height);
    const decade = length / Math.max(1, Math.log10(scale.max / scale.min));
    const every = Math.ceil(needed / decade);
    return ticks.map((tick) => {
      const power = Math.floor(Math.log10(tick) + 1e-9), first = Math.round(tick / 10 ** power);
      const shown = first === 1 ? power % every === 0 : [2, 5].includes(first) && decade * 0.3 >= needed;
      return shown ? tick : null;
    });
  }

  /* Long names below an axis stand at a slant. */
  function slanted(ticks) {
    const most = Math.max(...ticks.map((tick) => String(tick[1]).length));
    return most * ticks.length <= 60 ? { size: 34 } : { rotate: -30, size: 24 + Math.min(70, 4 * most) };
  }

  class Chart {
    /* spec: id, title, x {label, values, time, name}, y {label, log}, series [{label, values, colour, dash, bars,
       hollow, points}], reference {value, label}, caption, note */
    constructor(place, spec) {
      this.hidden = new Set((spec.series || []).filter((one) => one.off).map((one) => one.label));
      this.plotPlace = make("div", { class: "plot", tabindex: "0", role: "img" });
      this.legend = make("div", { class: "legend", role: "group", "aria-label": "Series shown" });
      this.readout = make("output", { "aria-live": "polite" });
      this.caption = make("figcaption");
      this.tableFold = make("details", {}, make("summary", { text: "Table" }));
      this.jsonFold = make("details", {}, make("summary", { text: "JSON" }));
      for (const fold of [this.tableFold, this.jsonFold]) fold.addEventListener("toggle", () => this.fill());
      const figure = make("figure", { class: "chart" }, this.legend, this.plotPlace, this.readout, this.caption,
        this.tableFold, this.jsonFold);
      place.replaceChildren(figure);
      this.plotPlace.addEventListener("keydown", (event) => this.move(event));
      this.resizing = new ResizeObserver(() => this.resize());
      this.resizing.observe(this.plotPlace);
      live.add(this);
      this.update(spec);
    }

    update(spec) {
      this.spec = spec;
      const names = spec.series.map((one) => one.label).join("\n");
      this.plotPlace.setAttribute("aria-label", this.describe());
      this.caption.textContent = spec.caption || "";
      if (this.plot && names === this.names && this.shape === this.shapeOf(spec)) {
        this.plot.setData(this.data());
        this.tellReference();
      } else this.draw();
      this.names = names;
      this.fill();
    }

    shapeOf(spec) { return JSON.stringify([spec.x.label, spec.x.ticks, spec.y.label, spec.y.log, spec.reference?.label]); }

    data() {
      const { x, series, reference } = this.spec;
      const columns = series.map((one) => one.values.map((value) => (value === undefined ? null : value)));
      if (reference) columns.push(x.values.map(() => reference.value));
      return [x.values, ...columns];
    }

    describe() {
      const { title, x, y, series } = this.spec;
      const parts = series.map((one) => {
        const known = one.values.filter((value) => value !== null && value !== undefined);
        if (!known.length) return `${one.label}: no values`;
        let least = known[0], most = known[0];
        for (const value of known) { if (value < least) least = value; if (value > most) most = value; }
        return `${one.label} from ${number(least)} to ${number(most)}, last ${number(known[known.length - 1])}`;
      });
      return `${title}: ${y.label} by ${x.label}. ${parts.join("; ")}. Use the arrow keys to read values.`;
    }

    draw() {
      if (this.plot) this.plot.destroy();
      const { x, y, series, reference } = this.spec;
      this.shape = this.shapeOf(this.spec);
      const own = series.map((one, index) => {
        const stroke = seriesColour(one, index);
        const line = {
          label: one.label, show: !this.hidden.has(one.label), stroke, width: one.bars ? (one.hollow ? 2 : 0) : 2,
          dash: one.bars ? [] : DASHES[(one.dash ?? index) % 8], spanGaps: true,
          points: { show: one.points ? true : (plot) => plot.data[0].length < 2, size: one.points || 6,
            fill: one.hollow ? "transparent" : stroke },
        };
        if (one.bars) {
          line.paths = uPlot.paths.bars({ size: [one.hollow ? 0.9 : 0.6, 90], gap: 0 });
          line.points = { show: false };
          if (!one.hollow) line.fill = stroke;
        }
        if (one.points) line.paths = () => null;
        return line;
      });
      if (reference)
        own.push({ label: reference.label, stroke: colour("--soft"), width: 1.5, dash: [5, 4], points: { show: false } });
      const fromZero = (_, least, most) => [0, most > 0 ? most * 1.06 : 1];
      const whole = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
      const axis = (label, log, extra) => {
        const only = log ? { filter: readable } : {};
        return { label, labelSize: 18, labelFont: "12px system-ui", font: "12px system-ui", stroke: colour("--soft"),
          grid: { stroke: colour("--grid"), width: 1, ...only }, ticks: { stroke: colour("--grid"), ...only }, ...only,
          ...extra };
      };
      const options = {
        width: this.width(), height: this.height(), legend: { show: false }, padding: [8, x.time ? 28 : 18, 0, 0],
        cursor: { y: false, drag: { x: true, y: false, setScale: true } },
        scales: {
          x: { time: Boolean(x.time), distr: x.log ? 3 : 1,
            range: x.log ? undefined : x.bars ? (_, least, most) => [least - x.bars / 2, most + x.bars / 2]
              : x.fromZero ? fromZero : undefined },
          y: y.log ? { distr: 3 } : { range: fromZero },
        },
        axes: [axis(x.label, x.log && !x.ticks?.length, x.time ? { size: 42, values: clock } : x.ticks?.length ? { ...slanted(x.ticks),
          splits: () => x.ticks.map((tick) => tick[0]), values: () => x.ticks.map((tick) => tick[1]) } : { size: 30, incrs: x.whole ? whole : undefined,
          values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : x.percent ? `${Math.round(tick * 100)}%` : short(tick))) }),
        axis(y.label, y.log, { size: 58, values: (_, ticks) => ticks.map((tick) =>
          (tick === null ? "" : y.percent ? `${+(tick * 100).toPrecision(3)}%` : short(tick))) })],
        series: [{ label: x.label }, ...own],
        hooks: { setCursor: [(plot) => this.say(plot.cursor.idx)] },
      };
      this.plot = new uPlot(options, this.data(), this.plotPlace);
      this.drawLegend();
    }

    drawLegend() {
      this.legend.replaceChildren(...this.spec.series.map((one, index) => {
        const shown = !this.hidden.has(one.label);
        const button = make("button", { type: "button", "aria-pressed": String(shown) },
          swatch(one, index), document.createTextNode(one.label));
        button.addEventListener("click", () => {
          if (this.hidden.has(one.label)) this.hidden.delete(one.label); else this.hidden.add(one.label);
          button.setAttribute("aria-pressed", String(!this.hidden.has(one.label)));
          this.plot.setSeries(index + 1, { show: !this.hidden.has(one.label) });
        });
        return button;
      }));
      this.reference = make("span", { class: "note" });
      this.legend.append(this.reference);
      this.tellReference();
    }

    tellReference() {
      const reference = this.spec.reference;
      this.reference.textContent = reference ? `dashed: ${reference.label} ${number(reference.value)}` : "";
    }

    position(index) {
      const { x } = this.spec;
      if (x.names) return x.names[index];
      if (x.time) return moment(x.values[index]);
      return `${x.name || x.label} ${x.percent ? `${Math.round(x.values[index] * 100)}%` : number(x.values[index])}`;
    }

    say(index) {
      if (index === null || index === undefined) { this.readout.textContent = ""; return; }
      const shown = this.spec.series.filter((one) => !this.hidden.has(one.label));
      const values = shown.filter((one) => one.values[index] !== null && one.values[index] !== undefined)
        .map((one) => `${one.label} ${number(one.values[index])}`);
      this.readout.textContent = values.length ? `${this.position(index)}: ${values.join(", ")}` : "";
    }

    move(event) {
      const last = this.spec.x.values.length - 1;
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
      if (event.key === "Home") this.at = 0;
      else if (event.key === "End") this.at = last;
      else if (event.key in steps)
        this.at = Math.max(0, Math.min(last, (this.at ?? (event.key === "ArrowLeft" ? last + 1 : -1)) + steps[event.key]));
      else return;
      event.preventDefault();
      const left = this.plot.valToPos(this.spec.x.values[this.at], "x");
      this.plot.setCursor({ left, top: 5 }, false);
      this.say(this.at);
    }

    rows() {
      const { x, series } = this.spec;
      return x.values.map((_, index) => [this.position(index), ...series.map((one) => one.values[index] ?? null)]);
    }

    fill() {
      const { x, series, title } = this.spec;
      const keep = (fold, content) => fold.replaceChildren(fold.firstElementChild, ...content);
      keep(this.tableFold, this.tableFold.open
        ? [table([x.label, ...series.map((one) => one.label)], this.rows())] : []);
      if (!this.jsonFold.open) { keep(this.jsonFold, []); return; }
      const plain = { title, [x.label]: x.values };
      for (const one of series) plain[one.label] = one.values;
      keep(this.jsonFold, [make("pre", { tabindex: "0", text: JSON.stringify(plain) })]);
    }

    width() { return Math.max(200, this.plotPlace.clientWidth); }
    height() { return Math.max(160, this.plotPlace.clientHeight); }
    resize() {
      if (this.plot && (this.plot.width !== this.width() || this.plot.height !== this.height()))
        this.plot.setSize({ width: this.width(), height: this.height() });
    }
    remove() {
      this.resizing.disconnect();
      if (this.plot) this.plot.destroy();
      live.delete(this);
    }
  }

  const redraw = () => { for (const chart of live) chart.draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  function themeButton(button) {
    button.addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      redraw();
    });
  }

  /* Draw every chart of a static page: <div data-chart="ID"> with its spec in <script type=application/json>. */
  function drawPage() {
    for (const place of document.querySelectorAll("[data-chart]")) {
      const source = document.getElementById(place.dataset.chart);
      if (source) new Chart(place, JSON.parse(source.textContent));
    }
    const button = document.getElementById("theme");
    if (button) themeButton(button);
  }

  return { Chart, drawPage, live, make, moment, number, redraw, table, themeButton };
})();
if (!document.getElementById("dashboard"))
  document.addEventListener("DOMContentLoaded", evenflowCharts.drawPage);
