/* Loss and accuracy of training and of the test set, the metrics of the model and the records of the codec. */
psgd.curves_view = (() => {
    const parts_of = [
        {title: 'Test accuracy', file: 'eval', name: 'accuracy', kind: 'percent', y_title: 'accuracy'},
        {title: 'Test loss', file: 'eval', name: 'loss', kind: 'loss', y_title: 'loss'},
        {title: 'Perplexity', file: 'eval', name: 'perplexity', kind: 'loss', y_title: 'perplexity', of_text: true},
        {title: 'Bits per byte', file: 'eval', name: 'bits_per_byte', kind: 'loss', y_title: 'bits', of_text: true},
        {title: 'Training accuracy', file: 'train', name: 'accuracy', kind: 'percent', y_title: 'accuracy'},
        {title: 'Training loss', file: 'train', name: 'loss', kind: 'loss', y_title: 'loss'},
    ];

    /* As many points as a chart has pixels; fewer of each of many nodes, because each has its own x. */
    const points = (n_nodes) => Math.max(100, Math.min(1000, Math.round(12000 / Math.max(1, n_nodes))));

    /* The range behind the mean is of all nodes, the range behind a node's curve of this node. */
    const behind = (all, shown) => (shown.some((c) => c.key === 'mean') ? all : shown);

    /* The charts of one kind of records: it loads `request` and draws `list`, {title, name, kind, y_title} each. */
    function group(view, controls, request, list, name_of_file) {
        const charts = list.map((c) =>
            psgd.chart(c.title, name_of_file(c), {zoom: controls.zoom, reset: () => controls.zoom(null, null)}),
        );
        let docs = null;

        function draw() {
            if (!docs) return;
            const {state} = controls;
            list.forEach((c, i) => {
                const all = psgd.curves.of_series(docs, c.name),
                    shown = controls.shown(all);
                charts[i].show({
                    x_kind: docs.x,
                    y_kind: c.kind,
                    y_title: c.y_title,
                    curves: shown,
                    behind: behind(all, shown),
                    is_log: state.is_log && c.kind !== 'percent',
                    is_log_x: state.is_log_x,
                    smoothing: state.smoothing,
                    from: state.from,
                    to: state.to,
                    sync: 'job',
                    empty: all.length
                        ? ''
                        : psgd.state.is_over(view.doc?.job || {})
                          ? 'Nothing was recorded.'
                          : 'Nothing is recorded yet.',
                });
            });
        }

        async function load() {
            const {state} = controls;
            const asked = request(state);
            try {
                const got = await psgd.source.series(
                    view.id,
                    psgd.source.zooms
                        ? {...asked, points: points(view.doc?.nodes?.length), from: state.from, to: state.to}
                        : asked,
                );
                if (asked.x && asked.x !== controls.state.x && asked.x !== 'step')
                    return; /* another x was chosen meanwhile */
                docs = got;
                draw();
            } catch (problem) {
                if (!docs || problem.status === 404)
                    charts.forEach((c) =>
                        c.fail(problem.status === 404 ? 'This job has no records of this kind.' : problem.title),
                    );
            }
        }

        return {
            elements: charts.map((c) => c.element),
            draw,
            load,
            doc: () => docs,
            end: () => charts.forEach((c) => c.end()),
        };
    }

    /* The charts of a file, of a job of text or another one. */
    const of_file = (file, is_of_text) => parts_of.filter((p) => p.file === file && (is_of_text || !p.of_text));

    return {group, points, behind, of_file};
})();

psgd.tabs.push({
    name: '',
    title: 'Curves',
    is_for: (job) => !job.executor,
    make: (view) => {
        const {h} = psgd;
        const {group, of_file} = psgd.curves_view;
        const name = (c) => `${view.doc?.job?.name || view.id}-${c.title}`.toLowerCase().replace(/[^a-z0-9_.-]+/g, '-');
        const is_of_text = psgd.is_of_text(view.doc?.job);
        const xs = ['step', 'epoch', 'time', 'bytes', ...(is_of_text ? ['tokens'] : [])];
        const controls = psgd.controls(view.query, xs, (what) => {
            if (what === 'x' || (what === 'range' && psgd.source.zooms)) load();
            if (what !== 'x') groups.forEach((g) => g.draw());
            set_curves();
        });
        const request = (file, names) => (s) => ({file, names, x: s.x});
        const groups = [
            ['eval', is_of_text ? 'loss,accuracy,perplexity,bits_per_byte' : 'loss,accuracy'],
            ['train', 'loss,accuracy'],
        ].map(([file, names]) => group(view, controls, request(file, names), of_file(file, is_of_text), name));
        const more = h('div');
        let extra = [];

        function set_curves() {
            const found = new Map();
            groups.forEach(
                (g) =>
                    g.doc() &&
                    psgd.curves_view
                        .of_file(g.doc().file, is_of_text)
                        .forEach((c) => psgd.curves.of_series(g.doc(), c.name).forEach((k) => found.set(k.key, k))),
            );
            const of = (k) => (k === 'mean' ? -1 : Number(k) < 0 ? 1e9 - Number(k) : Number(k));
            controls.set_curves([...found.values()].sort((a, b) => of(a.key) - of(b.key)));
        }

        /* One chart for each name of codec.csv and metrics.csv. */
        async function load_extra() {
            for (const [file, title] of [
                ['metrics', 'Metrics of the model'],
                ['codec', 'Records of the codec'],
            ]) {
                try {
                    const doc = await psgd.source.series(
                        view.id,
                        psgd.source.zooms
                            ? {file, x: 'step', points: psgd.curves_view.points(view.doc?.nodes?.length)}
                            : {file, x: 'step'},
                    );
                    show_extra(file, title, doc);
                } catch {
                    /* Most jobs have no such records. */
                }
            }
        }

        function show_extra(file, title, doc) {
            const names = (doc.names || []).filter((n) => psgd.curves.of_series(doc, n).length);
            if (!names.length) return;
            let part = extra.find((e) => e.file === file && e.names.join() === names.join());
            if (!part) {
                const charts = names.map((n) => psgd.chart(n, name({title: n}), {zoom: null}));
                part = {
                    file,
                    names,
                    charts,
                    element: h(
                        'section',
                        {},
                        h('h2', {}, title),
                        h(
                            'div.charts',
                            {},
                            charts.map((c) => c.element),
                        ),
                    ),
                };
                extra.filter((e) => e.file === file).forEach((e) => e.charts.forEach((c) => c.end()));
                extra = [...extra.filter((e) => e.file !== file), part];
                more.replaceChildren(...extra.map((e) => e.element));
            }
            part.doc = doc;
            draw_extra();
        }

        function draw_extra() {
            const s = controls.state;
            extra.forEach((e) =>
                e.charts.forEach((chart, i) => {
                    const all = psgd.curves.of_series(e.doc, e.names[i]);
                    const shown = controls.shown(all);
                    chart.show({
                        x_kind: 'step',
                        y_kind: 'number',
                        y_title: e.names[i],
                        curves: shown,
                        behind: psgd.curves_view.behind(all, shown),
                        is_log: s.is_log,
                        is_log_x: s.is_log_x,
                        smoothing: s.smoothing,
                        from: null,
                        to: null,
                    });
                }),
            );
        }

        const load = psgd.calmly(async () => {
            await Promise.all(groups.map((g) => g.load()));
            set_curves();
            show_left_out();
        }, 1000);
        const left_out = h('p.hint');
        function show_left_out() {
            const n = groups.map((g) => g.doc()?.nodes_left_out || 0).reduce((a, b) => Math.max(a, b), 0);
            left_out.textContent = n ? `${n} more nodes have no curve here; the mean is over all.` : '';
        }
        load();
        load_extra();
        return {
            element: h(
                'div',
                {},
                controls.element,
                left_out,
                h('h2.hidden', {}, 'Loss and accuracy'),
                h(
                    'div.charts',
                    {},
                    groups.map((g) => g.elements),
                ),
                more,
            ),
            recorded: () => {
                load();
                load_extra();
            },
            end: () => {
                groups.forEach((g) => g.end());
                extra.forEach((e) => e.charts.forEach((c) => c.end()));
            },
        };
    },
});
