/** Tensors in base64 → numbers. */

/** @typedef {{shape: number[], values: Float32Array}} Tensor */

const known = new WeakMap();

/** @param {{shape: number[], dtype: string, data: string}} packed @returns {Tensor} */
export function tensor(packed) {
  if (!known.has(packed)) known.set(packed, { shape: packed.shape, values: unpack(packed) });
  return known.get(packed);
}

function unpack(packed) {
  const text = atob(packed.data);
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  if (packed.dtype === "u8") return Float32Array.from(bytes, (byte) => byte / 255);
  const halves = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 2 }, (_, i) => half(halves.getUint16(2 * i, true)));
}

/** IEEE half precision. */
function half(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return exponent === 31 ? (fraction ? NaN : sign * Infinity) : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The part of a tensor at these first indices, without a copy. @param {Tensor} whole @returns {Tensor} */
export function at(whole, ...indices) {
  const shape = whole.shape.slice(indices.length);
  const size = shape.reduce((a, b) => a * b, 1);
  const place = indices.reduce((sum, index, axis) => sum * whole.shape[axis] + index, 0);
  return { shape, values: whole.values.subarray(place * size, (place + 1) * size) };
}
