// Keeps the page up to date: asks for the part "live" each second, and for the sections when their version changes. A
// section under the pointer or with the keyboard's focus is left alone until it is not.
(function () {
  "use strict";
  const shown = {}, lost = document.getElementById("lost");
  let version = "";
  async function ask(name) {
    const answer = await fetch("part/" + name, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  }
  const plotsOf = element => [...element.querySelectorAll("svg.plot")].map(svg => [svg.querySelector("title").textContent, svg]);
  const viewsOf = element => new Map(plotsOf(element).map(([title, svg]) => [title, svg.tesseraView.get()]));
  function replace(element, text) {
    const name = element.dataset.part;
    if (shown[name] === text) return true;
    if (name !== "live" && element.matches(":hover, :focus-within")) return false;
    const open = [...element.querySelectorAll("details")].map(one => one.open);
    const scrolled = [...element.querySelectorAll(".scroll")].map(one => one.scrollLeft);
    const views = viewsOf(element);
    element.innerHTML = text;
    element.querySelectorAll("details").forEach((one, i) => { if (i < open.length) one.open = open[i]; });
    element.querySelectorAll(".scroll").forEach((one, i) => { one.scrollLeft = scrolled[i] || 0; });
    shown[name] = text;
    tesseraSections(element);
    for (const [title, svg] of plotsOf(element)) if (views.has(title)) svg.tesseraView.set(views.get(title));
    return true;
  }
  async function update() {
    const parts = [...document.querySelectorAll("[data-part]")];
    const next = await ask("version");
    let all = true;
    for (const part of parts)
      if (part.dataset.part === "live" || next !== version) all = replace(part, await ask(part.dataset.part)) && all;
    if (all) version = next;
  }
  async function tick() {
    try {
      if (!document.hidden) await update();
      lost.hidden = true;
    } catch (error) {
      lost.hidden = false;
    }
    setTimeout(tick, 1000);
  }
  setTimeout(tick, 1000);
})();
