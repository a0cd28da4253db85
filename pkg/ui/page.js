(() => {
  const { $, element, clamp, number, cssColor, showTip, hideTip } = base;
  const percent = (v) => (v == null ? "–" : v.toFixed(1));
  const span = (seconds) =>
    seconds < 90 ? Math.round(seconds) + " s" : seconds < 5400 ? Math.round(seconds / 60) + " min" : Math.round(seconds / 3600) + " h";
  const plural = (n, noun) => number(n, 0) + " " + noun + (n === 1 ? "" : "s");

  // ---- The data.
  let snapshot = null;
  let isSaved = false;

  // merge applies a JSON merge patch (RFC 7386).
  function merge(target, patch) {
    for (const [key, value] of Object.entries(patch)) {
      if (key === "__proto__") continue;
      if (value === null) delete target[key];
      else if (typeof value !== "object" || Array.isArray(value)) target[key] = value;
      else merge(Object.hasOwn(target, key) ? target[key] : (target[key] = {}), value);
    }
  }

  // ---- The view, which the URL's fragment holds.
  const view = { q: "", resource: "cpu", state: "", pool: "", sort: "line", node: "" };
  const defaults = { ...view };
  function readView() {
    const fragment = new URLSearchParams(location.hash.slice(1));
    for (const key of Object.keys(view)) view[key] = fragment.get(key) ?? defaults[key];
    if (view.resource !== "memory") view.resource = "cpu";
    if (!orders[view.sort]) view.sort = "line";
    for (const key of ["q", "resource", "state", "sort"]) $(key).value = view[key];
  }
  // setView changes the view. Only a step that back should undo is an entry of the history.
  function setView(changes, step) {
    Object.assign(view, changes);
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
  const distance = (r) => (r.linePercent == null ? -Infinity : r.utilizationPercent - r.linePercent);
  const orders = {
    line: distance,
    use: (r) => r.utilizationPercent,
    pending: (r) => r.pendingPercent,
    requested: (r) => r.requestedPercent,
    name: () => 0,
  };
  // matcher returns a test of nodes for the words of the filter, which are those of kubectl plimsoll top --watch.
  function matcher(text) {
    const tests = text.split(/\s+/).filter(Boolean).map((word) => {
      if (word.startsWith("@")) {
        const state = word.slice(1).toLowerCase();
        return (n) => [n.cpu, n.memory].some((r) => r.state.toLowerCase().startsWith(state) || (r.aboveLine && "above".startsWith(state)));
      }
      const [, key, not, value] = word.match(/^([^=!]+)(!?)==?(.*)$/) ?? [];
      if (key) return (n) => (n.labels?.[key] === value) === !not;
      return (n) => n.name.includes(word);
    });
    return (n) => tests.every((test) => test(n));
  }
  let rows = [];
  function arrange() {
    const matches = matcher(view.q);
    const inState = (r) => !view.state || (view.state === "stale" ? !isFresh(r) : kindOf(r) === view.state);
    const order = orders[view.sort];
    rows = Object.values(snapshot.nodes ?? {})
      .filter((n) => inState(n[view.resource]) && (!view.pool || n.pool === view.pool) && matches(n))
      .map((n) => ({ n, r: n[view.resource], key: order(n[view.resource]) }))
      .sort((a, b) => (a.key === b.key ? (a.n.name < b.n.name ? -1 : 1) : b.key - a.key));
  }

  // ---- Bars.
  let colors = {};
  function readColors() {
    colors = {};
    for (const name of ["ink", "soft", "grid", "severe", "hot", "heat1", "stock", "accent"]) colors[name] = cssColor(name);
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
  // has what is requested, the gray end what is not allocatable, and the tick is the line.
  function drawBar(c, r, x, y, w, h) {
    const at = (v) => Math.round(clamp(v, 0, 100) * (w / 100));
    const kind = kindOf(r);
    const color = kinds[kind].color;
    c.fillStyle = colors.grid;
    c.fillRect(x, y, w, h);
    const end = at(r.allocatablePercent);
    c.globalAlpha = 0.25;
    c.fillStyle = colors.soft;
    c.fillRect(x + end, y, w - end, h);
    c.globalAlpha = 1;
    const stripe = h >= 10 ? Math.max(2, Math.round(h / 6)) : 0;
    const tall = h - stripe;
    if (isFresh(r)) {
      const measured = at(r.measuredPercent);
      const expected = at(r.measuredPercent + r.pendingPercent);
      c.fillStyle = colors[color];
      c.fillRect(x, y, measured, tall);
      c.fillStyle = colors[color + "-hatch"];
      c.fillRect(x + measured, y, expected - measured, tall);
      const peak = at(r.utilizationPercent);
      if (peak > expected + 1) {
        c.strokeStyle = colors[color];
        c.strokeRect(x + expected + 0.5, y + 0.5, peak - expected - 1, tall - 1);
      }
    } else {
      c.strokeStyle = colors.soft;
      c.setLineDash([2, 2]);
      c.strokeRect(x + 0.5, y + 0.5, Math.max(0, at((r.utilizationPercent * r.allocatablePercent) / 100) - 1), tall - 1);
      c.setLineDash([]);
    }
    if (stripe) {
      c.fillStyle = colors.soft;
      c.fillRect(x, y + tall, at((r.requestedPercent * r.allocatablePercent) / 100), stripe);
    }
    if (r.linePercent != null) {
      c.fillStyle = colors.ink;
      c.fillRect(x + Math.min(at(r.linePercent), w - 1), y, w >= 40 ? 2 : 1, h);
    }
    if (kind === "above" && w < 40) {
      c.strokeStyle = colors.ink;
      c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
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
    `${n.name}: ${kinds[kindOf(r)].name}\n` +
    (isFresh(r) ? `measured ${percent(r.measuredPercent)} %, pending ${percent(r.pendingPercent)} %, ` : `${r.state}: requests count, `) +
    `effective ${percent(r.utilizationPercent)} %, requested ${percent(r.requestedPercent)} %, line ${r.linePercent ?? "–"}${r.linePercent == null ? "" : " %"}`;

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
      const color = kinds[kindOf(r)].color;
      const measured = isFresh(r) ? up(r.measuredPercent) : 0;
      const used = up(r.utilizationPercent);
      c.fillStyle = colors[color + "-hatch"];
      c.fillRect(x, height - used, wide, used - measured);
      c.fillStyle = colors[color];
      c.fillRect(x, height - measured, wide, measured);
      if (r.linePercent == null) continue;
      c.fillStyle = colors.ink;
      c.fillRect(x, height - up(r.linePercent), wide, 1);
    }
    pictures.strip = { indexAt: (x) => indexOf(Math.floor(x / w)), placeOf: (i) => [((i + 0.5) * columns * w) / rows.length, height / 2], across: 1 };
  }
  const cells = [[240, 40], [200, 40], [150, 36], [110, 32], [70, 14], [44, 12], [28, 10], [18, 9], [12, 8], [8, 8]];
  function drawGrid() {
    const canvas = $("grid");
    const width = canvas.clientWidth;
    const fits = ([w, h]) => Math.ceil(rows.length / Math.max(1, Math.floor(width / w))) * h <= Math.max(320, innerHeight * 0.45);
    const [least, h] = cells.find(fits) ?? cells.at(-1);
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
      const named = h >= 32;
      if (named) {
        c.fillStyle = colors.ink;
        c.fillText(fit(c, kinds[kindOf(r)].mark + " " + n.name.slice(0, n.name.length - tail), wide), x, y + 1);
      }
      drawBar(c, r, x, y + (named ? 16 : 0), wide, h - (named ? 22 : h >= 12 ? 3 : 1));
      if (view.node === n.name) {
        c.strokeStyle = colors.accent;
        c.lineWidth = 2;
        c.strokeRect(x + 1, y + (named ? 15 : 1), wide - 2, h - (named ? 20 : 2));
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
    let chosen = -1;
    const show = (i) => {
      if (!rows[i]) return hideTip();
      chosen = i;
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
    canvas.onclick = (event) => rows[under(event)] && openNode(rows[under(event)].n.name);
    canvas.onkeydown = (event) => {
      const across = pictures[id]?.across ?? 1;
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -Infinity, End: Infinity }[event.key];
      if (step) {
        event.preventDefault();
        show(clamp(chosen < 0 && Number.isFinite(step) ? 0 : chosen + step, 0, rows.length - 1));
      } else if (event.key === "Enter" && rows[chosen]) openNode(rows[chosen].n.name);
      else if (event.key === "Escape") hideTip();
    };
  }
  function drawLegend() {
    const sample = { state: "Fresh", measuredPercent: 45, pendingPercent: 0, utilizationPercent: 45, requestedPercent: 0, allocatablePercent: 100, linePercent: 80 };
    const samples = [
      ["above the line (tick)", { measuredPercent: 90, utilizationPercent: 90, aboveLine: true }],
      ["at most " + near + " points below it", { measuredPercent: 75, utilizationPercent: 75 }],
      ["measured", {}],
      ["pending (hatched)", { measuredPercent: 20, pendingPercent: 45, utilizationPercent: 65 }],
      ["margin or predicted peak (outline)", { measuredPercent: 20, utilizationPercent: 65 }],
      ["requested (stripe)", { measuredPercent: 0, utilizationPercent: 0, requestedPercent: 60 }],
      ["not allocatable (gray end)", { measuredPercent: 0, utilizationPercent: 0, allocatablePercent: 60, linePercent: null }],
      ["no fresh load: requests count (dashed)", { state: "Absent", utilizationPercent: 60 }],
    ];
    $("legend").replaceChildren(...samples.map(([text, changes]) => {
      const canvas = element("canvas", {});
      canvas.setAttribute("aria-hidden", "true");
      drawBar(sized(canvas, 44, 14), { ...sample, ...changes }, 0, 0, 44, 14);
      return element("li", {}, canvas, text);
    }));
  }

  // ---- The table: only the rows in view exist.
  const rowHeight = 34;
  const columns = [
    { head: "Node", text: ({ n }) => n.name },
    { head: "Load", bar: true },
    { head: "Measured", text: ({ r }) => (isFresh(r) || r.measuredPercent == null ? percent(r.measuredPercent) : "(" + percent(r.measuredPercent) + ")"), drop: 1 },
    { head: "Pending", text: ({ r }) => (isFresh(r) ? percent(r.pendingPercent) : "–"), drop: 2 },
    { head: "Requested", text: ({ r }) => percent(r.requestedPercent), drop: 2 },
    { head: "Effective", text: ({ r }) => percent(r.utilizationPercent) },
    { head: "Line", text: ({ r }) => (r.linePercent == null ? "–" : r.linePercent + (r.lineAnnotated ? "*" : "")), drop: 1 },
    { head: "Allocatable", text: ({ r }) => r.allocatable, drop: 3 },
    { head: "Pods", text: ({ n }) => number(n.pods, 0), drop: 3 },
    { head: "State", text: ({ r }) => kinds[kindOf(r)].mark + " " + (isFresh(r) ? kinds[kindOf(r)].name : r.state), drop: 2, left: true },
  ];
  const className = (c) => [c.drop && "drop" + c.drop, c.bar && "bar", c.left && "text"].filter(Boolean).join(" ");
  $("heads").append(...columns.map((c) => element("th", { scope: "col", textContent: c.head, className: className(c) })));
  let cursor = 0;
  function newRow() {
    const row = element("tr", { tabIndex: -1 }, ...columns.map((c, i) => {
      const cell = element(i ? "td" : "th", { className: className(c) });
      if (!i) cell.scope = "row";
      if (c.bar) cell.append(element("canvas", {}));
      return cell;
    }));
    row.onclick = () => openNode(row.node);
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
    const existing = [...body.rows].filter((row) => !row.classList.contains("gap"));
    while (existing.length > last - first) existing.pop().remove();
    while (existing.length < last - first) {
      const row = newRow();
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
        if (c.bar) {
          const canvas = cell.firstChild;
          drawBar(sized(canvas, canvas.clientWidth, 18), entry.r, 0, 0, canvas.clientWidth, 18);
          return;
        }
        const text = c.text(entry);
        if (cell.textContent !== text) cell.textContent = text;
        if (!column) cell.title = text;
      });
    });
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
    const page = Math.max(1, Math.floor($("rows").clientHeight / rowHeight) - 2);
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity }[event.key];
    const focused = event.target.closest("#body tr");
    if (event.key === "Enter" && focused) return openNode(focused.node);
    if (!step || rows.length === 0) return;
    event.preventDefault();
    if (focused) cursor = Number(focused.getAttribute("aria-rowindex")) - 2;
    cursor = clamp(focused ? cursor + step : cursor, 0, rows.length - 1);
    const box = $("rows");
    box.scrollTop = clamp(box.scrollTop, (cursor + 2) * rowHeight - box.clientHeight, cursor * rowHeight);
    drawRows();
    $("body").querySelector(`[aria-rowindex="${cursor + 2}"]`)?.focus({ preventScroll: true });
  };

  // ---- A node and its pods.
  let shown = { node: "", pods: null, problem: "" };
  let opener = null;
  function openNode(name) {
    hideTip();
    opener = document.activeElement;
    setView({ node: name }, true);
    $("h-node").focus();
  }
  $("close").onclick = () => {
    setView({ node: "" }, true);
    if (opener?.isConnected) opener.focus();
  };
  async function readPods() {
    const node = view.node;
    if (!node) return;
    const next = { node, pods: null, problem: "" };
    if (isSaved) next.problem = "a saved snapshot has none";
    else try {
      const response = await fetch("pods.json?node=" + encodeURIComponent(node));
      if (response.ok) next.pods = await response.json();
      else next.problem = (await response.text()).slice(0, 300);
    } catch {
      next.problem = "the command does not answer";
    }
    if (node !== view.node) return;
    shown = next;
    drawNode();
  }
  const podColumns = [
    { head: "Pod", text: (p) => p.namespace + "/" + p.name },
    { head: "Usage", bar: true },
    { head: "CPU", text: (p) => p.cpu.usage },
    { head: "CPU %", text: (p) => percent(p.cpu.usagePercent), drop: 1 },
    { head: "CPU pending %", text: (p) => percent(p.cpu.pendingPercent), drop: 2 },
    { head: "Memory", text: (p) => p.memory.usage, drop: 1 },
    { head: "Memory %", text: (p) => percent(p.memory.usagePercent), drop: 2 },
    { head: "Memory pending %", text: (p) => percent(p.memory.pendingPercent), drop: 3 },
  ];
  function drawNode() {
    $("node").hidden = !view.node;
    if (!view.node) return;
    const n = snapshot.nodes?.[view.node];
    $("h-node").textContent = view.node;
    $("node-facts").replaceChildren(...(n ? [
      plural(n.pods, "pod"),
      ...["cpu", "memory"].map((name) => `${name}: ${describe({ n, r: n[name] }).split("\n")[1]}, allocatable ${n[name].allocatable}`),
      n.annotationProblem,
      ...Object.entries(n.labels ?? {}).map(([key, value]) => key + "=" + value),
    ] : ["no node has this name"]).filter(Boolean).map((fact) => element("li", { textContent: fact })));
    const pods = shown.node === view.node ? shown.pods : null;
    $("node-note").textContent = shown.node === view.node && shown.problem ? "Cannot read the pods: " + shown.problem
      : pods ? "Expected " + view.resource + " usage. A full bar is that of the largest pod. Hatched is pending: not measured yet." : n ? "Reading the pods …" : "";
    if (!pods) return $("pods").replaceChildren();
    const r = view.resource;
    const sorted = [...pods.pods].sort((a, b) => b[r].usagePercent - a[r].usagePercent);
    const isPending = (p) => p.cpu.pendingPercent >= 0.05 || p.memory.pendingPercent >= 0.05;
    const group = (name, list) => {
      if (list.length === 0) return [];
      const title = element("th", { colSpan: podColumns.length, scope: "rowgroup", textContent: name + " (" + number(list.length, 0) + ")" });
      return [element("tbody", {}, element("tr", {}, title), ...list.map((p) => element("tr", {}, ...podColumns.map((c, i) => {
        const cell = element(i ? "td" : "th", { className: className(c), ...(i ? {} : { scope: "row", title: c.text(p) }) });
        cell.append(c.bar ? element("canvas", { pod: p }) : c.text(p));
        return cell;
      }))))];
    };
    $("pods").replaceChildren(
      element("thead", {}, element("tr", {}, ...podColumns.map((c) => element("th", { scope: "col", textContent: c.head, className: className(c) })))),
      ...group("Pending", sorted.filter(isPending)), ...group("Covered by the measurement", sorted.filter((p) => !isPending(p))),
    );
    const most = Math.max(1, ...sorted.map((p) => p[r].usagePercent));
    for (const canvas of $("pods").querySelectorAll("canvas")) {
      const { usagePercent, pendingPercent } = canvas.pod[r];
      drawBar(sized(canvas, canvas.clientWidth, 18), {
        state: "Fresh", measuredPercent: (100 * (usagePercent - pendingPercent)) / most, pendingPercent: (100 * pendingPercent) / most,
        utilizationPercent: (100 * usagePercent) / most, requestedPercent: 0, allocatablePercent: 100,
      }, 0, 0, canvas.clientWidth, 18);
    }
  }

  // ---- Health: doctor's checks, those to fix first, each with its fix to copy.
  let healthAt = "";
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
    $("health-summary").textContent = mark + " Health: " + verdict + ", checked at " + new Date(health.time).toLocaleTimeString();
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

  // ---- The whole.
  function drawFacts() {
    const s = snapshot;
    $("facts").replaceChildren(...[
      s.context && "context " + s.context, "as " + s.plugin + " of profile " + s.profile + " sees it", s.configuration && "by " + s.configuration,
    ].filter(Boolean).map((fact) => element("li", { textContent: fact })));
    const problems = [...(s.unknown ?? []).map((r) => "No node has fresh " + r + " load."), ...(s.problems ?? [])];
    $("problems").textContent = problems.join("\n");
    $("problems").hidden = problems.length === 0;
    const pools = [...new Set(Object.values(s.nodes ?? {}).map((n) => n.pool).filter(Boolean))].sort();
    $("pool-label").hidden = pools.length === 0;
    if (JSON.stringify(pools) !== $("pool").dataset.pools) {
      $("pool").dataset.pools = JSON.stringify(pools);
      $("pool").replaceChildren(element("option", { value: "", textContent: "all" }), ...pools.map((p) => element("option", { value: p, textContent: p })));
    }
    $("pool").value = view.pool;
  }
  function draw() {
    if (!snapshot) return;
    arrange();
    drawFacts();
    drawHealth();
    const count = (kind) => rows.filter(({ r }) => kindOf(r) === kind).length;
    const all = Object.keys(snapshot.nodes ?? {}).length;
    $("count").textContent = (rows.length < all ? number(rows.length, 0) + " of " : "") + plural(all, "node") + ": " +
      count("above") + " above the line, " + count("close") + " at most " + near + " points below it";
    drawStrip();
    drawGrid();
    drawRows();
    if (view.node !== shown.node) {
      shown = { node: view.node, pods: null, problem: "" };
      readPods();
    }
    drawNode();
  }
  function drawAge() {
    if (!snapshot) return;
    const oldest = Object.values(snapshot.nodes ?? {}).flatMap((n) => [n.cpu.measuredAt, n.memory.measuredAt]).filter(Boolean).sort()[0];
    const at = Date.parse(snapshot.time);
    $("age").textContent = oldest ? "Oldest measurement: " + span(Math.max(0, (at - Date.parse(oldest)) / 1000)) + " old." : "Nothing is measured.";
  }
  $("controls").onsubmit = (event) => event.preventDefault();
  $("q").oninput = () => setView({ q: $("q").value });
  for (const id of ["resource", "state", "pool", "sort"]) $(id).onchange = () => setView({ [id]: $(id).value });
  addEventListener("popstate", () => {
    readView();
    draw();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select")) {
      event.preventDefault();
      $("q").focus();
    } else if (event.key === "Escape" && view.node && !event.target.closest("input, select")) $("close").click();
  });
  const restyle = () => {
    readColors();
    drawLegend();
    draw();
  };
  for (const query of ["(prefers-color-scheme: dark)", "(prefers-contrast: more)"]) matchMedia(query).addEventListener("change", restyle);
  new ResizeObserver(draw).observe($("strip"));

  // show shows a snapshot that does not change.
  function show(saved) {
    [snapshot, isSaved] = [saved, true];
    $("connection").textContent = "Saved at " + new Date(saved.time).toLocaleString() + ".";
    $("health").hidden = !saved.health;
    drawAge();
    draw();
  }
  async function connect() {
    const data = $("data");
    if (data) {
      readView();
      return show(JSON.parse(data.textContent));
    }
    const fragment = new URLSearchParams(location.hash.slice(1));
    const token = fragment.get("token");
    if (token) {
      fragment.delete("token");
      history.replaceState(null, "", "#" + fragment);
      await fetch("session", { method: "POST", body: token }).catch(() => {});
    }
    readView();
    const events = new EventSource("events");
    const received = () => {
      $("connection").textContent = "Live.";
      drawAge();
      draw();
    };
    events.addEventListener("snapshot", (event) => {
      snapshot = JSON.parse(event.data);
      received();
      readPods();
    });
    events.addEventListener("saved", (event) => show(JSON.parse(event.data)));
    let loadOf = "";
    events.addEventListener("delta", (event) => {
      merge(snapshot, JSON.parse(event.data));
      received();
      const node = snapshot.nodes?.[view.node];
      const load = JSON.stringify([view.node, node?.pods, node?.cpu, node?.memory]);
      if (load !== loadOf) readPods();
      loadOf = load;
    });
    events.onerror = () => {
      $("connection").textContent = events.readyState === EventSource.CLOSED
        ? "Not connected: open the URL that the command printed." : "The command does not answer. This is what it showed last.";
    };
  }
  restyle();
  connect();
})();
