/** One small state that all regions share. What can be linked to is in the URL's hash. */

/**
 * @typedef {object} State
 * @property {string} q source text
 * @property {string} from language or "auto"
 * @property {string} to
 * @property {number} sentence which of several is looked into, or -1: none
 * @property {string} prefix what the translation must begin with
 * @property {number} n which hypothesis
 * @property {number} t target word, or -1
 * @property {number} s source word, or -1
 * @property {string} kind cross, encoder or decoder
 * @property {number} l layer; -1: the last
 * @property {number[]} h heads; none: the mean of all
 * @property {string} unit words or pieces
 * @property {boolean} hide special tokens and punctuation
 * @property {string} scale linear or root
 * @property {string} ramp hue or viridis
 * @property {string} view matrix or lines
 * @property {number} step of decoding
 * @property {string} ui language of the page
 */

/** Of a number, also the least that it may be. */
const DEFAULTS = {
  q: "",
  from: "auto",
  to: "",
  sentence: -1,
  prefix: "",
  n: 0,
  t: -1,
  s: -1,
  kind: "cross",
  l: -1,
  h: [],
  unit: "words",
  hide: false,
  scale: "linear",
  ramp: "hue",
  view: "matrix",
  step: 0,
  ui: "",
};

/** What else these may be. */
const CHOICES = { kind: ["cross", "encoder", "decoder"], ui: ["en", "ko"] };

const listeners = new Set();
/** @type {any} */
const state = { ...DEFAULTS, h: [], trace: null, whole: null, busy: false, error: "", preview: null, request: null };

/** The state as it is now. @returns {any} */
export function get() {
  return state;
}

/** Change something, tell everybody, and keep the hash true. */
export function set(change) {
  const different = Object.keys(change).filter((key) => state[key] !== change[key]);
  if (!different.length) return;
  Object.assign(state, change);
  if (different.some((key) => key in DEFAULTS)) writeHash();
  listeners.forEach((listener) => listener(new Set(different)));
}

/** Call when one of these keys changes. */
export function subscribe(keys, listener) {
  listeners.add((changed) => keys.some((key) => changed.has(key)) && listener());
}

function writeHash() {
  const pairs = Object.entries(DEFAULTS).filter(([key, value]) => String(state[key]) !== String(value));
  const hash = new URLSearchParams(pairs.map(([key]) => [key, String(state[key])])).toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

/** Take over what the hash says. */
export function readHash() {
  const found = new URLSearchParams(location.hash.slice(1));
  const change = {};
  for (const [key, value] of Object.entries(DEFAULTS)) {
    const text = found.get(key);
    change[key] = text === null || !(CHOICES[key] ?? [text]).includes(text) ? value : parsed(text, value);
  }
  set(change);
}

function parsed(text, like) {
  if (Array.isArray(like))
    return text
      .split(",")
      .map(Number)
      .filter((value) => Number.isInteger(value) && value >= 0);
  if (typeof like === "number") return Number.isInteger(Number(text)) ? Math.max(like, Number(text)) : like;
  return typeof like === "boolean" ? text === "true" : text;
}
