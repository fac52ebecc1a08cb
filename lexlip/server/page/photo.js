// One photo, large: its words, where they are, why it was found, and what is known about it.
import { Component, createRef, html, shown } from "./html.js";
import { Cloud } from "./cloud.js";
import { asked, writeAddress } from "./address.js";
import { get, original, post, thumbnail } from "./api.js";
import { copy } from "./clipboard.js";
import { folded, isGiven } from "./results.js";
import { STARRED } from "./select.js";
import { paintPlaces, placeOf, strongest, wordsAt } from "./heat.js";

const SHOWN_BY_BROWSERS = /\.(p?jpe?g|jpe|pjp|jfif?|jif|mpo|insp|a?png|webp|gif|bmp|avifs?)$/i;
const MOST_ROWS = 12; // of the score's table
const LINGER = 200; // milliseconds of pointing before the places are asked for

const date = new Intl.DateTimeFormat("en", { dateStyle: "long", timeStyle: "short", timeZone: "UTC" });

/** "2019-07-01T12:30:00" as the camera's clock said it. */
function takenText(taken) {
	const time = new Date(`${taken.length > 10 ? taken : `${taken}T00:00:00`}Z`);
	return Number.isNaN(time.getTime()) ? taken : date.format(time);
}

/** [[word, in the query, in the photo, product]], largest product first. */
function sumOf(terms, words, hit) {
	const products = new Map(hit?.words ?? []);
	return Object.keys(terms)
		.filter((word) => word in words)
		.map((word) => ({
			word,
			query: terms[word],
			photo: words[word],
			product: products.get(word) ?? terms[word] * words[word],
		}))
		.sort((a, b) => b.product - a.product);
}

/** The numbers of the lines of text in a photo that a hit was found by. */
function linesFound({ text }, hit) {
	const found = (hit?.words ?? []).map(([word]) => word).filter((word) => word.startsWith("text:"));
	const words = new Set(found.flatMap((word) => word.slice(5).split(/[" ]+/)).filter(Boolean));
	const has = (line) =>
		folded(line)
			.split(/[^\p{L}\p{N}\p{M}]+/u)
			.some((word) => words.has(word));
	return [...text.keys()].filter((number) => has(text[number]));
}

const NOTHING = {
	photo: null,
	why: null,
	places: null,
	word: null,
	pinned: null,
	line: null, // of its text, by number
	names: [],
	note: "",
	sharp: "",
}; // is known yet of the photo that is shown

export class PhotoView extends Component {
	dialog = createRef();
	canvas = createRef();
	path = createRef();
	state = NOTHING;

	componentDidMount() {
		this.dialog.current.showModal();
		this.load();
	}

	componentDidUpdate(before, { photo, word, pinned, places }) {
		if (before.photoKey !== this.props.photoKey) this.load();
		const { state } = this;
		if (state.photo !== photo || before.answer !== this.props.answer) this.explain(this.abort.signal);
		if (state.word !== word || state.pinned !== pinned || state.places !== places) this.paint();
	}

	componentWillUnmount() {
		this.abort?.abort();
		clearTimeout(this.lingering);
	}

	async load() {
		const { photoKey } = this.props;
		this.abort?.abort();
		this.abort = new AbortController();
		const { signal } = this.abort;
		this.asking = null;
		this.setState(NOTHING);
		try {
			const photo = await get(`photos/${photoKey}`, {}, signal);
			this.setState({ photo });
			this.sharpen(photo, signal);
		} catch (error) {
			if (error.name === "AbortError") return;
			this.setState({ note: error.message });
			this.props.onProblem(error);
		}
	}

	/** Ask for the score's table; without a sentence it is made here. */
	async explain(signal) {
		const { photoKey, query, answer } = this.props;
		const { q, adjust, like, terms } = query;
		if (!answer || !this.props.hasWords || !this.state.photo || like || terms) return;
		const why = await get(`explain/${photoKey}`, q ? { q, adjust } : { q: adjust.join(" ") }, signal).catch(() => ({}));
		if (!signal.aborted) this.setState({ why });
	}

	/** What has the translations of its words: the score's table knows all of them. */
	get own() {
		return this.state.why?.translations ? this.state.why : this.props.answer;
	}

	/** Replace the thumbnail by the photo itself where that has more to show. */
	sharpen({ key, id, width }, signal) {
		if (!this.props.files || width <= 960 || !SHOWN_BY_BROWSERS.test(id)) return;
		const image = new Image();
		image.src = original(key);
		image.decode().then(
			() => signal.aborted || this.setState({ sharp: image.src }),
			() => {}, // the thumbnail stays
		);
	}

	/** Ask once where the words are: this runs the image model. */
	async find() {
		const { photoKey, answer } = this.props;
		if (!this.props.hasWords || !this.props.files || this.asking === photoKey) return;
		this.asking = photoKey;
		const { signal } = this.abort;
		this.setState({ note: "looking where the words are …" });
		try {
			const words = Object.keys({ ...this.state.photo.words, ...answer?.terms }).join(",");
			const places = await get(`photos/${photoKey}/places`, { words }, signal);
			this.setState({ places, note: "" });
		} catch (error) {
			if (error.name !== "AbortError") this.setState({ note: `where the words are is not known: ${error.message}` });
		}
	}

	linger() {
		clearTimeout(this.lingering);
		this.lingering = setTimeout(() => this.find(), LINGER);
	}

	paint() {
		const { places, word, pinned } = this.state;
		const values = places?.words[word ?? pinned];
		if (values) paintPlaces(this.canvas.current, places, values);
	}

	point = (word) => {
		this.setState({ word });
		if (word) this.linger();
		else clearTimeout(this.lingering);
	};

	pin = (pinned) => {
		this.setState({ pinned });
		if (pinned) this.find();
	};

	over = (event) => {
		if (!this.state.places) this.linger();
		const box = event.currentTarget.getBoundingClientRect();
		const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
		const { places, photo } = this.state;
		this.setState({ names: places ? wordsAt(places, x, y, photo.words) : [], at: [x, y] });
	};

	keys = (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
		const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
		if (!step || (event.key.match(/Up|Down/) && this.scrolls())) return;
		event.preventDefault();
		this.props.onStep(step);
	};

	scrolls() {
		const { scrollHeight, clientHeight } = this.dialog.current.querySelector("aside");
		return scrollHeight > clientHeight || this.dialog.current.scrollHeight > this.dialog.current.clientHeight;
	}

	ratio(photo) {
		if (photo?.width && photo.height) return photo.width / photo.height;
		return this.props.ratio || this.state.ratio || 4 / 3;
	}

	picture(photo) {
		if (!this.props.pictures)
			return html`<figure class="untold">
				${photo?.captions.map((text, place) => html`<p key=${place} dir="auto">${text}</p>`)}
				<p><small>This server has no picture to show.</small></p>
			</figure>`;
		const { places, word, pinned, names, at, sharp } = this.state;
		const lit = word ?? pinned;
		const values = places?.words[lit];
		const mark = values && strongest(places, values);
		const alt =
			photo?.captions[0] ??
			Object.keys(photo?.words ?? {})
				.slice(0, 6)
				.map((word) => shown(this.own, word))
				.join(", ");
		return html`
			<figure onPointerMove=${photo && this.over}
				onPointerLeave=${() => this.setState({ names: [] })}>
				<img key=${this.props.photoKey} src=${sharp || thumbnail(this.props.photoKey, 960, this.props.hit?.version)} alt=${alt}
					onLoad=${({ target }) => this.setState({ ratio: target.naturalWidth / target.naturalHeight })} />
				<div class=${values ? "heat on" : "heat"} style=${places && placeOf(places)} aria-hidden="true">
					<canvas ref=${this.canvas}></canvas>
				</div>
				${photo?.text.length > 0 && this.lines(photo)}
				${mark && html`<span class="mark" style=${{ left: `${mark[0] * 100}%`, top: `${mark[1] * 100}%` }}>${shown(this.own, lit)}</span>`}
				${
					names.length > 0 &&
					html`<span class=${`names ${at[0] > 0.6 ? "left" : ""}`} style=${{ left: `${at[0] * 100}%`, top: `${at[1] * 100}%` }}>
					${names.map((name) => html`<span key=${name}>${shown(this.own, name)}</span>`)}
				</span>`
				}
			</figure>
		`;
	}

	/** Where its text stands: the line that is pointed at, or those that it was found by. */
	lines(photo) {
		const { line, word, pinned } = this.state;
		const found = (word ?? pinned) ? [] : linesFound(photo, this.props.hit);
		const shown = line === null ? found : [line];
		return html`<svg class="writing" viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">
			${shown.map((number) => html`<polygon key=${number} points=${photo.text_places[number].join(" ")} />`)}
		</svg>`;
	}

	score(photo) {
		const { answer, hit } = this.props;
		const why = this.state.why;
		const rows = why?.rows ?? (answer && !this.waits() ? sumOf(answer.terms, photo.words, hit) : []);
		if (!rows.length) return null;
		const largest = Math.max(...rows.map(({ product }) => product)) || 1;
		const rest = rows.slice(MOST_ROWS);
		const given = (hit?.words ?? []).filter(([word]) => isGiven(word));
		const sum = why?.score ?? hit?.score ?? rows.reduce((sum, { product }) => sum + product, 0);
		const total = given.length ? hit.score : sum;
		return html`
			<section>
				<h2>Why it was found</h2>
				<table>
					<thead>
						<tr><th scope="col">word</th><th scope="col">in the query</th><th scope="col">in the photo</th><th scope="col">adds</th></tr>
					</thead>
					<tbody>
						${given.map(
							([word, share]) => html`
								<tr key=${word}>
									<th scope="row" colspan="3"><bdi>${word}</bdi></th>
									<td>${share.toFixed(3)}</td>
								</tr>
							`,
						)}
						${rows.slice(0, MOST_ROWS).map(
							({ word, query, photo: weight, product }) => html`
								<tr key=${word}>
									<th scope="row"><bdi>${shown(this.own, word)}</bdi></th>
									<td>${query.toFixed(2)}</td>
									<td>${weight.toFixed(2)}</td>
									<td class="adds">
										<span class="bar" style=${{ width: `${(product / largest) * 100}%` }}></span><span>${product.toFixed(3)}</span>
									</td>
								</tr>
							`,
						)}
						${
							rest.length > 0 &&
							html`<tr class="rest">
							<th scope="row" colspan="3">${rest.length} more ${rest.length === 1 ? "word" : "words"}</th>
							<td>${rest.reduce((sum, { product }) => sum + product, 0).toFixed(3)}</td>
						</tr>`
						}
					</tbody>
					<tfoot>
						<tr><th scope="row" colspan="3">score</th><td>${total.toFixed(3)}</td></tr>
					</tfoot>
				</table>
			</section>
		`;
	}

	waits() {
		const { like, terms } = this.props.query;
		return !this.state.why && !like && !terms;
	}

	/** Its name, when it was taken, and its size. */
	about({ id, date, dated, width, height }) {
		const size = width > 0 && `${width} × ${height} pixels`;
		return html`<h2 class="about">
			<bdi>${id.split("/").pop()}</bdi> <small>${[date && `${takenText(date)}${dated === "file" ? " (file)" : ""}`, size].filter(Boolean).join(" · ")}</small>
		</h2>`;
	}

	/** The name of a place, its degrees north and east, and photos that were taken near it. */
	place(name, degrees) {
		const { query, onFollow } = this.props;
		const near = asked(query, { q: `near:${degrees}` });
		return html`${name && `${name} · `}${degrees.replace(",", ", ")} ·${" "}
			<a href=${writeAddress(near)} onClick=${(event) => onFollow(event, near)}>near here</a>`;
	}

	facts({ path, camera, captions, keywords, albums, text, latitude, longitude, place }) {
		const fact = (name, value) => value && html`<div><dt>${name}</dt><dd dir="auto">${value}</dd></div>`;
		return html`
			<dl>
				${
					captions.length > 0 &&
					fact(
						"captions",
						captions.map((text, place) => html`<p key=${place}>${text}</p>`),
					)
				}
				${fact("keywords", keywords.join(", "))}
				${fact("albums", albums.join(", "))}
				${
					text.length > 0 &&
					fact(
						"text in it",
						text.map(
							(line, number) => html`
								<button key=${number} class="written" onPointerEnter=${() => this.setState({ line: number })}
									onPointerLeave=${() => this.setState({ line: null })} onFocus=${() => this.setState({ line: number })}
									onBlur=${() => this.setState({ line: null })}>${line}</button>${" "}
							`,
						),
					)
				}
				${latitude !== null && fact("place", this.place(place, `${latitude},${longitude}`))}
				${fact("camera", camera)}
				<div><dt>file</dt><dd class="path"><bdi ref=${this.path}>${path}</bdi></dd></div>
			</dl>
		`;
	}

	render({ photoKey, answer, likeAddress, onLike, onStep, onClose, previous, next, hasWords }) {
		const { photo, note, word, pinned, names } = this.state;
		const words = this.words(photo);
		return html`
			<dialog ref=${this.dialog} class="photo" aria-label=${photo ? `photo ${photo.id}` : "photo"}
				onKeyDown=${this.keys} onCancel=${(event) => (event.preventDefault(), onClose())}>
				<div class="stage" style=${{ "--ratio": this.ratio(photo) }}>
					${this.picture(photo)}
					<button class="round close" aria-label="close" title="close (Escape)" onClick=${onClose} autofocus>×</button>
					<button class="round previous" aria-label="previous photo" disabled=${!previous} onClick=${() => onStep(-1)}>‹</button>
					<button class="round next" aria-label="next photo" disabled=${!next} onClick=${() => onStep(1)}>›</button>
					<p class="note" role="status">${note}</p>
				</div>
				<aside tabindex="-1">
					${
						photo &&
						html`
						${this.about(photo)}
						${
							hasWords &&
							words.length > 0 &&
							html`<${Cloud} words=${words} terms=${answer?.terms ?? {}} own=${this.own} lit=${word ?? pinned} pinned=${pinned}
							named=${names} onPoint=${this.point} onPin=${this.pin} />`
						}
						<p class="actions">
							<a class="button" href=${likeAddress} onClick=${onLike}>similar photos</a>
							<button onClick=${async () => this.setState({ note: (await copy(photo.path, this.path.current)) ? "path copied" : "select the path below to copy it" })}>copy path</button>
							${this.props.pictures && html`<a class="button" href=${original(photoKey)} target="_blank" rel="noopener">open original</a>`}
							${this.props.starring && this.star(photo)}
						</p>
						${this.score(photo)} ${this.facts(photo)}
					`
					}
				</aside>
			</dialog>
		`;
	}

	star({ key, albums }) {
		const starred = albums.includes(STARRED);
		const change = async () => {
			try {
				const found = await post(`albums/${STARRED}`, { [starred ? "remove" : "add"]: [key] }, this.abort.signal);
				const others = albums.filter((name) => name !== STARRED);
				if (this.state.photo?.key === key)
					this.setState(({ photo }) => ({ photo: { ...photo, albums: starred ? others : [...others, STARRED] } }));
				this.props.onAlbums(found, STARRED);
			} catch (error) {
				if (error.name !== "AbortError") this.setState({ note: error.message });
			}
		};
		return html`<button aria-pressed=${starred} onClick=${change}>${starred ? "★ starred" : "☆ star"}</button>`;
	}

	/** Heaviest first; the same array until there is another photo. */
	words(photo) {
		if (this.of !== photo) {
			this.of = photo;
			this.list = Object.entries(photo?.words ?? {}).sort((a, b) => b[1] - a[1]);
		}
		return this.list ?? [];
	}
}
