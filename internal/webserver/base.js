"use strict";
// Helpers for the scripts of all pages.
const base = (() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  // cssColor reads a variable of the style sheet, so that canvases follow the color scheme.
  const cssColor = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const element = (tag, properties, ...children) => {
    const e = Object.assign(document.createElement(tag), properties);
    e.append(...children);
    return e;
  };
  const clamp = (v, low, high) => Math.min(Math.max(v, low), high);
  const number = (v, digits) => v.toLocaleString("en", { maximumFractionDigits: digits });
  // showTip shows a text at a position in the window.
  const tip = $("tip");
  function showTip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = clamp(x + 14, 8, Math.max(8, innerWidth - width - 8)) + "px";
    tip.style.top = (y + 18 + height > innerHeight ? Math.max(8, y - height - 12) : y + 18) + "px";
  }
  const hideTip = () => (tip.hidden = true);
  // axis has the options of all axes of charts.
  const font = "12px system-ui, sans-serif";
  const axis = { stroke: () => cssColor("soft"), grid: { stroke: () => cssColor("line"), width: 1 }, ticks: { show: false }, font, labelFont: font };
  // isShortcut tells whether a key is the browser's, such as Alt and an arrow, which goes back.
  const isShortcut = (event) => event.altKey || event.ctrlKey || event.metaKey;
  // plotKeys moves a chart's cursor by keys.
  const plotKeys = (plot, x) => (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step || isShortcut(event)) return;
    event.preventDefault();
    const at = clamp((plot.cursor.idx ?? (step > 0 ? -1 : x.length)) + step, 0, x.length - 1);
    plot.setCursor({ left: plot.valToPos(x[at], "x"), top: 0 });
  };
  return { axis, isShortcut, plotKeys, $, root, cssColor, element, clamp, number, showTip, hideTip };
})();
