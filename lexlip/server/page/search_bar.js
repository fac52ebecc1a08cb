// The field for a sentence, and the picture or photo that is searched with instead.
import { Component, createRef, html } from "./html.js";
import { thumbnail } from "./api.js";
import { Help } from "./help.js";

const LENS = html`<svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="10.5" cy="10.5" r="6.5" /><path d="m15.5 15.5 5 5" /></svg>`;
const PICTURE = html`<svg viewBox="0 0 24 24" aria-hidden="true"><rect x="3.5" y="4.5" width="17" height="15" rx="2.5" /><path d="m4 16 4.5-4.5 4 4L15 13l5 4.5" /><circle cx="15.5" cy="9" r="1.4" /></svg>`;

/** What somebody has typed before the page was ready. */
const typed = () => document.querySelector("header input").value;

export class SearchBar extends Component {
	field = createRef();
	state = { text: this.props.query.q || typed(), of: this.props.query.q };

	static getDerivedStateFromProps({ query }, { of }) {
		return query.q === of ? null : { text: query.q, of: query.q };
	}

	componentDidMount() {
		this.props.self.current = this;
		this.field.current.focus(); // which it loses as it is drawn over
	}

	focus() {
		this.field.current.focus();
		this.field.current.select();
	}

	/** Add a mark to what is written, to be changed. */
	write = (mark) => {
		const before = this.state.text.trim();
		this.setState({ text: before ? `${before} ${mark}` : mark }, () => this.field.current.focus());
	};

	submit = (event) => {
		event.preventDefault();
		this.props.onSearch(this.state.text.trim());
	};

	render({ query, pictureUrl, hasWords, pictures, onPicture, onHome }, { text }) {
		const like = query.like && { url: pictures && thumbnail(query.like, 64), what: "similar to this photo" };
		const picture = (query.picture || query.terms) && { url: pictureUrl, what: "like this picture" };
		const given = like || picture;
		return html`
			<form class="search" role="search" action="./" onSubmit=${this.submit}>
				<a class="home" href="./" onClick=${onHome} aria-label="LexLIP: start again"><b>Lex</b>LIP</a>
				<div class="field">
					${
						given &&
						html`<span class="given">
						${given.url && html`<img src=${given.url} alt="" />`}<span>${given.what}</span>
						<button type="button" class="close" aria-label="search without it" onClick=${onHome}>×</button>
					</span>`
					}
					<input ref=${this.field} type="search" name="q" lang="" dir="auto" aria-label="what to find"
						placeholder=${given ? "or a sentence" : "what is on the photo"} autocomplete="off"
						enterkeyhint="search" value=${text}
						onInput=${(event) => this.setState({ text: event.target.value })} />
					<${Help} hasWords=${hasWords} onMark=${this.write} />
					<button type="submit" class="icon" aria-label="search" title="search">${LENS}</button>
					<label class="icon" title="search with a picture: choose one here, drop it anywhere, or paste it">
						${PICTURE}
						<input
							type="file"
							accept="image/*"
							class="hidden"
							aria-label="search with a picture"
							onChange=${(event) => {
								const [file] = event.target.files;
								event.target.value = "";
								if (file) onPicture(file);
							}}
						/>
					</label>
				</div>
			</form>
		`;
	}
}
