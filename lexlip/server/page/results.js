// The hits of one query, page after page. Pages far from the screen are kept as one string each.
import { get, post, postPicture } from "./api.js";
import { filtersOf, readTerms } from "./address.js";
import { shown } from "./html.js";
import { adjusted } from "./marks.js";

const PAGES = [60, 120, 240, 480]; // first hits come fast, later pages are few
const OPEN = 12; // pages that are kept unpacked

/** Whether people gave a photo this word: "name:anna". */
export const isGiven = (word) => word.includes(":");

/** As the server compares names: in small letters, without accents. */
export const folded = (word) =>
	word
		.toLowerCase()
		.normalize("NFKD")
		.replace(/[\u0300-\u036f]/g, "")
		.normalize("NFC");

/** What was not understood of a query: words that people gave the photos found are names. */
function understood({ unknown, foreign, hits }) {
	const given = hits.flatMap((hit) => Object.keys(hit.words ?? {}).filter(isGiven));
	const names = new Set(given.flatMap((word) => word.split(/[:" ]+/).slice(1)));
	return { unknown: unknown?.filter((word) => !names.has(folded(word))), foreign: foreign && !names.size };
}

export class Results {
	/**
	 * Of a query as the address has it; `picture` is a Blob and `words` are all of its words, where they are known;
	 * `limit` is the most that the server gives at once.
	 */
	constructor(query, picture, words, limit) {
		this.query = query;
		this.picture = picture;
		this.words = words;
		this.limit = limit;
		this.answer = null; // the first page: terms, unknown, without, cut, suggestions
		this.keys = [];
		this.ratios = [];
		this.well = null; // the number of hits that fit well; null: all so far, or nobody knows
		this.cut = null; // the number of hits that fit, well or in part; null: all so far
		this.below = new Map(); // by word the hits beyond the cut that share it
		this.byFile = 0; // hits dated by their files
		this.together = 0; // the most words that one of them shares
		this.headings = new Map(); // by the index of the hit that they stand before
		this.done = false;
		this.pages = []; // {start, end, hits | packed}
		this.loading = null;
	}

	/** Load the next page, one at a time. */
	more(signal) {
		this.loading ??= this.next(signal).finally(() => (this.loading = null));
		return this.loading;
	}

	async next(signal) {
		if (this.done) return;
		const k = Math.min(PAGES[Math.min(this.pages.length, PAGES.length - 1)], this.limit);
		const answer = await this.ask(k, signal);
		if (!this.answer) this.answer = { ...answer, ...understood(answer), hits: null };
		else Object.assign(this.answer.translations ?? {}, answer.translations);
		this.cursor = answer.cursor;
		this.done = !answer.cursor || !answer.hits.length;
		this.add(answer.hits);
	}

	ask(k, signal) {
		const { q, adjust, like, terms, sort } = this.query;
		const how = { k, cursor: this.cursor ?? "", ...filtersOf(this.query), sort };
		if (adjust.length || !this.picture) {
			if (!like && !terms) return get("search", q ? { q, adjust, ...how } : { q: adjust.join(" "), ...how }, signal);
			const body = Object.fromEntries(Object.entries(how).filter(([, value]) => value));
			const asked = terms ? adjusted(this.words ?? readTerms(terms), adjust) : { like };
			return post("search", { ...body, ...asked }, signal);
		}
		return postPicture("search", this.picture, how, signal);
	}

	add(hits) {
		const start = this.keys.length;
		const { cut = null, well = null } = this.query.sort === "match" ? this.answer : {};
		const light = [];
		for (const hit of hits) {
			if (well !== null && hit.score < well) this.well ??= this.keys.length;
			if (cut !== null && hit.score < cut) {
				this.cut ??= this.keys.length;
				const words = Object.entries(hit.words ?? {});
				this.together = Math.max(this.together, words.length);
				for (const [word, share] of words) this.below.set(word, (this.below.get(word) ?? 0) + share);
			}
			this.byFile += hit.dated === "file";
			this.keys.push(hit.key);
			this.ratios.push(hit.width && hit.height && !hit.captions ? hit.width / hit.height : 0);
			light.push({
				id: hit.id,
				version: hit.version,
				score: hit.score,
				words: Object.entries(hit.words ?? {}),
				date: hit.date,
				dated: hit.dated,
				path: hit.path,
				captions: hit.captions, // only where there is no picture to show
			});
		}
		if (hits.length) this.pages.push({ start, end: start + hits.length, hits: light, packed: null });
		if (this.pages.length > OPEN) this.pack(this.pages[this.pages.length - OPEN]);
	}

	pack(page) {
		if (page.hits) page.packed = JSON.stringify(page.hits);
		page.hits = null;
	}

	get length() {
		return this.keys.length;
	}

	/** {id, version, score, words: [[word, share]], date, dated, path, captions} of a hit, from 0. */
	hit(index) {
		const at = this.pages.findIndex((page) => index < page.end);
		const page = this.pages[at];
		if (!page.hits) {
			page.hits = JSON.parse(page.packed);
			for (const other of this.pages) if (Math.abs(this.pages.indexOf(other) - at) > OPEN / 2) this.pack(other);
		}
		return page.hits[index - page.start];
	}

	/** The words that hits beyond the cut share with the query, most first, as they are shown. */
	wordsBelow() {
		const words = [...this.below].sort((a, b) => b[1] - a[1]).map(([word]) => shown(this.answer, word));
		return [...new Set(words)];
	}
}
