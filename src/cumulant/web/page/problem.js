// What is wrong with a phrase: the message, the phrase with the culprit marked, and a better one to click.

import { element } from "./mind.js";

export function problem(box, error, phrase = "", ask = null) {
  if (!error) return box.replaceChildren();
  const parts = [element("p", {}, error.message)];
  if (error.span) {
    const [start, end] = error.span;
    const culprit = element("mark", {}, phrase.slice(start, end) || " ");
    parts.push(element("p", { className: "pointed" }, phrase.slice(0, start), culprit, phrase.slice(end)));
    if (error.suggestion && ask) {
      const better = phrase.slice(0, start) + error.suggestion + phrase.slice(end);
      parts.push(element("button", { type: "button", className: "primary", onclick: () => ask(better) }, `Try “${better}”`));
    }
  }
  box.replaceChildren(...parts);
}
