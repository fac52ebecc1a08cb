// The query's words as chips: each can be boosted, weakened, excluded or removed.
import { Component, count, createRef, html, shown } from "./html.js";
import { Menu } from "./menu.js";
import { get } from "./api.js";
import { BOOST, WEAKER, added, excluded, marksOf, multiplied, quotedNegation, replaced, stepped } from "./marks.js";

const SHOWN = [5, 9]; // chips before "n more": on a phone, elsewhere
const FACTOR = { [BOOST]: "×2", [WEAKER]: "×½" };

/** What stands in the row of chips: words that count, heaviest first, then those that were taken out. */
export function chipsOf(answer, query) {
	const marks = marksOf(query);
	const negated = new Set(Object.values(answer.negations ?? {}).flat());
	const without = new Set(answer.without ?? []);
	const chips = Object.entries(answer.terms)
		.filter(([word]) => !without.has(word))
		.sort((a, b) => b[1] - a[1])
		.map(([word, weight]) => ({ word, weight, factor: marks.get(word)?.factor ?? 1 }));
	const weights = new Set(chips.map((chip) => chip.word));
	for (const word of without) if (!negated.has(word)) chips.push({ word, excluded: true });
	for (const [word, mark] of marks)
		if (mark.sign !== "-" && mark.factor === 0 && !weights.has(word)) chips.push({ word, removed: true });
	return chips;
}

const CHOICES = [
	["boost", (query, word) => multiplied(query, word, BOOST), "counts double"],
	["normal", (query, word) => multiplied(query, word, 1), "as the model weighs it"],
	["weaker", (query, word) => multiplied(query, word, WEAKER), "counts half"],
	["exclude", excluded, "no photos that show it"],
	["remove", (query, word) => multiplied(query, word, 0), "as if it were not there"],
];

const chosen = (chip) =>
	chip.excluded
		? "exclude"
		: chip.removed
			? "remove"
			: ({ [BOOST]: "boost", [WEAKER]: "weaker" }[chip.factor] ?? "normal");

function Chip({ chip, name, heaviest, query, onChange }) {
	const { word } = chip;
	const change = (next, close) => {
		close?.();
		onChange(next, word);
	};
	const keys = (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const up = () => stepped(query, word, true);
		const drop = () => multiplied(query, word, 0);
		const next = {
			"+": up,
			"=": up,
			"-": () => stepped(query, word, false),
			Delete: drop,
			Backspace: drop,
		}[event.key]?.();
		if (!next) return;
		event.preventDefault();
		change(next);
	};
	const now = chosen(chip);
	const share = chip.weight ? Math.max(chip.weight / heaviest, 0.04) : 0;
	const state = now === "normal" ? "" : now === "exclude" ? "excluded" : now === "remove" ? "removed" : now;
	const spoken = chip.weight ? `weight ${chip.weight.toFixed(2)}${state && `, ${state}`}` : state;
	const button = {
		class: `chip ${now}`,
		"data-word": word,
		"aria-keyshortcuts": "+ - Delete",
		"aria-label": `${name}, ${spoken}`,
		title: chip.weight ? `weight ${chip.weight.toFixed(2)}; keys: + − Delete` : "",
		onKeyDown: keys,
	};
	const label = html`
		<span class="text" dir="auto">${chip.excluded && "− "}${name}</span>
		${FACTOR[chip.factor] && html`<span class="factor">${FACTOR[chip.factor]}</span>`}
		<span class="bar" style=${{ width: `${share * 2}rem` }}></span>
	`;
	return html`
		<${Menu} label=${label} role="menu" name=${`what “${name}” counts`} panelClass="choices" button=${button}>
			${(close) =>
				CHOICES.map(
					([name, make, what]) => html`
						<button role="menuitemradio" aria-checked=${name === now}
							onClick=${() => change(make(query, word), close)}>
							<span>${name}</span><small>${what}</small>
						</button>
					`,
				)}
		<//>
	`;
}

/** A word that the vocabulary lacks, with the nearest words that it has. */
function Unknown({ word, near, query, onChange }) {
	return html`
		<span class="unknown">
			<s dir="auto" title="no photo has this word">${word}</s>
			<span class="hidden"> is not known${near.length > 0 && "; did you mean"}</span>
			${near.map(
				(other) => html`
					<button class="link" key=${other} onClick=${() => onChange(replaced(query, word, other), other)}>
						${other}?
					</button>
				`,
			)}
		</span>
	`;
}

/** A negation of the sentence with the words that it leaves out; a click makes it text. */
function Negation({ phrase, words, query, onChange }) {
	return html`
		<button class="chip exclude" data-negation=${phrase}
			aria-label=${`“${phrase}” leaves out ${words.join(", ")}: read it as text`}
			title=${`“${phrase}” leaves out photos that show ${words.join(", ")}; click to read it as text`}
			onClick=${() => onChange(quotedNegation(query, phrase))}>
			<span class="text">− ${words.join(", ")} ×</span>
		</button>
	`;
}

/** "+ word": a field that completes words of the vocabulary. */
export class AddWord extends Component {
	state = { open: false, text: "", words: [], at: -1 };
	field = createRef();

	async type(text) {
		this.setState({ text, at: -1 });
		const prefix = text.trim().replace(/^[+-]/, "").toLowerCase();
		if (!prefix) return this.setState({ words: [] });
		const { language } = this.props;
		let found = await get("words", { prefix, limit: 7, language }).catch(() => null);
		if (found && !found.words.length)
			found = await get("words", { near: prefix, limit: 4, language }).catch(() => null);
		if (found && this.state.text === text) this.setState({ words: found.words });
	}

	choose(word) {
		const minus = this.state.text.trim().startsWith("-");
		const { query, onChange } = this.props;
		this.setState({ open: false, text: "", words: [], at: -1 });
		if (word) onChange((minus ? excluded : added)(query, word), word);
		else this.props.onLeave();
	}

	keys = (event) => {
		const { words, at, text } = this.state;
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (step && words.length) {
			event.preventDefault();
			this.setState({ at: (at + step + words.length) % words.length });
		} else if (event.key === "Enter") {
			event.preventDefault();
			const typed = text.trim().replace(/^[+-]/, "").toLowerCase();
			const same = words.find(({ shown }) => shown.toLowerCase() === typed);
			this.choose(words[at]?.word ?? same?.word ?? words[0]?.word ?? typed);
		} else if (event.key === "Escape") {
			event.stopPropagation();
			this.choose("");
		}
	};

	componentDidUpdate(_, before) {
		if (this.state.open && !before.open) this.field.current.focus();
	}

	render(_, { open, text, words, at }) {
		if (!open) return html`<button class="chip add" onClick=${() => this.setState({ open: true })}>+ word</button>`;
		return html`
			<span class="menu adding">
				<input
					ref=${this.field}
					role="combobox"
					aria-label="add a word; with - before it, leave it out"
					aria-expanded=${words.length > 0}
					aria-controls="known-words"
					aria-autocomplete="list"
					aria-activedescendant=${at >= 0 ? `known-${at}` : undefined}
					placeholder="word, or -word"
					autocomplete="off"
					autocapitalize="none"
					spellcheck=${false}
					value=${text}
					onInput=${(event) => this.type(event.target.value)}
					onKeyDown=${this.keys}
					onBlur=${() => this.setState({ open: false, text: "", words: [] })}
				/>
				<div class="panel choices" role="listbox" id="known-words" aria-label="known words" hidden=${!words.length}>
					${words.map(
						({ word, photos, shown }, place) => html`
							<div
								role="option"
								id=${`known-${place}`}
								key=${word}
								aria-selected=${place === at}
								onPointerDown=${(event) => {
									event.preventDefault();
									this.choose(word);
								}}
							>
								<span>${shown}</span><small>${count(photos)}</small>
							</div>
						`,
					)}
				</div>
			</span>
		`;
	}
}

export class Chips extends Component {
	state = { all: false };
	root = createRef();

	componentDidUpdate({ answer }) {
		const { focus } = this; // an answer may move the chip that was changed, or put another in its place
		if (focus === undefined || (focus && answer === this.props.answer)) return;
		this.focus = undefined;
		const chips = [...this.root.current.querySelectorAll("[data-word]")];
		(chips.find((chip) => chip.dataset.word === focus) ?? this.root.current.querySelector(".add"))?.focus();
	}

	change = (query, word) => {
		this.focus = word;
		this.props.onChange(query);
	};

	render({ answer, of, query }, { all }) {
		const chips = chipsOf(answer, of); // `query` may be one whose answer is still to come
		const heaviest = Math.max(...chips.map((chip) => chip.weight ?? 0), 1e-9);
		const marked = (chip) => !chip.weight || chip.factor !== 1;
		const few = chips.filter((chip, place) => place < SHOWN[Number(innerWidth > 560)] || marked(chip));
		const visible = all || chips.length - few.length < 3 ? chips : few;
		const suggestions = answer.suggestions ?? [];
		return html`
			<div class="chips" ref=${this.root}>
				<ul aria-label="words of the query">
					${visible.map(
						(chip) => html`
							<li key=${chip.word}>
								<${Chip} chip=${chip} name=${shown(answer, chip.word)} heaviest=${heaviest} query=${query} onChange=${this.change} />
							</li>
						`,
					)}
					${Object.entries(answer.negations ?? {}).map(
						([phrase, words]) => html`
							<li key=${`negation ${phrase}`}>
								<${Negation} phrase=${phrase} words=${words.map((word) => shown(answer, word))} query=${query} onChange=${this.change} />
							</li>
						`,
					)}
					${(answer.unknown ?? []).map(
						(word) => html`
							<li key=${`unknown ${word}`}>
								<${Unknown} word=${word} near=${answer.meant?.[word] ?? []} query=${query} onChange=${this.change} />
							</li>
						`,
					)}
					${
						visible.length < chips.length &&
						html`<li key="more words">
						<button class="chip more" onClick=${() => this.setState({ all: true })}>
							${chips.length - visible.length} more
						</button>
					</li>`
					}
					<li key="add a word">
						<${AddWord} language=${answer.shown_in} query=${query} onChange=${this.change} onLeave=${() => ((this.focus = ""), this.setState({}))} />
					</li>
				</ul>
				${
					suggestions.length > 0 &&
					html`<p class="suggestions">
					<span>often in these photos</span>
					${suggestions.map(
						(word) => html`
							<button class="link" key=${word} onClick=${() => this.change(added(query, word), word)}>
								${shown(answer, word)}
							</button>
						`,
					)}
				</p>`
				}
			</div>
		`;
	}
}
