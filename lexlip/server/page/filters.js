// What narrows and orders the hits: dates, folder, captions' words, album.
import { Component, html } from "./html.js";
import { filtersOf, isNear, withoutNear } from "./address.js";
import { Folders } from "./folders.js";
import { Menu } from "./menu.js";

const MOST_YEARS = 24;

const anyDated = (facets) => facets?.dated + facets?.by_file_time > 0;

const year = (date) => Number(date?.slice(0, 4));

function dateLabel({ after, before }, { first, last }) {
	if (after && after === before) return after;
	if (after && before) return `${after} – ${before}`;
	if (after) return `since ${after}`;
	if (before) return `until ${before}`;
	if (!first) return "dates";
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
				<input value=${value} placeholder="2014-05-03" pattern="\\s*\\d{4}(-\\d\\d){0,2}\\s*"
					title="a year, a month or a day: 2014, 2014-05, 2014-05-03" autocomplete="off"
					onInput=${(event) => this.setState({ [name]: event.target.value })} />
			</label>
		`;
		return html`
			${
				years.length > 1 &&
				years.length <= MOST_YEARS &&
				html`<div class="years">
				${years.map(
					(each) => html`
						<button key=${each}
							aria-pressed=${after !== "" && after.slice(0, 4) <= each && each <= before}
							onClick=${() => this.choose(each, each)}>
							${each}
						</button>
					`,
				)}
			</div>`
			}
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
			${(after || before) && html`<button class="whole" onClick=${() => this.choose("", "")}>all dates</button>`}
		`;
	}
}

/** The map of the photos, which comes when it is wanted. */
class Places extends Component {
	state = { PhotoMap: null };

	componentDidMount() {
		import("./map.js").then(({ PhotoMap }) => this.setState({ PhotoMap }));
	}

	render({ query, close, onChange }, { PhotoMap }) {
		const { near, within, ...filters } = filtersOf(query);
		const choose = (place) => {
			close();
			onChange({ ...place, q: withoutNear(query.q) });
		};
		return PhotoMap && html`<${PhotoMap} filters=${filters} near=${near} within=${within} onChoose=${choose} />`;
	}
}

/** A choice that looks like the other filters. */
const choice = (name, value, options, onChange) => html`
	<label class=${`filter ${value && value !== "match" ? "active" : ""}`}>
		<span class="hidden">${name}</span>
		<select value=${value} onChange=${(event) => onChange({ [name]: event.target.value })}>
			${options.map(([key, text]) => html`<option key=${key} value=${key}>${text}</option>`)}
		</select>
	</label>
`;

const ORDERS = [
	["match", "by match"],
	["date", "by date"],
	["place", "nearest first"],
];

/** The orders that hits of a query can have, with those of these photos. */
const ordersOf = (query, facets) =>
	ORDERS.filter(
		([name]) => ({ match: true, date: anyDated(facets), place: facets?.located > 0 && isNear(query) })[name],
	);

/** The line between the chips and the photos. */
export function Filters({ query, facets, albums, found, ordered, names, onNames, onChange }) {
	const orders = ordersOf(query, facets);
	return html`
		<div class="filters">
			<p class="found">${found}</p>
			${ordered && orders.length > 1 && choice("sort", query.sort, orders, onChange)}
			${
				anyDated(facets) &&
				html`<${Menu} name="dates" label=${dateLabel(query, facets)}
				button=${{ class: `filter ${query.after || query.before ? "active" : ""}`, "data-filter": "dates" }}>
				${(close) => html`<${Dates} query=${query} facets=${facets} close=${close} onChange=${onChange} />`}
			<//>`
			}
			${
				facets?.located > 0 &&
				html`<${Menu} name="places" label=${query.near ? `near ${query.near.replace(",", ", ")}` : "places"} panelClass="of-map"
				button=${{ class: `filter ${query.near ? "active" : ""}`, "data-filter": "places" }}>
				${(close) => html`<${Places} query=${query} close=${close} onChange=${onChange} />`}
			<//>`
			}
			${facets?.folders.length > 0 && html`<${Folders} folders=${facets.folders} chosen=${query.folder} onChange=${onChange} />`}
			${
				facets?.captioned > 0 &&
				html`<input class="filter captions" aria-label="words of captions or keywords"
				placeholder="captions" autocomplete="off" value=${query.caption}
				onChange=${(event) => onChange({ caption: event.target.value.trim() })} />`
			}
			${albums?.length > 0 && choice("album", query.album, [["", "all albums"], ...albums.map(({ name }) => [name, name])], onChange)}
			<button class=${`filter toggle ${names ? "active" : ""}`} aria-pressed=${names}
				title="file name and date under each photo" onClick=${() => onNames(!names)}>names</button>
		</div>
	`;
}
