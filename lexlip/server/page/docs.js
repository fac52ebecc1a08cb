// The API's own page: each call with what it takes, what it answers and how curl asks it, from the API's description.
import { get } from "./api.js";
import { html, render } from "./html.js";

const PROBLEM = "application/problem+json";

/** Where a call is on this page. */
const anchor = ({ method, path }) => `${method}${path.replace(/\W+/g, "-")}`;

/** All calls of a description, with those of one tag side by side. */
const callsOf = ({ paths }) =>
	Object.entries(paths).flatMap(([path, methods]) =>
		Object.entries(methods).map(([method, call]) => ({ ...call, path, method })),
	);

class Description {
	constructor(described) {
		this.schemas = described.components.schemas;
	}

	/** A schema in place of one that only names it. */
	whole = (schema) => (schema.$ref ? this.schemas[schema.$ref.split("/").pop()] : schema);

	/** What a value is, in words. */
	kind(schema) {
		const { anyOf, enum: choices, const: only, type, items, additionalProperties: inside } = this.whole(schema);
		if (anyOf) return anyOf.map((one) => this.kind(one)).join(" or ");
		if (choices) return choices.map((choice) => JSON.stringify(choice)).join(" or ");
		if (only !== undefined) return JSON.stringify(only);
		if (type === "array") return `list of ${this.kind(items)}`;
		if (type === "object" && inside?.type) return `object of ${this.kind(inside)}`;
		return type ?? "anything";
	}

	/** Bounds and default of a value, in words. */
	bounds(schema) {
		const { minimum, maximum, maxLength, maxItems, default: usual } = schema.anyOf?.[0] ?? schema;
		const said = [
			minimum !== undefined && `from ${minimum}`,
			maximum !== undefined && `to ${maximum}`,
			maxLength !== undefined && `at most ${maxLength} characters`,
			maxItems !== undefined && `at most ${maxItems} entries`,
			usual !== undefined && usual !== "" && `default ${JSON.stringify(usual)}`,
		];
		return said.filter(Boolean).join(", ");
	}

	/** Fields of an object, and after each those inside it. */
	fields(schema, before = "") {
		const { properties = {}, required = [] } = this.whole(schema);
		return Object.entries(properties).flatMap(([name, field]) => {
			const inside = field.items ?? field;
			const path = `${before}${name}${field.items ? "[]" : ""}`;
			const row = { name: before + name, schema: field, required: required.includes(name) };
			return [{ ...row, description: field.description }, ...(inside.$ref ? this.fields(inside, `${path}.`) : [])];
		});
	}

	table(title, fields, asked) {
		if (!fields.length) return null;
		const row = ({ name, schema, required, description }) => html`
			<tr>
				<th scope="row"><code>${name}</code>${asked && required && html` <b>required</b>`}</th>
				<td>${this.kind(schema)}<small>${asked && this.bounds(schema)}</small></td>
				<td>${description}</td>
			</tr>
		`;
		return html`
			<table>
				<thead><tr><th scope="col">${title}</th><th scope="col">Value</th><th scope="col">What it is</th></tr></thead>
				<tbody>${fields.map(row)}</tbody>
			</table>
		`;
	}

	body([kind, { schema }]) {
		return html`
			<p>${this.whole(schema).description ?? "A body of bytes."} <code>${kind}</code></p>
			${this.table("Field", this.fields(schema), true)}
		`;
	}

	answer([status, { description, content = {} }]) {
		const [[kind, { schema } = {}] = []] = Object.entries(content);
		const said = schema ? this.whole(schema).description : description;
		return html`
			<p><b>${status}</b> ${said} ${kind && html`<code>${kind}</code>`}</p>
			${schema && this.table("Answer", this.fields(schema), false)}
		`;
	}

	call(call, known) {
		const { parameters = [], requestBody, responses } = call;
		const all = Object.entries(responses);
		const problems = all.filter(([, { content }]) => content?.[PROBLEM]);
		const answers = all.filter((one) => !problems.includes(one));
		return html`
			<section id=${anchor(call)}>
				<h2>${name(call)}</h2>
				<pre tabindex="0" aria-label="with curl">${examples(call, known).join("\n")}</pre>
				${this.table("Parameter", parameters, true)}
				${Object.entries(requestBody?.content ?? {}).map((body) => this.body(body))}
				${answers.map((answer) => this.answer(answer))}
				<p>Problems: ${problems.map(([status]) => status).join(", ")}.</p>
			</section>
		`;
	}
}

const name = ({ method, path, summary }) =>
	html`<b>${method.toUpperCase()}</b> <code>${path}</code> <span>${summary}</span>`;

/** A value as a shell takes it. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Commands of curl for a call: one, or one for each kind of body. */
function examples({ method, path, parameters = [], requestBody, responses }, known) {
	const url = new URL(path.replace("{key}", known.key).replace("{name}", "starred"), location.origin);
	for (const { name, required, in: place, schema } of parameters)
		if (required && place === "query") url.searchParams.set(name, known[name] ?? schema.examples?.[0] ?? name);
	const [kind = ""] = Object.keys(Object.values(responses)[0].content ?? {});
	const file = `${path.split("/").pop()}.${kind.split("/").pop().replace("*", "jpg")}`;
	const isFile = kind.startsWith("image/") || kind === "application/zip";
	const command = ["curl", ...(isFile ? ["-o", file] : []), quoted(url.href)];
	const bodies = Object.entries(requestBody?.content ?? {}).map(([type, { schema }]) =>
		type === "application/json"
			? [
					"-H",
					quoted(`Content-Type: ${type}`),
					"-d",
					quoted(JSON.stringify(schema.examples[0]).replace("KEY", known.key)),
				]
			: ["-H", quoted(`Content-Type: ${type.replace("*", "jpeg")}`), "--data-binary", "@photo.jpg"],
	);
	return (method === "get" ? [[]] : bodies).map((body) => [...command, ...body].join(" "));
}

function Page({ described, known }) {
	const description = new Description(described);
	const calls = callsOf(described);
	return html`
		<p>
			${described.info.description} Where the server has a token, add <code>-H 'Authorization: Bearer TOKEN'</code>.
			Programs read all this from <a class="link" href="api/openapi.json">api/openapi.json</a>.
		</p>
		<nav aria-label="calls">
			<ul>${calls.map((call) => html`<li><a href=${`#${anchor(call)}`}>${name(call)}</a></li>`)}</ul>
		</nav>
		${calls.map((call) => description.call(call, known))}
		<section>
			<h2>Problems <code>${PROBLEM}</code></h2>
			${description.table("Answer", description.fields(description.schemas.ProblemBody), false)}
		</section>
	`;
}

/** A key and a word of this index, with which the examples work as they are. */
async function findKnown() {
	const { words } = await get("telling", { limit: 1 }).catch(() => ({ words: [] }));
	return { key: "KEY", word: "dog", ...words[0] };
}

const place = document.getElementById("calls");
try {
	const [described, known] = await Promise.all([get("openapi.json"), findKnown()]);
	render(html`<${Page} described=${described} known=${known} />`, place);
	document.getElementById(location.hash.slice(1))?.scrollIntoView();
} catch (error) {
	place.textContent = `The description cannot be read (${error.message}): load this page again.`;
}
