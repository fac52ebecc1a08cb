// Where in a picture its words are.

const DARK = 0.78; // opacity over places without the word

/** Paint a word's places: the picture stays bright where the word is and darkens elsewhere. */
export function paintPlaces(canvas, { rows, columns }, values) {
	const small = new OffscreenCanvas(columns, rows);
	const pixels = new ImageData(columns, rows);
	const most = Math.max(...values) || 1;
	values.forEach((value, place) => {
		pixels.data.set([12, 8, 6, 255 * DARK * (1 - value / most)], place * 4);
	});
	small.getContext("2d").putImageData(pixels, 0, 0);
	[canvas.width, canvas.height] = [columns * 32, rows * 32];
	const context = canvas.getContext("2d");
	context.filter = "blur(8px)";
	context.drawImage(small, -8, -8, canvas.width + 16, canvas.height + 16); // the blur's pale edge is outside
}

export const placeOf = ({ box: [left, top, right, bottom] }) => ({
	left: `${left * 100}%`,
	top: `${top * 100}%`,
	width: `${(right - left) * 100}%`,
	height: `${(bottom - top) * 100}%`,
});

/** The middle of the place where a word is strongest, in fractions of the picture. */
export function strongest({ columns, rows, box: [left, top, right, bottom] }, values) {
	const at = values.indexOf(Math.max(...values));
	const x = ((at % columns) + 0.5) / columns;
	const y = (Math.floor(at / columns) + 0.5) / rows;
	return [left + x * (right - left), top + y * (bottom - top)];
}

/** The strongest words at a place, x and y in fractions of the picture. */
export function wordsAt({ rows, columns, box: [left, top, right, bottom], words }, x, y, weights, most = 3) {
	const column = Math.floor(((x - left) / (right - left)) * columns);
	const row = Math.floor(((y - top) / (bottom - top)) * rows);
	if (column < 0 || row < 0 || column >= columns || row >= rows) return [];
	const at = row * columns + column;
	return Object.entries(words)
		.map(([word, values]) => [word, values[at] * (weights[word] ?? 0)])
		.filter(([, value]) => value > 0)
		.sort((a, b) => b[1] - a[1])
		.slice(0, most)
		.map(([word]) => word);
}
