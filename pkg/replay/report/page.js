"use strict";
(() => {
  const { report, colors, best } = JSON.parse(document.getElementById("data").textContent);
  const [hotAbove, severeAbove] = [100 * report.hotAboveRatio, 100 * report.severeAboveRatio];
  const { $, axis, isShortcut, plotKeys, root, cssColor, element, clamp, number, showTip, hideTip } = base;
  const share = (v) => (v >= 1 || v === 0 ? number(v, 1) : String(Number(v.toPrecision(2)))) + " %";
  const span = (seconds) => (seconds < 3600 ? number(seconds / 60, 1) + " min" : number(seconds / 3600, 1) + " h");
  const clock = (seconds) => {
    const day = Math.floor(seconds / 86400);
    const two = (v) => String(Math.floor(v)).padStart(2, "0");
    return (day > 0 ? "day " + (day + 1) + ", " : "") + two((seconds % 86400) / 3600) + ":" + two((seconds % 3600) / 60);
  };

  // Reference policies are dotted or dashed, not distinguished by color alone.
  const dashes = { stock: [2, 3], clairvoyant: [6, 4] };
  const policies = (report.policies ?? []).map((p, i) => ({
    ...p,
    runs: p.runs ?? [],
    color: colors[i],
    best: p.name === best,
    colorName: /^\d/.test(colors[i]) ? "p" + colors[i] : colors[i],
    dash: dashes[colors[i]] ?? (colors.indexOf(colors[i]) < i ? [10, 3, 2, 3] : undefined),
    hidden: false,
  }));
  const chartsOf = (run) => policies.map((p) => p.runs[run]?.charts ?? null);

  // ---- The tooltip: definitions by hover and by focus, and values of heat maps.
  // pinned shows the tooltip of the focused element until focus moves on.
  let pinned = null;
  const unpin = () => ((pinned = null), hideTip());
  const showPinned = () => (pinned ?? hideTip)();
  function showTerm(target, x, y) {
    const values = target.dataset.values;
    showTip($("term-" + target.dataset.term).textContent + (values ? "\n\n" + values : ""), x, y);
  }
  for (const e of document.querySelectorAll("[data-term]")) e.setAttribute("aria-describedby", "term-" + e.dataset.term);
  addEventListener("mouseover", (event) => {
    const target = event.target.closest?.("[data-term]");
    if (target) showTerm(target, event.clientX, event.clientY);
    else if (event.target.tagName !== "CANVAS") showPinned();
  });
  addEventListener("focusin", (event) => {
    const target = event.target.closest("[data-term]");
    if (!target?.matches(":focus-visible")) return;
    pinned = () => {
      const box = target.getBoundingClientRect();
      showTerm(target, box.left, box.bottom - 10);
    };
    pinned();
  });
  addEventListener("focusout", unpin);
  addEventListener("scroll", showPinned, true);
  addEventListener("keydown", (event) => {
    if (isShortcut(event)) return;
    if (event.key === "Escape") return unpin();
    // Arrow keys move between the table's numbers, which are one tab stop.
    const at = document.activeElement.closest?.(".figures-table [data-term]");
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
    if (!at || down === undefined) return;
    const rows = [...at.closest("table").rows];
    const next = rows[rows.indexOf(at.parentElement) + down]?.cells[at.cellIndex + right];
    if (next?.dataset.term) {
      event.preventDefault();
      next.focus();
    }
  });

  // ---- Lines.
  const plots = [];

  // makeLines draws one line per policy. The legend shows the values under the cursor, or the summary.
  function makeLines(id, { x, ys, xAxis, yAxis, yScale, marks = [], name, format, summary, describe }) {
    const box = $(id + "-chart");
    const legend = $(id + "-legend");
    const outputs = [];
    const labels = [];
    legend.replaceChildren(
      element("span", { className: "note legend-at" }),
      ...policies.map((p, i) => {
        outputs[i] = element("output", {});
        const button = element("button", { type: "button", className: "c-" + p.color + (p.dash ? " dashed" : "") }, element("i", {}), p.name, outputs[i]);
        button.setAttribute("aria-pressed", String(!p.hidden));
        button.onclick = () => toggle(i);
        labels[i] = button;
        return button;
      }),
    );
    const showValues = (u) => {
      const at = u.cursor.idx;
      legend.firstChild.textContent = at == null ? summary.label : name(u.data[0][at]);
      outputs.forEach((output, i) => {
        const v = at == null ? summary.values[i] : u.data[i + 1][at];
        output.textContent = v == null ? "–" : format(v);
      });
    };
    const drawMarks = (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.font = 11 * devicePixelRatio + "px system-ui, sans-serif";
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
      for (const [i, { at, label }] of marks.entries()) {
        const left = u.valToPos(at, "x", true);
        if (left < bbox.left || left > bbox.left + bbox.width) continue;
        ctx.strokeStyle = ctx.fillStyle = cssColor("soft");
        ctx.beginPath();
        ctx.moveTo(left, bbox.top);
        ctx.lineTo(left, bbox.top + bbox.height);
        ctx.stroke();
        ctx.textAlign = "right";
        ctx.fillText(label, left - 4 * devicePixelRatio, bbox.top + (12 + 14 * i) * devicePixelRatio);
      }
      ctx.restore();
    };
    const size = () => ({ width: Math.max(200, box.clientWidth), height: clamp(box.clientWidth * 0.5, 240, 400) });
    const plot = new uPlot(
      {
        ...size(),
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false },
        scales: { x: { time: false }, y: yScale },
        axes: [{ ...axis, size: 28, ...xAxis }, { ...axis, size: 52, ...yAxis, ...(yAxis.filter && { grid: { ...axis.grid, filter: yAxis.filter } }) }],
        series: [{}, ...policies.map((p) => ({ label: p.name, show: !p.hidden, stroke: () => cssColor(p.colorName), width: p.best ? 3 : 1.75, dash: p.dash, points: { show: false } }))],
        hooks: { setCursor: [showValues], draw: [drawMarks] },
      },
      [x, ...ys],
      box,
    );
    showValues(plot);
    box.setAttribute("aria-label", describe + " " + policies.map((p, i) => p.name + ": " + outputs[i].textContent).join(", "));
    box.onkeydown = plotKeys(plot, x);
    const observer = new ResizeObserver(() => plot.setSize(size()));
    observer.observe(box);
    const entry = { plot, labels, box, size, destroy: () => (observer.disconnect(), plot.destroy()) };
    plots.push(entry);
  }

  function toggle(i) {
    policies[i].hidden = !policies[i].hidden;
    for (const { plot, labels } of plots) {
      plot.setSeries(i + 1, { show: !policies[i].hidden });
      labels[i].setAttribute("aria-pressed", String(!policies[i].hidden));
    }
  }

  const mean = (values) => values.reduce((sum, v) => sum + v, 0) / Math.max(1, values.length);

  // movingMean averages over a window centered at each value.
  function movingMean(values, width) {
    const half = Math.floor(width / 2);
    return values.map((_, i) => mean(values.slice(Math.max(0, i - half), i + half + 1)));
  }

  function drawHotNodes(charts) {
    const first = charts.find((c) => c?.hotNodes);
    if (!first) return;
    const steps = Math.max(...charts.map((c) => c?.hotNodes?.length ?? 0));
    const x = Array.from({ length: steps }, (_, i) => first.startSeconds + i * first.stepSeconds);
    const smooth = Number($("smooth").value) / first.stepSeconds;
    makeLines("hot", {
      x,
      ys: charts.map((c) => (c?.hotNodes ? movingMean(c.hotNodes, smooth) : x.map(() => null))),
      xAxis: { incrs: [300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800], values: (_, splits) => splits.map(clock), space: 100 },
      yAxis: { label: "hot nodes", labelSize: 20 },
      yScale: { range: (_, low, high) => [0, Math.max(1, high * 1.05)] },
      name: clock,
      format: (v) => v.toFixed(1),
      summary: { label: "mean", values: charts.map((c) => (c?.hotNodes ? mean(c.hotNodes) : null)) },
      describe: "Hot nodes over time, one line per policy. Means:",
    });
  }

  function drawDistribution(charts) {
    const powersOfTen = (_, splits) => splits.map((v) => (Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9 ? v : null));
    const bins = Math.max(0, ...charts.map((c) => c?.distributionRatio?.length ?? 0));
    if (bins === 0) return;
    const above = Boolean($("cumulative").value);
    const x = Array.from({ length: bins }, (_, i) => i);
    const hot = Math.round(hotAbove);
    const atOrAbove = (values, i) => 100 * values.slice(i).reduce((sum, v) => sum + v, 0);
    const ys = charts.map((c) => {
      if (!c?.distributionRatio) return x.map(() => null);
      const values = x.map((_, i) => (above ? atOrAbove(c.distributionRatio, i) : 100 * (c.distributionRatio[i] ?? 0)));
      return above ? values.map((v) => (v > 1e-4 ? v : null)) : values;
    });
    const least = Math.min(...ys.flat().filter((v) => v != null));
    makeLines("distribution", {
      x,
      ys,
      xAxis: { label: "CPU demand, % of capacity", labelSize: 20, values: (_, splits) => splits.map((v) => v + " %") },
      yAxis: {
        label: "% of node-minutes",
        labelSize: 20,
        values: (_, splits) => splits.map((v) => (v == null ? "" : String(Number(v.toPrecision(3))))),
        ...(above && { filter: powersOfTen }),
      },
      yScale: above ? { distr: 3, range: () => [Math.max(0.001, 10 ** Math.floor(Math.log10(least))), 100] } : { range: (_, low, high) => [0, high * 1.05] },
      marks: [
        { at: hotAbove, label: "hot" },
        { at: severeAbove, label: "severe" },
      ],
      name: (v) => (above || v === bins - 1 ? "at or above " : "at ") + v + " %",
      format: share,
      summary: { label: "at or above " + hot + " %", values: charts.map((c) => (c?.distributionRatio ? atOrAbove(c.distributionRatio, hot) : null)) },
      describe: "Distribution of node utilization, one line per policy. Share of node-minutes at or above " + hot + " %:",
    });
  }

  // ---- Heat maps.
  let maps = [];
  const rgb = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));

  // palette is the color of each whole percent.
  function palette() {
    const [low, high, hot, severe] = ["heat0", "heat1", "hot", "severe"].map((name) => rgb(cssColor(name)));
    return Array.from({ length: 256 }, (_, v) => {
      if (v > severeAbove) return severe;
      if (v > hotAbove) return hot;
      return low.map((from, i) => Math.round(from + ((high[i] - from) * v) / hotAbove));
    });
  }

  // heatRows returns at most 340 rows of nodes, in order.
  function heatRows(map) {
    const { values, columns, nodes } = map;
    const order = Array.from({ length: nodes }, (_, i) => i);
    if ($("order").value === "load") {
      const load = order.map((i) => mean(Array.from(values.subarray(i * columns, (i + 1) * columns))));
      order.sort((a, b) => load[b] - load[a]);
    }
    const merge = Math.ceil(nodes / 340);
    return Array.from({ length: Math.ceil(nodes / merge) }, (_, i) => order.slice(i * merge, (i + 1) * merge));
  }

  // hottest is a row's hottest node at a column.
  const hottest = (map, row, column) =>
    map.rows[row].reduce((best, node) => (map.values[node * map.columns + column] > map.values[best * map.columns + column] ? node : best));

  function drawMap(map) {
    map.rows = heatRows(map);
    const { canvas, columns, rows, values } = map;
    canvas.width = columns;
    canvas.height = rows.length;
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows.length);
    const colors = palette();
    for (let row = 0; row < rows.length; row++)
      for (let column = 0; column < columns; column++)
        image.data.set([...colors[values[hottest(map, row, column) * columns + column]], 255], 4 * (row * columns + column));
    context.putImageData(image, 0, 0);
    const enlarged = columns <= canvas.clientWidth * devicePixelRatio && rows.length <= canvas.clientHeight * devicePixelRatio;
    canvas.style.imageRendering = enlarged ? "pixelated" : "auto";
    map.rowOf = [];
    rows.forEach((row, at) => row.forEach((node) => (map.rowOf[node] = at)));
    map.marks.replaceChildren(
      ...map.moves.flatMap(([column, from, to]) =>
        [[from, "from"], [to, "to"]].filter(([node]) => node >= 0).map(([node, className]) => {
          const mark = element("i", { className });
          mark.style.left = (100 * (column + 0.5)) / columns + "%";
          mark.style.top = (100 * (map.rowOf[node] + 0.5)) / rows.length + "%";
          return mark;
        }),
      ),
    );
  }

  // movesAt tells the moves of a cell.
  function movesAt(map) {
    const at = (end) => map.moves.filter((move) => move[0] === map.column && map.rowOf[move[end]] === map.row).length;
    return [[at(1), "moved off"], [at(2), "moved here"]].filter(([n]) => n > 0).map(([n, what]) => `\n${n} pod${n > 1 ? "s" : ""} ${what}`).join("");
  }

  function showCell(map, column, row) {
    map.column = clamp(column, 0, map.columns - 1);
    map.row = clamp(row, 0, map.rows.length - 1);
    const node = hottest(map, map.row, map.column);
    const v = map.values[node * map.columns + map.column];
    const more = map.rows[map.row].length;
    const state = v > severeAbove ? ", severe" : v > hotAbove ? ", hot" : "";
    const text = `${map.names[node] ?? "node " + node}${more > 1 ? ` (the hottest of ${more})` : ""}\n` + `${clock(map.start + map.column * map.step)}, for ${span(map.step)}: ${v === 255 ? "255 % or more" : v + " %"}${state}` + movesAt(map);
    const box = map.canvas.getBoundingClientRect();
    showTip(text, box.left + ((map.column + 0.5) / map.columns) * box.width, box.top + ((map.row + 0.5) / map.rows.length) * box.height);
    map.canvas.setAttribute("aria-label", map.label + " " + text);
  }

  function makeMap(policy, run) {
    const { utilizationPercent, startSeconds: start, stepSeconds: step, nodeNames: names, moves } = run.charts;
    const rows = (utilizationPercent ?? []).map((row) => Uint8Array.from(atob(row ?? ""), (c) => c.charCodeAt(0)));
    const columns = rows[0]?.length ?? 0;
    if (columns === 0) return;
    const values = new Uint8Array(columns * rows.length);
    rows.forEach((row, i) => values.set(row, i * columns));
    const canvas = element("canvas", { tabIndex: 0 });
    const map = {
      canvas, marks: element("div", { className: "marks" }), values, columns, nodes: rows.length, start, step, names: names ?? [],
      moves: (moves ?? []).map((m) => [Math.floor((m.seconds - start) / step), names.indexOf(m.from), names.indexOf(m.to)]),
      label: "Heat map of " + policy.name + ".", row: 0, column: -1,
    };
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", map.label + " Arrow keys show values.");
    canvas.onpointermove = (event) => {
      const box = canvas.getBoundingClientRect();
      showCell(map, Math.floor(((event.clientX - box.left) / box.width) * columns), Math.floor(((event.clientY - box.top) / box.height) * map.rows.length));
    };
    canvas.onpointerleave = showPinned;
    canvas.onkeydown = (event) => {
      const [x, y] = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key] ?? [];
      if (x === undefined || isShortcut(event)) return;
      event.preventDefault();
      showCell(map, map.column + x, map.row + y);
      pinned = () => showCell(map, map.column, map.row);
    };
    const length = columns * map.step;
    const every = [900, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].find((v) => length / v <= 5) ?? length;
    const hours = element("div", { className: "hours" });
    for (let t = Math.ceil(map.start / every) * every; t < map.start + length; t += every) {
      const tick = element("span", { textContent: clock(t) });
      tick.style.left = clamp(((t - map.start) / length) * 100, 4, 92) + "%";
      hours.append(tick);
    }
    const caption = element("figcaption", {}, element("strong", {}, element("i", { className: "swatch" }), policy.name), element("span", { textContent: number(run.hotMinutes, 0) + " hot node-min in this run" }));
    $("heatmaps").append(element("figure", { className: "c-" + policy.color }, caption, element("div", { className: "map" }, canvas, map.marks), hours));
    maps.push(map);
  }

  function drawScale() {
    const bar = element("i", {});
    const end = severeAbove + 30;
    const [hot, severe] = [hotAbove, severeAbove].map((v) => (100 * v) / end + "%");
    bar.style.background = `linear-gradient(to right, var(--heat0), var(--heat1) ${hot}, var(--hot) ${hot} ${severe}, var(--severe) ${severe})`;
    const label = (text, at) => {
      const e = element("span", { textContent: text });
      e.style.left = at;
      return e;
    };
    $("scale").replaceChildren(bar, label("0 %", "0"), label(number(hotAbove, 1) + " % hot", hot), label(number(severeAbove, 1) + " % severe", severe));
  }

  function drawMaps() {
    maps.forEach(drawMap);
    const merged = Math.max(0, ...maps.map((m) => m.rows[0]?.length ?? 0));
    $("heat-rows").textContent = merged > 1 ? `Each row is ${merged} nodes, at each time the hottest of them.` : "Each row is a node, each column a time.";
    if (maps.some((m) => m.moves.length)) $("heat-rows").textContent += " ○ marks where a pod moved off a node, ● where to.";
  }

  // ---- The whole.
  function draw() {
    unpin();
    while (plots.length) plots.pop().destroy();
    maps = [];
    $("heatmaps").replaceChildren();
    const run = Number($("run").value);
    const charts = chartsOf(run);
    if (charts.some((c) => c)) {
      drawHotNodes(charts);
      drawDistribution(charts);
      charts.forEach((c, i) => c && makeMap(policies[i], policies[i].runs[run]));
    } else {
      $("heatmaps").append(element("p", { className: "note", textContent: "The report has no charts of this run." }));
    }
    drawMaps();
  }
  for (const id of ["run", "smooth", "cumulative"]) $(id).addEventListener("change", draw);
  $("order").addEventListener("change", drawMaps);
  const redraw = () => (plots.forEach(({ plot }) => plot.redraw()), drawMaps());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is light and narrow.
  addEventListener("beforeprint", () => {
    root.classList.add("printing");
    for (const { plot } of plots) plot.setSize({ width: 640, height: 260 });
    redraw();
  });
  addEventListener("afterprint", () => {
    root.classList.remove("printing");
    for (const { plot, size } of plots) plot.setSize(size());
    redraw();
  });
  drawScale();
  draw();
})();
