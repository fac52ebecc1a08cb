// What the browser remembers of how somebody looks at photos; it may be forbidden to.

export function isRemembered(name) {
	try {
		return localStorage.getItem(name) !== null;
	} catch {
		return false;
	}
}

export function remember(name, is) {
	try {
		if (is) localStorage.setItem(name, "");
		else localStorage.removeItem(name);
	} catch {
		// it is so until the page is left
	}
}
