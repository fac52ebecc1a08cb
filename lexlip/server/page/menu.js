// A button that opens a panel below itself. Escape, a click outside or leaving with Tab closes it.
import { Component, createRef, html } from "./html.js";

let numbers = 0;

export class Menu extends Component {
	state = { open: false };
	root = createRef();
	panel = createRef();
	id = `panel-${++numbers}`;

	open = () => this.setState({ open: true });

	close = (refocus = true) => {
		if (!this.state.open) return;
		this.setState({ open: false });
		if (refocus) this.root.current?.querySelector("button")?.focus();
	};

	outside = (event) => {
		if (!this.root.current?.contains(event.target)) this.close(false);
	};

	left = (event) => {
		if (event.relatedTarget && !this.root.current?.contains(event.relatedTarget)) this.close(false);
	};

	componentDidUpdate(_, before) {
		if (this.state.open === before.open) return;
		const change = this.state.open ? "addEventListener" : "removeEventListener";
		document[change]("pointerdown", this.outside);
		if (!this.state.open) return;
		const panel = this.panel.current;
		const over = panel.getBoundingClientRect().right + 8 - document.documentElement.clientWidth;
		if (over > 0) panel.style.left = `${-over}px`;
		(panel.querySelector("[autofocus], [aria-checked=true]") ?? panel.querySelector("button, input"))?.focus();
	}

	componentWillUnmount() {
		document.removeEventListener("pointerdown", this.outside);
	}

	keys = (event) => {
		if (event.key === "Escape" && this.state.open) {
			event.preventDefault();
			event.stopPropagation();
			this.close();
		}
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (!step || event.target.tagName === "INPUT") return;
		event.preventDefault();
		if (!this.state.open) return this.open();
		const items = [...this.panel.current.querySelectorAll("button")];
		items.at((items.indexOf(event.target) + step) % items.length)?.focus();
	};

	render({ label, children, className = "", panelClass = "", role = "dialog", name, button = {} }, { open }) {
		return html`
			<span class=${`menu ${className}`} ref=${this.root} onKeyDown=${this.keys} onFocusOut=${this.left}>
				<button aria-haspopup=${role} aria-expanded=${open}
					aria-controls=${open ? this.id : undefined} ...${button}
					onClick=${() => (open ? this.close() : this.open())}>
					${label}
				</button>
				${
					open &&
					html`<div class=${`panel ${panelClass}`} id=${this.id} role=${role} aria-label=${name} ref=${this.panel}>
					${children(this.close)}
				</div>`
				}
			</span>
		`;
	}
}
