// The hits in justified rows. Only rows near the screen are in the document.
import { Component, createRef, html, quoted, shown } from "./html.js";
import { Rows, shape } from "./rows.js";
import { asks } from "./address.js";
import { thumbnail } from "./api.js";
import { tick } from "./select.js";

const NEAR = 1.2; // screens above and below that are in the document
const FAST = 6; // pixels a millisecond: pictures that only fly by are not fetched
const WORDS = 4; // matched words that a hit names

const percent = (share) => `${Math.max(Math.round(share * 100), 1)} %`;

/** The heaviest matched words, as they are shown, with their part of the score: [["dog", "45 %"], …]. */
export function shares(hit, answer) {
	const sum = hit.words.reduce((total, [, share]) => total + share, 0) || 1;
	const heaviest = [...hit.words].sort((a, b) => b[1] - a[1]).slice(0, WORDS);
	return heaviest.map(([word, share]) => [shown(answer, word), percent(share / sum)]);
}

/** The height of what lies over the top of the screen. */
const covered = () =>
	[...document.querySelectorAll(".search, .timeline")].reduce((sum, { offsetHeight }) => sum + offsetHeight, 0);

const nameOf = (id) => id.slice(id.lastIndexOf("/") + 1);

/** What is written under a photo: its file's name, and the date. */
function named({ id, date, dated }) {
	const name = nameOf(id);
	const day = (date ?? "").slice(0, 10);
	return html`<p class="name"><bdi title=${name}>${name}</bdi> <small>${dated === "file" ? `${day} (file)` : day}</small></p>`;
}

function lineText(results, index) {
	if (index !== results.cut) return "from here on, photos fit in part";
	const words = results.wordsBelow();
	const joined = results.together > 1 ? "and" : "or";
	const all = Object.keys(results.answer.terms).length;
	let share = "fit your query less";
	if (words.length > 3) share = `share little with your query, mostly ${quoted(words.slice(0, 3))}`;
	else if (results.together < all) share = `share only ${quoted(words, joined)} with your query`;
	else if (words.length) share = `show less of ${quoted(words)}`;
	if (results.cut > 0) return `from here on, photos ${share}`;
	return `Nothing fits ${results.query.q ? `“${results.query.q}”` : "this"} well. These photos ${share}.`;
}

/** A picture that is not asked for any longer once it has left the document. */
class Thumbnail extends Component {
	image = createRef();

	componentWillUnmount() {
		const image = this.image.current;
		if (image && !image.complete) image.removeAttribute("src");
	}

	render({ address, alt }) {
		return html`<img ref=${this.image} src=${address} alt=${alt} decoding="async"
			onLoad=${(event) => event.target.classList.add("loaded")}
			onError=${(event) => event.target.classList.add("broken")} />`;
	}
}

/** What is shown of a photo in the place of its picture. */
const card = ({ captions, path }, words, date) => html`
	<span class="card">
		${captions.length > 0 && html`<bdi>${captions[0]}</bdi>`}
		${words.length > 0 && html`<span>${words.map(([word, share]) => html`<span key=${word}><bdi>${word}</bdi> <small>${share}</small></span>`)}</span>`}
		<small><bdi>${path}</bdi>${date && ` · ${date}`}</small>
	</span>
`;

export class Grid extends Component {
	root = createRef();
	state = { width: 0, first: 0, last: 0, fast: false };
	pictures = new Set(); // hits whose picture was asked for

	componentDidMount() {
		this.props.self.current = this;
		this.resizes = new ResizeObserver(() => this.measure());
		this.resizes.observe(this.root.current);
		addEventListener("scroll", this.scrolled, { passive: true });
		addEventListener("resize", this.scrolled);
		this.measure();
	}

	componentWillUnmount() {
		this.resizes.disconnect();
		removeEventListener("scroll", this.scrolled);
		removeEventListener("resize", this.scrolled);
		clearTimeout(this.settling);
	}

	componentDidUpdate(before) {
		if (before.results !== this.props.results) this.pictures.clear();
		this.look();
		if (this.focusOn === undefined) return;
		const link = this.link(this.focusOn);
		if (!link) return;
		this.focusOn = undefined;
		link.focus({ preventScroll: true });
	}

	link = (index) => this.root.current?.querySelector(`[data-index="${index}"]`);

	measure() {
		const width = Math.floor(this.root.current.clientWidth);
		if (width !== this.state.width) this.setState({ width });
		this.look();
	}

	scrolled = () => {
		const now = performance.now();
		const fast = Math.abs(scrollY - (this.lastY ?? scrollY)) / Math.max(now - (this.lastTime ?? 0), 8) > FAST;
		[this.lastY, this.lastTime] = [scrollY, now];
		clearTimeout(this.settling);
		this.settling = setTimeout(() => this.setState({ fast: false }), 120);
		if (fast !== this.state.fast && fast) this.setState({ fast });
		this.look();
	};

	/** Find the rows near the screen; near the end, ask for more. */
	look() {
		if (!this.rows || !this.root.current) return;
		const top = this.root.current.getBoundingClientRect().top;
		const [first, last] = this.rows.between(-top - NEAR * innerHeight, -top + (1 + NEAR) * innerHeight);
		if (first !== this.state.first || last !== this.state.last) this.setState({ first, last });
		const seen = this.rows.rows[this.rows.firstBelow(covered() - top)];
		if (seen) this.props.onSeen?.(seen.start);
		if (this.rows.height + top < (1 + 2 * NEAR) * innerHeight) this.props.onEnd();
	}

	lay() {
		const { results, names } = this.props;
		const { width } = this.state;
		const ended = results.done;
		const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
		if (this.of !== results || this.width !== width || this.names !== names || (this.ended && !ended)) {
			const target = Math.min(Math.max(84 + width * 0.1, 116), 236);
			this.rows = new Rows(width, target, width < 500 ? 4 : 8, names ? 2.75 * rem : 0);
			Object.assign(this, { of: results, width, names, laid: 0, ended: false });
		}
		for (; this.laid < results.length; this.laid++) {
			const { cut, well } = results;
			if (results.headings.has(this.laid)) this.rows.line(3 * rem);
			else if (this.laid === cut || (this.laid === well && well !== 0)) this.rows.line((width < 560 ? 6.5 : 5) * rem);
			this.rows.add(results.ratios[this.laid]);
		}
		if (ended && !this.ended) {
			this.rows.finish();
			this.ended = true;
		}
	}

	/** Bring a hit to the screen and focus it. */
	show(index, focus = true) {
		const row = this.rows?.rows[this.rows.rowOf(index)];
		if (!row) return;
		const top = this.root.current.getBoundingClientRect().top + row.top;
		const bars = covered();
		const bottom = innerHeight - (document.querySelector(".selected")?.offsetHeight ?? 0);
		if (top < bars + 8) scrollBy(0, top - bars - 8);
		else if (top + row.height > bottom) scrollBy(0, top + row.height - bottom + 8);
		if (!focus) return;
		this.focusOn = index;
		this.kept = index;
		this.setState({});
	}

	keys = (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const index = Number(event.target.dataset?.index ?? NaN);
		if (Number.isNaN(index)) return;
		const { selection, results } = this.props;
		if (event.key === " " && !event.shiftKey) {
			event.preventDefault();
			return selection.toggle(results, index);
		}
		const next = {
			ArrowRight: () => index + 1,
			ArrowLeft: () => index - 1,
			ArrowDown: () => this.beside(index, 1),
			ArrowUp: () => this.beside(index, -1),
		}[event.key]?.();
		if (next === undefined) return;
		event.preventDefault();
		if (next < 0 || next >= this.rows.start) return;
		if (event.shiftKey) selection.extend(results, index, next);
		this.show(next);
	};

	beside(index, step) {
		const at = this.rows.rowOf(index);
		const row = this.rows.rows[at + step];
		if (!row) return -1;
		const places = (of) => this.boxes(of).map(({ left, width }) => left + width / 2);
		const middle = places(this.rows.rows[at])[index - this.rows.rows[at].start];
		const distances = places(row).map((place) => Math.abs(place - middle));
		return row.start + distances.indexOf(Math.min(...distances));
	}

	boxes(row) {
		const { results } = this.props;
		let left = 0;
		return Array.from({ length: row.end - row.start }, (_, place) => {
			const width = row.height * shape(results.ratios[row.start + place]);
			const box = { left, width };
			left += width + this.rows.gap;
			return box;
		});
	}

	hit(index, row, box) {
		const { results, selection, addressOf, onOpen } = this.props;
		const hit = results.hit(index);
		const key = results.keys[index];
		const words = shares(hit, results.answer);
		const byDate = results.query.sort === "date" || !asks(results.query);
		const date = byDate ? hit.date?.slice(0, 10) : null;
		const alt = words.length ? words.map((pair) => pair.join(" ")).join(", ") : nameOf(hit.id);
		const visible = !this.state.fast || this.pictures.has(index);
		if (visible) this.pictures.add(index);
		const [left, width] = [`${box.left}px`, `${box.width}px`];
		const place = { top: `${row.top}px`, left, width, height: `${row.height + this.rows.under}px` };
		const below = results.cut !== null && results.cut <= index;
		const selected = selection.has(key);
		return html`
			<li key=${key} style=${place} class=${["hit", below && "below", selected && "chosen"].filter(Boolean).join(" ")}>
				<a
					style=${{ height: `${row.height}px` }}
					href=${addressOf(key)}
					data-index=${index}
					onClick=${(event) => {
						if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
						event.preventDefault();
						onOpen(key, index);
					}}
					onFocus=${() => (this.kept = index)}
				>
					${hit.captions && card(hit, words, date)}
					${
						!hit.captions &&
						(visible
							? html`<${Thumbnail} address=${thumbnail(key, box.width, hit.version)} alt=${date ? `${date}, ${alt}` : alt} />`
							: html`<span class="hidden">${alt}</span>`)
					}
					${
						!hit.captions &&
						html`<span class="why" aria-hidden="true">
						${date && html`<span>${date}</span>`}
						${words.map(([word, share]) => html`<span key=${word}><bdi>${word}</bdi> <b>${share}</b></span>`)}
						${!words.length && html`<span><bdi>${nameOf(hit.id)}</bdi></span>`}
					</span>`
					}
				</a>
				${tick(selected, nameOf(hit.id))}
				${this.props.names && named(hit)}
			</li>
		`;
	}

	line({ index, top, height }) {
		const { results } = this.props;
		const month = results.headings.get(index);
		if (month) {
			const [name, note] = results.heading(month);
			return html`
				<li key=${`line ${index}`} class="heading" style=${{ top: `${top}px`, height: `${height}px` }}>
					<h2>${name}</h2> ${note && html`<small>${note}</small>`}
				</li>
			`;
		}
		return html`
			<li key=${`line ${index}`} class=${results.cut ? "line" : "line nothing"}
				style=${{ top: `${top}px`, height: `${height - this.rows.gap}px` }}>
				<span dir="auto">${lineText(results, index)}</span>
			</li>
		`;
	}

	render({ results, selection }, { width, first, last }) {
		if (!width) return html`<ul class="grid" ref=${this.root}></ul>`;
		this.lay();
		const { rows } = this.rows;
		const wanted = new Set();
		for (let at = first; at < Math.min(last, rows.length); at++) wanted.add(at);
		if (this.kept < results.length && rows.length) {
			const at = this.rows.rowOf(this.kept); // the row with the focus, and where Tab goes from it
			for (const near of [at - 1, at, at + 1]) if (rows[near]) wanted.add(near);
		}
		const items = [...wanted]
			.sort((a, b) => a - b)
			.flatMap((at) => {
				const boxes = this.boxes(rows[at]);
				return boxes.map((box, place) => [rows[at].start + place, rows[at], box]);
			});
		const inside = new Set(items.map(([index]) => index));
		for (const index of this.pictures) if (!inside.has(index)) this.pictures.delete(index);
		const lines = this.rows.lines.filter(({ index }) => !results.headings.has(index) || inside.has(index));
		const from = (index) => lines.filter((line) => line.index <= index).length;
		const part = (place) => items.filter(([index]) => from(index) === place).map((item) => this.hit(...item));
		return html`
			<ul class=${selection.size ? "grid selecting" : "grid"} ref=${this.root} style=${{ height: `${this.rows.height}px` }}
				aria-label="photos" onKeyDown=${this.keys} ...${selection.listeners(results)}>
				${part(0)}
				${lines.map((line, place) => [this.line(line), part(place + 1)])}
			</ul>
		`;
	}
}
