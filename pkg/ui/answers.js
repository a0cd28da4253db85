// newAnswers draws the views whose figures are asked of the command: waiting pods, a pod, what-if, and moves.
const newAnswers = ({ view, setView, openNode, copyButton, percent, plural, span, nodeOf, refill, data, isSaved }) => {
  const { $, element, clamp, number, showTip, hideTip } = base;
  const titles = { "": "Nodes", waiting: "Waiting pods", whatif: "What if", moves: "Rebalance" };
  const list = (texts, most = 5) => texts.slice(0, most).join(", ") + (texts.length > most ? " and " + number(texts.length - most, 0) + " more" : "");
  const signed = (v) => (v > 0 ? "+" : v < 0 ? "−" : "") + number(Math.abs(v), 0);

  // ---- Building blocks.
  const text = (tag, content, className = "") => element(tag, { textContent: content, className });
  // breakable lets a line break before the capitals of a text.
  const breakable = (content) => (typeof content === "string" ? content.split(/(?<=[a-z])(?=[A-Z])/).flatMap((part, i) => (i ? [element("wbr", {}), part] : [part])) : [content]);
  // table shows rows of cells, which are texts or elements. Columns are [head, class]; the first cell heads its row.
  const table = (caption, columns, rows) => element("div", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: caption }, element("table", { ariaLabel: caption },
    element("thead", {}, element("tr", {}, ...columns.map(([head, className]) => element("th", { scope: "col", className: className ?? "" }, ...breakable(head))))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map((cell, i) =>
      element(i ? "td" : "th", { className: columns[i][1] ?? "", ...(i ? {} : { scope: "row" }) }, ...breakable(cell))))))));
  const button = (label, onclick) => element("button", { type: "button", className: "link", textContent: label, title: label, onclick });
  const nodeButton = (name) => (nodeOf(name) ? button(name, () => openNode(name, { view: "", pod: "" })) : name);
  const podButton = (p) => button(p.namespace + "/" + p.name, () => openPod(p.namespace + "/" + p.name));
  // replaces tells of which moved pod a pod took the place.
  const replaces = (o) => [` replaces ${o.pod}, moved from `, nodeButton(o.from), ` at ${new Date(o.at).toLocaleString()}: ${o.why}.`];
  const command = (line) => element("div", { className: "controls" }, text("pre", line), copyButton(line));
  const facts = (texts) => element("ul", { className: "facts" }, ...texts.filter(Boolean).map((t) => text("li", t)));
  const part = (width, className) => {
    const e = element("span", { className });
    e.style.width = clamp(width, 0, 100) + "%";
    return e;
  };
  // tipped shows a text at an element under the pointer.
  const tipped = (e, content) => {
    e.onpointermove = (event) => showTip(content, event.clientX, event.clientY);
    e.onpointerleave = hideTip;
    return e;
  };
  // pair draws utilization before and after against the line, or else the target, in percent.
  const pair = (before, after, line, above, target) => {
    const most = Math.max(100, before ?? 0, after ?? 0);
    const parts = [];
    if (before != null) parts.push(part((100 * before) / most, "was"));
    if (after != null) parts.push(part((100 * after) / most, above ? "is hot" : "is"));
    if ((line ?? target) != null) {
      const tick = line != null ? element("span", { className: "tick" }) : text("span", "◎", "target");
      tick.style.left = `calc(${clamp((100 * (line ?? target)) / most, 0, 100)}% - ${line != null ? "1px" : "0.4em"})`;
      parts.push(tick);
    }
    return element("div", { className: "picture", ariaHidden: "true" }, ...parts);
  };
  const pairLegend = (target) => text("p", `The outline is before, the solid bar after, and the ${target ? "◎ the target" : "tick the load line"}.`, "note");

  // asker asks the command one question at a time, and cancels the one before.
  function asker(id, render) {
    let asked = "";
    let waiting = new AbortController();
    return async (path, again) => {
      if (path === asked && !again) return;
      asked = path;
      waiting.abort();
      waiting = new AbortController();
      const { signal } = waiting;
      const note = $(id + "-note");
      $(id + "-answer").replaceChildren();
      note.className = "note";
      if (!path) return (note.textContent = "");
      if (isSaved()) {
        note.textContent = "A saved snapshot has no answers.";
        return;
      }
      note.textContent = "Asking the cluster …";
      note.className = "note busy";
      const began = performance.now();
      let result, problem, line;
      try {
        const response = await fetch(path, { signal });
        line = decodeURIComponent(response.headers.get("Plimsoll-Command") ?? "");
        if (response.ok) result = await response.json();
        else problem = (await response.text()).trim().slice(0, 1000);
      } catch {
        problem = "the command does not answer";
      }
      if (signal.aborted) return;
      note.className = problem ? "note failed" : "note";
      note.textContent = problem ? "No answer: " + problem : "Answered in " + ((performance.now() - began) / 1000).toFixed(1) + " s, from the cluster at " + new Date().toLocaleTimeString() + ".";
      if (result) $(id + "-answer").replaceChildren(...render(result).filter(Boolean), command(line));
    };
  }

  // ---- Waiting pods.
  let waitingNow = "";
  function drawWaiting() {
    const s = data();
    const all = Object.values(s.waiting ?? {});
    const profiles = [...new Set([...all.map((p) => p.schedulerName), view.profile].filter(Boolean))].sort();
    const pods = all.filter((p) => !view.profile || p.schedulerName === view.profile).sort((a, b) => (a.since < b.since ? -1 : a.since > b.since ? 1 : a.name < b.name ? -1 : 1));
    const minute = s.time.slice(0, 16);
    const now = JSON.stringify([s.waiting, s.waitingPods, minute, view.profile]);
    if (now === waitingNow) return;
    waitingNow = now;
    $("profile").replaceChildren(element("option", { value: "", textContent: "all" }), ...profiles.map((name) => element("option", { value: name, textContent: name, selected: name === view.profile })));
    const waits = s.waitingPods ?? 0;
    const rest = waits > all.length ? ` Only the ${number(all.length, 0)} that wait longest are known here, of ${number(waits, 0)}.` : "";
    $("waiting-note").textContent = waits === 0 ? "✓ No pod waits for a node."
      : view.profile && pods.length === 0 ? `No pod of profile ${view.profile} is among the ${plural(all.length, "waiting pod")}.` + rest
      : plural(pods.length, "pod") + (view.profile ? " of profile " + view.profile : "") + ", the longest waiting first. Choose a pod to see why." + rest;
    const at = Date.parse(s.time);
    const rows = [];
    for (const [group, members] of Map.groupBy(pods, (p) => (p.group ? p.namespace + "/" + p.group : p))) {
      const minimum = members[0].groupMinimum;
      if (group !== members[0]) rows.push(["Group " + group, "", "", number(members.length, 0) + " shown" + (minimum ? ", minimum " + minimum : "")]);
      rows.push(...members.map((p) => [
        podButton(p), span(Math.max(0, (at - Date.parse(p.since)) / 1000)), p.schedulerName, [p.reason, p.message].filter(Boolean).join(": ") || "no scheduler has looked at it",
      ]));
    }
    refill($("waiting"), ...(pods.length ? table("Pods without a node", [["Pod", "text"], ["Waiting"], ["Profile", "text drop1"], ["Why", "long"]], rows).firstChild.children : []));
  }

  $("profile").onchange = () => setView({ profile: $("profile").value });

  // ---- A pod: the explanation as a picture.
  let opener = null;
  function openPod(name) {
    opener = document.activeElement;
    setView({ pod: name }, true);
    $("h-pod").focus();
    $("h-pod").scrollIntoView();
  }
  $("pod-close").onclick = () => {
    setView({ pod: "" }, true);
    if (opener?.isConnected) opener.focus();
  };
  // valueOf writes a term as kubectl plimsoll explain does.
  const valueOf = (t) => (t == null ? "–" : t.unit === "%" ? percent(t.value) + " %" : [Number(t.value.toPrecision(4)), t.unit].filter((part) => part != null).join(" "));
  const termsOf = (n, plugin) => (n.terms ?? []).filter((t) => t.plugin === plugin).map((t) => t.plugin + ": " + t.terms.map((x) => `${x.name} ${valueOf(x)}`).join(", "));
  function verdict(e) {
    const to = e.decision.nodes;
    const p = e.placement;
    if (to.length === 0) return "✗ No node takes the pod. " + (e.decision.event ?? "");
    const where = list(to, 3) + (to.length > 1 ? " (one at random)" : "");
    const why = (e.decision.deciding ?? []).map((d) => d.plugin);
    const decided = why.length ? ` ${list(why)} ${why.length === 1 ? "decides" : "each decide"}: without it, ${list(e.decision.deciding[0].nodesWithout, 2)} would win.` : "";
    const g = e.group;
    const unplaced = g && (g.absent || g.bound + g.waiting < g.minCount || g.trial?.placed === 0);
    if (!p) return (unplaced ? "If its group were placed, the scheduler would take " : "The scheduler would take ") + where + "." + decided;
    if (!p.differs) return "✓ It would go to " + p.node + " today, too." + decided;
    const present = p.ruledOutBy ? `${p.ruledOutBy} rules out ${p.node}: ${p.reason}` : p.rank ? `${p.node} has rank ${p.rank}, ${number(p.behind, 0)} points behind` : p.node + " is not in the cluster";
    return `▲ It would not go to ${p.node} today, but to ${where}. ${present}.` + decided;
  }
  const isShown = (t) => t != null && (t.unit === "%" ? Math.abs(t.value) >= 0.05 : t.value !== 0);
  function compared(e) {
    const [a, b] = e.candidates;
    if (!b) return [];
    const rows = [];
    const cell = (v) => (v == null ? "–" : number(v, 0));
    const plugins = [...new Set([a, b].flatMap((n) => [...(n.scores ?? []), ...(n.terms ?? [])].map((s) => s.plugin)))];
    for (const plugin of plugins) {
      const [sa, sb] = [a, b].map((n) => n.scores?.find((s) => s.plugin === plugin)?.weighted);
      rows.push([plugin, cell(sa), cell(sb), sa != null && sb != null ? signed(sa - sb) : "–"]);
      const terms = [a, b].map((n) => n.terms?.find((t) => t.plugin === plugin)?.terms ?? []);
      for (const name of new Set(terms.flat().map((t) => t.name))) {
        const [ta, tb] = terms.map((of) => of.find((t) => t.name === name));
        if (isShown(ta) || isShown(tb)) rows.push(["· " + name, valueOf(ta), valueOf(tb), ""]);
      }
    }
    rows.push(["Total", number(a.total, 0), number(b.total, 0), signed(a.total - b.total)]);
    return [text("h3", "The best two"), table("The best two", [["Plugin and terms", "text"], [a.name], [b.name], ["Difference"]], rows)];
  }
  // basis lists the parts of a usage, such as the mean of the workload and its spread.
  const basis = (parts) => (parts ?? []).map((p) => `${p.amount}: ${p.basis}`).join(" + ") || "–";
  function drawExplanation(e) {
    const most = Math.max(1, ...e.candidates.map((c) => c.total));
    const plugins = [...new Set(e.candidates.flatMap((c) => (c.scores ?? []).map((s) => s.plugin)))];
    const color = (plugin) => "p" + (plugins.indexOf(plugin) % 10);
    const ruledOut = e.ruledOut.map((r) => [
      r.reason, part((100 * r.count) / Math.max(1, e.nodes), "p0"), number(r.count, 0), r.plugin, list(r.nodes.map((n) => n.name), 3),
    ].map((cell) => (cell instanceof Element ? element("div", { className: "picture", ariaHidden: "true" }, cell) : cell)));
    const scores = e.candidates.map((c) => [
      nodeButton(c.name),
      element("div", { className: "picture", ariaHidden: "true" }, ...(c.scores ?? []).map((s) => tipped(part((100 * s.weighted) / most, color(s.plugin)),
        [`${c.name}: ${s.plugin} ${s.normalized} × weight ${s.weight} = ${s.weighted}`, ...termsOf(c, s.plugin)].join("\n")))),
      number(c.rank, 0), number(c.total, 0), ...plugins.map((p) => number(c.scores?.find((s) => s.plugin === p)?.weighted ?? 0, 0)),
    ]);
    return [
      e.group && text("p", e.group.message, "group"),
      text("p", verdict(e), "verdict"),
      facts([
        "profile " + e.profile, e.pod.phase && "phase " + e.pod.phase, "priority " + e.pod.priority,
        `${number(e.feasibleNodes, 0)} of ${plural(e.nodes, "node")} passed the filters`,
      ]),
      e.replaces && element("p", {}, "It", ...replaces(e.replaces)),
      e.expectedUsage.length && text("h3", "Expected usage"),
      e.expectedUsage.length && table("Expected usage", [["Plugin", "text"], ["Usage", "text"], ["From", "long"], ["Predicted peak", "long drop1"]], e.expectedUsage.map((u) => [
        u.plugin, u.amount + " " + u.resource, basis(u.parts), basis(u.peakParts),
      ])),
      e.relaxed && text("p", "Limits that left the pod no node were waived: " + list(e.relaxed.plugins), "warning"),
      e.preemption && text("p", e.preemption.node ? `Preemption would evict ${plural(e.preemption.victims?.length ?? 0, "pod")} on ${e.preemption.node}.` : "Preemption does not help. " + (e.preemption.message ?? ""), "warning"),
      ruledOut.length && text("h3", "Nodes ruled out"),
      ruledOut.length && table("Nodes ruled out", [["Reason", "long"], ["Share", "bar"], ["Nodes"], ["Plugin", "text drop1"], ["Such as", "text drop2"]], ruledOut),
      scores.length && text("h3", scores.length < e.feasibleNodes ? `The best ${scores.length} candidates` : "Candidates"),
      plugins.length && element("ul", { className: "legend", ariaLabel: "Plugins" }, ...plugins.map((p) => element("li", {}, element("span", { className: "key " + color(p), ariaHidden: "true" }), p))),
      scores.length && table("Candidates", [["Node", "text"], ["Scores", "bar"], ["Rank"], ["Total"], ...plugins.map((p) => [p, "drop2 plugin"])], scores),
      ...compared(e),
      ...e.notes.map((n) => text("p", n, "note")),
    ];
  }
  const askPod = asker("pod", drawExplanation);

  // ---- What if.
  const inputs = ["drain", "add", "like", "more", "of"];
  const scenario = () => new URLSearchParams([
    ...view.drain.split(/[\s,]+/).filter(Boolean).map((name) => ["drain", name]),
    ...(Number(view.add) > 0 ? [["add-nodes", view.add], ["like", view.like]] : []),
    ...(Number(view.more) > 0 ? [["more", view.more], ["of", view.of]] : Number(view.more) < 0 ? [["fewer", String(-view.more)], ["of", view.of]] : []),
  ]);
  function drawOutcome(report) {
    const o = report.outcomes[0];
    const nodes = o.nodes.slice(0, 100);
    const target = o.nodes.some((n) => (n.cpu.targetPercent ?? n.memory.targetPercent) != null);
    const load = (l) => [pair(l.beforePercent, l.afterPercent, l.linePercent, l.above, l.targetPercent), `${percent(l.beforePercent)} → ${percent(l.afterPercent)}${l.above ? " ▲" : ""}`];
    const failed = o.unschedulable ?? [];
    const lost = [...(report.lost ?? []), ...(o.lost ?? [])];
    const without = o.pods - o.placed;
    const changes = (n) => [
      n.new && "new", n.drained && "drained", n.crossesLine ? "crosses the line" : (n.cpu.above || n.memory.above) && "above the line",
      ...[["CPU", n.cpu], ["memory", n.memory]].map(([name, l]) => l.byRequests && l.afterPercent != null && name + " by requests"),
    ];
    return [
      text("p", o.pods === 0 ? "✓ No pod needs another node." : without ? `✗ ${number(without, 0)} of ${plural(o.pods, "pod")} without a node.`
        : `✓ ${o.pods === 1 ? "The pod finds a node" : `All ${plural(o.pods, "pod")} find a node`}.`, "verdict"),
      facts([...(report.changes ?? []), !target && `${number(o.nodesAboveBefore, 0)} of ${plural(o.nodesInCluster, "node")} above the line before, ${number(o.nodesAboveAfter, 0)} after`,
        o.relaxed && plural(o.relaxed, "pod") + " placed because a limit was waived that left no node",
        o.preempted?.length && plural(o.preempted.length, "pod") + " preempted"]),
      lost.length && text("p", `Nobody recreates ${plural(lost.length, "pod")}: ${list(lost)}`, "warning"),
      failed.length && text("h3", "Pods without a node"),
      failed.length && table("Pods without a node", [["Of", "text"], ["Pods"], ["Why", "long"]], failed.map((g) => [g.of, number(g.pods, 0), g.reason])),
      nodes.length && text("h3", nodes.length < o.nodes.length ? `The first 100 of ${plural(o.nodes.length, "changed node")}` : "Changed nodes"),
      nodes.length && pairLegend(target),
      nodes.length && table("Changed nodes", [["Node", "text"], ["Placed"], ["Evicted", "drop1"], ["CPU", "bar"], ["CPU %"], ["Memory", "bar drop2"], ["Memory %", "drop2"], ["Change", "text drop1"]], nodes.map((n) => [
        nodeButton(n.name), number(n.placed, 0), number(n.evicted ?? 0, 0), ...load(n.cpu), ...load(n.memory),
        changes(n).filter(Boolean).join(", ") || "–",
      ])),
      ...[...(o.notes ?? []), ...(report.notes ?? [])].map((n) => text("p", n, "note")),
    ];
  }
  const askWhatIf = asker("whatif", drawOutcome);
  $("whatif-form").onsubmit = (event) => {
    event.preventDefault();
    const changes = Object.fromEntries(inputs.map((id) => [id, $(id).value.trim()]));
    const [add, more] = [Number(changes.add) > 0, Number(changes.more)];
    const problem = add && !changes.like ? "Name a node that the new nodes are like." : more && !changes.of ? "Name the workload of the pods."
      : !changes.drain && !add && !more ? "Name nodes to drain, or write a number of nodes or pods." : "";
    setView(changes, true);
    if (problem) $("whatif-note").textContent = problem;
    else askWhatIf("what-if.json?" + scenario(), true);
  };

  // ---- Moves.
  function drawMoves(r) {
    const still = r.moves.length === 0;
    const why = [
      r.stay.length && text("h3", (still ? "P" : "Other p") + "ods of hot nodes stay"),
      r.stay.length && table("Why pods stay", [["Reason", "text"], ["Pods"]], r.stay.map((s) => [s.message, number(s.pods, 0)])),
      r.resting?.length && text("p", "Hot nodes whose load does not show their last move yet: " + list(r.resting), "note"),
      r.deferred?.length && text("p", "Hot nodes that wait because of the limits of moves: " + list(r.deferred), "note"),
    ];
    const title = r.stopped ? "No moves: " + r.stopped + "." : r.nodes.length === 0 ? "✓ No node is hot." : still ? "▲ No pod can move." : `▲ ${plural(r.moves.length, "move")} off ${plural(r.nodes.filter((n) => n.hot).length, "hot node")}.`;
    return [
      text("p", title, "verdict"),
      r.wait && text("p", `Moves wait (${r.waitReason}): ${r.wait}.`, "warning"),
      ...(still ? why : []),
      facts([`by ${r.plugin} of profile ${r.profile}`, plural(r.simulatedDecisions, "decision") + " simulated"]),
      r.nodes.length && text("h3", "Before and after"),
      r.nodes.length && pairLegend(),
      r.nodes.length && table("Nodes before and after", [["Node", "text"], ["Load", "bar"], ["Before"], ["After"], ["Line", "drop1"], ["Resource", "text drop1"], ["Role", "text drop1"]], r.nodes.map((n) => [
        nodeButton(n.name), pair(n.beforePercent, n.afterPercent, n.linePercent, n.afterPercent > n.linePercent), percent(n.beforePercent), percent(n.afterPercent), percent(n.linePercent), n.resource, n.hot ? "▲ hot" : "destination",
      ])),
      r.moves.length && text("h3", "Moves"),
      r.moves.length && table("Moves", [["Pod", "text"], ["From", "text"], ["To", "text"], ["Relief in points"], ["Owner", "text drop2"]], r.moves.map((m) => [
        podButton({ namespace: m.namespace, name: m.pod }), nodeButton(m.from), [m.to, ...(m.or ?? [])].join(" or "), percent(m.reliefPercent), m.owner,
      ])),
      ...(still ? [] : why),
      ...(r.notes ?? []).map((n) => text("p", n, "note")),
      r.moves.length && text("p", `To plan anew in a terminal, run this. The rebalancer moves pods in mode Evict.`, "note"),
    ];
  }
  const askMoves = asker("moves", drawMoves);
  $("plan").onclick = () => askMoves("moves.json", true);

  // ---- The whole.
  const tabs = Object.entries(titles).map(([name, title]) => element("button", { type: "button", textContent: title, onclick: () => setView({ view: name }, true) }));
  $("views").append(...tabs);
  let drawnView = null;
  function draw() {
    Object.keys(titles).forEach((name, i) => {
      if (name === view.view) tabs[i].setAttribute("aria-current", "page");
      else tabs[i].removeAttribute("aria-current");
    });
    const waiting = data().waitingPods ?? 0;
    const label = titles.waiting + (waiting ? " (" + number(waiting, 0) + ")" : "");
    if (tabs[1].textContent !== label) tabs[1].textContent = label;
    $("title").textContent = titles[view.view];
    document.title = titles[view.view] + " – Plimsoll";
    for (const section of document.querySelectorAll("[data-view]")) if (section.id !== "node") section.hidden = section.dataset.view !== view.view;
    if (view.view === "waiting") drawWaiting();
    if (view.view === "whatif" && drawnView !== location.hash) {
      for (const id of inputs) $(id).value = view[id];
      $("names").replaceChildren(...Object.keys(data().nodes ?? {}).sort().slice(0, 1000).map((name) => element("option", { value: name })));
      const asked = scenario();
      askWhatIf(asked.size && asked.get("like") !== "" && asked.get("of") !== "" ? "what-if.json?" + asked : "");
    }
    drawnView = location.hash;
    $("pod").hidden = !view.pod;
    $("h-pod").textContent = view.pod;
    const [namespace, pod] = view.pod.split("/");
    askPod(pod ? "explain.json?" + new URLSearchParams([["namespace", namespace], ["pod", pod]]) : "");
  }
  return { draw, titles, podButton, replaces, table, part, button };
};
