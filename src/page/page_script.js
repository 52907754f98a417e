"use strict";
// Makes the line plots below an element zoom: drag across steps, double click to see all. Texts of files are only ever
// set as text.
function tesseraSections(root) {
  for (const svg of root.querySelectorAll("svg.plot")) tesseraPlot(svg);
}

function tesseraTicks(from, to, most, log, whole) {
  const ticks = [];
  if (log && to / from >= 100) {
    const first = Math.ceil(Math.log10(from) - 1e-9), last = Math.floor(Math.log10(to) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / most));
    for (let power = first; power <= last; power += every) ticks.push(10 ** power);
    return ticks;
  }
  const least = (to - from) / most, power = 10 ** Math.floor(Math.log10(least));
  let step = [1, 2, 5, 10].map(n => n * power).find(s => s >= least * 0.999999) || 10 * power;
  if (whole && step < 1) step = 1;
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9 && ticks.length <= most; i++)
    if (!log || i > 0) ticks.push(i * step);
  return ticks;
}

function tesseraNumber(value, digits) {
  const size = Math.abs(value);
  if (size >= 1e4 && size < 1e15) {
    const unit = Math.min(4, Math.floor(Math.log10(size * 1.0000001) / 3));
    return Number((value / 1000 ** unit).toPrecision(digits)) + " " + "kMBT"[unit - 1];
  }
  if (size !== 0 && (size < 1e-3 || size >= 1e15)) return value.toExponential(digits > 3 ? 3 : 1).replace(/\.?0*e\+?/, "e");
  return String(Number(value.toPrecision(digits)));
}

function tesseraPlot(svg) {
  const [left, top, right, bottom] = svg.dataset.box.split(" ").map(Number);
  const home = { x: svg.dataset.x.split(" ").map(Number), y: svg.dataset.y.split(" ").map(Number), log: svg.dataset.log === "1" };
  let view = home, from = null;
  const figure = svg.closest("figure"), grid = svg.querySelector(".grid");
  const add = (name, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    return (parent || svg).appendChild(node);
  };
  const place = (value, range, log) => log ? Math.log(value / range[0]) / Math.log(range[1] / range[0]) : (value - range[0]) / (range[1] - range[0]);
  const x = step => left + place(step, view.x, false) * (right - left);
  const y = value => bottom - place(value, view.y, view.log) * (bottom - top);
  const stepAt = px => view.x[0] + (px - left) / (right - left) * (view.x[1] - view.x[0]);
  const valueAt = py => {
    const f = (bottom - py) / (bottom - top);
    return home.log ? home.y[0] * (home.y[1] / home.y[0]) ** f : home.y[0] + f * (home.y[1] - home.y[0]);
  };
  const lines = [...svg.querySelectorAll(".lines > g")].map(g => ({
    label: g.dataset.label,
    parts: [...g.children].map(node => {
      const numbers = (node.getAttribute("points") || node.getAttribute("d") || node.getAttribute("cx") + " " + node.getAttribute("cy")).match(/-?[\d.]+/g).map(Number);
      const points = [];
      for (let i = 0; i + 1 < (node.tagName === "path" ? 2 : numbers.length); i += 2) points.push([stepAt(numbers[i]), valueAt(numbers[i + 1])]);
      return { node, points };
    })
  }));
  const all = lines.flatMap(line => line.parts.filter(p => p.node.tagName !== "path").flatMap(p => p.points));
  const cross = add("path", { class: "cross" }), zoom = add("rect", { class: "zoom", y: top, height: bottom - top, width: 0 });
  const tip = figure.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  const button = (text, act) => {
    const b = figure.querySelector("figcaption").appendChild(document.createElement("button"));
    b.type = "button";
    b.textContent = text;
    b.addEventListener("click", act);
    return b;
  };

  function draw() {
    for (const { node, points } of lines.flatMap(line => line.parts)) {
      const at = points.filter(p => !view.log || p[1] > 0).map(p => [x(p[0]).toFixed(2), y(p[1]).toFixed(2)]);
      if (node.tagName === "polyline") node.setAttribute("points", at.map(p => p.join(",")).join(" "));
      else if (node.tagName === "path") node.setAttribute("d", `M${x(points[0][0]).toFixed(1)} ${bottom - 6}l-3 6h6z`);
      else if (at.length > 0) { node.setAttribute("cx", at[0][0]); node.setAttribute("cy", at[0][1]); }
    }
    grid.replaceChildren();
    const ys = tesseraTicks(view.y[0], view.y[1], 5, view.log, false), xs = tesseraTicks(view.x[0], view.x[1], 5, false, true);
    const digits = ticks => ticks.length < 2 ? 4 : Math.min(8, Math.max(4, Math.ceil(Math.log10(Math.max(...ticks.map(Math.abs)) / (ticks[1] - ticks[0]))) + 1));
    for (const t of ys) {
      add("path", { d: `M${left} ${y(t)}H${right}` }, grid);
      add("text", { class: "y", x: left - 5, y: y(t) + 4 }, grid).textContent = tesseraNumber(t, view.log ? 4 : digits(ys));
    }
    for (const t of xs) {
      add("path", { d: `M${x(t)} ${bottom}v4` }, grid);
      add("text", { class: "x", x: x(t), y: bottom + 17 }, grid).textContent = tesseraNumber(t, digits(xs));
    }
    reset.hidden = view === home;
    scale.textContent = view.log ? "linear" : "log";
  }

  // Shows the steps between two values, and the values there.
  function show(a, b, log) {
    const inside = all.filter(p => p[0] >= a && p[0] <= b && (!log || p[1] > 0)).map(p => p[1]);
    if (inside.length === 0) return;
    const low = inside.reduce((m, v) => Math.min(m, v)), high = inside.reduce((m, v) => Math.max(m, v));
    const room = log ? (high > low ? (high / low) ** 0.04 : 1.5) : (high - low) * 0.06 || Math.abs(low) * 0.05 || 1;
    view = { x: [a, b], y: log ? [low / room, high * room] : [low - room, high + room], log };
    draw();
  }
  const reset = button("all", () => { view = home; draw(); });
  const scale = button("log", () => show(view.x[0], view.x[1], !view.log));
  reset.hidden = true;
  scale.textContent = home.log ? "linear" : "log";
  scale.hidden = !all.some(p => p[1] > 0);

  // A live page keeps the range of steps (null: all) and the scale of this plot when it puts a newer one in its place.
  svg.tesseraView = {
    get: () => ({ x: view.x[0] === home.x[0] && view.x[1] === home.x[1] ? null : view.x, log: view.log }),
    set: kept => { if (kept.x !== null || kept.log !== home.log) show(...(kept.x || home.x), kept.log); }
  };

  // Points are read from the picture, whose places have two decimals: no more digits are shown than they have.
  const errorOf = value => 0.005 / (bottom - top) * (home.log ? Math.abs(value) * Math.log(home.y[1] / home.y[0]) : home.y[1] - home.y[0]);
  const valueText = value => {
    const error = errorOf(value), unit = 10 ** Math.ceil(Math.log10(2 * error));
    const known = error > 0 ? Math.round(value / unit) * unit : value;
    const digits = error > 0 && known !== 0 ? Math.floor(Math.log10(Math.abs(known)) + 1e-9) + 1 - Math.ceil(Math.log10(2 * error)) : 5;
    return tesseraNumber(known, Math.max(1, Math.min(5, digits)));
  };
  const stepText = step => {
    const error = 0.005 / (right - left) * (home.x[1] - home.x[0]), unit = error < 0.5 ? 1 : 10 ** Math.ceil(Math.log10(2 * error));
    return (unit > 1 ? "about " : "") + Math.round(step / unit) * unit;
  };

  const at = event => {
    const box = svg.getBoundingClientRect();
    return Math.min(right, Math.max(left, (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width));
  };
  function hover(px) {
    const step = stepAt(px);
    let near = null;
    const texts = lines.map(line => {
      let best = null;
      for (const part of line.parts)
        if (part.node.tagName !== "path")
          for (const p of part.points) if (best === null || Math.abs(p[0] - step) < Math.abs(best[0] - step)) best = p;
      if (best !== null && (near === null || Math.abs(best[0] - step) < Math.abs(near - step))) near = best[0];
      return best === null ? null : line.label + ": " + valueText(best[1]);
    }).filter(text => text !== null);
    if (near === null) return;
    cross.setAttribute("d", `M${x(near)} ${top}V${bottom}`);
    tip.textContent = svg.dataset.of + " " + stepText(near) + "\n" + texts.slice(0, 16).join("\n");
    tip.hidden = false;
    const box = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
    const px0 = x(near) * box.width / svg.viewBox.baseVal.width + box.left - outer.left;
    tip.style.top = svg.offsetTop === undefined ? "40px" : box.top - outer.top + 8 + "px";
    tip.style.left = Math.max(4, px0 > outer.width / 2 ? px0 - tip.offsetWidth - 10 : px0 + 10) + "px";
  }
  svg.addEventListener("pointerdown", event => {
    from = at(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", event => {
    const px = at(event);
    hover(px);
    if (from === null) return;
    zoom.setAttribute("x", Math.min(from, px));
    zoom.setAttribute("width", Math.abs(px - from));
  });
  const end = event => {
    const a = from, b = at(event);
    from = null;
    zoom.setAttribute("width", 0);
    if (event.type === "pointerup" && a !== null && Math.abs(b - a) > 6) show(stepAt(Math.min(a, b)), stepAt(Math.max(a, b)), view.log);
  };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointercancel", end);
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true;
    cross.removeAttribute("d");
  });
  svg.addEventListener("dblclick", () => { view = home; draw(); });
}

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
tesseraSections(document);
