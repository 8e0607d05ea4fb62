/** What the page asks the server for; or the data embedded in a file of `heedful attend`, which asks nobody. */

import { set } from "./store.js";

const place = document.getElementById("heedful-data");

/** What a file carries with it: {trace}, {positions} or {metrics}; null: the page is served. @type {any} */
export const embedded = place ? JSON.parse(place.textContent ?? "null") : null;

let waiting = new AbortController();

/** @returns {Promise<any>} the answer; an error's text is the server's own */
async function ask(path, body = undefined, signal = undefined) {
  const key = sessionStorage.getItem("heedful-key");
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const init =
    body === undefined
      ? { headers }
      : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  if (body !== undefined) set({ request: { path, body } });
  const answer = await fetch(path, { ...init, signal });
  const found = await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 403) set({ locked: true });
  if (!answer.ok) throw new Error(found.error ?? found.message ?? `${answer.status} ${answer.statusText}`);
  return found;
}

/** Use this key from now on, until the browser is closed. */
export function useKey(key) {
  sessionStorage.setItem("heedful-key", key);
  set({ locked: false });
}

/** Translate; a request that is still under way is given up. */
export function translateText(q, source, target) {
  waiting.abort();
  waiting = new AbortController();
  return ask("/translate", { q, source, target, format: "text" }, waiting.signal);
}

/** Everything about one translation. Empty settings are left out. */
export function fetchTrace(body) {
  return ask(
    "/api/trace",
    Object.fromEntries(Object.entries(body).filter(([, value]) => value !== "" && value !== null)),
    waiting.signal,
  );
}

/** The languages of all models: [{code, name, targets}]. */
export const fetchLanguages = () => ask("/languages");

/** The positional encodings. */
export const fetchPositions = (n, d) => ask(`/api/positions?n=${n}&d=${d}`);

/** The records of training, if the server has the run's folder. */
export const fetchMetrics = (source, target) =>
  ask(`/api/run/metrics?source=${encodeURIComponent(source)}&target=${encodeURIComponent(target)}`);

/** The last request as a line for the shell. */
export function curl({ path, body }) {
  const json = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl -s ${location.origin}${path} -H 'Content-Type: application/json' -d '${json}'`;
}
