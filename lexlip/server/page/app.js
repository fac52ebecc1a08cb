// The page: the address says what is asked, the server answers, and the parts show it.
import { Component, Fragment, count, createRef, html, photos, render } from "./html.js";
import {
	FILTERS,
	asked,
	asks,
	identity,
	isFiltered,
	ordered,
	readAddress,
	writeAddress,
	writeTerms,
} from "./address.js";
import { Gone, Problem, get } from "./api.js";
import { multiplied, quotedNegation } from "./marks.js";
import { Chips } from "./chips.js";
import { Filters } from "./filters.js";
import { Grid } from "./grid.js";
import { PhotoView } from "./photo.js";
import { isRemembered, remember } from "./remembered.js";
import { Results } from "./results.js";
import { SearchBar } from "./search_bar.js";
import { Selection, SelectionBar } from "./select.js";
import { Lines, NoHits, Welcome } from "./states.js";
import { Listing, Newer, Timeline, monthName } from "./timeline.js";

const KEPT = 4; // answers, for Back
const TELLING = 24; // words of a first visit
const HEAVIEST = 16; // words of a picture in the address
const [IDLE, UPDATING] = [20, 1.5]; // seconds between questions for the status

const NAMES = "lexlip-names"; // as the browser remembers it

const pictures = new Map(); // by number: {blob, url}; they live as long as the page

function titleOf(query) {
	if (asks(query)) return `${query.q || "like a picture"} · LexLIP`;
	return query.month ? `${monthName(query.month)} · LexLIP` : "LexLIP";
}

class App extends Component {
	bar = createRef();
	grid = createRef();
	strip = createRef();
	selection = new Selection(() => this.setState({ selected: this.selection.size }));
	kept = new Map(); // by identity of the query: Results
	state = {
		query: readAddress(location.search),
		results: null, // of the last answer; stays while a new one is on its way
		waiting: false,
		gone: false,
		problem: "",
		said: "",
		status: null,
		facets: null,
		albums: null, // {writable, albums}
		telling: [],
		selected: 0,
		names: isRemembered(NAMES), // whether they stand under the photos
		dropping: false,
	};

	componentDidMount() {
		history.scrollRestoration = "manual";
		addEventListener("popstate", this.returned);
		addEventListener("pagehide", this.remember);
		document.addEventListener("paste", this.pasted);
		document.addEventListener("keydown", this.keys);
		for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) document.addEventListener(kind, this.dragged);
		document.addEventListener("visibilitychange", () => document.hidden || this.watch());
		this.watch();
		this.start();
		this.search(history.state?.scroll ?? 0);
	}

	remember = () => history.replaceState({ ...history.state, scroll: scrollY }, "");

	go(wanted, { replace = false, state = {} } = {}) {
		const query = ordered(wanted);
		const address = writeAddress(query);
		this.remember();
		if (address === writeAddress(this.state.query)) replace = true;
		const words = query.picture === this.state.query.picture ? history.state?.words : undefined;
		history[replace ? "replaceState" : "pushState"]({ ...state, words }, "", address);
		this.turn(query, 0);
	}

	returned = () => this.turn(readAddress(location.search), history.state?.scroll ?? 0);

	turn(query, scroll) {
		const before = this.state.query;
		this.setState({ query });
		if (identity(query) !== identity(before) || this.state.problem)
			this.setState({ problem: "" }, () => this.search(scroll, query));
		if (before.photo && !query.photo) this.left(before.photo);
	}

	/** A photo was left: the focus returns to its place among the hits. */
	left(key) {
		const at = this.state.results?.keys.indexOf(key) ?? -1;
		if (at >= 0) requestAnimationFrame(() => this.grid.current.show(at));
	}

	unfilter = () => this.go({ ...this.state.query, ...FILTERS });

	/** A sentence; nothing, where there was one, is the start. */
	ask = (q) => {
		const { query } = this.state;
		if (q || query.q) this.go(asked(query, q ? { q } : FILTERS));
	};

	name = (names) => {
		remember(NAMES, names);
		this.setState({ names });
	};

	/** Read now: files change. HEIC may have no type. */
	picture = async (file) => {
		const data = file.size < 1e8 ? await file.arrayBuffer().catch(() => null) : file;
		if (!data || !/^(image\/|$)/.test(file.type)) return this.setState({ problem: "this is not a picture" });
		const blob = new Blob([data], { type: file.type });
		const number = String(Date.now());
		pictures.set(number, { blob, url: URL.createObjectURL(blob) });
		this.go(asked(this.state.query, { picture: number }));
	};

	/** Chips change a query's words; those of a photo or picture are named first. */
	adjust = (next) => {
		const named = next.like && !next.terms ? { terms: writeTerms(this.state.results.answer.terms) } : {};
		this.go({ ...next, ...named });
	};

	async search(scroll = 0, query = this.state.query) {
		this.abort?.abort();
		this.abort = new AbortController();
		const { signal } = this.abort;
		const told = asks(query) ? null : this.tell(signal);
		if (told && !(this.state.results instanceof Listing)) this.setState({ results: null, said: "" });
		document.title = titleOf(query);
		const name = identity(query);
		let results = this.kept.get(name);
		if (!results) {
			const picture = pictures.get(query.picture)?.blob ?? null;
			if (query.picture && !query.terms && !picture)
				return this.setState({ results: null, problem: "the picture of this address is not kept: drop it here again" });
			const limit = this.state.status?.limits?.k ?? Infinity;
			results = asks(query) ? new Results(query, picture, history.state?.words, limit) : new Listing(query, limit);
			this.setState({ waiting: true });
			const again = () => this.search(scroll, query);
			const refused = (error) => {
				if (!signal.aborted && !error.passes) this.setState({ results: null, said: "" });
				throw error;
			};
			if (!(await this.attempt(() => results.more(signal).catch(refused), again))) return;
			if (signal.aborted) return;
			this.keep(name, results);
		}
		if (scroll) await told; // gives what is above its height
		if (signal.aborted) return;
		const fresh = results !== this.state.results;
		this.setState(
			{ results, waiting: false, problem: "", said: this.saying(results), snapshot: this.state.status?.snapshot },
			() => {
				if (fresh) requestAnimationFrame(() => scrollTo(0, scroll)); // once the rows are laid
				this.words(query, results);
			},
		);
	}

	keep(name, results) {
		this.kept.set(name, results);
		if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
	}

	/** An address to share has a picture's heaviest words, the tab's history all. */
	words(query, results) {
		const { terms } = results.answer;
		if (!query.picture || query.terms || !Object.keys(terms).length) return;
		const named = { ...query, terms: writeTerms(terms, HEAVIEST) };
		history.replaceState({ ...history.state, words: terms }, "", writeAddress(named));
		this.keep(identity(named), results);
		this.setState({ query: named });
	}

	more = async () => {
		const { results } = this.state;
		if (results.done || results.loading || this.state.gone || this.stuck === results) return;
		const { signal } = this.abort;
		if (await this.attempt(() => results.more(signal), this.more)) this.setState({ said: this.saying(results) });
		else this.stuck = results;
	};

	/** Do what needs the server; `again` once it is back. */
	async attempt(work, again) {
		try {
			await work();
			return true;
		} catch (error) {
			if (error.name === "AbortError") return false;
			this.failed(error, again);
			this.setState({ waiting: false });
			return false;
		}
	}

	failed = (error, again) => {
		const gone = error instanceof Gone;
		if (!gone && !(error instanceof Problem)) throw error;
		if (error.status === 410) return this.setState({ stale: true });
		this.setState(gone ? { gone } : { problem: error.message });
		if (!error.passes) return;
		this.again = again ?? this.again;
		this.wake(1);
	};

	wake(seconds) {
		if (this.waking) return;
		this.waking = setTimeout(async () => {
			this.waking = null;
			try {
				await get("health");
			} catch {
				return this.wake(Math.min(seconds * 1.5, 8));
			}
			const { again } = this;
			this.again = this.stuck = null;
			this.setState({ gone: false, problem: "" });
			for (const image of document.querySelectorAll("img.broken")) {
				image.classList.remove("broken");
				image.src = image.getAttribute("src");
			}
			this.start();
			this.watch();
			again?.();
		}, seconds * 1000);
	}

	saying(results) {
		const { query, byFile } = results;
		if (results.answer.total) return photos(results.answer.total);
		const said = this.fitting(results);
		const byDate = query.after || query.before || query.sort === "date";
		return byDate && byFile ? `${said}; ${count(byFile)} dated by the file` : said;
	}

	fitting({ length, done, well, cut, answer }) {
		if (!length) return "no photo fits";
		if (cut === 0) return "nothing fits well; showing what comes nearest";
		const fit = (number) => `${photos(number)} fit${number === 1 ? "s" : ""}`;
		const known = (of) => (of ?? null) !== null;
		const end = cut ?? (done ? length : null); // null: more fit than are loaded
		if (well !== null) {
			const inPart = end === null ? ", more in part" : `, ${count(end - well)} in part`;
			return `${fit(well)} well${well === end ? "" : inPart}`;
		}
		if (cut !== null) return fit(cut);
		if (done) return known(answer.well) ? `${fit(length)} well` : photos(length);
		if (!known(answer.cut)) return `the first ${photos(length)}`;
		return `more than ${photos(length)} fit${known(answer.well) ? " well" : ""}`;
	}

	start() {
		for (const what of ["facets", "albums"])
			get(what).then(
				(found) => this.setState({ [what]: found }),
				() => {},
			);
	}

	async tell(signal) {
		const found = await get("telling", { limit: TELLING }, signal).catch((error) => {
			if (error instanceof Gone) this.failed(error, () => this.search());
		});
		if (found && !signal.aborted) this.setState({ telling: found.words });
	}

	watch = async () => {
		clearTimeout(this.watching);
		let status = null;
		try {
			status = await get("status");
			const shown = this.state.snapshot ?? status.snapshot;
			if (!status.update?.running && this.state.status?.update?.running) this.start();
			this.setState({ status, snapshot: shown });
		} catch (error) {
			if (error instanceof Gone) this.failed(error);
		}
		if (document.hidden) return;
		this.watching = setTimeout(this.watch, (status?.update?.running ? UPDATING : IDLE) * 1000);
	};

	again = null;

	refresh = () => {
		this.kept.clear();
		this.setState({ snapshot: this.state.status?.snapshot, stale: false, problem: "" });
		this.search();
	};

	/** An album was changed: ask again for what it showed. */
	albums = (albums, name) => {
		this.setState({ albums });
		for (const [identity, { query }] of this.kept) if (query.album === name) this.kept.delete(identity);
		if (this.state.query.album === name) this.search(scrollY);
	};

	unselect = () => {
		this.selection.clear();
		const { current } = this.grid;
		if (current?.kept !== undefined) current.show(current.kept);
	};

	dragged = (event) => {
		if (!event.dataTransfer?.types.includes("Files")) return;
		event.preventDefault();
		if (event.type === "drop") {
			this.setState({ dropping: false });
			const [file] = event.dataTransfer.files;
			if (file) this.picture(file);
		} else if (event.type !== "dragleave") this.setState({ dropping: true });
		else if (!event.relatedTarget) this.setState({ dropping: false });
	};

	pasted = (event) => {
		const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => type.startsWith("image/"));
		if (!file) return;
		event.preventDefault();
		this.picture(file);
	};

	keys = (event) => {
		const typing = event.target.closest?.("input, select, textarea, dialog");
		if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
		event.preventDefault();
		scrollTo(0, 0);
		this.bar.current.focus();
	};

	open = (key) => this.go({ ...this.state.query, photo: key }, { state: { opened: true } });

	close = () => {
		if (history.state?.opened) history.back();
		else this.go({ ...this.state.query, photo: "" }, { replace: true });
	};

	step = async (step) => {
		const { results, query } = this.state;
		const at = results ? results.keys.indexOf(query.photo) : -1;
		if (at < 0) return;
		if (at + step >= results.length) await (results.loading?.catch(() => {}) ?? this.more()); // who began it tells of errors
		const key = results.keys[at + step];
		if (key) this.go({ ...this.state.query, photo: key }, { replace: true, state: history.state });
		if (at + step > results.length - 10) this.more();
	};

	/** Whether the server shows photos, or has their files too, as its status says. */
	get pictures() {
		return this.state.status?.photos !== "none";
	}

	get files() {
		return (this.state.status?.photos ?? "files") === "files";
	}

	photo() {
		const { query, results, status } = this.state;
		const at = results?.keys.indexOf(query.photo) ?? -1;
		const like = asked(query, { like: query.photo });
		return html`<${PhotoView}
			photoKey=${query.photo}
			query=${query}
			answer=${results instanceof Listing ? null : results?.answer}
			hit=${at >= 0 ? results.hit(at) : null}
			ratio=${at >= 0 ? results.ratios[at] : 0}
			hasWords=${status?.words !== false}
			pictures=${this.pictures}
			files=${this.files}
			previous=${at > 0}
			next=${at >= 0 && (at + 1 < results.length || !results.done)}
			likeAddress=${writeAddress(like)}
			onLike=${(event) => this.follow(event, like)}
			onFollow=${this.follow}
			starring=${this.state.albums?.writable}
			onAlbums=${this.albums}
			onStep=${this.step}
			onClose=${this.close}
			onProblem=${(error) => error instanceof Gone && this.failed(error)}
		/>`;
	}

	follow = (event, query) => {
		if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
		event.preventDefault();
		this.go(query);
	};

	body() {
		const { query, results } = this.state;
		const listing = results instanceof Listing ? results : null; // which stays while an answer is on its way
		if (listing || !asks(query)) return this.browse(query, listing);
		return results && this.answer(query, results);
	}

	browse(query, listing) {
		const { status, telling } = this.state;
		const months = {
			addressOf: (month) => writeAddress(asked(query, { month })),
			onGo: (event, month) => this.follow(event, asked(query, { month })),
		};
		return html`
			<${Fragment}>
				${
					!query.month &&
					html`<${Welcome} words=${telling} status=${status} pictures=${this.pictures}
					addressOf=${(word) => writeAddress(asked(query, { q: word }))}
					onWord=${(event, word) => this.follow(event, asked(query, { q: word }))} />`
				}
				${
					listing &&
					html`
					<div class="tools">${this.filters({ ...query, month: "" }, false)}</div>
					${
						listing.length > 0 &&
						html`<${Timeline} self=${this.strip} months=${listing.months} begin=${listing.begin} ...${months} />
						<${Newer} listing=${listing} ...${months} />`
					}
					${(listing.length > 0 || isFiltered(query)) && this.found(query, listing)}
				`
				}
			<//>
		`;
	}

	filters(query, ordered) {
		return html`<${Filters} query=${query} facets=${this.state.facets}
			albums=${this.state.albums?.albums} found=${this.state.said} ordered=${ordered}
			names=${this.state.names} onNames=${this.name}
			onChange=${(change) => this.go({ ...query, ...change })} />`;
	}

	found(query, results) {
		if (!results.length)
			return html`<${NoHits} answer=${results.answer}
				onUnfilter=${isFiltered(query) && this.unfilter}
				onPutBack=${(word) => this.adjust(multiplied(query, word, 1))}
				onText=${(phrase) => this.adjust(quotedNegation(query, phrase))}
				onHome=${() => this.go(asked(query, FILTERS))} />`;
		return html`<${Grid} self=${this.grid} results=${results} length=${results.length} names=${this.state.names}
			selection=${this.selection} addressOf=${(key) => writeAddress({ ...query, photo: key })} onOpen=${this.open} onEnd=${this.more}
			onSeen=${(index) => this.strip.current?.show(results.monthAt(index))} />`;
	}

	answer(query, results) {
		const { answer } = results;
		const { status } = this.state;
		const chips = status?.words !== false && Object.keys(answer.terms).length + (answer.unknown ?? []).length > 0;
		return html`
			<${Fragment}>
				<div class="tools">
					${answer.foreign && html`<p>This does not look like English, which the model knows: say it in English${answer.install && html`, or <code>${answer.install}</code>`}.</p>`}
					${
						(chips || (answer.without ?? []).length > 0) &&
						html`<${Chips} key="chips" answer=${answer} of=${results.query} query=${query} onChange=${this.adjust} />`
					}
					${this.filters(query, true)}
				</div>
				${this.found(query, results)}
			<//>
		`;
	}

	chosen(query, status, results) {
		return html`<${SelectionBar} selection=${this.selection} size=${this.selection.size}
			most=${status?.limits.download_photos ?? Infinity} albums=${this.state.albums} album=${query.album}
			results=${results} files=${this.files} onMore=${this.more} onClear=${this.unselect} onAlbums=${this.albums} />`;
	}

	render(_, { query, results, waiting, gone, problem, status, snapshot, stale, said, selected, dropping }) {
		const changed = stale || Boolean(status && snapshot !== undefined && status.snapshot !== snapshot);
		return html`
			<header>
				<${SearchBar} self=${this.bar} query=${query} pictureUrl=${pictures.get(query.picture)?.url}
					hasWords=${status?.words !== false} pictures=${this.pictures}
					onSearch=${this.ask} onPicture=${this.picture}
					onHome=${(event) => this.follow(event, asked(query, FILTERS))} />
				${waiting && html`<div class="waiting" aria-hidden="true"></div>`}
			</header>
			<main>
				<${Lines} gone=${gone} problem=${problem} update=${status?.update} cluster=${status?.cluster} changed=${changed} onAgain=${this.refresh}
					onUnfilter=${problem && !query.picture && !results && isFiltered(query) && this.unfilter} />
				${this.body()}
			</main>
			<p class="hidden" aria-live="polite">${said}</p>
			${selected > 0 && this.chosen(query, status, results)}
			${query.photo && this.photo()}
			${dropping && html`<div class="drop" aria-hidden="true"><p>Drop the picture: search with it</p></div>`}
		`;
	}
}

render(html`<${App} />`, document.getElementById("app"));
