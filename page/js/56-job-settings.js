/* The settings of the job and the versions of its programs, with which it can be repeated; and the codec's source. */
psgd.tabs.push({
    name: 'settings',
    title: 'Settings',
    make: (view) => {
        const {h, format, table, route} = psgd;
        const place = h('div'),
            versions = h('div'),
            source = h('section', {hidden: true});
        let words = view.query.get('q') || '',
            doc = null;

        /* {"a": {"b": 1}} as [["a.b", 1]]. */
        function flat(value, name = '') {
            return value && typeof value === 'object' && !Array.isArray(value)
                ? Object.entries(value).flatMap(([k, v]) => flat(v, name ? `${name}.${k}` : k))
                : [[name, value]];
        }

        const pairs = (caption, list) =>
            table(
                caption,
                [
                    {title: 'Name', head: true, of: ([k]) => h('code', {}, k)},
                    {title: 'Value', of: ([, v]) => h('code.value', {}, format.text(v))},
                ],
                list,
            );

        function show() {
            const all = flat(doc.settings || {}),
                fit = all.filter(([k, v]) => `${k} ${format.text(v)}`.toLowerCase().includes(words.toLowerCase()));
            psgd.put(place, fit, () =>
                fit.length
                    ? pairs('Settings', fit)
                    : all.length
                      ? psgd.notice('No setting matches', 'Clear the search.')
                      : psgd.notice('No settings here', 'They are in run.json of the folder of results.'),
            );
        }

        function show_source() {
            source.hidden = !doc.codec_source;
            const {name, text} = doc.codec_source || {name: '', text: ''};
            psgd.put(source, [name, text], () => [
                h(
                    'div.head.source-head',
                    {},
                    h('h2', {}, `The codec: ${name}`),
                    h(
                        'button.quiet.small',
                        {type: 'button', onclick: () => psgd.export.text(text, name || 'codec.c')},
                        'Download',
                    ),
                ),
                h('pre.source', {tabindex: 0, 'aria-label': `Source of ${name}`}, h('code', {}, text)),
            ]);
        }

        const search = h('input', {
            type: 'search',
            placeholder: 'Search settings…',
            'aria-label': 'Search settings',
            value: words,
            oninput: (e) => {
                words = e.target.value;
                route.amend({q: words});
                show();
            },
        });
        return {
            element: h(
                'div',
                {},
                h(
                    'div.columns',
                    {},
                    h('section', {}, h('div.head', {}, h('h2', {}, 'Settings'), search), place),
                    h('section', {}, h('h2', {}, 'Seed and versions'), versions),
                ),
                source,
            ),
            update: (next) => {
                doc = next;
                show();
                const seeds = flat(doc.settings || {}).filter(([k]) => k.includes('seed')),
                    list = [...seeds, ...flat(doc.versions || {}).filter(([k]) => k)];
                psgd.put(versions, list, () =>
                    list.length ? pairs('Seed and versions', list) : h('p.hint', {}, 'Not recorded.'),
                );
                show_source();
            },
        };
    },
});
