// What the console does beyond plain pages: it refreshes the figures that are marked as live, and
// filters a list as its filter is typed. Without it every page works, and is as old as its loading.
"use strict";

(() => {
  const EVERY = 5000;
  const PAUSED = "paused";
  let underWay = null;

  // Fetches a page of this server and gives its document. What is no page, such as the answer of a
  // server that has just stopped, changes nothing.
  const read = async (address, signal) => {
    const answer = await fetch(address, { credentials: "same-origin", redirect: "follow", signal });
    const isPage = (answer.headers.get("content-type") || "").startsWith("text/html");
    if (!isPage) throw new Error("no page");
    if (answer.redirected && new URL(answer.url).pathname.endsWith("/login")) {
      location.assign(answer.url);
      throw new Error("logged out");
    }
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  };

  const live = (root) => [...root.querySelectorAll("[data-live]")].filter((part) => !part.parentElement.closest("[data-live]"));

  // Makes an element like another. Elements that are the same stay, so that focus, selection and
  // what has been opened stay too.
  const become = (here, there) => {
    if (here.isEqualNode(there)) return;
    if (here.nodeType !== Node.ELEMENT_NODE || here.nodeName !== there.nodeName) {
      here.replaceWith(document.importNode(there, true));
      return;
    }
    for (const { name } of [...here.attributes]) {
      if (!there.hasAttribute(name)) here.removeAttribute(name);
    }
    for (const { name, value } of [...there.attributes]) {
      if (here.getAttribute(name) !== value) here.setAttribute(name, value);
    }
    const [mine, others] = [[...here.childNodes], [...there.childNodes]];
    others.forEach((other, index) => {
      if (mine[index]) become(mine[index], other);
      else here.append(document.importNode(other, true));
    });
    mine.slice(others.length).forEach((extra) => extra.remove());
  };

  const take = (page) => {
    const [mine, others] = [live(document), live(page)];
    if (mine.length !== others.length) return;
    mine.forEach((part, index) => become(part, others[index]));
  };

  const refresh = async (address) => {
    underWay?.abort();
    underWay = new AbortController();
    try {
      take(await read(address, underWay.signal));
    } catch (error) {
      // The page keeps what it shows; the next refresh tries again.
    }
  };

  const isPaused = () => sessionStorage.getItem(PAUSED) === "yes";

  // A control that stops what moves by itself (WCAG 2.2.2).
  const offerPause = () => {
    const place = document.querySelector(".who");
    if (!place || live(document).length === 0) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    const show = () => {
      button.textContent = isPaused() ? "Paused" : "Every 5 s";
      button.setAttribute("aria-pressed", String(isPaused()));
      button.title = isPaused() ? "Refresh again" : "Stop refreshing";
    };
    button.addEventListener("click", () => {
      sessionStorage.setItem(PAUSED, isPaused() ? "no" : "yes");
      show();
    });
    show();
    place.prepend(button);
  };

  const filterWhileTyping = () => {
    const field = document.querySelector("[data-filter]");
    if (!field) return;
    let timer = 0;
    const go = () => {
      const form = field.form;
      const wanted = new URLSearchParams();
      for (const [name, value] of new FormData(form)) if (value !== "") wanted.set(name, value);
      const query = wanted.toString();
      const address = form.getAttribute("action") + (query ? `?${query}` : "");
      history.replaceState(null, "", address);
      refresh(address);
    };
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(go, 30);
    });
  };

  // `/` goes to the filter, unless the cursor is in a field.
  const searchByKey = () => {
    document.addEventListener("keydown", (event) => {
      const isWriting = event.target.closest("input, textarea, select");
      const field = document.querySelector("[data-filter]");
      if (event.key !== "/" || isWriting || !field || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      field.focus();
    });
  };

  offerPause();
  filterWhileTyping();
  searchByKey();
  if (live(document).length > 0) {
    setInterval(() => {
      if (!document.hidden && !isPaused()) refresh(location.pathname + location.search);
    }, EVERY);
  }
})();
