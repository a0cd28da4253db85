// mergePatch applies a JSON merge patch (RFC 7386) to an object.
function mergePatch(target, patch) {
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  for (const [key, value] of Object.entries(patch)) {
    if (key === "__proto__") continue;
    if (value === null) delete target[key];
    else if (!isObject(value)) target[key] = value;
    else {
      if (!Object.hasOwn(target, key) || !isObject(target[key])) target[key] = {};
      mergePatch(target[key], value);
    }
  }
}
(() => {
  const { $, element, clamp, number, cssColor, showTip, hideTip, isShortcut } = base;
  const percent = (v) => (v == null ? "–" : v.toFixed(1));
  const span = (seconds) =>
    seconds < 90 ? Math.round(seconds) + " s" : seconds < 5400 ? Math.round(seconds / 60) + " min" : Math.round(seconds / 3600) + " h";
  const plural = (n, noun) => number(n, 0) + " " + noun + (n === 1 ? "" : "s");

  // ---- The data.
  let snapshot = null;
  let isSaved = false;

  const nodeOf = (name) => (Object.hasOwn(snapshot?.nodes ?? {}, name) ? snapshot.nodes[name] : undefined);

  // ---- The view, which the URL's fragment holds.
  const view = { q: "", resource: "cpu", state: "", pool: "", runs: "", group: "", sort: "line", node: "", view: "", profile: "", pod: "", drain: "", add: "", like: "", more: "", of: "" };
  const defaults = { ...view };
  function readView() {
    const fragment = new URLSearchParams(location.hash.slice(1));
    for (const key of Object.keys(view)) view[key] = fragment.get(key) ?? defaults[key];
    if (view.resource !== "memory") view.resource = "cpu";
    if (!Object.hasOwn(orders, view.sort)) view.sort = "line";
    if (!Object.hasOwn(answers.titles, view.view)) view.view = "";
    if (!Object.hasOwn(groupings, view.group)) view.group = "";
    for (const key of ["q", "resource", "state", "group", "sort"]) $(key).value = view[key];
  }
  // setView changes the view. Only a step that back should undo is an entry of the history.
  function setView(changes, step) {
    Object.assign(view, changes);
    if (changes.q !== undefined && $("q").value !== changes.q) $("q").value = changes.q;
    if (changes.group !== undefined) $("group").value = changes.group;
    const fragment = new URLSearchParams(Object.entries(view).filter(([key, value]) => value !== defaults[key]));
    const url = "#" + fragment;
    if (step) history.pushState(null, "", url);
    else history.replaceState(null, "", url);
    draw();
  }

  // ---- Nodes in their order.
  const near = 10; // percentage points below the line
  // Marks tell the kinds without color. Small bars above the line have an outline instead.
  const kinds = {
    above: { color: "severe", mark: "▲", name: "above the line" },
    close: { color: "hot", mark: "◆", name: "close to the line" },
    below: { color: "heat1", mark: "●", name: "below the line" },
    none: { color: "stock", mark: "–", name: "no line" },
  };
  function kindOf(r) {
    if (r.aboveLine) return "above";
    if (r.linePercent == null) return "none";
    return r.utilizationPercent > r.linePercent - near ? "close" : "below";
  }
  const isFresh = (r) => r.state === "Fresh";
  // A target is marked with ◎ and changes no color: only a line can be close, or below a node.
  const hasTarget = (r) => r.targetPercent != null;
  const lookOf = (r) => (hasTarget(r) && r.linePercent == null ? { color: "heat1", mark: "◎", name: "a target, no line" } : kinds[kindOf(r)]);
  const stateOf = (r) => lookOf(r).mark + " " + (isFresh(r) ? lookOf(r).name : r.state + ": requests count");
  const limitOf = (r) => (hasTarget(r) ? `target ${r.targetPercent} %` : r.linePercent == null ? "no line" : `line ${r.linePercent} %`);
  const any = (is) => Object.values(snapshot.nodes ?? {}).some((n) => is(n.cpu) || is(n.memory));
  const noLine = 1e6; // further below than any line
  const distance = (r) => r.utilizationPercent - (r.linePercent ?? noLine);
  const orders = {
    line: distance,
    use: (r) => r.utilizationPercent,
    pending: (r) => r.pendingPercent,
    requested: (r) => r.requestedPercent,
    name: () => 0,
  };
  // matcher returns a test of nodes for the words of the filter: a part of the name, @STATE, or labels.
  function matcher(text) {
    const tests = text.split(/\s+/).filter(Boolean).map((word) => {
      if (word.startsWith("@")) {
        const state = word.slice(1).toLowerCase();
        return (n) => [n.cpu, n.memory].some((r) => r.state.toLowerCase().startsWith(state) || (r.aboveLine && "above".startsWith(state)));
      }
      if (!word.includes("=")) return (n) => n.name.includes(word);
      const all = word.split(",").map((part) => {
        const [, key, not, value] = part.match(/^([^=!]+)(!?)==?(.*)$/) ?? [];
        if (key) return (n) => (n.labels?.[key] === value) === !not;
        const lacks = part.startsWith("!");
        return (n) => Object.hasOwn(n.labels ?? {}, lacks ? part.slice(1) : part) !== lacks;
      });
      return (n) => all.every((test) => test(n));
    });
    return (n) => tests.every((test) => test(n));
  }
  // refill replaces what an element holds. The focus stays on the button of the same text.
  function refill(box, ...children) {
    const focused = box.contains(document.activeElement) ? document.activeElement.textContent : null;
    box.replaceChildren(...children);
    [...box.querySelectorAll("button")].find((b) => b.textContent === focused)?.focus({ preventScroll: true });
  }
  const answers = newAnswers({ view, setView, openNode, copyButton, percent, plural, span, nodeOf, refill, data: () => snapshot, isSaved: () => isSaved });
  // get asks the command, which answers within 20 seconds. A connection that broke without a sign would never answer.
  async function get(path) {
    if (isSaved) return { problem: "a saved snapshot has none" };
    try {
      const response = await fetch(path, { signal: AbortSignal.timeout(30000) });
      return response.ok ? { result: await response.json() } : { problem: (await response.text()).trim().slice(0, 300) };
    } catch {
      return { problem: "the command does not answer" };
    }
  }
  let rows = [];
  function arrange() {
    const matches = matcher(view.q);
    const inState = (r) => !view.state || (view.state === "stale" ? !isFresh(r) : kindOf(r) === view.state);
    const order = orders[view.sort];
    rows = Object.values(snapshot.nodes ?? {})
      .filter((n) => inState(n[view.resource]) && (!view.pool || n.pool === view.pool) && (!view.runs || n.profiles?.includes(view.runs)) && matches(n))
      .map((n) => ({ n, r: n[view.resource], key: order(n[view.resource]) }))
      .sort((a, b) => (a.key === b.key ? (a.n.name < b.n.name ? -1 : 1) : b.key - a.key));
  }

  // ---- Groups: a bar of the kinds of its nodes each.
  const zone = "topology.kubernetes.io/zone";
  const groupings = {
    "": () => "",
    pool: (n) => n.pool ?? "",
    zone: (n) => n.labels?.[zone] ?? "",
  };
  let drawnGroups = "";
  function drawGroups() {
    const groups = new Map();
    for (const { n, r } of view.group ? rows : []) {
      const name = groupings[view.group](n);
      if (!groups.has(name)) groups.set(name, { nodes: 0, above: 0, close: 0, below: 0, none: 0, use: 0, requested: 0 });
      const g = groups.get(name);
      g.nodes++;
      g[kindOf(r)]++;
      g.use += r.utilizationPercent;
      g.requested += r.requestedPercent;
    }
    const sorted = [...groups].sort(([a, x], [b, y]) => y.above / y.nodes - x.above / x.nodes || y.use / y.nodes - x.use / x.nodes || (a < b ? -1 : 1));
    const now = JSON.stringify([view.group, sorted]);
    if (now === drawnGroups) return;
    drawnGroups = now;
    $("groups").hidden = sorted.length === 0;
    const choose = (name) => (!name ? "without one" : answers.button(name, () => setView(view.group === "pool" ? { pool: name, group: "" } : { q: (view.q + " " + zone + "=" + name).trim(), group: "" }, true)));
    refill($("groups"), answers.table("Groups of nodes", [[view.group === "pool" ? "Pool" : "Zone", "text"], ["By distance", "bar"], ["Nodes"], ["▲ Above"], ["◆ Close"], ["● Below", "drop1"], ["Mean effective %", "drop1"], ["Mean requested %", "drop2"]],
      sorted.map(([name, g]) => [
        choose(name), element("div", { className: "picture", ariaHidden: "true" }, ...Object.keys(kinds).filter((kind) => g[kind]).map((kind) => answers.part((100 * g[kind]) / g.nodes, kind))),
        number(g.nodes, 0), number(g.above, 0), number(g.close, 0), number(g.below, 0), percent(g.use / g.nodes), percent(g.requested / g.nodes),
      ])));
  }

  // ---- Bars.
  let colors = {};
  function readColors() {
    colors = {};
    for (const name of ["ink", "soft", "grid", "severe", "hot", "heat1", "stock", "accent", "line", "card"]) colors[name] = cssColor(name);
    for (const { color } of Object.values(kinds)) {
      const hatch = element("canvas", { width: 4, height: 4 });
      const c = hatch.getContext("2d");
      c.strokeStyle = colors[color];
      c.lineWidth = 1.4;
      for (const x of [-2, 0, 2, 4]) {
        c.moveTo(x, 4);
        c.lineTo(x + 4, 0);
      }
      c.stroke();
      colors[color + "-hatch"] = c.createPattern(hatch, "repeat");
    }
  }
  // drawBar draws one resource of a node: measured is solid, pending hatched, a margin or predicted peak an outline. A stripe below
  // has what is requested, the gray end what is not allocatable, the tick is the line, and the ring the target. Requests, and then
  // line and target, are shares of the allocatable.
  function drawBar(c, r, x, y, w, h, kind = kindOf(r)) {
    const at = (v) => Math.round(clamp(v, 0, 100) * (w / 100));
    const color = kind === "none" ? lookOf(r).color : kinds[kind].color;
    const share = isFresh(r) ? 1 : r.allocatablePercent / 100;
    const round = w >= 40;
    if (round) {
      c.save();
      c.beginPath();
      c.roundRect(x, y, w, h, 3);
      c.clip();
    }
    c.fillStyle = colors.grid;
    c.fillRect(x, y, w, h);
    const end = at(r.allocatablePercent);
    if (end < w) {
      c.globalAlpha = 0.25;
      c.fillStyle = colors.soft;
      c.fillRect(x + end, y, w - end, h);
      c.globalAlpha = 1;
    }
    const stripe = h >= 10 ? Math.max(2, Math.round(h / 6)) : 0;
    const tall = h - stripe;
    if (isFresh(r)) {
      const measured = at(r.measuredPercent);
      const expected = at(r.measuredPercent + r.pendingPercent);
      c.fillStyle = colors[color];
      c.fillRect(x, y, measured, tall);
      if (expected > measured) {
        c.fillStyle = colors[color + "-hatch"];
        c.fillRect(x + measured, y, expected - measured, tall);
      }
      const peak = at(r.utilizationPercent);
      if (peak > expected + 1) {
        c.strokeStyle = colors[color];
        c.strokeRect(x + expected + 0.5, y + 0.5, peak - expected - 1, tall - 1);
      }
    } else {
      c.strokeStyle = colors.soft;
      c.setLineDash([2, 2]);
      c.strokeRect(x + 0.5, y + 0.5, Math.max(0, at(r.utilizationPercent * share) - 1), tall - 1);
      c.setLineDash([]);
    }
    if (stripe) {
      c.fillStyle = colors.soft;
      c.fillRect(x, y + tall, at((r.requestedPercent * r.allocatablePercent) / 100), stripe);
    }
    if (r.linePercent != null) {
      c.fillStyle = colors.ink;
      c.fillRect(x + Math.min(at(r.linePercent * share), w - 1), y, w >= 40 ? 2 : 1, h);
    }
    if (hasTarget(r)) drawTarget(c, x + at(r.targetPercent * share), y + tall / 2, Math.min(5, tall / 2 - 0.5));
    if (round) c.restore();
    else if (kind === "above") {
      c.strokeStyle = colors.ink;
      c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
  }
  function drawTarget(c, x, y, size) {
    for (const [radius, fill] of [[size, "card"], [size / 3, "ink"]]) {
      c.beginPath();
      c.arc(x, y, radius, 0, 2 * Math.PI);
      c.fillStyle = colors[fill];
      c.fill();
      c.strokeStyle = colors.ink;
      c.stroke();
    }
  }
  // sized returns the context of a canvas whose pixels are those of the screen.
  function sized(canvas, width, height) {
    const ratio = devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.lineWidth = 1;
    return c;
  }
  const describe = ({ n, r }) =>
    `${n.name}: ${lookOf(r).name}\n` +
    (isFresh(r) ? `measured ${percent(r.measuredPercent)} %, pending ${percent(r.pendingPercent)} %, ` : `${r.state}: requests count, `) +
    `effective ${percent(r.utilizationPercent)} %, requested ${percent(r.requestedPercent)} %, ${limitOf(r)}`;

  // ---- Strip and grid: all nodes, in their order.
  const pictures = {};
  function drawStrip() {
    const canvas = $("strip");
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const c = sized(canvas, width, height);
    const each = Math.min(width / rows.length, 48);
    const top = Math.max(100, ...rows.map(({ r }) => Math.min(r.utilizationPercent, 150)));
    const up = (v) => Math.round((clamp(v, 0, top) / top) * (height - 2));
    const columns = each >= 1 ? rows.length : Math.floor(width);
    const w = each >= 1 ? each : 1;
    const indexOf = (column) => Math.floor((column * rows.length) / columns);
    for (let column = 0; column < columns; column++) {
      const { r } = rows[indexOf(column)];
      const x = column * w;
      const wide = Math.max(1, w - (w > 3 ? 1 : 0));
      const { color } = lookOf(r);
      const measured = isFresh(r) ? up(r.measuredPercent) : 0;
      const used = up(r.utilizationPercent);
      if (used > measured) {
        c.fillStyle = colors[color + "-hatch"];
        c.fillRect(x, height - used, wide, used - measured);
      }
      c.fillStyle = colors[color];
      c.fillRect(x, height - measured, wide, measured);
      const limit = r.linePercent ?? r.targetPercent;
      if (limit == null) continue;
      c.fillStyle = colors.ink;
      c.fillRect(x, height - up(limit), hasTarget(r) ? Math.ceil(wide / 2) : wide, 1); // targets are dashed
    }
    const limits = new Set(rows.map(({ r }) => limitOf(r)));
    limits.delete("no line");
    if (limits.size === 1) {
      const [label] = limits;
      const { r } = rows.find(({ r }) => limitOf(r) === label);
      const line = r.linePercent ?? r.targetPercent;
      c.font = "600 11px system-ui, sans-serif";
      c.textAlign = "right";
      const box = c.measureText(label).width + 8;
      c.fillStyle = colors.card;
      c.fillRect(width - box, Math.max(0, height - up(line) - 16), box, 14);
      c.fillStyle = colors.ink;
      c.fillText(label, width - 4, Math.max(11, height - up(line) - 5));
      c.textAlign = "left";
    }
    pictures.strip = { indexAt: (x) => indexOf(Math.floor(x / w)), placeOf: (i) => [((i + 0.5) * columns * w) / rows.length, height / 2], across: 1 };
  }
  const named = [[240, 40], [200, 40], [150, 36], [110, 32]];
  const unnamed = [[70, 14], [44, 12], [28, 10], [18, 9], [12, 8], [8, 8]];
  function drawGrid() {
    const canvas = $("grid");
    const width = canvas.clientWidth;
    const heightOf = ([w, h]) => Math.ceil(rows.length / Math.max(1, Math.floor(width / w))) * h;
    const low = (cell) => heightOf(cell) <= Math.max(320, innerHeight * 0.45);
    // Small cells with names may be higher, before names are left out.
    const [least, h] = named.find(low) ?? named.slice(-1).find((cell) => heightOf(cell) <= Math.max(900, innerHeight)) ?? unnamed.find(low) ?? unnamed.at(-1);
    const across = Math.max(1, Math.floor(width / least));
    const w = Math.min(width / across, least * 1.5);
    const height = Math.max(1, Math.ceil(rows.length / across)) * h;
    canvas.style.height = height + "px";
    const c = sized(canvas, width, height);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "top";
    const tail = commonTail(rows.map(({ n }) => n.name));
    rows.forEach(({ n, r }, i) => {
      const [x, y] = [Math.round((i % across) * w), Math.floor(i / across) * h];
      const wide = Math.round(((i % across) + 1) * w) - x - (w > 40 ? 10 : 1);
      const hasName = h >= 32;
      if (hasName) {
        c.fillStyle = colors.ink;
        c.fillText(fit(c, (r.aboveLine || kindOf(r) === "close" ? kinds[kindOf(r)].mark + " " : "") + n.name.slice(0, n.name.length - tail), wide), x, y + 1);
      }
      drawBar(c, r, x, y + (hasName ? 16 : 0), wide, h - (hasName ? 22 : h >= 12 ? 3 : 1));
      if (view.node === n.name) {
        c.strokeStyle = colors.accent;
        c.lineWidth = 2;
        c.strokeRect(x + 1, y + (hasName ? 15 : 1), wide - 2, h - (hasName ? 20 : 2));
        c.lineWidth = 1;
      }
    });
    pictures.grid = {
      indexAt: (x, y) => (x < across * w ? Math.floor(y / h) * across + Math.floor(x / w) : -1),
      placeOf: (i) => [((i % across) + 0.5) * w, (Math.floor(i / across) + 0.5) * h],
      across,
    };
  }
  // commonTail is the length of the domain that all names end with.
  function commonTail(names) {
    const domain = names[0]?.match(/\..*$/)?.[0] ?? "";
    return names.length > 1 && names.every((name) => name.endsWith(domain)) ? domain.length : 0;
  }
  // fit shortens a text to a width.
  function fit(c, text, width) {
    if (c.measureText(text).width <= width) return text;
    let end = Math.floor((text.length * width) / c.measureText(text).width);
    while (end > 1 && c.measureText(text.slice(0, end) + "…").width > width) end--;
    return text.slice(0, end) + "…";
  }
  for (const id of ["strip", "grid"]) {
    const canvas = $(id);
    const label = canvas.getAttribute("aria-label");
    let [chosen, pressed] = ["", ""]; // names, because a refresh sorts the nodes anew
    const show = (i) => {
      if (!rows[i]) return hideTip();
      chosen = rows[i].n.name;
      const [x, y] = pictures[id].placeOf(i);
      const box = canvas.getBoundingClientRect();
      showTip(describe(rows[i]), box.left + x, box.top + y);
      canvas.setAttribute("aria-label", label + ". " + describe(rows[i]));
    };
    const under = (event) => {
      const box = canvas.getBoundingClientRect();
      return pictures[id]?.indexAt(event.clientX - box.left, event.clientY - box.top);
    };
    canvas.onpointermove = (event) => show(under(event));
    canvas.onpointerleave = canvas.onblur = hideTip;
    canvas.onpointerdown = (event) => (pressed = rows[under(event)]?.n.name);
    canvas.onclick = () => pressed && openNode(pressed);
    canvas.onkeydown = (event) => {
      if (isShortcut(event)) return;
      const across = pictures[id]?.across ?? 1;
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -Infinity, End: Infinity }[event.key];
      const at = rows.findIndex(({ n }) => n.name === chosen);
      if (step) {
        event.preventDefault();
        show(clamp(at < 0 && Number.isFinite(step) ? 0 : at + step, 0, rows.length - 1));
      } else if (event.key === "Enter" && at >= 0) openNode(chosen);
    };
  }
  function drawLegend() {
    const sample = { state: "Fresh", measuredPercent: 45, pendingPercent: 0, utilizationPercent: 45, requestedPercent: 0, allocatablePercent: 100 };
    const samples = [
      ["▲ above the line (tick)", { measuredPercent: 90, utilizationPercent: 90, linePercent: 80 }, "above"],
      ["◆ at most " + near + " points below it", { measuredPercent: 75, utilizationPercent: 75, linePercent: 80 }, "close"],
      ["◎ the target", { measuredPercent: 62, utilizationPercent: 62, targetPercent: 40 }],
      ["measured", {}],
      ["pending (hatched)", { measuredPercent: 20, pendingPercent: 45, utilizationPercent: 65 }],
      ["margin or predicted peak (outline)", { measuredPercent: 20, utilizationPercent: 65 }],
      ["requested (stripe)", { measuredPercent: 0, utilizationPercent: 0, requestedPercent: 60 }],
      ["not allocatable (gray end)", { measuredPercent: 0, utilizationPercent: 0, allocatablePercent: 60 }],
      ["no fresh load: requests count (dashed)", { state: "Absent", utilizationPercent: 60 }],
    ];
    const shown = samples.filter(([, { linePercent, targetPercent }]) => !snapshot || (any(hasTarget) ? linePercent : targetPercent) == null);
    $("legend").replaceChildren(...shown.map(([text, changes, kind = "below"]) => {
      const canvas = element("canvas", {});
      canvas.setAttribute("aria-hidden", "true");
      drawBar(sized(canvas, 44, 14), { ...sample, ...changes }, 0, 0, 44, 14, kind);
      return element("li", {}, canvas, text);
    }));
  }

  // ---- The table: only the rows in view exist.
  const rowHeight = 34;
  const columns = [
    { head: "Node", text: ({ n }) => n.name },
    { head: "Load", bar: true, picture: (c, { r }, w) => drawBar(c, r, 0, 0, w, 18) },
    { head: "Measured", text: ({ r }) => (isFresh(r) || r.measuredPercent == null ? percent(r.measuredPercent) : "(" + percent(r.measuredPercent) + ")"), drop: 1 },
    { head: "Pending", text: ({ r }) => (isFresh(r) ? percent(r.pendingPercent) : "–"), drop: 2 },
    { head: "Requested", text: ({ r }) => percent(r.requestedPercent), drop: 2 },
    { head: "Effective", text: ({ r }) => percent(r.utilizationPercent) },
    { head: "Line", text: ({ r }) => (r.linePercent == null ? "–" : r.linePercent + (r.lineAnnotated ? "*" : "")), drop: 1, of: "line" },
    { head: "Target", text: ({ r }) => String(r.targetPercent ?? "–"), drop: 1, of: "target" },
    { head: "Allocatable", text: ({ r }) => r.allocatable, drop: 3 },
    { head: "Pods", text: ({ n }) => number(n.pods, 0), drop: 3 },
    { head: "State", text: ({ r }) => stateOf(r), drop: 2, left: true },
  ];
  const className = (c) => [c.drop && "drop" + c.drop, c.bar && "bar", c.left && "text", c.of && "of-" + c.of].filter(Boolean).join(" ");
  $("heads").append(...columns.map((c) => element("th", { scope: "col", textContent: c.head, className: className(c) })));
  let cursor = 0;
  function newRow() {
    const row = element("tr", { tabIndex: -1 }, ...columns.map((c, i) => {
      const cell = element(i ? "td" : "th", { className: className(c) });
      if (!i) cell.scope = "row";
      if (c.picture) cell.append(element("canvas", { ariaHidden: "true" }));
      return cell;
    }));
    let pressed = null; // a refresh may give the row another node
    row.onpointerdown = () => (pressed = row.node);
    row.onpointerleave = () => (pressed = null);
    row.onclick = () => openNode(pressed ?? row.node);
    return row;
  }
  function drawRows() {
    const box = $("rows");
    const body = $("body");
    const first = clamp(Math.floor(box.scrollTop / rowHeight) - 5, 0, Math.max(0, rows.length - 1));
    const last = Math.min(rows.length, first + Math.ceil(box.clientHeight / rowHeight) + 12);
    const [before, after] = body.gaps ?? (body.gaps = [0, 0].map(() => element("tr", { className: "gap" }, element("td", { colSpan: columns.length }))));
    before.setAttribute("aria-hidden", "true");
    after.setAttribute("aria-hidden", "true");
    before.firstChild.style.height = first * rowHeight + "px";
    after.firstChild.style.height = (rows.length - last) * rowHeight + "px";
    if (!before.isConnected) body.append(before, after);
    const focused = document.activeElement.closest("#body tr");
    const focusedNode = focused?.node;
    const existing = [...body.rows].filter((row) => !row.classList.contains("gap"));
    while (existing.length > last - first) existing.pop().remove();
    while (existing.length < last - first) {
      const row = newRow();
      if (!existing.length) watchSizes(row);
      after.before(row);
      existing.push(row);
    }
    $("nodes").setAttribute("aria-rowcount", rows.length + 1);
    existing.forEach((row, i) => {
      const entry = rows[first + i];
      row.node = entry.n.name;
      row.setAttribute("aria-rowindex", first + i + 2);
      row.setAttribute("aria-current", String(entry.n.name === view.node));
      columns.forEach((c, column) => {
        const cell = row.cells[column];
        if (c.picture) return;
        const text = c.text(entry);
        if (cell.textContent !== text) cell.textContent = text;
        if (!column) cell.title = text;
      });
    });
    if (focused && (!focused.isConnected || focused.node !== focusedNode)) { // the focus follows the node
      cursor = Math.max(0, rows.findIndex(({ n }) => n.name === focusedNode));
      (existing.find((row) => row.node === focusedNode) ?? box).focus({ preventScroll: true });
    }
    drawPictures();
  }
  // pictureSizes are those of the pictures of one row, by column: all rows have the same. The browser tells them once it has laid
  // out the rows. To ask for them would make it lay out the rows twice a frame.
  const pictureSizes = [];
  const sizesObserver = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) pictureSizes[target.parentNode.cellIndex] = [contentRect.width, contentRect.height].map(Math.round);
    drawPictures();
  });
  function watchSizes(row) {
    sizesObserver.disconnect();
    for (const canvas of row.querySelectorAll("canvas")) sizesObserver.observe(canvas);
  }
  function drawPictures() {
    for (const row of $("body").rows) {
      const entry = rows[row.getAttribute("aria-rowindex") - 2];
      columns.forEach((c, column) => {
        const [width, height] = pictureSizes[column] ?? [];
        if (c.picture && width && entry) c.picture(sized(row.cells[column].firstChild, width, height), entry, width);
      });
    }
  }
  let scheduled = false;
  $("rows").onscroll = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      if (snapshot) drawRows();
    });
  };
  $("rows").onkeydown = (event) => {
    if (isShortcut(event)) return;
    const page = Math.max(1, Math.floor($("rows").clientHeight / rowHeight) - 2);
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity }[event.key];
    const focused = event.target.closest("#body tr");
    if (event.key === "Enter" && focused) return openNode(focused.node);
    if (!step || rows.length === 0) return;
    event.preventDefault();
    if (focused) cursor = Number(focused.getAttribute("aria-rowindex")) - 2;
    const target = clamp(focused ? cursor + step : cursor, 0, rows.length - 1);
    const box = $("rows");
    box.scrollTop = clamp(box.scrollTop, (target + 2) * rowHeight - box.clientHeight, target * rowHeight);
    drawRows(); // moves the cursor with the focused node
    cursor = target;
    $("body").querySelector(`[aria-rowindex="${cursor + 2}"]`)?.focus({ preventScroll: true });
  };

  // ---- A node and its pods.
  let shown = { node: "", pods: null, problem: "" };
  let opener = null;
  function openNode(name, changes) {
    hideTip();
    opener = document.activeElement;
    setView({ node: name, ...changes }, true);
    $("h-node").focus();
  }
  $("try-drain").onclick = () => {
    setView({ view: "whatif", drain: view.node, add: "", like: "", more: "", of: "" }, true);
    $("h-whatif").scrollIntoView();
  };
  $("close").onclick = () => {
    setView({ node: "" }, true);
    if (opener?.isConnected) opener.focus();
  };
  // readPods reads the pods of the open node. While an answer is awaited, it asks once more afterwards: answers may overtake others.
  let asking = {};
  async function readPods() {
    const node = view.node;
    if (!nodeOf(node)) return;
    if (asking.node === node) {
      asking.again = true;
      return;
    }
    const asked = (asking = { node });
    const pods = await get("pods.json?node=" + encodeURIComponent(node));
    if (asked !== asking) return; // another node was opened
    asking = {};
    if (node === view.node) {
      shown = { node, pods: pods.result ?? null, problem: pods.problem ?? "" };
      drawNode();
    }
    if (asked.again) readPods();
  }
  // Amounts of pods are written as kubectl plimsoll top does: in millicores and mebibytes.
  const units = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  const amount = (q) => parseFloat(q) * (units[q.replace(/^[-\d.]+/, "")] ?? 1);
  const amountText = (q, of) => (of === "cpu" ? Math.round(1000 * amount(q)) + "m" : Math.floor(amount(q) / units.Mi) + "Mi");
  const podColumns = [
    { head: "Pod", text: (p) => p.namespace + "/" + p.name },
    { head: "Usage", bar: true },
    { head: "CPU", text: (p) => amountText(p.cpu.usage, "cpu") },
    { head: "CPU %", text: (p) => percent(p.cpu.usagePercent), drop: 1 },
    { head: "Pending %", text: (p) => percent(p.cpu.pendingPercent), drop: 2 },
    { head: "Memory", text: (p) => amountText(p.memory.usage, "memory"), drop: 1 },
    { head: "Memory %", text: (p) => percent(p.memory.usagePercent), drop: 3 },
    { head: "Pending %", text: (p) => percent(p.memory.pendingPercent), drop: 3 },
  ];
  // drawLoads shows both resources of a node.
  let drawnLoads = "";
  function drawLoads(n) {
    const now = JSON.stringify([n?.cpu, n?.memory]);
    if (now === drawnLoads) return;
    drawnLoads = now;
    const known = (r, v) => (isFresh(r) ? percent(v) : "–");
    $("node-loads").replaceChildren(...(n ? [answers.table("Load of the node", [["Resource", "text"], ["Effective %"], ["Line or target", "text"], ["Measured %", "drop1"], ["Pending %", "drop1"], ["Requested %"], ["Allocatable", "drop1"], ["State", "text"]],
      [["CPU", n.cpu], ["Memory", n.memory]].map(([name, r]) => [
        name, percent(r.utilizationPercent), limitOf(r), known(r, r.measuredPercent), known(r, r.pendingPercent), percent(r.requestedPercent), r.allocatable, stateOf(r),
      ]))] : []));
  }
  function drawNode() {
    $("node").hidden = !view.node || view.view !== "";
    if ($("node").hidden) return;
    const n = nodeOf(view.node);
    $("h-node").textContent = view.node;
    $("node-facts").replaceChildren(...(n ? [
      plural(n.pods, "pod"), n.pool && "pool " + n.pool, n.labels?.[zone] && "zone " + n.labels[zone], n.annotationProblem,
    ] : ["no node has this name"]).filter(Boolean).map((fact) => element("li", { textContent: fact })));
    drawLoads(n);
    $("labels").replaceChildren(...Object.entries(n?.labels ?? {}).map(([key, value]) => element("li", { textContent: key + "=" + value })));
    const pods = n && shown.node === view.node ? shown.pods : null;
    $("node-note").textContent = n && shown.node === view.node && shown.problem ? "Cannot read the pods: " + shown.problem
      : pods ? "Bars are the expected " + (view.resource === "cpu" ? "CPU" : "memory") + " usage, beside that of the largest pod. Hatched is pending: not measured yet." : n ? "Reading the pods …" : "";
    drawPods(pods?.pods ?? []);
  }
  let drawnPods = "[]";
  function drawPods(pods) {
    const r = view.resource;
    const now = JSON.stringify([r, pods]);
    if (now !== drawnPods) fillPods(pods, r);
    drawnPods = now;
    const most = Math.max(1, ...pods.map((p) => p[r].usagePercent));
    for (const canvas of $("pods").querySelectorAll("canvas")) {
      const { usagePercent, pendingPercent } = canvas.pod[r];
      drawBar(sized(canvas, canvas.clientWidth, 18), {
        state: "Fresh", measuredPercent: (100 * (usagePercent - pendingPercent)) / most, pendingPercent: (100 * pendingPercent) / most,
        utilizationPercent: (100 * usagePercent) / most, requestedPercent: 0, allocatablePercent: 100,
      }, 0, 0, canvas.clientWidth, 18, "below");
    }
  }
  const maxMoved = 5;
  function fillPods(pods, r) {
    const moved = pods.filter((p) => p.replaces).sort((a, b) => (a.replaces.at < b.replaces.at ? 1 : -1));
    refill($("node-moves"), ...moved.slice(0, maxMoved).map((p) => element("li", {}, answers.podButton(p), ...answers.replaces(p.replaces))),
      ...(moved.length > maxMoved ? [element("li", { textContent: plural(moved.length - maxMoved, "more moved pod") })] : []));
    $("node-moves").hidden = moved.length === 0;
    if (pods.length === 0) return $("pods").replaceChildren();
    const sorted = [...pods].sort((a, b) => b[r].usagePercent - a[r].usagePercent);
    const isPending = (p) => p.cpu.pendingPercent >= 0.05 || p.memory.pendingPercent >= 0.05;
    const group = (name, list) => {
      if (list.length === 0) return [];
      const title = element("th", { colSpan: podColumns.length, scope: "rowgroup", textContent: name + " (" + number(list.length, 0) + ")" });
      return [element("tbody", {}, element("tr", {}, title), ...list.map((p) => element("tr", {}, ...podColumns.map((c, i) => {
        const cell = element(i ? "td" : "th", { className: className(c), ...(i ? {} : { scope: "row", title: c.text(p) }) });
        cell.append(c.bar ? element("canvas", { pod: p }) : i ? c.text(p) : answers.podButton(p));
        return cell;
      }))))];
    };
    refill($("pods"),
      element("thead", {}, element("tr", {}, ...podColumns.map((c) => element("th", { scope: "col", textContent: c.head, className: className(c) })))),
      ...group("Pending", sorted.filter(isPending)), ...group("Covered by the measurement", sorted.filter((p) => !isPending(p))),
    );
  }

  // ---- Health: doctor's checks, those to fix first, each with its fix to copy.
  let [healthAt, drawnChecks] = ["", ""];
  const statuses = { error: "✗", warning: "!", skipped: "-", ok: "✓" };
  function copyButton(text) {
    const button = element("button", { type: "button", textContent: "Copy" });
    button.onclick = async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it to copy";
      }
    };
    return button;
  }
  function drawHealth() {
    const health = snapshot.health;
    if (!health || health.time === healthAt) return;
    healthAt = health.time;
    const checks = health.checks ?? [];
    const counted = (status) => checks.filter((c) => c.status === status).length;
    const found = [["error", "error"], ["warning", "warning"]].filter(([status]) => counted(status)).map(([status, noun]) => plural(counted(status), noun));
    const verdict = health.problem ? "the checks could not be run" : found.join(", ") || "all is well";
    const mark = health.problem || counted("error") ? "✗" : counted("warning") ? "!" : "✓";
    $("health").className = { "✗": "fails", "!": "warns", "✓": "passes" }[mark];
    $("health-summary").textContent = mark + " Health: " + verdict + ", checked at " + new Date(health.time).toLocaleTimeString();
    const now = JSON.stringify([checks, health.problem]);
    if (now === drawnChecks) return;
    drawnChecks = now;
    const order = Object.keys(statuses);
    const items = [...checks].sort((a, b) => order.indexOf(a.status) - order.indexOf(b.status)).map((c) => {
      const item = element("li", {}, `${statuses[c.status] ?? "?"} ${c.group}: ${c.message}`);
      for (const a of c.advice ?? []) {
        item.append(element("p", { className: "note", textContent: a.text }));
        const fix = [a.command, a.yaml].filter(Boolean).join("\n");
        if (fix) item.append(element("pre", { textContent: fix }), copyButton(fix));
      }
      return item;
    });
    $("checks").replaceChildren(...(health.problem ? [element("li", { textContent: health.problem })] : []), ...items);
  }

  // choices fills a filter with what nodes have, and hides it where that is nothing.
  function choices(id, names) {
    const sorted = [...new Set(names)].filter(Boolean).sort();
    $(id + "-label").hidden = sorted.length === 0;
    if (JSON.stringify(sorted) !== $(id).dataset.choices) {
      $(id).dataset.choices = JSON.stringify(sorted);
      $(id).replaceChildren(element("option", { value: "", textContent: "all" }), ...sorted.map((name) => element("option", { value: name, textContent: name })));
    }
    $(id).value = view[id];
  }

  // ---- The whole.
  function drawFacts() {
    const s = snapshot;
    $("facts").replaceChildren(...[
      s.context && "context " + s.context, `load and ${any(hasTarget) ? "target" : "lines"} of ` + s.plugin + " in profile " + s.profile, s.configuration && "from " + s.configuration,
    ].filter(Boolean).map((fact) => element("li", { textContent: fact })));
    const problems = [...(s.unknown ?? []).map((r) => "No node has fresh " + r + " load."), ...(s.problems ?? [])];
    $("problems").textContent = problems.join("\n");
    $("problems").hidden = problems.length === 0;
    const nodes = Object.values(s.nodes ?? {});
    choices("pool", nodes.map((n) => n.pool));
    choices("runs", nodes.flatMap((n) => n.profiles ?? []));
  }
  // Tiles sum up all nodes, whatever the filter. Each opens what it counts.
  let drawnTiles = "";
  function drawTiles(all) {
    const counts = { above: 0, close: 0, below: 0, none: 0, stale: 0, other: 0 };
    const [name, other, otherName] = view.resource === "cpu" ? ["CPU", "memory", "memory"] : ["memory", "cpu", "CPU"];
    for (const n of Object.values(snapshot.nodes ?? {})) {
      const r = n[view.resource];
      if (n[other].aboveLine && !r.aboveLine) counts.other++;
      counts[kindOf(r)]++;
      if (!isFresh(r)) counts.stale++;
    }
    const ofLines = [
      [counts.above, `above the ${name} line` + (counts.other ? `, ${number(counts.other, 0)} more above that of ${otherName}` : ""), "above", { view: "", state: "above" }],
      [counts.close, "close to it", "close", { view: "", state: "close" }],
    ];
    const tiles = [
      [all, all === 1 ? "node" : "nodes", "", { view: "", state: "", pool: "", runs: "", q: "" }],
      ...(any(hasTarget) ? [] : ofLines),
      [counts.stale, `without fresh ${name} load`, "none", { view: "", state: "stale" }],
      [snapshot.waitingPods ?? 0, snapshot.waitingPods === 1 ? "waiting pod" : "waiting pods", "waits", { view: "waiting" }],
    ];
    const now = JSON.stringify([tiles, view.view, view.state]);
    if (now === drawnTiles) return;
    drawnTiles = now;
    const focused = [...$("tiles").children].findIndex((item) => item.contains(document.activeElement));
    $("tiles").replaceChildren(...tiles.map(([count, name, kind, changes]) => element("li", {}, element("button", {
      type: "button", className: "tile" + (count ? " " + kind : ""), ariaPressed: String(Boolean(kind) && Object.entries(changes).every(([key, value]) => view[key] === value)),
      onclick: () => {
        if (changes.state !== undefined) $("state").value = changes.state;
        setView({ node: "", pod: "", ...changes }, true);
      },
    }, element("strong", { textContent: number(count, 0) }), " ", name))));
    if (focused >= 0) $("tiles").children[focused].firstChild.focus({ preventScroll: true });
  }
  function draw() {
    if (!snapshot) return;
    $("main").hidden = false;
    arrange();
    drawFacts();
    drawHealth();
    const count = (kind) => rows.filter(({ r }) => kindOf(r) === kind).length;
    const all = Object.keys(snapshot.nodes ?? {}).length;
    const target = any(hasTarget);
    $("h-map").textContent = target ? "Load and target" : "Distance to the load line";
    $("nodes").className = target ? "target" : "line";
    if ($("legend").className !== $("nodes").className + " legend") drawLegend();
    $("legend").className = $("nodes").className + " legend";
    $("count").textContent = all === 0 ? "The cluster has no nodes." : (rows.length < all ? number(rows.length, 0) + " of " : "") + plural(all, "node") +
      (target ? "" : ": " + number(count("above"), 0) + " above the line, " + number(count("close"), 0) + " at most " + near + " points below it") +
      (rows.length === 0 && all > 0 ? ". No node matches: change the filter, the state or the pool." : "");
    $("filters").hidden = all === 0;
    for (const id of ["strip", "grid", "grid-note", "legend"]) $(id).hidden = rows.length === 0;
    $("h-table").parentElement.classList.toggle("empty", rows.length === 0);
    drawTiles(all);
    answers.draw();
    if (view.view === "") {
      drawGroups();
      drawStrip();
      drawGrid();
      drawRows();
    }
    if (view.node !== shown.node) {
      shown = { node: view.node, pods: null, problem: "" };
      readPods();
    }
    drawNode();
  }
  function drawAge() {
    if (!snapshot) return;
    let oldest = ""; // times of one format are in the order of their texts
    for (const n of Object.values(snapshot.nodes ?? {}))
      for (const at of [n.cpu.measuredAt, n.memory.measuredAt]) if (at && (!oldest || at < oldest)) oldest = at;
    const at = Date.parse(snapshot.time);
    $("age").textContent = oldest ? "Oldest measurement: " + span(Math.max(0, (at - Date.parse(oldest)) / 1000)) + " old." : "Nothing is measured.";
  }
  $("controls").onsubmit = (event) => event.preventDefault();
  $("q").oninput = () => setView({ q: $("q").value });
  for (const id of ["resource", "state", "pool", "runs", "group", "sort"]) $(id).onchange = () => setView({ [id]: $(id).value });
  addEventListener("popstate", async () => {
    if (!$("data") && (await logIn())) follow();
    readView();
    draw();
  });
  addEventListener("keydown", (event) => {
    if (isShortcut(event) || event.target.closest("input, select")) return;
    if (event.key === "/" && view.view === "") {
      event.preventDefault();
      $("filters").open = true;
      $("q").focus();
    } else if (event.key !== "Escape") return;
    else if (!$("tip").hidden) hideTip();
    else if (view.pod) $("pod-close").click();
    else if (view.node && view.view === "") $("close").click();
  });
  const restyle = () => {
    readColors();
    drawLegend();
    draw();
  };
  for (const query of ["(prefers-color-scheme: dark)", "(prefers-contrast: more)"]) matchMedia(query).addEventListener("change", restyle);
  new ResizeObserver(draw).observe($("strip"));
  // Filters fold on a narrow screen, unless one is set.
  const narrow = matchMedia("(max-width: 560px)");
  const fold = () => ($("filters").open = !narrow.matches || ["q", "state", "pool", "runs"].some((key) => view[key]));
  narrow.addEventListener("change", fold);

  // ---- The stream of changes.
  const patience = 5; // intervals without an update
  let events = null; // Browsers open few connections to a server, so that tabs out of sight have none.
  let isLive = false;
  let problem = ""; // why there is no stream
  let refused = false;
  let [newest, updatedAt] = ["", 0]; // the time of the last snapshot, and when it came
  let [retryAt, pause] = [0, 0];
  function received() {
    if (snapshot.time !== newest) [newest, updatedAt, retryAt, pause] = [snapshot.time, performance.now(), 0, 0];
    [isLive, problem, refused] = [true, "", false];
    drawAge();
    watch();
    draw();
  }
  // watch says when no update comes: the command hangs, or the connection broke without a sign. It tries another connection, ever
  // less often.
  function watch() {
    if (document.hidden) return;
    const now = performance.now();
    const silent = isSaved || !snapshot ? 0 : (now - updatedAt) / 1000;
    const isLate = silent > patience * snapshot?.intervalSeconds;
    const lost = problem || (isLate ? "The command sends no updates." : "");
    const text = lost && lost + (snapshot ? " This is what it showed last, at " + new Date(snapshot.time).toLocaleTimeString() + "." : "");
    const state = lost ? "Not live." : isSaved ? "Saved at " + new Date(snapshot.time).toLocaleString() + "." : isLive ? "Live." : "Reading nodes and pods …";
    if ($("lost").textContent !== text) $("lost").textContent = text; // both are read out when they change
    if ($("connection").textContent !== state) $("connection").textContent = state;
    $("lost").hidden = !lost;
    if (isLate) $("age").textContent = "No update for " + span(silent) + ".";
    if (!(isLate || refused) || now < retryAt) return;
    if (retryAt) follow();
    pause = clamp(2 * pause, 5000, 60000);
    retryAt = now + pause;
  }
  // follow opens the stream of changes, which begins with a snapshot.
  function follow() {
    events?.close();
    isLive = false;
    if (document.hidden) return;
    const opened = (events = new EventSource("events"));
    events.addEventListener("snapshot", (event) => {
      snapshot = JSON.parse(event.data);
      received();
      readPods();
    });
    let loadOf = "";
    events.addEventListener("delta", (event) => {
      mergePatch(snapshot, JSON.parse(event.data));
      received();
      const node = nodeOf(view.node);
      const load = JSON.stringify([view.node, node?.pods, node?.cpu, node?.memory]);
      if (load !== loadOf) readPods();
      loadOf = load;
    });
    events.addEventListener("refused", (event) => {
      opened.close();
      [problem, refused] = [JSON.parse(event.data), true];
      watch();
    });
    events.onerror = () => {
      problem = opened.readyState === EventSource.CLOSED ? "No session: open the URL that the command printed."
        : "The command does not answer." + (snapshot ? "" : " Does it still run?");
      watch();
    };
  }
  // show shows a snapshot that does not change.
  function show(saved) {
    [snapshot, isSaved] = [saved, true];
    $("health").hidden = !saved.health;
    received();
  }
  // logIn exchanges the token of the URL for a session, and reports whether there is one.
  async function logIn() {
    const parts = location.hash.slice(1).split("&");
    const found = parts.find((part) => part.startsWith("token="));
    if (!found) return false;
    history.replaceState(null, "", "#" + parts.filter((part) => part !== found).join("&"));
    await fetch("session", { method: "POST", body: found.slice("token=".length) }).catch(() => {});
    return true;
  }
  async function connect() {
    const data = $("data");
    if (data) {
      readView();
      fold();
      return show(JSON.parse(data.textContent));
    }
    await logIn();
    readView();
    fold();
    follow();
    setInterval(watch, 1000);
    document.addEventListener("visibilitychange", () => {
      updatedAt = performance.now();
      follow();
      watch();
    });
  }
  restyle();
  connect();
})();
