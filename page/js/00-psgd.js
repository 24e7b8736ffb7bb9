/* The only global name of the page, to which each file adds its functions, and the initial data of the page:
 * {"mode": "browse" | "report" | "agent", "documents": {PATH: DOCUMENT} of a report}. */
const psgd = (() => {
    /* Invisible characters that change how others are shown, or make two texts look alike: those of shared/base/utf8.c
     * without tabs and line feeds. */
    const unseen = new RegExp(
        '[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff' +
            '\\ufff9-\\ufffb\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e007f}]',
        'gu',
    );

    /* Replaces each of them by a question mark in a document, whose arrays and objects are changed. */
    function clean(value) {
        if (typeof value === 'string') return value.replace(unseen, '?');
        if (Array.isArray(value)) {
            for (let i = 0; i < value.length; i++) if (typeof value[i] !== 'number') value[i] = clean(value[i]);
        } else if (value !== null && typeof value === 'object') {
            for (const [key, v] of Object.entries(value)) {
                const shown = clean(key);
                if (shown !== key) delete value[key];
                value[shown] = clean(v);
            }
        }
        return value;
    }

    /* A cleaned document; most texts have none of these characters, nor one that is escaped. */
    function parse(text) {
        const doc = JSON.parse(text);
        unseen.lastIndex = 0;
        return unseen.test(text) || text.includes('\\u') ? clean(doc) : doc;
    }

    return {clean, parse, data: clean(JSON.parse(document.getElementById('psgd-data').textContent))};
})();
