/* Searches in lists: words, and conditions as codec=diloco, lr<0.1, accuracy>=95%, name~tiny. All must hold. */
psgd.search = (() => {
    const short = {lr: 'learn_rate', workers: 'node_count', test_accuracy: 'accuracy', time: 'seconds'};
    const scale = {'%': 0.01, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, ms: 1e-3, s: 1, min: 60, h: 3600};

    /* "95%", "2.5MB", "0.1"; null: no number. */
    function number(text) {
        const found = /^([-+]?[\d.]+(?:e[-+]?\d+)?)\s*(%|[kMGT]?B|ms|s|min|h)?$/i.exec(text);
        const unit = found?.[2] && Object.keys(scale).find((u) => u.toLowerCase() === found[2].toLowerCase());
        return found && Number.isFinite(Number(found[1])) ? Number(found[1]) * (unit ? scale[unit] : 1) : null;
    }

    /* Spaces divide them, but for those between double quotes: note="a b". */
    const split = (text) => text.match(/(?:"[^"]*"|[^\s])+/g) || [];
    const bare = (text) => text.replace(/"/g, '');

    function parse(text) {
        return split(text).map((word) => {
            const found = /^([\w./-]+)(<=|>=|!=|=|<|>|~)(.+)$/.exec(word);
            if (!found) return {word: bare(word).toLowerCase()};
            const key = found[1].toLowerCase().replace(/-/g, '_');
            return {
                key: short[key] || key,
                sign: found[2],
                value: bare(found[3]).toLowerCase(),
                number: number(found[3]),
                text: word,
            };
        });
    }

    /* A condition as text; null: the value cannot be written in one. */
    function condition(key, sign, value) {
        if (value === '' || /["\p{Cc}]/u.test(value) || !/^[\w./-]+$/.test(key)) return null;
        return `${key}${sign}${/\s/.test(value) ? `"${value}"` : value}`;
    }

    /* A rule is also found without its parameters: codec=diloco finds diloco:every=20. */
    const is_same = (text, wanted) => text === wanted || text.startsWith(`${wanted}:`);

    function holds({sign, value, number: wanted}, had) {
        if (Array.isArray(had))
            return sign === '!='
                ? had.every((v) => holds({sign, value, number: wanted}, v))
                : had.some((v) => holds({sign, value, number: wanted}, v));
        if (had === null || had === undefined || had === '') return sign === '!=';
        const text = String(had).toLowerCase();
        if (sign === '~') return text.includes(value);
        if (typeof had === 'number' && wanted !== null) {
            const apart = had - wanted;
            const is_equal = Math.abs(apart) <= 1e-9 * Math.max(Math.abs(had), Math.abs(wanted));
            return {
                '=': is_equal,
                '!=': !is_equal,
                '<': apart < 0 && !is_equal,
                '>': apart > 0 && !is_equal,
                '<=': apart < 0 || is_equal,
                '>=': apart > 0 || is_equal,
            }[sign];
        }
        return sign === '=' ? is_same(text, value) : sign === '!=' ? !is_same(text, value) : false;
    }

    return {
        parse,
        condition,
        /* The text with these conditions in place of all about the key. */
        amended: (text, key, conditions) =>
            [
                ...split(text).filter((word) => parse(word)[0]?.key !== parse(`${key}=1`)[0].key),
                ...conditions,
            ].join(' '),
        /* `values`: what conditions are about, by name; `texts`: where words are looked for. */
        matches: (terms, values, texts) =>
            terms.every((t) =>
                t.word === undefined
                    ? Object.hasOwn(values, t.key) && holds(t, values[t.key])
                    : texts.some((text) => text && String(text).toLowerCase().includes(t.word)),
            ),
        /* The names in the conditions that no value has. */
        unknown: (terms, names) => [
            ...new Set(terms.filter((t) => t.word === undefined && !names.includes(t.key)).map((t) => t.key)),
        ],
    };
})();
