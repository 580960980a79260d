// The dashboard. It shows what the API says and nothing else; whatever it shows is text, never markup.
const API = "../api/v1";
const HISTORY = 120; // seconds of a chart
const LOG_LINES = 200;
const TRANSFERS_SHOWN = 50; // ended ones; the API lists all
const byId = (id) => document.getElementById(id);

// --- The API ---

const token = () => sessionStorage.getItem("token");
let login = null;

/** Asks the API, and for the token if it wants one. Gives the answer's object; fails with its error. */
async function ask(method, path, body) {
  const headers = {};
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const response = await fetch(API + path, { method, headers, body: sent, cache: "no-store" });
  if (response.status === 401) {
    await askForToken();
    return ask(method, path, body);
  }
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.message), { kind: answer.kind, hint: answer.hint });
  return answer;
}

/** Shows the dialog for the token, once for all who wait for it. */
function askForToken() {
  sessionStorage.removeItem("token");
  login ??= new Promise((done) => {
    const dialog = byId("login");
    const form = dialog.querySelector("form");
    form.reset();
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", form.token.value.trim());
      login = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return login;
}

function complain(error) {
  const box = byId("message");
  box.hidden = !error;
  box.textContent = error ? [error.message, error.hint].filter(Boolean).join("\n") : "";
}

/** Does what a button or form asks for, and shows the error if it fails. */
async function act(work, button) {
  if (button) button.disabled = true;
  try {
    complain(null);
    await work();
    await refresh();
  } catch (error) {
    complain(error);
  } finally {
    if (button) button.disabled = false;
  }
}

// --- Elements ---

/** An element with attributes, and with children that are elements or text. */
function make(name, attributes = {}, ...children) {
  const svg = ["svg", "polyline", "text", "line", "circle", "g", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Makes the children of an element those of a list, and keeps those that stay: focus and typed text stay too. */
function keep(parent, items, keyOf, create, update) {
  const there = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    const key = String(keyOf(item));
    let child = there.get(key);
    there.delete(key);
    if (!child) {
      child = create(item);
      child.dataset.key = key;
    }
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
    update(child, item);
  });
  // All items are in front now, those with equal keys too.
  while (parent.children.length > items.length) parent.lastElementChild.remove();
}

/** Rows of a table: `cells` gives text, or an element, for each column. */
function rows(body, items, keyOf, cells) {
  const titles = [...body.closest("table").querySelectorAll("thead th")].map((title) => title.textContent);
  keep(body, items, keyOf,
    (item) => make("tr", {}, ...cells(item).map((cell, index) => make("td", { "data-label": titles[index] }, cell))),
    (row, item) => cells(item).forEach((cell, index) => {
      const column = row.children[index];
      if (typeof cell === "string") set(column, cell);
      else if (cell.tagName !== "BUTTON") column.replaceChildren(cell);
    }));
}
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function pairs(list, all) {
  const key = JSON.stringify(all);
  if (list.dataset.shown === key) return;
  list.dataset.shown = key;
  list.replaceChildren(...all.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]));
}
const word = (text, kind) => make("span", { class: kind }, text);

// --- Words and numbers ---

function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${unit ? count.toFixed(count < 10 ? 2 : 1) : count}\u00a0${units[unit]}`;
}
const rate = (mbps) => `${mbps.toFixed(mbps < 10 ? 2 : 1)}\u00a0Mbit/s`;
const milliseconds = (ms) => (ms == null ? "–" : `${ms.toFixed(ms < 10 ? 2 : 1)}\u00a0ms`);
function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, unit] of parts) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.max(0, Math.round(seconds))} s`;
}

// --- State ---

const state = { status: null, transfers: new Map(), history: new Map(), log: [], faces: new Map(), store: null };

function take(progress) {
  state.transfers.set(progress.transfer, progress);
  const history = state.history.get(progress.transfer) ?? [];
  const sources = Object.fromEntries(progress.sources.map((source) => [source.id, source.mbps]));
  const paths = Object.fromEntries(progress.paths.map((path) => [path.id, path.mbps]));
  const last = history.at(-1);
  if (!last || progress.seconds > last.seconds) history.push({ seconds: progress.seconds, mbps: progress.mbps, sources, paths });
  while (history.length > HISTORY) history.shift();
  state.history.set(progress.transfer, history);
}

async function refresh() {
  const [status, transfers] = await Promise.all([ask("GET", "/status"), ask("GET", "/transfers")]);
  rateFaces(status);
  state.status = status;
  const present = new Set(transfers.map((transfer) => transfer.transfer));
  transfers.forEach(take);
  for (const id of state.transfers.keys()) {
    if (!present.has(id)) {
      state.transfers.delete(id);
      state.history.delete(id);
    }
  }
  show();
}
/** The rates of faces, from the bytes of two answers. */
function rateFaces(status) {
  for (const face of status.faces) {
    const before = state.faces.get(face.id);
    const now = { at: status.uptime_seconds, sent: face.sent_bytes, received: face.received_bytes, out: 0, in: 0 };
    if (before && now.at > before.at) {
      const over = (bytes) => Math.max(0, bytes) * 8 / 1e6 / (now.at - before.at);
      now.out = over(now.sent - before.sent);
      now.in = over(now.received - before.received);
    } else if (before) {
      continue;
    }
    state.faces.set(face.id, now);
  }
}

// --- What is shown ---

let isDue = false;
/** Shows the state, once for all changes until the next frame. */
function show() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    if (state.status) showAll(state.status);
  });
}
function showAll(status) {
  document.title = `${status.label} · Tributary`;
  set(byId("label"), status.label);
  set(byId("about"), `${status.family} · ${status.roles.join(", ")} · up ${duration(status.uptime_seconds)} · version ${status.version}`);
  showTransfers();
  showFaces(status);
  showTopology(status);
  showPublications(status);
  showCache();
  showStore();
  showLog();
}

function showTransfers() {
  const all = [...state.transfers.values()].reverse();
  all.sort((one, other) => other.running - one.running);
  const running = all.filter((transfer) => transfer.running).length;
  set(byId("transfers-count"), all.length ? `${running} running, ${all.length - running} ended` : "");
  byId("no-transfers").hidden = all.length > 0;
  keep(byId("transfer-list"), all.slice(0, Math.max(TRANSFERS_SHOWN, running)), (transfer) => transfer.transfer, makeTransfer, updateTransfer);
}
function makeTransfer({ transfer: id, name, running }) {
  const title = `${id}-title`;
  const on = (method, path, body) => (event) => act(() => ask(method, `/transfers/${encodeURIComponent(id)}${path}`, body?.(event)), event.currentTarget);
  const limit = make("form", {
    onsubmit: (event) => {
      event.preventDefault();
      const limit = bits(event.currentTarget.limit.value);
      act(() => ask("PUT", `/transfers/${encodeURIComponent(id)}/limit`, { bits_per_second: limit }));
    },
  },
  make("label", {}, make("span", { class: "hidden" }, `Limit of ${id} in Mbit/s`), make("input", { name: "limit", type: "number", min: "0.001", step: "any", placeholder: "Mbit/s" })),
  make("button", { class: "plain" }, "Limit"));
  return make("article", { class: "transfer", "aria-labelledby": title },
    make("div", { class: "transfer-head" },
      make("h3", { id: title }, name),
      make("span", { class: "state" }),
      make("div", { class: "actions" },
        limit,
        make("button", { class: "plain pause", type: "button", onclick: on("POST", "/pause") }, "Pause"),
        make("button", { class: "plain resume", type: "button", onclick: on("POST", "/resume") }, "Resume"),
        make("button", { class: "plain cancel", type: "button", onclick: on("DELETE", "") }, "Cancel"))),
    make("progress", { max: "1", "aria-labelledby": title }),
    make("p", { class: "soft summary" }),
    make("svg", { class: "chart", viewBox: "0 0 600 120", preserveAspectRatio: "none", role: "img", "aria-label": `Rate of ${name} over time by source and path` }),
    make("p", { class: "soft scale" }),
    // What has ended takes little room until somebody wants to know more.
    make("details", running ? { open: "" } : {}, make("summary", {}, "Sources and paths"),
    make("div", { class: "scroll" }, make("table", {},
      make("caption", {}, "By source"),
      make("thead", {}, make("tr", {}, ...["Source", "Now", "Bytes", "State"].map((text) => make("th", {}, text)))),
      make("tbody", { class: "sources" }))),
    make("div", { class: "scroll" }, make("table", {},
      make("caption", {}, "By path"),
      make("thead", {}, make("tr", {}, ...["Path", "Source", "Now", "Bytes", "RTT", "Loss", "Window", "State", "Why", "Way", "Face"].map((text) => make("th", {}, text)))),
      make("tbody", { class: "paths" })))));
}
const stateOf = (transfer) => {
  if (transfer.running) return ["running", "good"];
  if (transfer.paused) return ["paused", "warn"];
  if (transfer.waiting) return ["waiting", "warn"];
  return transfer.failure ? ["failed", "bad"] : ["done", "good"];
};
function updateTransfer(element, transfer) {
  const find = (selector) => element.querySelector(selector);
  const [text, kind] = stateOf(transfer);
  set(find(".state"), `${transfer.transfer}: ${text}`);
  find(".state").className = `state ${kind}`;
  find(".pause").hidden = !transfer.running && !transfer.waiting;
  find(".cancel").hidden = !transfer.running && !transfer.waiting;
  find(".actions form").hidden = !transfer.running;
  find(".resume").hidden = !transfer.paused;
  const share = transfer.bytes ? transfer.stored_bytes / transfer.bytes : 0;
  find("progress").value = share;
  const left = transfer.mbps > 0 ? `, ${duration((transfer.bytes - transfer.stored_bytes) * 8 / 1e6 / transfer.mbps)} left` : "";
  const parts = [`${bytes(transfer.stored_bytes)} of ${bytes(transfer.bytes)} (${(share * 100).toFixed(1)} %)`];
  if (transfer.running) parts.push(`${rate(transfer.mbps)}${left}`);
  if (transfer.cached_bytes) parts.push(`${bytes(transfer.cached_bytes)} out of caches`);
  if (transfer.failure && !transfer.paused) parts.push(transfer.failure);
  set(find(".summary"), parts.join(" · "));
  chart(find(".chart"), state.history.get(transfer.transfer) ?? [], transfer);
  const mark = (index, name) => make("span", {}, make("span", { class: `key s${index % 8}` }), name);
  rows(find(".sources"), transfer.sources, (source) => source.id, (source) => [
    mark(transfer.sources.indexOf(source), source.id), rate(source.mbps), bytes(source.bytes),
    source.distrusted ? word(`distrusted: ${source.distrusted}`, "bad") : source.closed ? word(source.closed, "warn") : "in use",
  ]);
  rows(find(".paths"), transfer.paths, (path) => path.id, (path) => [
    path.id, path.source, rate(path.mbps), bytes(path.bytes), milliseconds(path.rtt_ms), `${(path.loss * 100).toFixed(2)}\u00a0%`, bytes(path.window_bytes),
    word(path.state, ["active", "done"].includes(path.state) ? "good" : path.state === "silent" ? "bad" : "warn"), path.reason, path.via, path.face ?? "–",
  ]);
}
/** Lines of the total, of each source and, thin, of each path, over the last two minutes. */
function chart(svg, history, transfer) {
  const first = history[0];
  const last = history.at(-1);
  svg.classList.toggle("none", history.length < 2);
  if (history.length < 2 || svg.dataset.shown === `${last.seconds}`) return;
  svg.dataset.shown = `${last.seconds}`;
  const top = Math.max(0.001, ...history.map((point) => point.mbps)) * 1.1;
  const span = Math.max(1, last.seconds - first.seconds);
  const line = (of, attributes) => make("polyline", {
    points: history.map((point) => `${((point.seconds - first.seconds) / span * 600).toFixed(1)},${(118 - (of(point) ?? 0) / top * 114).toFixed(1)}`).join(" "),
    ...attributes,
  });
  const index = new Map(transfer.sources.map((source, index) => [source.id, index]));
  set(svg.nextElementSibling, `The last ${duration(span)}, up to ${rate(top / 1.1)}; dashed: all sources, thin: paths`);
  svg.replaceChildren(
    line((point) => point.mbps, { class: "s-all" }),
    ...transfer.paths.map((path) => line((point) => point.paths[path.id], { class: `s${(index.get(path.source) ?? 0) % 8}`, "stroke-opacity": "0.45", "stroke-width": "1" })),
    ...transfer.sources.map((source, index) => line((point) => point.sources[source.id], { class: `s${index % 8}` })));
}

/** What fetches may take over a face, in a few words. */
function policy(of) {
  if (!of) return "–";
  const words = [];
  if (of.cost) words.push(`costs ${of.cost}`);
  if (of.backup) words.push("backup");
  if (of.quota) words.push(`${bytes(of.quota.used_bytes)} of ${bytes(of.quota.bytes)} ${of.quota.per === "day" ? "today" : "this month"}`);
  if (of.limit_mbps != null) words.push(`at most ${rate(of.limit_mbps)} now`);
  if (of.closed) words.push(of.closed);
  return words.join("; ") || "no limit now";
}

function showFaces(status) {
  set(byId("uplinks-count"), `${status.faces.filter((face) => face.up).length} of ${status.faces.length} answer`);
  byId("no-faces").hidden = status.faces.length > 0;
  rows(byId("face-rows"), status.faces, (face) => face.id, (face) => {
    const now = state.faces.get(face.id) ?? { out: 0, in: 0 };
    const text = face.problem ?? (face.up ? "answers" : "does not answer");
    return [
      face.label ? `${face.id} (${face.label})` : face.id, face.neighbour || "unknown", word(text, face.up && !face.problem ? "good" : "bad"), milliseconds(face.rtt_ms), face.mtu == null ? "–" : `${face.mtu}`,
      face.rate_mbps == null ? "–" : rate(face.rate_mbps), rate(now.out), rate(now.in), `${face.dropped_packets}`, policy(face.policy),
    ];
  });
}

/** The nodes on the paths of running transfers and the neighbours, with what flows between them. */
function showTopology(status) {
  const own = status.label;
  const links = new Map();
  const link = (one, other) => {
    const key = [one, other].sort().join("\u0000");
    if (!links.has(key)) links.set(key, { ends: [one, other], mbps: 0, up: true });
    return links.get(key);
  };
  for (const face of status.faces) if (face.neighbour) link(own, face.neighbour).up = face.up;
  for (const transfer of state.transfers.values()) {
    if (!transfer.running) continue;
    for (const path of transfer.paths) {
      const nodes = path.via.split(/\s*(?:>|→|–|,)\s*/).filter(Boolean);
      const way = nodes.length > 1 ? nodes : [own, path.source];
      way.slice(1).forEach((node, index) => { link(way[index], node).mbps += path.mbps; });
    }
  }
  // A topology manager knows the links of others too, and what they carry; the busier direction is shown.
  for (const { from, to, used_mbps: used } of status.links ?? []) {
    const known = link(from, to);
    known.mbps = Math.max(known.mbps, used);
  }
  const all = [...links.values()].slice(0, 300);
  const key = JSON.stringify(all.map(({ ends, mbps, up }) => [ends, mbps.toFixed(1), up]));
  const svg = byId("graph");
  if (svg.dataset.shown === key) return;
  svg.dataset.shown = key;
  const places = layers(own, all);
  const width = Math.max(320, svg.clientWidth || 600);
  const height = Math.max(256, 44 * Math.max(1, ...places.map((layer) => layer.length)));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const at = new Map();
  places.forEach((layer, column) => layer.forEach((node, index) => at.set(node, {
    x: places.length < 2 ? width / 2 : 50 + column * (width - 100) / (places.length - 1),
    y: (index + 1) * height / (layer.length + 1),
  })));
  const top = Math.max(0.001, ...all.map(({ mbps }) => mbps));
  svg.replaceChildren(
    ...all.map(({ ends: [one, other], mbps, up }) => make("line", {
      x1: at.get(one).x, y1: at.get(one).y, x2: at.get(other).x, y2: at.get(other).y,
      class: mbps > 0 ? "flows" : up ? "" : "down", "stroke-width": mbps > 0 ? 1.5 + 6 * mbps / top : 1.5,
    }, make("title", {}, `${one} – ${other}: ${rate(mbps)}`))),
    ...[...at].map(([node, { x, y }]) => make("g", {},
      make("circle", { cx: x, cy: y, r: 8, class: node === own ? "own" : "" }),
      make("text", { x, y: y - 12, "text-anchor": "middle" }, node.length > 18 ? `${node.slice(0, 17)}…` : node),
      make("title", {}, node))));
  keep(byId("graph-words"), all.filter(({ mbps, up }) => mbps > 0 || !up), ({ ends }) => ends.join("\u0000"), () => make("li"),
    (item, { ends, mbps, up }) => set(item, up ? `${ends[1]} – ${ends[0]}: ${rate(mbps)}` : `${ends[1]} does not answer ${ends[0]}`));
  pairs(byId("resolver"), status.resolver);
}
/** Nodes by their distance from this one. */
function layers(own, links) {
  const found = [[own]];
  const seen = new Set([own]);
  while (found.at(-1).length) {
    const next = [];
    for (const { ends: [one, other] } of links) {
      for (const [near, far] of [[one, other], [other, one]]) {
        if (found.at(-1).includes(near) && !seen.has(far)) {
          seen.add(far);
          next.push(far);
        }
      }
    }
    found.push(next);
  }
  found.pop();
  const apart = links.flatMap(({ ends }) => ends).filter((node) => !seen.has(node));
  if (apart.length) found.push([...new Set(apart)]);
  return found;
}

function showPublications(status) {
  set(byId("publications-count"), status.published.length ? `${status.published.length}` : "");
  byId("no-publications").hidden = status.published.length > 0;
  rows(byId("publication-rows"), status.published, (published) => published.name, ({ name, bytes: size, confirmed, changed, unreadable }) => [
    name, bytes(size),
    unreadable ? word(`cannot be served: ${unreadable}`, "bad") : changed ? word("changed since it was published", "warn")
      : confirmed ? word("confirmed", "good") : word("not confirmed yet", "warn"),
    make("button", { class: "plain", type: "button", "aria-label": `Withdraw ${name}`, onclick: (event) => act(() => ask("DELETE", `/publications?name=${encodeURIComponent(name)}`), event.currentTarget) }, "Withdraw"),
  ]);
}
function showCache() {
  const { cache } = state.status;
  byId("cache").hidden = byId("cache-link").hidden = !cache;
  if (!cache) return;
  const asked = cache.hits + cache.misses;
  pairs(byId("cache-about"), [
    ["Policy", cache.policy], ["Used", `${bytes(cache.used_bytes)} of ${bytes(cache.capacity_bytes)}`],
    ["Hits", asked ? `${cache.hits} of ${asked} (${(cache.hits / asked * 100).toFixed(1)} %)` : "none asked for"],
  ]);
  byId("cache-table").hidden = !cache.objects.length;
  rows(byId("cache-rows"), cache.objects, (object) => object.key, (object) => [object.key, `${object.packets}`, bytes(object.bytes), `${object.hits}`]);
}
function showStore() {
  const store = state.store;
  byId("store").hidden = byId("store-link").hidden = !store?.held;
  if (!store?.held) return;
  pairs(byId("store-about"), [["Used", `${bytes(store.used_bytes)} of ${bytes(store.capacity_bytes)}`], ["Objects", `${store.held.length}`]]);
  byId("store-table").hidden = !store.held.length;
  rows(byId("store-rows"), store.held, (held) => [held.source, held.destination, held.object].join("\u0000"), (held) => [
    held.destination, held.source, held.object, bytes(held.bytes), held.on_hold === held.chunks ? "on hold" : `in ${duration(held.left_seconds)}`, held.reason,
  ]);
}
function showLog() {
  const notes = state.status.notes.map((text) => ({ key: `n ${text}`, text }));
  const lines = [...notes, ...state.log].slice(-LOG_LINES).reverse();
  byId("no-log").hidden = lines.length > 0;
  keep(byId("log-lines"), lines, (line) => line.key, () => make("li"), (item, line) => set(item, line.text));
}

// --- What happens ---

/** Reads the stream of events for ever. An `EventSource` could not send the token. */
async function listen() {
  let last = null;
  for (;;) {
    try {
      const headers = { accept: "text/event-stream" };
      if (token()) headers.authorization = `Bearer ${token()}`;
      if (last) headers["last-event-id"] = last;
      const response = await fetch(`${API}/events`, { headers, cache: "no-store" });
      if (response.status === 401) {
        await askForToken();
        continue;
      }
      if (!response.ok) throw new Error((await response.json()).message);
      connected("live", "live");
      await refresh();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) last = handle(event) ?? last;
      }
    } catch (error) {
      if (error.kind) complain(error);
    }
    connected("lost", "connection lost, trying again");
    await new Promise((done) => setTimeout(done, 2000));
  }
}
function connected(kind, text) {
  byId("connection").className = kind;
  set(byId("connection"), text);
}
/** Takes one event; gives its id. */
function handle(event) {
  const field = (name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  const data = field("data");
  if (!data) return null;
  const { what, transfer, seconds } = JSON.parse(data);
  const id = field("id");
  if (what?.event === "progress") {
    const was = state.transfers.get(transfer);
    take(what);
    if (was?.running && !what.running) refresh().catch(complain);
  } else if (what && what.event !== "note") {
    const text = describe(what);
    if (text) state.log.push({ key: id, text: `${seconds.toFixed(1)} s: ${transfer ? `${transfer}: ` : ""}${text}` });
    while (state.log.length > LOG_LINES) state.log.shift();
  }
  show();
  return id;
}
function describe(what) {
  switch (what.event) {
    case "started": return `${bytes(what.bytes)}, ${bytes(what.resumed_bytes)} of it here already`;
    case "source": return `source ${what.id}`;
    case "source-distrusted": return `source ${what.id} is distrusted: ${what.reason}`;
    case "source-closed": return `source ${what.id} is no longer used: ${what.reason}`;
    case "forwarder-distrusted": return `${what.id} is avoided: ${what.reason}`;
    case "cache-distrusted": return `the cache of ${what.node} is bypassed: ${what.reason}`;
    case "path": return `${what.id} to ${what.source}`;
    case "path-state": return `${what.id} is ${what.state}: ${what.reason}`;
    case "error": return what.message;
    default: return null;
  }
}

/** What is stored for others. A node without a store says so once. */
async function refreshStore() {
  if (state.store === "none") return;
  state.store = await ask("GET", "/store").catch((error) => (error.kind === "usage" ? "none" : null));
  show();
}
async function every(milliseconds, work) {
  for (;;) {
    await new Promise((done) => setTimeout(done, milliseconds));
    // A page that nobody sees asks for nothing.
    if (!document.hidden) await work().catch(() => {});
  }
}

// --- Forms ---

function submits(id, work) {
  byId(id).addEventListener("submit", (event) => {
    event.preventDefault();
    act(() => work(event.target), event.submitter);
  });
}
const bits = (text) => (text ? Math.round(Number(text) * 1e6) : null);
submits("begin", async (form) => {
  await ask("POST", "/transfers", { name: form.name.value, output: { path: form.output.value }, limit_bits_per_second: bits(form.limit.value) });
  form.reset();
});
submits("limit-all", (form) => ask("PUT", "/limit", { bits_per_second: bits(form.limit.value) }));
submits("publish", async (form) => {
  await upload(form.file.files[0], form.name.value);
  form.reset();
});
submits("list", async (form) => {
  const none = byId("no-names");
  none.hidden = true;
  byId("name-rows").replaceChildren();
  const answers = await ask("GET", `/names?scope=${encodeURIComponent(form.scope.value)}`).catch((error) => {
    if (error.kind !== "not-found") throw error;
    return [];
  });
  const entries = answers.filter((answer) => answer.event === "entry");
  none.hidden = entries.length > 0;
  set(none, "Nothing is known below this name.");
  rows(byId("name-rows"), entries, (entry) => entry.name, (entry) => [
    entry.kind === "scope" ? `${entry.name}/` : entry.name, entry.kind === "scope" ? "" : `${entry.publishers}`, entry.kind === "scope" ? "" : bytes(entry.bytes),
  ]);
});
/** Sends a file to be published. Only the older interface tells how far an upload is. */
function upload(file, name) {
  const bar = byId("upload");
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${API}/uploads?name=${encodeURIComponent(name)}`);
    request.setRequestHeader("content-type", "application/octet-stream");
    if (token()) request.setRequestHeader("authorization", `Bearer ${token()}`);
    bar.hidden = false;
    request.upload.onprogress = ({ loaded, total }) => { bar.value = total ? loaded / total : 0; };
    request.onerror = () => fail(new Error("the upload was cut"));
    request.onload = () => {
      try {
        const answer = JSON.parse(request.responseText);
        if (request.status === 200) done(answer);
        else fail(Object.assign(new Error(answer.message), answer));
      } catch {
        fail(new Error(request.responseText));
      }
    };
    request.send(file);
  }).finally(() => { bar.hidden = true; });
}

listen();
every(2000, refresh);
refreshStore().catch(() => {});
every(5000, refreshStore);
