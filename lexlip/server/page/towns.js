// The names of towns on the map: so many as have room, beside circles and one another.
import { html } from "./html.js";

const ROOM = 9000; // square pixels of the map for each name
const [GAP, BETWEEN] = [6, 3]; // pixels from a town to its name, and around names
const DOT = 5; // pixels across
const HIGH = 16; // pixels of a name

const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const grown = ({ left, top, right, bottom }, by) => ({
	left: left - by,
	top: top - by,
	right: right + by,
	bottom: bottom + by,
});
const square = (x, y, size) => grown({ left: x, top: y, right: x, bottom: y }, size / 2);

/**
 * Towns whose names have room, in a map of so many pixels: {name, latitude, longitude, shift, before, dot}.
 * A name begins `shift` pixels from its town, or ends there if it stands before it; `dot` marks a town without a circle.
 *
 * Towns come largest first; those at a circle are named before others. `at` gives the pixels of a place, `circles`
 * are {x, y, size} and `taken` are boxes that stay free; `widthOf` measures a name.
 */
export function named(towns, circles, taken, [wide, high], at, widthOf) {
	const boxes = [...circles.map(({ x, y, size }) => square(x, y, size)), ...taken];
	const under = (x, y) => circles.find((one) => Math.hypot(one.x - x, one.y - y) < one.size / 2);
	const known = new Set(); // circles that have a name
	const placed = towns.map((town) => {
		const [x, y] = at(town);
		return { ...town, x, y, circle: under(x, y) };
	});
	const found = [];
	for (const { x, y, circle, ...town } of [...placed.filter(({ circle }) => circle), ...placed]) {
		if (found.length >= (wide * high) / ROOM) break;
		if (known.has(circle) || found.some(({ name }) => name === town.name)) continue;
		const width = widthOf(town.name);
		const [middle, from] = circle ? [circle.x - x, circle.size / 2 + BETWEEN + 1] : [0, GAP];
		const mark = circle ? [] : [square(x, y, DOT)];
		for (const shift of [middle + from, middle - from]) {
			const left = x + (shift > middle ? shift : shift - width);
			const name = { left, right: left + width, top: y - HIGH / 2, bottom: y + HIGH / 2 };
			const mine = [grown(name, BETWEEN), ...mark];
			const inside = left >= 0 && left + width <= wide && name.top >= 0 && name.bottom <= high;
			if (!inside || mine.some((one) => boxes.some((other) => over(one, other)))) continue;
			boxes.push(...mine);
			if (circle) known.add(circle);
			found.push({ ...town, shift, before: shift < middle, dot: !circle });
			break;
		}
	}
	return found;
}

/** One on a map of [west, north, width, height] degrees. */
export function Town({ town, part: [west, north, width, height] }) {
	const { name, latitude, longitude, shift, before, dot } = town;
	const place = { left: `${(100 * (longitude - west)) / width}%`, top: `${(100 * (north - latitude)) / height}%` };
	const beside = before ? `calc(${shift}px - 100%)` : `${shift}px`;
	return html`
		<span class="town" style=${place} aria-hidden="true">
			${dot && html`<i></i>`}<bdi style=${{ transform: `translate(${beside}, -50%)` }}>${name}</bdi>
		</span>
	`;
}
