// Text for other programs.

/** Copy a text; `node` shows it, for pages that may only copy what is selected. */
export async function copy(text, node) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		getSelection().selectAllChildren(node); // only pages of this machine or over https may write to the clipboard
		return document.execCommand("copy");
	}
}

/** Let the browser save a text as a file. */
export function save(text, name) {
	const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
	Object.assign(document.createElement("a"), { href: address, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(address), 1000);
}
