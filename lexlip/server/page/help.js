// What may be written into the field, beside a sentence.
import { html } from "./html.js";
import { Menu } from "./menu.js";

const MARKS = [
	["+beach", "with this word, as heavy as the heaviest"],
	["-person", "no photos that show this"],
	["snow^2", "this word counts twice as much; any number"],
	['"exit 12"', "these words side by side, in names, captions or text"],
	["name:anna", "whose file’s name has this word"],
	['folder:"2019 italy"', "in a folder with these words"],
	["caption:cake", "whose captions or keywords have this word"],
	["text:exit", "in which this word is written"],
	["near:48.1,11.6", "taken near this place: degrees north and east, or its name"],
];

/** A button with the marks that a query may have, of which one is taken; without words in the index, only fields. */
export function Help({ hasWords, onMark }) {
	const marks = hasWords ? MARKS : MARKS.filter(([mark]) => mark.includes(":"));
	const name = "what may be written";
	return html`
		<${Menu} name=${name} className="help" label="?"
			button=${{ type: "button", class: "icon", "aria-label": name, title: name }}>
			${(close) => html`
				<p>Write what is on the photo, or the name of a file or folder. Beside a sentence or alone:</p>
				<dl>
					${marks.map(
						([mark, what]) => html`<div key=${mark}>
							<dt><button type="button" class="link" onClick=${() => (close(false), onMark(mark))}><code>${mark}</code></button></dt>
							<dd>${what}</dd>
						</div>`,
					)}
				</dl>
			`}
		<//>
	`;
}
