/** What the page asks the server for; or the data embedded in a file of `heedful attend`, which asks nobody. */

import { refusal, t } from "./i18n.js";
import { set } from "./store.js";

const place = document.getElementById("heedful-data");

/** What a file carries with it: {trace}, {positions} or {metrics}; null: the page is served. @type {any} */
export const embedded = place ? JSON.parse(place.textContent ?? "null") : null;

let waiting = new AbortController();

function keyHeader() {
  const key = sessionStorage.getItem("heedful-key");
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/**
 * @param {string} path from where the page lies, which may be a folder of a proxy's
 * @returns {Promise<any>} the answer; an error's text is the server's own, or what we say for it
 */
async function ask(path, body = undefined, signal = undefined) {
  const headers = keyHeader();
  const init =
    body === undefined
      ? { headers }
      : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  if (body !== undefined) set({ request: { path, body } });
  const answer = await fetch(path, { ...init, signal }).catch(unanswered);
  const found = await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 403) set({ locked: true });
  if (!answer.ok)
    throw failure(refusal(answer.status, found.error ?? `${answer.status} ${answer.statusText}`), mayPass(answer.status));
  return found;
}

/** What was refused for now may be granted later: too many requests, a server that is busy or away. */
const mayPass = (status) => status === 429 || status >= 500;

/** @param {boolean} again may the same request succeed later? */
const failure = (message, again) => Object.assign(new Error(message), { again });

/** @returns {never} Browsers have names of their own for a server that is not there. */
function unanswered(error) {
  throw error.name === "AbortError" ? error : failure(t("unanswered"), true);
}

/** Use this key from now on, until the browser is closed. */
export function useKey(key) {
  sessionStorage.setItem("heedful-key", key);
  set({ locked: false });
}

/** Give up what is still under way: its answer would be of another text. */
export function giveUp() {
  waiting.abort();
  waiting = new AbortController();
}

/** A text and its translation: {source, target}, each with its language, its sentences, and the spaces around them. */
export function fetchSentences(q, source, target) {
  return ask("api/sentences", { q, source, target }, waiting.signal);
}

/** Everything about one translation. Empty settings are left out. */
export function fetchTrace(body) {
  return ask(
    "api/trace",
    Object.fromEntries(Object.entries(body).filter(([, value]) => value !== "" && value !== null)),
    waiting.signal,
  );
}

/** The languages of all models: [{code, name, targets}]. */
export const fetchLanguages = () => ask("languages");

/** The positional encodings. */
export const fetchPositions = (n, d) => ask(`api/positions?n=${n}&d=${d}`);

const pairQuery = (source, target) =>
  `source=${encodeURIComponent(source)}&target=${encodeURIComponent(target)}`;

/** What the model is: sizes, and the card of its folder if there is one. */
export const fetchModel = (source, target) => ask(`api/model?${pairQuery(source, target)}`);

/**
 * The records of training as they are written, until the signal. (EventSource could send no key.)
 * @param {(name: string, records: any) => void} tell "anew": all of them; "more": those that were added
 * @returns {Promise<boolean>} did a stream end? Then it can be watched again
 */
export async function watchMetrics(source, target, signal, tell) {
  const headers = { ...keyHeader(), Accept: "text/event-stream" };
  const answer = await fetch(`api/run/metrics?${pairQuery(source, target)}`, { headers, signal });
  if (!answer.ok || !answer.body) return false;
  if (!answer.headers.get("content-type")?.startsWith("text/event-stream"))
    return (tell("anew", await answer.json()), false);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (text + part.value).split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(event);
      if (found) tell(found[1], JSON.parse(found[2]));
    }
  }
  return true;
}

/** The last request as a line for the shell; where a key is needed it says so, and does not show it. */
export function curl({ path, body }) {
  const json = JSON.stringify(body).replaceAll("'", "'\\''");
  const key = "Authorization" in keyHeader() ? " -H 'Authorization: Bearer KEY'" : "";
  return `curl -s ${new URL(path, document.baseURI).href}${key} -H 'Content-Type: application/json' -d '${json}'`;
}
