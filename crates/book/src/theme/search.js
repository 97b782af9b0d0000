// The search: looks through the index of all sections, which it loads when it is first needed.
"use strict";

const MOST = 12; // results shown
const MOST_OF_A_PAGE = 2;
const AROUND = 60; // letters before and after what was found
const root = document.currentScript.dataset.root;

function start() {
  const box = document.getElementById("search");
  const field = box.querySelector("input");
  const list = document.getElementById("found");
  box.hidden = false;
  field.addEventListener("focus", load, { once: true });
  field.addEventListener("input", () => show(list, field.value));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== field) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape") {
      field.value = "";
      show(list, "");
    } else if (event.key === "Enter" && document.activeElement === field) {
      list.querySelector("a")?.click();
    }
  });
}

function load() {
  const script = document.createElement("script");
  script.src = `${root}search-index.js`;
  script.addEventListener("load", () => document.querySelector("#search input").dispatchEvent(new Event("input")));
  document.head.append(script);
}

// A section counts if it has all words: much in its heading, a little in its text.
function weigh([, title, heading, text], words) {
  const [inTitle, inHeading, inText] = [title, heading, text].map((part) => part.toLowerCase());
  let weight = 0;
  for (const word of words) {
    const found = (inHeading.includes(word) ? 12 : 0) + (inTitle.includes(word) ? 8 : 0);
    const times = inText.split(word).length - 1;
    if (found + times === 0) return 0;
    weight += found + Math.min(times, 5);
  }
  return weight;
}

function show(list, asked) {
  const words = asked.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
  list.replaceChildren();
  if (words.length === 0 || !window.manual) return;
  const weighed = window.manual.map((section) => [weigh(section, words), section]);
  const found = weighed.filter(([weight]) => weight > 0).sort((one, other) => other[0] - one[0]);
  const shown = new Map();
  for (const [, section] of found) {
    const page = section[0].split("#")[0];
    const before = shown.get(page) ?? 0;
    if (before >= MOST_OF_A_PAGE || list.children.length >= MOST) continue;
    shown.set(page, before + 1);
    list.append(result(section, words[0]));
  }
  if (found.length === 0) list.append(element("li", `Nothing has “${asked.trim()}”.`));
}

function result([address, title, heading, text], word) {
  const link = element("a", heading === title ? title : `${title}: ${heading}`);
  link.href = root + address;
  const place = Math.max(text.toLowerCase().indexOf(word) - AROUND, 0);
  const item = element("li", "");
  item.append(link, element("small", text.slice(place, place + 2 * AROUND)));
  return item;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
