// Photos that are selected, and what is done with them. They are kept by key: rows far from the screen leave the
// document, and another search may show others.
import { Component, createRef, html, photos } from "./html.js";
import { asks } from "./address.js";
import { post } from "./api.js";
import { copy, save } from "./clipboard.js";
import { Menu } from "./menu.js";

const LONG = 500; // milliseconds of a touch that selects
const STILL = 10; // pixels that the finger may move meanwhile
const ALL = 5000; // photos that are selected at once

export const STARRED = "starred"; // the album of the star

const indexAt = (event) => {
	const link = event.target.closest(".hit")?.querySelector("[data-index]");
	return link ? Number(link.dataset.index) : -1;
};

export class Selection {
	paths = new Map(); // of the photos that are selected, by key
	anchor = null; // the key from which a range goes
	range = []; // the keys that the last range took in

	/** `changed` is called after each change. */
	constructor(changed) {
		this.changed = changed;
	}

	get size() {
		return this.paths.size;
	}

	get keys() {
		return [...this.paths.keys()];
	}

	has(key) {
		return this.paths.has(key);
	}

	take(results, start, end) {
		const taken = [];
		for (let index = start; index < end; index++) {
			const key = results.keys[index];
			if (this.has(key)) continue;
			this.paths.set(key, results.hit(index).path);
			taken.push(key);
		}
		return taken;
	}

	toggle(results, index) {
		const key = results.keys[index];
		if (!this.paths.delete(key)) this.take(results, index, index + 1);
		this.anchor = key;
		this.range = [];
		this.changed();
	}

	/** Select from the anchor, or else from a photo, to another one, in place of the range before. */
	extend(results, from, to) {
		const at = results.keys.indexOf(this.anchor);
		const start = at < 0 ? from : at;
		if (at < 0) this.range = [];
		this.anchor = results.keys[start];
		for (const key of this.range) this.paths.delete(key);
		this.range = this.take(results, Math.min(start, to), Math.max(start, to) + 1);
		this.changed();
	}

	/**
	 * Select all that fit, well if that is known; `more` loads further photos. Returns how many were
	 * selected if there are too many for all; else 0.
	 */
	async all(results, more) {
		const open = () => !results.done && results.well === null && results.cut === null && results.length <= ALL;
		for (let before = -1; open() && results.length > before;) {
			before = results.length;
			await more();
		}
		const end = results.well || (results.cut ?? results.length);
		this.take(results, 0, Math.min(end, ALL));
		this.changed();
		return end > ALL ? ALL : 0;
	}

	clear() {
		this.paths.clear();
		this.anchor = null;
		this.range = [];
		this.changed();
	}

	/** What the grid listens to: clicks on ticks, clicks with Shift, and long touches. */
	listeners(results) {
		const stop = () => clearTimeout(this.holding);
		return {
			onPointerDown: (event) => {
				stop();
				const index = indexAt(event);
				Object.assign(this, { touch: event.pointerType === "touch", held: false, at: [event.clientX, event.clientY] });
				if (!this.touch || index < 0) return;
				this.holding = setTimeout(() => {
					this.held = true;
					this.toggle(results, index);
				}, LONG);
			},
			onPointerMove: ({ clientX, clientY }) => {
				if (this.touch && Math.hypot(clientX - this.at[0], clientY - this.at[1]) > STILL) stop();
			},
			onPointerUp: stop,
			onPointerCancel: stop,
			onMouseDown: (event) => event.shiftKey && event.preventDefault(), // which would select text
			onContextMenu: (event) => this.touch && event.preventDefault(),
			onClickCapture: (event) => {
				const index = indexAt(event);
				if (index < 0 || event.ctrlKey || event.metaKey || event.button) return;
				const ticked = event.target.closest(".tick") || (this.touch && this.size > 0);
				if (!event.shiftKey && !ticked && !this.held) return;
				event.preventDefault();
				event.stopPropagation();
				if (event.shiftKey) this.extend(results, index, index);
				else if (!this.held) this.toggle(results, index);
				this.held = false;
			},
		};
	}
}

/** The tick of a photo in the grid; the keyboard selects a photo with Space. */
export const tick = (selected, name) => html`
	<button class="tick" role="checkbox" aria-checked=${selected} aria-label=${`select ${name}`} tabindex="-1"></button>
`;

/** What can be done with the photos that are selected. */
export class SelectionBar extends Component {
	state = { note: "" };
	form = createRef();
	list = createRef();

	componentDidMount() {
		document.addEventListener("keydown", this.keys);
	}

	componentWillUnmount() {
		document.removeEventListener("keydown", this.keys);
	}

	componentDidUpdate({ size }) {
		if (size !== this.props.size && this.state.note) this.setState({ note: "" });
	}

	keys = (event) => {
		if (event.key !== "Escape" || event.defaultPrevented || event.target.closest?.("dialog, input, select")) return;
		this.props.selection.clear();
	};

	/** The browser saves what a form asks for as it comes; only an error is a page, in the frame. */
	download(as) {
		const { selection, most } = this.props;
		if (selection.size > most) return this.setState({ note: `at most ${photos(most)} in one download` });
		this.sent = true;
		const { keys, form, query } = this.form.current.elements;
		keys.value = selection.keys.join(" ");
		form.value = as;
		query.value = this.query();
		this.form.current.submit();
		this.setState({ note: "the download begins" });
	}

	/** What found the photos, if it was one query. */
	query() {
		const { selection, results } = this.props;
		const { q = "", adjust = [] } = results?.query ?? {};
		const found = new Set(results?.keys);
		return selection.keys.every((key) => found.has(key)) ? [q, ...adjust].join(" ").trim().slice(0, 1000) : "";
	}

	failed = () => {
		if (this.sent) this.setState({ note: "the server does not send these photos: select fewer, or try again" });
	};

	all = async () => {
		const { selection, results, onMore } = this.props;
		const first = await selection.all(results, onMore);
		if (first) this.setState({ note: `the first ${photos(first)} are selected` });
	};

	copy = async () => {
		const text = [...this.props.selection.paths.values()].join("\n");
		this.list.current.textContent = text;
		const copied = await copy(text, this.list.current);
		this.list.current.textContent = "";
		this.setState({ note: copied ? "paths copied" : "this browser does not let paths be copied: save the list" });
	};

	change = async (name, change, said) => {
		try {
			const albums = await post(`albums/${encodeURIComponent(name)}`, change);
			const left = albums.left_out?.length;
			this.setState({ note: left ? `${said} without ${photos(left)}: line breaks in names` : said });
			this.props.onAlbums(albums, name);
		} catch (error) {
			this.setState({ note: error.message });
		}
	};

	add = (name) => this.change(name, { add: this.props.selection.keys }, `added to “${name}”`);

	albums({ albums }, close) {
		const choose = (name) => {
			close();
			if (name) this.add(name);
		};
		return html`
			<div class="choices">
				${albums.map(
					({ name, photos: many }) => html`
						<button key=${name} onClick=${() => choose(name)}><bdi>${name}</bdi> <small>${photos(many)}</small></button>
					`,
				)}
			</div>
			<form class="naming" onSubmit=${(event) => {
				event.preventDefault();
				choose(event.target.elements.album.value.trim());
			}}>
				<input name="album" aria-label="name of a new album" placeholder="new album" maxlength="48" pattern="[^\\/]+"
					title="a name without /" autocomplete="off" />
				<button type="submit" class="solid">add</button>
			</form>
		`;
	}

	render({ selection, size, results, albums, album, files, onClear }, { note }) {
		return html`
			<section class="selected" aria-label="selected photos">
				<p role="status">${note || `${photos(size)} selected`}</p>
				<div class="does">
					${results?.length > 0 && html`<button onClick=${this.all}>${asks(results.query) ? "all that fit" : "all"}</button>`}
					${
						files &&
						html`
						<button onClick=${() => this.download("zip")}>download</button>
						<button onClick=${() => this.download("sheet")}>contact sheet</button>
					`
					}
					<button onClick=${this.copy}>copy paths</button>
					<button onClick=${() => save([...selection.paths.values(), ""].join("\n"), "photos.txt")}>save list</button>
					${
						albums?.writable &&
						html`
						<button onClick=${() => this.add(STARRED)}>★ star</button>
						<${Menu} name="albums" label="add to album">${(close) => this.albums(albums, close)}<//>
						${
							album &&
							html`<button onClick=${() => this.change(album, { remove: selection.keys }, `taken out of “${album}”`)}>
							take out of album</button>`
						}
					`
					}
				</div>
				<button class="close" aria-label="select none" title="select none (Escape)" onClick=${onClear}>×</button>
				<form ref=${this.form} method="post" action="api/download" target="download" hidden>
					<input name="keys" /><input name="form" /><input name="query" />
				</form>
				<iframe name="download" title="download" onLoad=${this.failed} hidden></iframe>
				<pre class="hidden" ref=${this.list}></pre>
			</section>
		`;
	}
}
