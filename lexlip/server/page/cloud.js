// A photo's words as a cloud: heavier words are larger and nearer to the middle.
import { Component, createRef, html, shown } from "./html.js";

const MOST = 44; // words
const [SMALL, LARGE] = [0.82, 2.1]; // rem
const LINE = 1.3; // a word's height, in sizes of its letters

let canvas;

function widthOf(text, font) {
	canvas ??= document.createElement("canvas").getContext("2d");
	canvas.font = font;
	return canvas.measureText(text).width;
}

const overlap = (a, b) => Math.abs(a.x - b.x) * 2 < a.width + b.width && Math.abs(a.y - b.y) * 2 < a.height + b.height;

/** Place [[word, weight]], heaviest first: each at the first free place of a spiral. x and y are middles, in pixels. */
export function layCloud(words, own, width, rem, family) {
	const heaviest = words[0]?.[1] || 1;
	const placed = [];
	for (const [word, weight] of words) {
		const size = rem * (SMALL + (LARGE - SMALL) * Math.max(weight / heaviest, 0));
		const box = { word, name: shown(own, word), weight, size, height: Math.max(size * LINE, 24) };
		box.width = Math.min(widthOf(box.name, `600 ${size}px ${family}`) + 0.7 * rem, width);
		for (let turn = 0; ; turn += 0.15) {
			box.x = Math.cos(turn) * turn * 3.2;
			box.y = Math.sin(turn) * turn * 1.5;
			const inside = Math.abs(box.x) * 2 + box.width <= width + 0.5;
			if (inside && !placed.some((other) => overlap(box, other))) break;
		}
		placed.push(box);
	}
	const top = Math.min(...placed.map((box) => box.y - box.height / 2), 0);
	const bottom = Math.max(...placed.map((box) => box.y + box.height / 2), 0);
	for (const box of placed) {
		box.x += width / 2;
		box.y -= top;
	}
	return { words: placed, height: bottom - top };
}

export class Cloud extends Component {
	root = createRef();
	state = { width: 0 };

	componentDidMount() {
		this.resizes = new ResizeObserver(() => this.setState({ width: this.root.current.clientWidth }));
		this.resizes.observe(this.root.current);
		this.setState({ width: this.root.current.clientWidth });
	}

	componentWillUnmount() {
		this.resizes.disconnect();
	}

	layout(words, width) {
		const { own } = this.props;
		if (this.of === words && this.width === width && this.own === own) return this.laid;
		const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
		const family = getComputedStyle(this.root.current).fontFamily;
		const laid = layCloud(words.slice(0, MOST), own, width, rem, family);
		Object.assign(this, { of: words, own, width, laid });
		return this.laid;
	}

	word({ word, name, weight, size, x, y, width, height }) {
		const { terms, lit, named, pinned, onPoint, onPin } = this.props;
		const ask = word in terms;
		const state = `${ask ? "asked" : ""} ${lit === word ? "lit" : ""} ${named?.includes(word) ? "named" : ""}`;
		return html`
			<button key=${word} class=${state}
				style=${{ left: `${x - width / 2}px`, top: `${y - height / 2}px`, width: `${width}px`, height: `${height}px`, fontSize: `${size}px` }}
				aria-pressed=${pinned === word}
				aria-label=${`${name}, weight ${weight.toFixed(2)}${ask ? ", in your query" : ""}`}
				title=${`weight ${weight.toFixed(2)}`}
				onPointerMove=${(event) => event.pointerType !== "touch" && lit !== word && onPoint(word)}
				onPointerLeave=${() => onPoint(null)} onFocus=${() => onPoint(word)} onBlur=${() => onPoint(null)}
				onClick=${() => onPin(pinned === word ? null : word)}>
				${name}
			</button>
		`;
	}

	render({ words }, { width }) {
		const laid = width ? this.layout(words, width) : { words: [], height: 0 };
		return html`
			<div class="cloud" role="group" aria-label="the photo's words; each shows where in the picture it is"
				ref=${this.root} style=${{ height: `${laid.height}px` }}>
				${laid.words.map((box) => this.word(box))}
			</div>
		`;
	}
}
