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

const list = {
	and: new Intl.ListFormat("en-GB", { type: "conjunction" }),
	or: new Intl.ListFormat("en-GB", { type: "disjunction" }),
};

/** "no photo has a date" as "No photo has a date." */
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

/** A word of the lexicon as an answer shows it: in the language of the query. */
export const shown = (answer, word) => answer?.translations?.[word] ?? word;

/** ["a", "b", "c"] as "“a”, “b” and “c”". */
export const quoted = (words, joined = "and") => list[joined].format(words.map((word) => `“${word}”`));
