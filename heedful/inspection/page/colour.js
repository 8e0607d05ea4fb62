/** Colours of heatmaps and heads. One hue from the ground to full; two hues for numbers of both signs. */

import { css } from "./dom.js";

/** Eight colours that differ for all common kinds of sight; a dash goes with each, so that colour is never alone. */
export const DASHES = ["none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 4", "14 3 3 3"];

/** The CSS variable of a head's colour. */
export function headColour(head) {
  return `var(--head-${head % 8})`;
}

/** Equal steps look equal, and in grey it still goes from dark to light. */
const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];

/** The ramps of the present scheme (light or dark), as arrays of RGB; `stops` are those of weights. */
export function ramps(name = "hue") {
  const [ground, middle, full, other] = ["--ramp-0", "--ramp-mid", "--ramp-1", "--ramp-2"].map((key) => rgb(css(key)));
  return { ground, full, other, stops: name === "viridis" ? VIRIDIS.map(rgb) : [ground, middle, full] };
}

function rgb(hex) {
  return [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

const mix = (a, b, share) => a.map((value, i) => Math.round(value + (b[i] - value) * share));

/** 0 … 1 → RGB, by way of middle tones, so that small weights can be told apart. */
export function sequential(value, { stops }) {
  const place = Math.min(1, Math.max(0, value)) * (stops.length - 1);
  const before = Math.min(stops.length - 2, Math.floor(place));
  return mix(stops[before], stops[before + 1], place - before);
}

/** −1 … 1 → RGB. */
export function diverging(value, ramp) {
  return mix(ramp.ground, value < 0 ? ramp.other : ramp.full, Math.min(1, Math.abs(value)));
}

/** RGB as CSS, and the ink that has more contrast on it: 4.5 or more, whatever the colour. */
export function paint([red, green, blue]) {
  const linear = (value) => (value <= 10 ? value / 3295 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  return { colour: `rgb(${red} ${green} ${blue})`, ink: light > 0.179 ? "#000000" : "#ffffff" };
}

/** Draw numbers into a canvas, one pixel each; CSS makes them large. */
export function heat(canvas, values, rows, columns, colourOf) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const [red, green, blue] = colourOf(values[i], i);
    image.data.set([red, green, blue, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
