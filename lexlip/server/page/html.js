// Preact and htm together: html`<b>…</b>` makes elements; text is always set as text, never as HTML.
import { Component, Fragment, createRef, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { Component, Fragment, createRef, render };

const number = new Intl.NumberFormat("en");

/** 28549 as "28,549". */
export const count = (value) => number.format(value);

/** "1 photo", "28,549 photos". */
export const photos = (n) => `${count(n)} ${n === 1 ? "photo" : "photos"}`;

/** ["a", "b", "c"] as "a, b and c". */
export const listed = (words) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

export const quoted = (words) => listed(words.map((word) => `“${word}”`));
