// Calls to the server. All addresses are relative: the page may live below any path.

/** What the server says is wrong, in its own sentence. */
export class Problem extends Error {
	constructor(status, detail, wait, passes) {
		super(detail);
		this.status = status;
		this.wait = wait; // seconds after which to try again, if the server is only busy
		this.passes = passes; // whether it may pass: what the server itself asks does not answer
	}
}

/** The server does not answer. */
export class Gone extends Error {
	passes = true;
}

async function call(path, options) {
	let response;
	try {
		response = await fetch(`api/${path}`, options);
		if (response.ok) return await response.json();
	} catch (error) {
		throw error.name === "AbortError" ? error : new Gone("the server does not answer");
	}
	const problem = await response.json().catch(() => ({}));
	const busy = response.status === 429 || response.status === 503;
	const after = Number(response.headers.get("Retry-After"));
	const passes = response.status === 502 || (response.status === 503 && !after);
	const detail = problem.detail || problem.title || `error ${response.status}`;
	throw new Problem(response.status, detail, busy ? after || 1 : 0, passes);
}

const pause = (seconds, signal) =>
	new Promise((resolve, reject) => {
		const timer = setTimeout(resolve, seconds * 1000);
		signal?.addEventListener("abort", () => {
			clearTimeout(timer);
			reject(signal.reason);
		});
	});

/** A server that is busy is asked again a few times. */
async function patient(path, options = {}) {
	for (let tries = 0; ; tries++) {
		try {
			return await call(path, options);
		} catch (error) {
			if (!(error instanceof Problem && error.wait) || tries === 4) throw error;
			await pause(Math.min(error.wait, 5), options.signal);
		}
	}
}

/** Parameters of an address; what is empty is left out, lists are repeated. */
function parameters(given) {
	const search = new URLSearchParams();
	for (const [name, value] of Object.entries(given))
		for (const item of [value].flat())
			if (item !== "" && item !== null && item !== undefined) search.append(name, item);
	const text = search.toString();
	return text ? `?${text}` : "";
}

export const get = (path, given = {}, signal) => patient(path + parameters(given), { signal });

export const post = (path, body, signal) =>
	patient(path, {
		method: "POST",
		headers: { "Content-Type": "application/json" },
		body: JSON.stringify(body),
		signal,
	});

export const postPicture = (path, picture, given, signal) =>
	patient(path + parameters(given), {
		method: "POST",
		headers: { "Content-Type": picture.type || "image/jpeg" },
		body: picture,
		signal,
	});

/** A photo's thumbnail for a width in CSS pixels; browsers keep it if its version is named. */
export const thumbnail = (key, width, version) =>
	`api/photos/${key}/thumbnail${parameters({ width: width * devicePixelRatio > 480 ? 960 : 320, v: version })}`;

export const original = (key) => `api/photos/${key}/original`;
