// The address bar holds the whole query; this is its grammar.

const NOTHING = {
	q: "", // the sentence, with or without marks
	adjust: [], // marked words that chips write: "dog^2", "+beach", "-person"
	like: "", // the key of a photo: find similar ones
	picture: "", // the number of a picture that this tab holds
	terms: "", // that picture's heaviest words, "dog:0.54 snow:0.41": they outlive the tab
	after: "",
	before: "",
	folder: "",
	caption: "",
	near: "", // degrees north and east, "45.76,4.84"
	within: "", // how far from there, "3km"
	album: "",
	sort: "match",
	month: "", // without a question: the photos from this month on, "2019-07"
	photo: "", // the key of the photo that is shown large
};
const TEXTS = Object.keys(NOTHING).filter((name) => name !== "adjust");

export const FILTERS = { after: "", before: "", folder: "", caption: "", near: "", within: "", album: "" };

const NEAR = /(?<!\S)near:(["“][^"“”]*["”]|\S+)/i; // as the server reads it

/** Whether a query is about what is near a place, so that the nearest can come first. */
export const isNear = (query) => Boolean(query.near) || NEAR.test(query.q);

export const withoutNear = (q) => q.replace(NEAR, "").replace(/\s+/g, " ").trim();

/** A query with an order that it can have. */
export function ordered(query) {
	const known = query.sort === "date" || (query.sort === "place" && isNear(query));
	return known ? query : { ...query, sort: "match" };
}

export function readAddress(search) {
	const given = new URLSearchParams(search);
	const query = { ...NOTHING, adjust: given.getAll("adjust") };
	for (const name of TEXTS) query[name] = given.get(name) ?? NOTHING[name];
	query.photo = query.photo.replace(/[^\w-]/g, "_"); // no key has others
	return ordered(query);
}

export function writeAddress(query) {
	const given = new URLSearchParams();
	for (const name of TEXTS) if (query[name] && query[name] !== NOTHING[name]) given.set(name, query[name]);
	for (const mark of query.adjust) given.append("adjust", mark);
	const text = given.toString().replaceAll("%3A", ":");
	return text ? `?${text}` : "./";
}

export const asks = (query) =>
	Boolean(query.q.trim() || query.like || query.picture || query.terms || query.adjust.length);

export const filtersOf = (query) => ({
	...Object.fromEntries(Object.keys(FILTERS).map((name) => [name, query[name]])),
	file_dates: true,
});

export const isFiltered = (query) => Object.keys(FILTERS).some((name) => query[name]);

/** A new question, or none; filters and order stay. */
export const asked = (query, question) => ({
	...query,
	q: "",
	adjust: [],
	like: "",
	picture: "",
	terms: "",
	month: "",
	photo: "",
	...question,
});

/** Equal for queries with the same hits. */
export const identity = (query) => writeAddress({ ...query, photo: "" });

/** {dog: 0.54} as "dog:0.54"; of many words the heaviest. */
export const writeTerms = (terms, most = Infinity) =>
	Object.entries(terms)
		.sort((a, b) => b[1] - a[1])
		.slice(0, most)
		.map(([word, weight]) => `${word}:${Number(weight.toPrecision(6))}`)
		.join(" ");

export function readTerms(text) {
	const terms = {};
	for (const item of text.split(" ")) {
		const colon = item.lastIndexOf(":");
		const weight = Number(item.slice(colon + 1));
		if (colon > 0 && weight > 0) terms[item.slice(0, colon)] = weight;
	}
	return terms;
}
