/* A matrix of cells with names, each shaded by a share of 0 to 1: {caption, corner, names, share(i, k), text(i, k),
 * more: [{title, of(i)}]}. */
psgd.matrix = (() => {
    const {h} = psgd;

    function cell(m, i, k) {
        const share = m.share(i, k);
        return h(
            'td',
            {
                class: ['number', share > 0.55 && 'strong', i === k && 'diagonal'].filter(Boolean).join(' '),
                style: {'--share': `${Math.round(share * 100)}%`},
            },
            m.text(i, k),
        );
    }

    return (m) =>
        h(
            'div.scroll',
            {tabindex: 0, role: 'region', 'aria-label': m.caption},
            h(
                'table.matrix',
                {},
                h('caption.hidden', {}, m.caption),
                h(
                    'thead',
                    {},
                    h(
                        'tr',
                        {},
                        h('td.corner', {}, m.corner),
                        m.names.map((n) => h('th', {scope: 'col'}, n)),
                        (m.more || []).map((c) => h('th.more', {scope: 'col'}, c.title)),
                    ),
                ),
                h(
                    'tbody',
                    {},
                    m.names.map((n, i) =>
                        h(
                            'tr',
                            {},
                            h('th', {scope: 'row'}, n),
                            m.names.map((_, k) => cell(m, i, k)),
                            (m.more || []).map((c) => h('td.number.more', {}, c.of(i))),
                        ),
                    ),
                ),
            ),
        );
})();
