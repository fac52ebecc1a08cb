// What is shown when there are no hits to show, and lines about the state of things.
import { Component, createRef, html, photos, quoted, sentence, shown } from "./html.js";
import { thumbnail } from "./api.js";

/** The first visit: the collection's own telling words, each with a photo; one row of them, or all. */
export class Welcome extends Component {
	list = createRef();
	state = { columns: 2, all: false };

	componentDidMount() {
		this.resizes = new ResizeObserver(() => this.measure());
		this.resizes.observe(this.list.current);
	}

	componentWillUnmount() {
		this.resizes.disconnect();
	}

	measure() {
		const columns = getComputedStyle(this.list.current).gridTemplateColumns.split(" ").length;
		if (columns !== this.state.columns) this.setState({ columns });
	}

	render({ words, status, pictures, addressOf, onWord }, { columns, all }) {
		const number = status?.documents;
		return html`
			<section class="welcome">
				<h1>${number === undefined ? "Photos" : photos(number)}, found by what is on them</h1>
				<p>
					${words.length > 0 ? "Write a sentence, drop a picture, or begin with a word." : "Write a sentence, or drop a picture."}${" "}
					${
						words.length > columns &&
						html`<button class="link" aria-expanded=${all} onClick=${() => this.setState({ all: !all })}>
						${all ? "fewer words" : "more words"}
					</button>`
					}
				</p>
				<ul ref=${this.list}>
					${words.slice(0, all ? Infinity : columns).map(
						({ word, photos: many, key }) => html`
							<li key=${word}>
								<a href=${addressOf(word)} onClick=${(event) => onWord(event, word)}>
									${pictures && html`<img src=${thumbnail(key, 300)} alt="" loading="lazy" decoding="async" onLoad=${(event) => event.target.classList.add("loaded")} />`}
									<span><bdi>${word}</bdi> <small>${photos(many)}</small></span>
								</a>
							</li>
						`,
					)}
				</ul>
			</section>
		`;
	}
}

const unfilter = (onClick) => onClick && html`${" "}<button class="link" onClick=${onClick}>Search all photos</button>`;

/** No hit: why that may be, and what to try. */
export function NoHits({ answer, onUnfilter, onPutBack, onText, onHome }) {
	const { unknown = [], without = [], negations = {}, unmet = "" } = answer;
	const negated = Object.values(negations).flat();
	return html`
		<section class="none">
			<h1>No photo fits</h1>
			<ul>
				${unknown.length > 0 && html`<li>No photo has the ${unknown.length > 1 ? "words" : "word"} ${quoted(unknown)}: try another word for it.</li>`}
				${Object.entries(negations).map(
					([phrase, words]) => html`<li key=${phrase}>
						“${phrase}” leaves out photos that show ${quoted(words.map((word) => shown(answer, word)))}.${" "}
						<button class="link" onClick=${() => onText(phrase)}>Read it as text</button>
					</li>`,
				)}
				${without
					.filter((word) => !negated.includes(word))
					.map(
						(word) => html`<li key=${word}>
						Photos that show “${shown(answer, word)}” are left out.${" "}
						<button class="link" onClick=${() => onPutBack(word)}>Let them in</button>
					</li>`,
					)}
				${
					(onUnfilter || unmet) &&
					html`<li>${unmet ? sentence(unmet) : "Dates, a folder or captions narrow the search."}
					${unfilter(onUnfilter)}
				</li>`
				}
				${!unknown.length && !without.length && !onUnfilter && !unmet && html`<li>Try other words, or fewer.</li>`}
			</ul>
			<p><button class="link" onClick=${onHome}>See what these photos show</button></p>
		</section>
	`;
}

/** Lines about the server, the update and errors; each only while it is true. */
export function Lines({ gone, problem, update, cluster, changed, onAgain, onUnfilter }) {
	const wrong = problem || (cluster?.message && sentence(cluster.message));
	return html`
		<div class="lines" role="status">
			${gone && html`<p class="wrong">The server does not answer. What was found stays here; trying again …</p>`}
			${wrong && html`<p class="wrong">${wrong}${unfilter(onUnfilter)}</p>`}
			${update?.running && html`<p>${updateText(update)}</p>`}
			${
				changed &&
				!update?.running &&
				html`<p>
				The photos have changed.${" "}<button class="link" onClick=${onAgain}>Search again</button>
			</p>`
			}
		</div>
	`;
}

function updateText({ done, total, message }) {
	const left = total - done;
	if (total > 0 && left > 0) return `The index is being updated: ${photos(left)} to come.`;
	return message || "The index is being updated.";
}
