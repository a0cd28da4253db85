// newTrend draws the last hour: a small line for each node, and a chart of load and events for one.
const newTrend = ({ get, percent, plural, drawAll }) => {
  const { $, axis, plotKeys, cssColor, element, clamp, showTip, hideTip } = base;
  let trend = null;
  let readAt = "";
  let reading = false;
  // refresh reads the trend if it has changed since.
  async function refresh(time) {
    if (!time || time === readAt || reading) return;
    reading = true;
    const { result } = await get("trend.json");
    if (result) {
      [trend, readAt] = [result, time];
      drawAll();
    }
    setTimeout(() => (reading = false), 5000); // the past arrives point by point
  }
  const valuesOf = (node, resource) => (Object.hasOwn(trend?.nodes ?? {}, node) ? trend.nodes[node][resource + "Percent"] : []);

  // drawSmall draws the trend of a node against its line.
  function drawSmall(c, node, resource, line, colors, w, h) {
    const values = valuesOf(node, resource);
    const at = (v) => h - 2 - (clamp(v, 0, 100) / 100) * (h - 4);
    if (line != null) {
      c.strokeStyle = colors.line;
      c.beginPath();
      c.moveTo(0, at(line));
      c.lineTo(w, at(line));
      c.stroke();
    }
    c.strokeStyle = colors.soft;
    c.lineWidth = 1.6;
    c.beginPath();
    let pen = false;
    values.forEach((v, i) => {
      if (v == null) return (pen = false);
      const x = 1 + (i / Math.max(1, values.length - 1)) * (w - 3);
      if (pen) c.lineTo(x, at(v));
      else c.moveTo(x, at(v));
      if (!pen && values[i + 1] == null) c.lineTo(x + 1.5, at(v)); // a point alone
      pen = true;
    });
    c.stroke();
    c.lineWidth = 1;
  }
  // change is by how many points the load rose in the known part of the hour.
  function change(node, resource) {
    const known = valuesOf(node, resource).filter((v) => v != null);
    return known.length > 1 ? known.at(-1) - known[0] : null;
  }

  // ---- The chart of one node.
  let plot = null;
  let observer = null;
  let drawn = "";
  const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const events = { Placed: "▼ placed", Evicted: "▲ evicted", Left: "△ left" };
  function clear() {
    observer?.disconnect();
    plot?.destroy();
    plot = observer = null;
    drawn = "";
    for (const id of ["chart", "chart-table", "history"]) $(id).replaceChildren();
    $("happened").hidden = true;
  }
  function drawEvents(history) {
    const list = [...(history?.events ?? [])].reverse();
    $("happened").hidden = !history;
    $("happened-summary").textContent = "What happened in the last hour: " +
      (Object.keys(events).map((e) => [list.filter((x) => x.event === e).length, e.toLowerCase()]).filter(([n]) => n).map(([n, e]) => plural(n, "pod") + " " + e).join(", ") || "nothing");
    const since = history && Date.parse(history.since);
    $("happened-note").textContent = history && Date.now() - since < 3600e3 ? "Pods that left before " + clock(since) + ", when the command began, are not known." : "";
    $("history").replaceChildren(...(list.length ? [
      element("thead", {}, element("tr", {}, ...["Time", "Pod", "Event", "Reason"].map((head) => element("th", { scope: "col", textContent: head, className: "text" })))),
      element("tbody", {}, ...list.map((e) => element("tr", {}, element("th", { scope: "row", textContent: clock(e.time) }),
        ...[e.namespace + "/" + e.name, events[e.event] ?? e.event, e.reason ?? ""].map((text) => element("td", { textContent: text, className: "text" }))))),
    ] : []));
  }
  // draw draws the node's chart. history may be null.
  function draw(node, resource, line, history) {
    const values = valuesOf(node, resource);
    const now = JSON.stringify([node, resource, line, trend?.times, values, history]);
    if (now === drawn) return;
    clear();
    drawn = now;
    drawEvents(history);
    const box = $("chart");
    if (!values.some((v) => v != null)) {
      box.append(element("p", { className: "note", textContent: "Nothing was measured yet." }));
      return;
    }
    const x = trend.times.map((time) => Date.parse(time) / 1000);
    const known = values.filter((v) => v != null);
    const marks = (history?.events ?? []).filter((e) => Date.parse(e.time) / 1000 >= x[0]);
    // Events are marks below the line: a triangle down for a pod that came, up for one that left.
    const drawMarks = ({ ctx, bbox, valToPos }) => {
      const d = devicePixelRatio;
      ctx.save();
      ctx.fillStyle = ctx.strokeStyle = cssColor("ink");
      for (const e of marks) {
        const left = clamp(valToPos(Date.parse(e.time) / 1000, "x", true), bbox.left, bbox.left + bbox.width);
        const bottom = bbox.top + bbox.height - 2 * d;
        const [tip, base] = e.event === "Placed" ? [bottom, bottom - 7 * d] : [bottom - 7 * d, bottom];
        ctx.beginPath();
        ctx.moveTo(left, tip);
        ctx.lineTo(left - 4 * d, base);
        ctx.lineTo(left + 4 * d, base);
        ctx.closePath();
        if (e.event === "Left") ctx.stroke();
        else ctx.fill();
      }
      ctx.restore();
    };
    let shows = false; // A new chart has no cursor, and must not hide the tip of another picture.
    const showValue = (u) => {
      const i = u.cursor.idx, hides = i == null && shows;
      shows = i != null;
      if (hides) hideTip();
      if (!shows) return;
      const place = box.getBoundingClientRect();
      showTip(clock(trend.times[i]) + ": " + percent(values[i]) + " %", place.left + u.valToPos(x[i], "x") + 40, place.top + 20);
    };
    const size = () => ({ width: Math.max(180, box.clientWidth), height: 200 });
    plot = new uPlot({
      ...size(), legend: { show: false }, cursor: { drag: { x: false, y: false }, y: false },
      scales: { x: { range: () => [Math.min(x[0], x.at(-1) - 60), x.at(-1)] }, y: { range: [0, 100] } },
      axes: [{ ...axis, size: 26, values: (_, ticks) => ticks.map((t) => clock(t * 1000)), space: 70 }, { ...axis, size: 48, values: (_, ticks) => ticks.map((t) => t + " %"), incrs: [25] }],
      series: [{}, { stroke: () => cssColor("p0"), fill: () => cssColor("p0") + "22", width: 2, points: { show: known.length === 1 } },
        { stroke: () => cssColor("ink"), width: 1, dash: [5, 4], points: { show: false } }],
      hooks: { setCursor: [showValue], draw: [drawMarks] },
    }, [x, values, x.map(() => line ?? null)], box);
    box.onkeydown = plotKeys(plot, x);
    box.onblur = hideTip;
    box.setAttribute("aria-label", `Measured ${resource} of the last hour: ${percent(known[0])} % first, ${percent(known.at(-1))} % now, at most ${percent(Math.max(...known))} %` + (line == null ? "" : `, line ${line} %`));
    observer = new ResizeObserver(() => plot.setSize(size()));
    observer.observe(box);
    $("chart-table").replaceChildren(
      element("thead", {}, element("tr", {}, element("th", { scope: "col", textContent: "Time" }), element("th", { scope: "col", textContent: "Measured %" }))),
      element("tbody", {}, ...x.map((_, i) => element("tr", {}, element("th", { scope: "row", textContent: clock(trend.times[i]) }), element("td", { textContent: percent(values[i]) })))),
    );
  }
  return { refresh, drawSmall, change, draw, clear };
};
