// What narrows and orders the hits: dates, folder, captions' words.
import { Component, count, html } from "./html.js";
import { Menu } from "./menu.js";

const MOST_YEARS = 24;
const MOST_FOLDERS = 200;

const year = (date) => Number(date?.slice(0, 4));

function dateLabel({ after, before }, { first, last }) {
	if (after && after === before) return after;
	if (after && before) return `${after} – ${before}`;
	if (after) return `since ${after}`;
	if (before) return `until ${before}`;
	return year(first) === year(last) ? `${year(first)}` : `${year(first)} – ${year(last)}`;
}

class Dates extends Component {
	state = { after: this.props.query.after, before: this.props.query.before };

	choose(after, before) {
		this.props.close();
		this.props.onChange({ after, before });
	}

	render({ facets }, { after, before }) {
		const from = year(facets.first);
		const years = Array.from({ length: year(facets.last) - from + 1 }, (_, place) => String(from + place));
		const field = (name, value, label) => html`
			<label>${label}
				<input
					value=${value}
					placeholder="2014-05-03"
					pattern="\\s*\\d{4}(-\\d{1,2}){0,2}\\s*"
					title="a year, a month or a day: 2014, 2014-05, 2014-05-03"
					autocomplete="off"
					onInput=${(event) => this.setState({ [name]: event.target.value })}
				/>
			</label>
		`;
		return html`
			${years.length > 1 &&
			years.length <= MOST_YEARS &&
			html`<div class="years">
				${years.map(
					(each) => html`
						<button
							type="button"
							key=${each}
							aria-pressed=${after && after.slice(0, 4) <= each && each <= before ? "true" : "false"}
							onClick=${() => this.choose(each, each)}
						>
							${each}
						</button>
					`,
				)}
			</div>`}
			<form
				class="dates"
				onSubmit=${(event) => {
					event.preventDefault();
					this.choose(after.trim(), before.trim());
				}}
			>
				${field("after", after, "from")} ${field("before", before, "to")}
				<button type="submit" class="solid">show</button>
			</form>
			${(after || before) &&
			html`<button type="button" class="whole" onClick=${() => this.choose("", "")}>all dates</button>`}
		`;
	}
}

class Folders extends Component {
	state = { text: "" };

	render({ query, facets, close, onChange }, { text }) {
		const choose = (folder) => {
			close();
			onChange({ folder });
		};
		const wanted = text.trim().toLowerCase();
		const found = facets.folders.filter(({ folder }) => folder && folder.toLowerCase().includes(wanted));
		return html`
			${facets.folders.length > 8 &&
			html`<input
				class="narrow"
				placeholder="name of a folder"
				aria-label="name of a folder"
				value=${text}
				onInput=${(event) => this.setState({ text: event.target.value })}
			/>`}
			<div class="folders">
				<button type="button" aria-pressed=${query.folder ? "false" : "true"} onClick=${() => choose("")}>
					<span>all folders</span>
				</button>
				${found.slice(0, MOST_FOLDERS).map(
					({ folder, photos }) => html`
						<button
							type="button"
							key=${folder}
							aria-pressed=${query.folder === folder ? "true" : "false"}
							onClick=${() => choose(folder)}
						>
							<bdi>${folder}</bdi><small>${count(photos)}</small>
						</button>
					`,
				)}
			</div>
			${found.length > MOST_FOLDERS && html`<p>${count(found.length - MOST_FOLDERS)} more: type a part of the name</p>`}
		`;
	}
}

class CaptionWords extends Component {
	state = { text: this.props.query.caption };

	render({ close, onChange }, { text }) {
		return html`
			<form
				class="dates"
				onSubmit=${(event) => {
					event.preventDefault();
					close();
					onChange({ caption: this.state.text.trim() });
				}}
			>
				<label>all of these words are in captions or keywords
					<input value=${text} autocomplete="off" onInput=${(event) => this.setState({ text: event.target.value })} />
				</label>
				<button type="submit" class="solid">show</button>
			</form>
		`;
	}
}

/** The line between the chips and the photos. */
export function Filters({ query, facets, found, onChange }) {
	const menu = (name, label, active, Panel) => html`
		<${Menu}
			key=${name}
			name=${name}
			label=${html`<bdi>${label}</bdi>`}
			button=${{ class: active ? "filter active" : "filter", "data-filter": name }}
		>
			${(close) => html`<${Panel} query=${query} facets=${facets} close=${close} onChange=${onChange} />`}
		<//>
	`;
	return html`
		<div class="filters">
			<p class="found">${found}</p>
			${facets?.dated > 0 &&
			html`<label class="filter">
				<span class="hidden">order</span>
				<select value=${query.sort} onChange=${(event) => onChange({ sort: event.target.value })}>
					<option value="match">by match</option>
					<option value="date">by date</option>
				</select>
			</label>`}
			${facets?.dated > 0 && menu("dates", dateLabel(query, facets), query.after || query.before, Dates)}
			${facets?.folders.length > 1 && menu("folders", query.folder || "all folders", query.folder, Folders)}
			${facets?.captioned > 0 &&
			menu("captions", query.caption ? `caption: ${query.caption}` : "captions", query.caption, CaptionWords)}
		</div>
	`;
}
