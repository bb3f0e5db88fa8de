// Numbers as people read them.

/** So many decimals, and never "-0.00": what is next to nothing has no sign. */
export function decimals(x, digits) {
  const said = x.toFixed(digits);
  return Number(said) === 0 ? said.replace("-", "") : said;
}

/** A number of which only its size matters, "90,000". */
export function roughly(x) {
  return Number(x.toPrecision(2)).toLocaleString("en");
}
