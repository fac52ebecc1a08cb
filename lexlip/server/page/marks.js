// The marks of the query language: +word adds, -word leaves out, word^2 multiplies (word^0 drops).

const MARKED = /^([+-]?)([^\s^]+)(?:\^(\d*\.?\d+))?$/;

export const BOOST = 2;
export const WEAKER = 0.5;

/** {sign, word, factor} of a token, or null of one without marks. */
export function readMark(token) {
	const match = MARKED.exec(token);
	if (!match || (!match[1] && match[3] === undefined)) return null;
	return { sign: match[1], word: match[2].toLowerCase(), factor: match[3] === undefined ? 1 : Number(match[3]) };
}

const tokens = (query) => [...query.q.split(/\s+/), ...query.adjust];

export function marksOf(query) {
	const marks = new Map();
	for (const mark of tokens(query).map(readMark)) if (mark) marks.set(mark.word, mark);
	return marks;
}

const marks = (token, word) => readMark(token)?.word === word;

/** The query without any mark on a word. */
function unmarked(query, word) {
	const kept = query.q.split(/(\s+)/).filter((token) => !marks(token, word));
	return {
		...query,
		q: kept.join("").replace(/\s+/g, " ").trim(),
		adjust: query.adjust.filter((token) => !marks(token, word)),
	};
}

export function multiplied(query, word, factor) {
	const added = marksOf(query).get(word)?.sign === "+";
	const clean = unmarked(query, word);
	const token = factor === 1 ? `+${word}` : `+${word}^${factor}`;
	if (added) return factor ? { ...clean, adjust: [...clean.adjust, token] } : clean;
	return factor === 1 ? clean : { ...clean, adjust: [...clean.adjust, `${word}^${factor}`] };
}

export function excluded(query, word) {
	const clean = unmarked(query, word);
	return { ...clean, adjust: [...clean.adjust, `-${word}`] };
}

export function added(query, word) {
	const clean = unmarked(query, word);
	return { ...clean, adjust: [...clean.adjust, `+${word}`] };
}

/** The query with a negation, which left words out, as text: in quotes. */
export const quotedNegation = (query, phrase) => ({
	...query,
	q: query.q.replace(/\s+/g, " ").replace(phrase, () => `"${phrase}"`),
});

/** The query with a word that nobody knows replaced by one that is known; null as the new word: left out. */
export function replaced(query, old, word) {
	const same = (text) => text.toLowerCase() === old.toLowerCase();
	const change = (token) => {
		const mark = readMark(token);
		if (mark && same(mark.word)) return word ? token.toLowerCase().replace(old.toLowerCase(), word) : "";
		const bare = /^([^\p{L}\p{N}]*)(.*?)([^\p{L}\p{N}]*)$/u.exec(token);
		return same(bare[2]) ? (word ? bare[1] + word + bare[3] : "") : token;
	};
	return {
		...query,
		q: query.q.split(/\s+/).map(change).filter(Boolean).join(" "),
		adjust: query.adjust.map(change).filter(Boolean),
	};
}

/** Words and their weights as marks change them, as {terms, without}: what the server does for a sentence. */
export function adjusted(terms, adjust) {
	const heaviest = Math.max(...Object.values(terms));
	const result = { ...terms };
	const without = [];
	for (const { sign, word, factor } of adjust.map(readMark).filter(Boolean)) {
		if (sign === "-") without.push(word);
		else if (sign === "+") result[word] = heaviest * factor;
		else if (word in result) result[word] *= factor;
		if (sign === "-" || !result[word]) delete result[word];
	}
	return { terms: result, without };
}

export function stepped(query, word, up) {
	const mark = marksOf(query).get(word);
	const factor = mark?.sign === "-" ? -1 : (mark?.factor ?? 1);
	const steps = [-1, WEAKER, 1, BOOST];
	const at = steps.findLastIndex((step) => step <= factor);
	const next = steps[Math.min(Math.max(at + (up ? 1 : -1), 0), steps.length - 1)];
	return next < 0 ? excluded(query, word) : multiplied(query, word, next);
}
