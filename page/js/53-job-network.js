/* The nodes, the waits and bytes between each two of the first ones (at most `shown_most`), and the staleness of applied
 * gradients. */
psgd.tabs.push({
    name: 'network',
    title: 'Nodes',
    make: (view) => {
        const {h, format, state, table} = psgd;
        const shown_most = 64,
            pairs_most = 5;
        const kinds = {
            wait_s: ['waited for', 'Seconds that the row waited for the column', format.seconds],
            sent: ['sent to', 'Bytes that the row sent to the column', format.bytes],
            received: ['received from', 'Bytes that the row received from the column', format.bytes],
        };
        const nodes = h('div'),
            pairs = h('div'),
            square = h('div'),
            stale = h('section', {hidden: true});
        let peers = null,
            kind = 'wait_s';

        function longest() {
            const found = [];
            peers.wait_s.forEach((row, i) =>
                row.forEach((v, k) => v > 0 && found.push([v, peers.nodes[i], peers.nodes[k]])),
            );
            found.sort((a, b) => b[0] - a[0]);
            return found.length
                ? h(
                      'ul.pairs',
                      {},
                      found
                          .slice(0, pairs_most)
                          .map(([v, from, to]) =>
                              h(
                                  'li',
                                  {},
                                  `${format.node(from)} waited `,
                                  h('strong', {}, format.seconds(v)),
                                  ` for ${format.node(to)}`,
                              ),
                          ),
                  )
                : h('p', {}, together());
        }

        const waits = () =>
            (view.doc?.nodes || []).filter((n) => n.node >= 0).reduce((sum, n) => sum + (n.wait_s || 0), 0);

        /* Only in a round of messages a node waits for one other; in a collective it waits for all at once. */
        function together() {
            return waits() > 0
                ? `Workers waited ${format.seconds(waits())} in all. The nodes on which they waited are recorded only in ` +
                      'rounds of messages, not in collectives (all-reduce), in which a worker waits for all others at ' +
                      'once, nor for rules that react to events. In a collective, the worker with the shortest wait ' +
                      'is the slowest one.'
                : 'No node waited for another.';
        }

        const has_waits = () => peers.wait_s.some((row) => row.some((v) => v > 0));

        /* The waits are a choice only where somebody waited; else the bytes are shown. */
        function show_kinds() {
            heading.textContent = has_waits() ? 'Who waits for whom' : 'Bytes between nodes';
            const first = choice.querySelector('label');
            first.hidden = !has_waits();
            if (first.hidden && kind === 'wait_s') {
                kind = 'sent';
                choice.querySelectorAll('input')[1].checked = true;
            }
        }

        function show_square() {
            const n = Math.min(peers.nodes.length, shown_most),
                names = peers.nodes.slice(0, n).map(format.node);
            const [, caption, text] = kinds[kind],
                values = peers[kind];
            const most = Math.max(0, ...values.slice(0, n).map((row) => Math.max(0, ...row.slice(0, n).map(Number))));
            square.replaceChildren(
                psgd.matrix({
                    caption,
                    corner: '',
                    names,
                    share: (i, k) => (most > 0 ? values[i][k] / most : 0),
                    text: (i, k) => (i !== k && values[i][k] ? text(values[i][k]) : '·'),
                }),
                h(
                    'p.hint',
                    {},
                    `${caption}.` +
                        (n < peers.nodes.length
                            ? ` The first ${n} of ${peers.nodes.length} nodes; records/comm.csv has all.`
                            : ''),
                ),
            );
        }

        async function load_peers() {
            if (!psgd.source.peers) return;
            try {
                peers = await psgd.source.peers(view.id);
                if (!peers.nodes.length) throw new psgd.Problem(404, '');
                psgd.put(pairs, [peers, view.doc?.nodes], longest);
                show_kinds();
                show_square();
            } catch (problem) {
                if (!peers || problem.status === 404)
                    pairs.replaceChildren(
                        psgd.notice(
                            problem.status === 404 ? 'No messages are recorded' : problem.title,
                            problem.status === 404
                                ? 'Nodes write comm.csv at the end of a round; a job of one node has no such file.'
                                : problem.detail,
                        ),
                    );
            }
        }

        async function load_staleness() {
            if (!psgd.source.histogram) return;
            try {
                const {counts} = await psgd.source.histogram(view.id, 'staleness');
                const all = counts.reduce((sum, [, n]) => sum + n, 0),
                    most = Math.max(...counts.map(([, n]) => n));
                stale.hidden = false;
                psgd.put(stale, counts, () => [
                    h('h2', {}, 'Staleness'),
                    h(
                        'p.hint',
                        {},
                        'The number of updates by other workers between reading the weights and applying the gradient; of several servers, at the first.',
                    ),
                    table(
                        'Staleness',
                        [
                            {title: 'Updates between', head: true, number: true, of: ([v]) => format.number(v)},
                            {title: h('span.hidden', {}, 'Bar'), of: ([, n]) => table.bar(n / most)},
                            {title: 'Gradients', number: true, of: ([, n]) => format.count(n)},
                            {title: 'Share', number: true, of: ([, n]) => format.share(n / all)},
                        ],
                        counts,
                        'narrow',
                    ),
                ]);
            } catch {
                /* Synchronous rules record no staleness. */
            }
        }

        function node_table(doc) {
            return table(
                'Nodes',
                [
                    {title: 'Node', head: true, of: (n) => format.node(n.node)},
                    {title: 'Address', of: (n) => format.text(n.address)},
                    {title: 'State', of: (n) => state.pill(n.state)},
                    {title: 'Step', number: true, of: (n) => format.count(n.step)},
                    {title: 'Waited', number: true, of: (n) => format.seconds(n.wait_s)},
                    {title: 'Message', wide: true, of: (n) => n.message || ''},
                ],
                doc.nodes || [],
            );
        }

        const heading = h('h2', {}, 'Messages between nodes');
        const section = h('section', {hidden: !psgd.source.peers});
        const name = psgd.id('kind');
        const choice = h(
            'fieldset.choice',
            {},
            h('legend', {}, 'Row'),
            Object.entries(kinds).map(([key, [word]]) =>
                h(
                    'label',
                    {},
                    h('input', {
                        type: 'radio',
                        name,
                        checked: key === kind,
                        onchange: () => {
                            kind = key;
                            if (peers) show_square();
                        },
                    }),
                    h('span', {}, word),
                ),
            ),
        );
        const load = psgd.calmly(() => Promise.all([load_peers(), load_staleness()]), 1000);
        section.append(heading, pairs, h('div.controls', {}, choice), square);
        load();
        return {
            element: h(
                'div',
                {},
                h('h2', {}, 'Nodes'),
                nodes,
                section,
                stale,
            ),
            update: (doc) => {
                psgd.put(nodes, doc.nodes, () => node_table(doc));
                section.hidden = !psgd.source.peers || doc.nodes?.length === 1; /* it has nobody to wait for */
                if (peers) psgd.put(pairs, [peers, doc.nodes], longest);
            },
            recorded: load,
        };
    },
});
