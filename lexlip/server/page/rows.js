// Justified rows: each fills the width, photos keep their shape, heights come near one target.

const UNKNOWN = 4 / 3; // the shape of a photo whose size nobody knows

/** The shape in which a photo is shown: only extreme panoramas are cropped. */
export const shape = (ratio) => Math.min(Math.max(ratio || UNKNOWN, 0.4), 3.5);

export class Rows {
	/** `under` is the height of what is written under each photo. */
	constructor(width, target, gap, under = 0) {
		Object.assign(this, { width, target, gap, under });
		this.rows = []; // {start, end, top, height}
		this.lines = []; // {index, top, height}: a line of text before the hit `index`
		this.height = 0;
		this.start = 0; // the first photo that is in no row yet
		this.pending = []; // its shape, and those after it
	}

	add(ratio) {
		this.pending.push(shape(ratio));
		const natural = this.natural(this.pending.length);
		if (natural > this.target) return;
		const before = this.pending.length > 1 ? this.natural(this.pending.length - 1) : Infinity;
		const closer = this.target / natural > before / this.target && before < this.target * 1.5;
		this.close(closer ? this.pending.length - 1 : this.pending.length, false);
	}

	/** The height at which so many fill a row. */
	natural(many) {
		const sum = this.pending.slice(0, many).reduce((total, ratio) => total + ratio, 0);
		return (this.width - this.gap * (many - 1)) / sum;
	}

	close(many, ragged) {
		const natural = this.natural(many);
		const height = ragged ? Math.min(natural, this.target) : natural;
		this.rows.push({ start: this.start, end: this.start + many, top: this.height, height });
		this.height += height + this.under + this.gap;
		this.start += many;
		this.pending = this.pending.slice(many);
	}

	/** End the last row, which need not fill the width. */
	finish() {
		if (this.pending.length) this.close(this.pending.length, true);
	}

	line(height) {
		this.finish();
		this.lines.push({ index: this.start, top: this.height, height });
		this.height += height;
	}

	/** The rows that touch a stretch of the page, as [first, last + 1]. */
	between(top, bottom) {
		return [this.firstBelow(top), Math.max(this.firstBelow(bottom, true), 0)];
	}

	/** The first row that ends below a place; or the first that begins there or below. */
	firstBelow(place, begins = false) {
		let low = 0;
		let high = this.rows.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			const row = this.rows[middle];
			if (begins ? row.top >= place : row.top + row.height > place) high = middle;
			else low = middle + 1;
		}
		return low;
	}

	/** The number of the row that holds a photo. */
	rowOf(index) {
		let low = 0;
		let high = this.rows.length - 1;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.rows[middle].end > index) high = middle;
			else low = middle + 1;
		}
		return low;
	}
}
