// A map of where photos were taken: circles with their number; one leads nearer, or narrows to what is there.
import { Component, createRef, html, photos } from "./html.js";
import { Gone, get } from "./api.js";
import { Town, named } from "./towns.js";

const CELL = 56; // pixels of a cell whose photos are one circle
const RIM = 2; // pixels around a circle
const FONT = 0.75; // rem of the names of towns
const LEAST = 1; // degrees from south to north that are shown at least: coast lines tell nothing any more
const SMALL = 30; // kilometres: circles whose photos lie in so small a radius narrow
const A_DEGREE = 111.195; // kilometres from south to north
const PART = 0.25; // of the map that an arrow key moves
const ZOOM = 1.6;
const [ROOM, ROOM_AROUND] = [1.3, 2.5]; // times as much is shown as all photos need, and those of a circle
const SETTLED = 120; // milliseconds without a move after which circles are asked for

const DEGREES = /^-?[\d.]+,-?[\d.]+$/; // as this map writes them; an address may name a town

const short = new Intl.NumberFormat("en", { notation: "compact" });

const narrow = (latitude) => Math.cos((latitude * Math.PI) / 180);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** The radius around the middle of a box, in kilometres. */
function radius([west, south, east, north]) {
	const nearest = Math.min(Math.abs(south), Math.abs(north)) * (south * north > 0);
	return (Math.hypot((east - west) * narrow(nearest), north - south) / 2) * A_DEGREE;
}

/** The box around two. */
const around = (a, b) => a.map((side, place) => (place < 2 ? Math.min : Math.max)(side, b[place]));

const sizeOf = ({ photos: many }) => 26 + 6 * Math.log10(many);

/** Spots of which none lies over another; a degree has so many pixels. */
function apart(spots, wide, high) {
	const found = [];
	for (const spot of spots) {
		const beside = (other) =>
			Math.hypot((other.longitude - spot.longitude) * wide, (other.latitude - spot.latitude) * high);
		const over = found.find((other) => beside(other) < (sizeOf(other) + sizeOf(spot)) / 2);
		if (!over) {
			found.push(spot);
			continue;
		}
		const share = spot.photos / (spot.photos + over.photos);
		over.photos += spot.photos;
		over.latitude += (spot.latitude - over.latitude) * share;
		over.longitude += (spot.longitude - over.longitude) * share;
		over.box = around(over.box, spot.box);
	}
	return found;
}

const said = ({ photos: many, latitude, longitude }) => {
	const degrees = (value, signs) => `${Math.abs(value).toFixed(1)}° ${signs[value < 0 ? 1 : 0]}`;
	return `${photos(many)} at ${degrees(latitude, "NS")}, ${degrees(longitude, "EW")}`;
};

export class PhotoMap extends Component {
	root = createRef();
	held = new Map(); // where pointers press the map
	state = { spots: [], towns: [], x: 0, y: 0, height: 0, problem: "" };

	componentDidMount() {
		this.root.current.focus();
		this.open();
	}

	componentWillUnmount() {
		this.closed = true;
		clearTimeout(this.settling);
		this.abort?.abort();
	}

	/** Show all places first. */
	async open() {
		const all = await this.ask({ columns: 1, rows: 1 });
		if (all?.length) this.fit(all.map(({ box }) => box).reduce(around));
	}

	async ask(part) {
		this.abort?.abort();
		this.abort = new AbortController();
		try {
			const { spots } = await get("map", { ...this.props.filters, ...part }, this.abort.signal);
			return spots;
		} catch (error) {
			if (error.name === "AbortError" || this.closed) return null;
			this.setState({ problem: error instanceof Gone ? "The server does not answer." : error.message });
			return null;
		}
	}

	get size() {
		const { clientWidth, clientHeight } = this.root.current;
		return [clientWidth, clientHeight];
	}

	/** The degrees that are shown: [west, north, width, height]. */
	part({ x, y, height } = this.state) {
		const [wide, high] = this.size;
		const width = (height * wide) / high / narrow(y);
		return [x - width / 2, y + height / 2, width, height];
	}

	fit([west, south, east, north], room = ROOM) {
		const [wide, high] = this.size;
		const y = (south + north) / 2;
		this.look((west + east) / 2, y, room * Math.max(north - south, ((east - west) * narrow(y) * high) / wide));
	}

	look(x, y, height) {
		const [wide, high] = this.size;
		const whole = (360 * high) / wide;
		const view = { x: 0, y: 0, height: clamp(height, LEAST, whole) };
		if (view.height < whole) view.y = clamp(y, -80, 80);
		const half = (view.height * wide) / high / narrow(view.y) / 2;
		if (half < 180) view.x = clamp(x, half - 180, 180 - half);
		this.setState({ ...view, problem: "" });
		clearTimeout(this.settling);
		this.settling = setTimeout(() => this.load(view), this.state.spots.length ? SETTLED : 0);
	}

	async load(view) {
		const [west, north, width, height] = this.part(view);
		const [wide, high] = this.size;
		const box = { west: Math.max(west, -180), south: Math.max(north - height, -90) };
		Object.assign(box, { east: Math.min(west + width, 180), north: Math.min(north, 90) });
		const cells = (share, pixels) => clamp(Math.round((share * pixels) / CELL), 1, 40);
		const columns = cells((box.east - box.west) / width, wide);
		const found = await this.ask({ ...box, columns, rows: cells((box.north - box.south) / height, high) });
		if (!found) return;
		const spots = apart(found, wide / width, high / height);
		this.setState({ spots, towns: [] });
		this.name(box, spots, [west, north, width, height]);
	}

	/** Names of towns come behind the circles; without them the map is as good as before. */
	async name(box, spots, [west, north, width, height]) {
		const { signal } = this.abort;
		const answer = await get("towns", box, signal).catch(() => null);
		if (!answer || signal.aborted || this.closed) return;
		const [wide, high] = this.size;
		const at = ({ longitude, latitude }) => [((longitude - west) * wide) / width, ((north - latitude) * high) / height];
		const circles = spots.map((spot) => {
			const [x, y] = at(spot);
			return { x, y, size: sizeOf(spot) + 2 * RIM };
		});
		const zooms = this.root.current.querySelector(".zooms");
		const [left, top] = [zooms.offsetLeft, zooms.offsetTop];
		const taken = [{ left, top, right: left + zooms.offsetWidth, bottom: top + zooms.offsetHeight }];
		const pen = document.createElement("canvas").getContext("2d");
		const { fontFamily } = getComputedStyle(this.root.current);
		pen.font = `${parseFloat(getComputedStyle(document.documentElement).fontSize) * FONT}px ${fontFamily}`;
		const widthOf = (name) => Math.ceil(pen.measureText(name).width);
		this.setState({ towns: named(answer.towns, circles, taken, [wide, high], at, widthOf) });
	}

	/** So many times nearer, or farther; what lies at a place of the map, in shares of its size, comes to another. */
	zoom(times, from = [0.5, 0.5], to = from) {
		const [west, north, width, height] = this.part();
		const share = Math.max(1 / times, LEAST / height);
		const x = west + (from[0] - (to[0] - 0.5) * share) * width;
		const y = north - (from[1] - (to[1] - 0.5) * share) * height;
		this.look(x, y, height * share);
	}

	move(right, down) {
		const [, , width, height] = this.part();
		this.look(this.state.x + right * width, this.state.y - down * height, height);
	}

	/** Where a pointer is, in shares of the map's size. */
	place({ clientX, clientY }) {
		const { left, top, width, height } = this.root.current.getBoundingClientRect();
		return [(clientX - left) / width, (clientY - top) / height];
	}

	wheel = (event) => {
		event.preventDefault();
		this.zoom(2 ** clamp(-event.deltaY / 240, -1, 1), this.place(event));
	};

	press = (event) => {
		if (event.button || event.target.closest("button")) return;
		this.root.current.setPointerCapture(event.pointerId);
		this.held.set(event.pointerId, this.place(event));
	};

	/** What is held follows the hand, or two fingers, which lead nearer by moving apart. */
	drag = (event) => {
		const before = this.held.get(event.pointerId);
		if (!before) return;
		const after = this.place(event);
		this.held.set(event.pointerId, after);
		const [other] = [...this.held].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
		if (!other) return this.zoom(1, before, after);
		const [wide, high] = this.size;
		const gap = ([x, y]) => Math.max(1, Math.hypot((x - other[0]) * wide, (y - other[1]) * high));
		const middle = ([x, y]) => [(x + other[0]) / 2, (y + other[1]) / 2];
		this.zoom(gap(after) / gap(before), middle(before), middle(after));
	};

	release = (event) => this.held.delete(event.pointerId);

	keys = (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const act = {
			ArrowRight: () => this.move(PART, 0),
			ArrowLeft: () => this.move(-PART, 0),
			ArrowDown: () => this.move(0, PART),
			ArrowUp: () => this.move(0, -PART),
			"+": () => this.zoom(ZOOM),
			"=": () => this.zoom(ZOOM),
			"-": () => this.zoom(1 / ZOOM),
			0: () => this.look(0, 0, Infinity),
		}[event.key];
		if (!act) return;
		event.preventDefault();
		event.stopPropagation(); // arrows go through the buttons of other menus
		act();
	};

	/** Whether a click on a circle narrows, instead of leading nearer. */
	narrows = ({ box }) => radius(box) <= SMALL || this.state.height === LEAST;

	choose(spot) {
		const { box } = spot;
		const [west, south, east, north] = box;
		if (!this.narrows(spot)) {
			this.root.current.focus(); // the circle goes
			return this.fit(box, ROOM_AROUND);
		}
		const near = [(south + north) / 2, (west + east) / 2].map((value) => Number(value.toFixed(3))).join(",");
		this.props.onChoose({ near, within: `${Math.max(1, Math.ceil(radius(box) * 10 + 1) / 10)}km` });
	}

	spot(spot, [west, north, width, height]) {
		const place = {
			left: `${(100 * (spot.longitude - west)) / width}%`,
			top: `${(100 * (north - spot.latitude)) / height}%`,
		};
		const size = `${sizeOf(spot)}px`;
		const does = this.narrows(spot) ? "only these" : "nearer";
		return html`<button class="spot" key=${`${spot.latitude},${spot.longitude}`} style=${{ ...place, width: size, height: size }}
			aria-label=${`${said(spot)}: ${does}`} title=${`${said(spot)}: ${does}`}
			onClick=${() => this.choose(spot)}>${short.format(spot.photos)}</button>`;
	}

	/** What the hits are narrowed to. */
	circle(near, within) {
		const [latitude, longitude] = near.split(",").map(Number);
		const high = parseFloat(within || 25) / A_DEGREE;
		return html`<ellipse cx=${longitude} cy=${-latitude} rx=${high / narrow(latitude)} ry=${high} />`;
	}

	render({ near, within, onChoose }, { spots, towns, height, problem }) {
		const part = height ? this.part() : [-180, 90, 360, 180];
		const [west, north, width, tall] = part;
		return html`
			<div class="map" ref=${this.root} role="group" tabindex="0" onKeyDown=${this.keys} onWheel=${this.wheel}
				aria-label="map of the photos: arrow keys move it, plus and minus lead nearer and farther"
				onPointerDown=${this.press} onPointerMove=${this.drag} onPointerUp=${this.release} onPointerCancel=${this.release}>
				<svg viewBox=${[west, -north, width, tall].join(" ")} preserveAspectRatio="none" aria-hidden="true">
					<g transform="scale(.1)"><use href="vendor/land.svg#land" /></g>
					${DEGREES.test(near) && this.circle(near, within)}
				</svg>
				${towns.map((town) => html`<${Town} key=${town.name} town=${town} part=${part} />`)}
				${spots.map((spot) => this.spot(spot, part))}
				<div class="zooms">
					<button aria-label="nearer" onClick=${() => this.zoom(ZOOM)}>+</button>
					<button aria-label="farther" onClick=${() => this.zoom(1 / ZOOM)}>−</button>
				</div>
			</div>
			${problem && html`<p role="status">${problem}</p>`}
			${near && html`<button class="whole" onClick=${() => onChoose({ near: "", within: "" })}>all places</button>`}
		`;
	}
}
