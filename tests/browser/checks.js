// What the tests of the pages look at inside a page. Each check returns what is wrong, as texts.
"use strict";
window.quorumChecks = (function () {
  function all(selector) { return Array.from(document.querySelectorAll(selector)); }

  function told(element) {
    const text = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return (element.tagName.toLowerCase() + (element.id ? "#" + element.id : "") + " " + text).trim();
  }

  function isShown(element) {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    return box.width > 0 && box.height > 0 && style.visibility === "visible";
  }

  // [red, green, blue, alpha], all 0 to 1
  function colour(text) {
    const found = text.match(/^rgba?\(([^)]*)\)$/);
    if (!found) { throw new Error("unknown colour " + text); }
    const parts = found[1].split(/[,/\s]+/).filter(Boolean).map(Number);
    return [parts[0] / 255, parts[1] / 255, parts[2] / 255, parts.length > 3 ? parts[3] : 1];
  }

  function over(front, back) {
    const mix = (k) => front[k] * front[3] + back[k] * (1 - front[3]);
    return [mix(0), mix(1), mix(2), 1];
  }

  function luminance(rgb) {
    const linear = rgb.slice(0, 3).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  }

  function ratio(one, other) {
    const both = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (both[0] + 0.05) / (both[1] + 0.05);
  }

  function background(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(colour(getComputedStyle(at).backgroundColor));
    }
    const white = [1, 1, 1, 1];
    return layers.reverse().reduce((back, front) => over(front, back), white);
  }

  function opacity(element) {
    let found = 1;
    for (let at = element; at; at = at.parentElement) { found *= Number(getComputedStyle(at).opacity); }
    return found;
  }

  function isClipped(element) {
    for (let at = element; at; at = at.parentElement) {
      if (getComputedStyle(at).clipPath === "inset(50%)") { return true; }
    }
    return false;
  }

  function unfold() { all("details").forEach((item) => { item.open = true; }); }

  function text() { return document.body.innerText; }

  function overflow() {
    const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) { return []; }
    const wide = all("body *").filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1);
    return [root.scrollWidth + " > " + root.clientWidth].concat(wide.slice(0, 5).map(told));
  }

  function contrast() {
    const wrong = new Set();
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || !isShown(element) || isClipped(element)) { continue; }
      const style = getComputedStyle(element);
      const ink = colour(element instanceof SVGElement ? style.fill : style.color);
      const ground = background(element);
      ink[3] *= opacity(element);
      const found = ratio(over(ink, ground), ground);
      if (found < 4.5) { wrong.add(found.toFixed(2) + " " + told(element)); }
    }
    return Array.from(wrong);
  }

  const SELECTOR = "a[href], button, input, summary, select, textarea, [tabindex]";
  let visits = [];

  // Follows the focus from here on: what was reached, and whether one could see it.
  function follow() {
    visits = [];
    document.activeElement.blur();
    window.scrollTo(0, 0);
    document.addEventListener("focusin", function (event) {
      const style = getComputedStyle(event.target);
      const isSeen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
      visits.push([event.target, isSeen && isShown(event.target)]);
    });
    return all(SELECTOR).filter((e) => e.tabIndex >= 0).length;
  }

  // With mayStop, what lies behind the last stop need not be reached.
  function unreached(mayStop) {
    const reached = new Map(visits);
    const wanted = all(SELECTOR).filter((e) => e.tabIndex >= 0 && (isShown(e) || e.className === "skip"));
    const last = visits.length ? wanted.indexOf(visits[visits.length - 1][0]) : -1;
    const passed = mayStop && last > 0 ? wanted.slice(0, last) : wanted;
    const missed = passed.filter((e) => !reached.has(e)).map((e) => "not reached: " + told(e));
    const unseen = visits.filter((visit) => !visit[1]).map((visit) => "no visible focus: " + told(visit[0]));
    return missed.concat(unseen);
  }

  function nameless() {
    const charts = all("svg").filter((svg) => svg.getAttribute("aria-hidden") !== "true");
    const wrong = charts.filter((svg) => svg.getAttribute("role") !== "img" || !svg.getAttribute("aria-label"));
    const controls = all("input, select, textarea").filter((input) => isShown(input) && !input.labels.length);
    const empty = all("a[href], button, summary").filter((e) => isShown(e) && !e.textContent.trim());
    const regions = all("[role=region]").filter((e) => !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby"));
    return wrong.concat(all("img:not([alt])"), controls, empty, regions).map(told);
  }

  function headings() {
    const found = all("h1, h2, h3, h4, h5, h6");
    const levels = found.map((heading) => Number(heading.tagName[1]));
    const skipped = found.filter((_, k) => (k === 0 ? levels[0] !== 1 : levels[k] > levels[k - 1] + 1));
    const single = all("h1").length === 1 ? [] : [all("h1").length + " h1"];
    return single.concat(found.filter((h) => !h.textContent.trim()).map(told), skipped.map(told));
  }

  function tables() {
    const heads = (table) => all("table thead th").filter((th) => th.closest("table") === table);
    const wrong = all("table").filter((table) => !heads(table).length);
    const cells = all("th").filter((th) => !th.getAttribute("scope"));
    const rows = all("tbody tr").filter((row) => !row.querySelector("th, [colspan]"));
    const shifted = all("table").filter(function (table) {
      const head = table.tHead && table.tHead.rows.length === 1 ? Array.from(table.tHead.rows[0].cells) : [];
      return Array.from(table.rows).some((row) => row.cells.length === head.length
        && Array.from(row.cells).every((cell) => cell.colSpan === 1)
        && Array.from(row.cells).some((cell, k) => Math.abs(cell.getBoundingClientRect().left - head[k].getBoundingClientRect().left) > 1));
    });
    const ids = all("[id]").map((e) => e.id);
    const doubled = ids.filter((id, k) => ids.indexOf(id) !== k).map((id) => "id twice: " + id);
    return wrong.concat(cells, rows, shifted).map(told).concat(doubled);
  }

  const table = () => document.querySelector("table.sortable");
  const shownRows = () => Array.from(table().tBodies[0].rows).filter((row) => !row.hidden);
  const name = (th) => th.textContent.trim();

  function rows() { return shownRows().map((row) => row.cells[0].textContent.trim()); }

  function column(head) {
    const place = Array.from(table().tHead.rows[0].cells).findIndex((th) => name(th).startsWith(head));
    return shownRows().map((row) => row.cells[place].textContent.trim());
  }

  function sorted() {
    return all("th[aria-sort]").filter((th) => th.getAttribute("aria-sort") !== "none")
      .map((th) => name(th) + " " + th.getAttribute("aria-sort"));
  }

  return { rows, column, sorted, unfold, text, overflow, contrast, follow, unreached, nameless, headings, tables };
})();
