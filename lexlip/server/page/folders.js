// The filter on folders: a menu with a tree of them. The keys are those of trees everywhere.
import { Component, count, createRef, html, photos } from "./html.js";
import { Menu } from "./menu.js";

const PAUSE = 700; // milliseconds after which typed letters begin another name

const above = (folder) => folder.slice(0, Math.max(folder.lastIndexOf("/"), 0));

/** Folders with those in them, given by name: [{folder, name, photos, inside: […]}, …]. */
function treeOf(folders) {
	const nodes = new Map([["", { inside: [] }]]);
	for (const { folder, photos: many } of folders) {
		const node = { folder, name: folder.slice(folder.lastIndexOf("/") + 1), photos: many, inside: [] };
		nodes.set(folder, node);
		nodes.get(above(folder)).inside.push(node);
	}
	return nodes.get("").inside;
}

/** A folder and all above it. */
function withAbove(folder) {
	const found = new Set();
	for (; folder; folder = above(folder)) found.add(folder);
	return found;
}

class Tree extends Component {
	root = createRef();
	all = { folder: "", name: "all folders", inside: [] };
	tree = [this.all, ...treeOf(this.props.folders)];
	state = this.opened();
	typed = "";

	/** Before anything is clicked: the chosen folder is open, or the only one of the uppermost. */
	opened() {
		const { chosen, folders } = this.props;
		const at = folders.some(({ folder }) => folder === chosen) ? chosen : "";
		return { at, open: withAbove(at || (this.tree.length === 2 ? this.tree[1].folder : "")) };
	}

	componentDidUpdate(_, { at }) {
		if (at !== this.state.at) this.root.current.querySelector("[tabindex='0']").focus();
	}

	/** What is to be seen, from top to bottom. */
	visible(nodes = this.tree) {
		return nodes.flatMap((node) => [node, ...(this.isOpen(node) ? this.visible(node.inside) : [])]);
	}

	isOpen = ({ folder, inside }) => inside.length > 0 && this.state.open.has(folder);

	turn(node, open = !this.isOpen(node)) {
		const next = new Set(this.state.open);
		next[open ? "add" : "delete"](node.folder);
		// what was in the folder is not to be seen any more, so the focus cannot stay there
		const left = !open && this.state.at.startsWith(`${node.folder}/`);
		this.setState({ open: next, at: left ? node.folder : this.state.at });
	}

	keys = (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const visible = this.visible();
		const here = visible.findIndex(({ folder }) => folder === this.state.at);
		const node = visible[here];
		const go = (to) => to && this.setState({ at: to.folder });
		const does = {
			ArrowDown: () => go(visible[here + 1]),
			ArrowUp: () => go(visible[here - 1]),
			Home: () => go(visible[0]),
			End: () => go(visible.at(-1)),
			ArrowRight: () => (this.isOpen(node) || !node.inside.length ? go(node.inside[0]) : this.turn(node, true)),
			ArrowLeft: () =>
				this.isOpen(node)
					? this.turn(node, false)
					: go(visible.find(({ folder }) => folder && folder === above(node.folder))),
			Enter: () => this.props.onChoose(node.folder),
			" ": () => this.props.onChoose(node.folder),
		}[event.key];
		if (!does && event.key.length > 1) return;
		event.preventDefault();
		event.stopPropagation();
		if (does) does();
		else go(this.beginning(event.key, [...visible.slice(here), ...visible.slice(0, here)]));
	};

	/** The next folder whose name begins with what is typed. */
	beginning(letter, order) {
		clearTimeout(this.forgetting);
		this.forgetting = setTimeout(() => (this.typed = ""), PAUSE);
		this.typed += letter.toLowerCase();
		const from = this.typed.length === 1 ? [...order.slice(1), order[0]] : order;
		return from.find(({ name }) => name.toLowerCase().startsWith(this.typed));
	}

	componentWillUnmount() {
		clearTimeout(this.forgetting);
	}

	item(node) {
		const { folder, name, photos: many, inside } = node;
		const [open, at] = [this.isOpen(node), folder === this.state.at];
		return html`
			<li key=${folder} role="treeitem" aria-label=${many === undefined ? name : `${name}, ${photos(many)}`}
				aria-expanded=${inside.length ? open : undefined} aria-selected=${folder === this.props.chosen}
				tabindex=${at ? 0 : -1} autofocus=${at} data-folder=${folder}>
				<span class="row" onClick=${() => this.props.onChoose(folder)}>
					<span class=${inside.length ? "twist" : ""} onClick=${
						inside.length &&
						((event) => {
							event.stopPropagation();
							this.turn(node);
						})
					}></span>
					<bdi title=${name}>${name}</bdi> ${many !== undefined && html`<small>${count(many)}</small>`}
				</span>
				${open && html`<ul role="group">${inside.map((each) => this.item(each))}</ul>`}
			</li>
		`;
	}

	render() {
		return html`<ul role="tree" aria-label="folders" class="tree" ref=${this.root} onKeyDown=${this.keys}
			onFocusIn=${({ target }) => this.setState({ at: target.dataset.folder })}>
			${this.tree.map((node) => this.item(node))}
		</ul>`;
	}
}

export function Folders({ folders, chosen, onChange }) {
	const button = { class: `filter ${chosen ? "active" : ""}`, "data-filter": "folder" };
	return html`
		<${Menu} name="folder" button=${button}
			label=${html`<span class="hidden">folder: </span><bdi>${chosen || "all folders"}</bdi>`}>
			${(close) =>
				html`<${Tree} folders=${folders} chosen=${chosen} onChoose=${(folder) => {
					close();
					onChange({ folder });
				}} />`}
		<//>
	`;
}
