// Photos without a question, by date: their pages, and the strip of months that leads to them.
import { Component, count, createRef, html, photos } from "./html.js";
import { filtersOf } from "./address.js";
import { get } from "./api.js";
import { Results } from "./results.js";

export const UNDATED = "undated"; // in the place of a month

const name = (style) => {
	const format = new Intl.DateTimeFormat("en", { ...style, timeZone: "UTC" });
	return (month) => {
		const day = new Date(`${month}-01T00:00:00Z`);
		return Number.isNaN(day.getTime()) ? month : format.format(day); // an address may say anything
	};
};
const short = name({ month: "short" });
const long = name({ month: "long", year: "numeric" });

/** "2019-07" as "July 2019". */
export const monthName = (month) => (month === UNDATED ? "Without a date" : long(month));

/** The photos that meet a query's filters, newest first, from its month on. */
export class Listing extends Results {
	timeline = null;
	months = []; // {month, photos, by_file_time, cursor}, those without a date last
	begin = 0; // the place of the first that is listed

	constructor(query, limit) {
		super(query, null, undefined, limit);
	}

	async ask(k, signal) {
		const { month } = this.query;
		const filters = filtersOf(this.query);
		if (!this.timeline) {
			this.timeline = await get("timeline", filters, signal);
			this.months = monthsOf(this.timeline);
			this.begin = placeOf(this.months, month);
			if (this.begin) this.cursor = this.months[this.begin].cursor;
		}
		const { photos, ...answer } = await get("photos", { k, cursor: this.cursor ?? "", ...filters }, signal);
		return { ...answer, terms: {}, hits: photos };
	}

	add(hits) {
		for (const [place, hit] of hits.entries()) {
			const month = monthOf(hit);
			if (month !== this.last) this.headings.set(this.length + place, month);
			this.last = month;
		}
		super.add(hits);
	}

	monthAt(index) {
		return monthOf(this.hit(index));
	}

	/** What a month's heading says: its name, and what else is to know. */
	heading(month) {
		const { photos: many, by_file_time: byFile } = this.months.find((one) => one.month === month) ?? {};
		if (!byFile) return [monthName(month), ""];
		const which = byFile === many ? "dated" : `${count(byFile)} of ${count(many)} dated`;
		return [monthName(month), `${which} by the file`];
	}
}

const monthOf = ({ date }) => date?.slice(0, 7) ?? UNDATED;

function monthsOf({ months, undated, undated_cursor }) {
	const last = { month: UNDATED, photos: undated, by_file_time: 0, cursor: undated_cursor };
	return undated ? [...months, last] : months;
}

/** Where a month is among those that have photos, or else the next older one. */
function placeOf(months, wanted) {
	if (!wanted) return 0;
	const place = months.findIndex(({ month }) => month === UNDATED || (wanted !== UNDATED && month <= wanted));
	return place >= 0 ? place : Math.max(months.length - 1, 0);
}

/** Years, and the months of the one that is on the screen. Arrow keys go along it. */
export class Timeline extends Component {
	root = createRef();
	state = { at: null };

	componentDidMount() {
		this.props.self.current = this;
	}

	componentWillUnmount() {
		this.props.self.current = null;
	}

	show(at) {
		if (at !== this.state.at) this.setState({ at });
	}

	componentDidUpdate(_, { at }) {
		if (at === this.state.at) return;
		const [strip, link] = [this.root.current, this.root.current.querySelector("[aria-current]")];
		if (link) strip.scrollLeft = link.offsetLeft - (strip.clientWidth - link.offsetWidth) / 2;
	}

	keys = (event) => {
		const links = [...this.root.current.querySelectorAll("a")];
		const here = links.indexOf(event.target);
		const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: links.length - 1 }[event.key];
		if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
		event.preventDefault();
		links[to]?.focus();
	};

	link(month, className, text, label) {
		const { addressOf, onGo } = this.props;
		const current = className !== "year" && month === this.at;
		return html`<a class=${className} href=${addressOf(month)} aria-label=${label} title=${label}
			aria-current=${current ? "true" : undefined} tabindex=${current ? 0 : -1}
			onClick=${(event) => onGo(event, month)}>${text}</a>`;
	}

	render({ months, begin }, { at }) {
		this.at = months.some(({ month }) => month === at) ? at : months[begin]?.month;
		const years = new Map();
		for (const month of months) {
			const year = month.month === UNDATED ? UNDATED : month.month.slice(0, 4);
			years.set(year, [...(years.get(year) ?? []), month]);
		}
		const said = ({ month, photos: many }) => `${monthName(month)}, ${photos(many)}`;
		return html`
			<nav class="timeline" aria-label="months" ref=${this.root} onKeyDown=${this.keys}>
				<ul>
					${[...years].map(([year, each]) => {
						if (year === UNDATED)
							return html`<li key=${year}>${this.link(UNDATED, "month", "no date", said(each[0]))}</li>`;
						const many = each.reduce((sum, month) => sum + month.photos, 0);
						return html`
							<li key=${year}>
								${this.link(each[0].month, "year", year, `${year}, ${photos(many)}`)}
								${
									this.at.startsWith(year) &&
									html`<ul>
									${each.map((one) => html`<li key=${one.month}>${this.link(one.month, "month", short(one.month), said(one))}</li>`)}
								</ul>`
								}
							</li>
						`;
					})}
				</ul>
			</nav>
		`;
	}
}

/** What leads back from a month to the one after it. */
export function Newer({ listing: { months, begin }, addressOf, onGo }) {
	if (!begin) return null;
	const { month } = months[begin - 1];
	return html`<p class="newer"><a class="link" href=${addressOf(month)} onClick=${(event) => onGo(event, month)}>↑ ${monthName(month)}</a></p>`;
}
