/* Tables. */
psgd.table = (() => {
    const {h} = psgd;

    /* A table of columns {title, of(row), number, head, wide}: `number` aligns right, `head` is the row's header, `wide` is
     * left out on a narrow screen. Cells are texts or elements. `kind` "narrow": no wider than its cells. */
    function table(caption, columns, rows, kind = null) {
        const classes = (c) => [c.number && 'number', c.wide && 'wide'].filter(Boolean).join(' ') || null;
        return h(
            'div.scroll',
            {tabindex: 0, role: 'region', 'aria-label': caption},
            h(
                'table',
                {class: kind && kind.replace('.', ' ')},
                h('caption.hidden', {}, caption),
                h(
                    'thead',
                    {},
                    h(
                        'tr',
                        {},
                        columns.map((c) => h('th', {scope: 'col', class: classes(c)}, c.title)),
                    ),
                ),
                h(
                    'tbody',
                    {},
                    rows.map((r) =>
                        h(
                            'tr',
                            {},
                            columns.map((c) =>
                                h(c.head ? 'th' : 'td', {scope: c.head ? 'row' : null, class: classes(c)}, c.of(r)),
                            ),
                        ),
                    ),
                ),
            ),
        );
    }

    /* A list of names with a value each. */
    table.facts = (pairs) =>
        h(
            'dl.facts',
            {},
            pairs.filter(Boolean).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
        );

    /* A share of 0 to 1 as a bar; the cell beside it has the number. */
    table.bar = (share, kind = '') =>
        h(
            'span.bar',
            {'aria-hidden': 'true', class: `bar ${kind}`},
            h('span', {style: {width: `${Math.max(0, Math.min(1, share || 0)) * 100}%`}}),
        );

    return table;
})();

/* Quotes a word of a command for a shell, because a folder may have any name. */
psgd.word = (text) => {
    const safe = text.startsWith('-') ? `./${text}` : text;
    return /^[\w@%+=:,./-]+$/.test(safe) ? safe : `'${safe.replace(/'/g, "'\\''")}'`;
};

/* A command with a button that copies it. */
psgd.command = (text) => {
    const {h} = psgd;
    const button = h(
        'button.quiet.small',
        {
            type: 'button',
            'aria-label': `Copy ${text}`,
            onclick: async () => {
                try {
                    await navigator.clipboard.writeText(text);
                    button.textContent = 'Copied';
                } catch {
                    getSelection().selectAllChildren(code);
                    button.textContent = 'Selected';
                }
            },
        },
        'Copy',
    );
    const code = h('code', {}, text);
    return h('p.command', {}, h('span.prompt', {'aria-hidden': 'true'}, '$'), code, button);
};

psgd.commands = (...texts) =>
    psgd.h(
        'aside.commands',
        {'aria-label': 'The same in a terminal'},
        psgd.h('h2', {}, 'In a terminal'),
        texts.map(psgd.command),
    );

/* A notice instead of contents: why there are none, and what to do. */
psgd.notice = (title, detail, ...more) =>
    psgd.h('div.notice', {}, psgd.h('p.notice-title', {}, title), detail ? psgd.h('p', {}, detail) : null, more);

psgd.trouble = (problem) => {
    const what =
        problem instanceof psgd.Problem ? problem : new psgd.Problem(0, 'This page has an error', String(problem));
    if (psgd.data.mode === 'browse' && (what.status === 401 || what.status === 403))
        return psgd.notice(
            'The page has no access any more',
            `${what.detail || what.title}. Open the address that job_submit browse prints; it works once, ` +
                'while that program runs.',
        );
    if (psgd.data.mode === 'agent' && (what.status === 401 || what.status === 403))
        return psgd.notice(
            'The agent requires a token',
            "The agent's own token is in the file token of its folder; a member's token with scope read suffices. " +
                'This page keeps the token until it is closed.',
            psgd.ask_token(),
        );
    if (what.status === 0 && problem instanceof psgd.Problem && psgd.data.mode === 'browse')
        return psgd.notice(
            what.title,
            'Has job_submit browse ended? Start it again and open the address that it prints.',
            psgd.command('job_submit browse'),
        );
    return psgd.notice(what.title, what.detail);
};
