/* The view that compares runs: their curves, the time and bytes of each to a target, and the settings that differ. */
psgd.views.compare = (() => {
    const {h, format, table, palette, curves, route} = psgd;
    const charts_of = [
        {title: 'Test accuracy', file: 'eval', name: 'accuracy', kind: 'percent', y_title: 'accuracy'},
        {title: 'Test loss', file: 'eval', name: 'loss', kind: 'loss', y_title: 'loss'},
        {title: 'Bits per byte', file: 'eval', name: 'bits_per_byte', kind: 'loss', y_title: 'bits', of_text: true},
        {title: 'Training accuracy', file: 'train', name: 'accuracy', kind: 'percent', y_title: 'accuracy'},
        {title: 'Training loss', file: 'train', name: 'loss', kind: 'loss', y_title: 'loss'},
    ];
    const results = {
        accuracy: ['Test accuracy', format.percent],
        best_accuracy: ['Best test accuracy', format.percent],
        loss: ['Test loss', format.number],
        best_loss: ['Best test loss', format.number],
        perplexity: ['Perplexity', format.number],
        bits_per_byte: ['Bits per byte', format.number],
        tokens: ['Tokens', format.count],
        tokens_per_s: ['Tokens a second', (v) => format.count(Math.round(v))],
        time_s: ['Time', format.seconds],
        bytes: ['Bytes per worker, sent + received', format.bytes],
        time_to_target_s: ['Time to the target', format.seconds],
        bytes_to_target: ['Bytes to the target', format.bytes],
        steps_to_target: ['Steps to the target', format.count],
    };

    /* A result that the page does not know is formatted by the unit in its name. */
    function result(name) {
        if (name.startsWith('metrics/')) return [name.slice('metrics/'.length), format.number];
        const text = name.endsWith('_s')
            ? format.seconds
            : name.includes('bytes')
              ? format.bytes
              : name.includes('accuracy')
                ? format.percent
                : format.number;
        return results[name] || [(name[0].toUpperCase() + name.slice(1)).replace(/_/g, ' '), text];
    }

    const value = (text, v) => (typeof v === 'string' && !['nan', 'inf', '-inf'].includes(v) ? v : text(v));

    function run_heads(runs) {
        return runs.map((r, i) => ({
            title: h(
                'span',
                {},
                h('span.swatch', {'aria-hidden': 'true', style: {'--swatch': `var(${palette.of(i).colour})`}}),
                h('a', {href: route.href(['job', r.id])}, r.label || r.name || r.id),
                r.diverged ? h('small.diverged', {}, 'diverged') : null,
            ),
            number: true,
            at: i,
        }));
    }

    function result_table(doc) {
        return table(
            'Results',
            [
                {
                    title: 'Result',
                    head: true,
                    of: (r) => result(r.name)[0].replace('the target', format.percent(doc.target)),
                },
                ...run_heads(doc.runs).map((c) => ({...c, of: (r) => value(result(r.name)[1], r.values[c.at])})),
            ],
            doc.results,
            'narrow.runs',
        );
    }

    function settings_table(doc) {
        if (!doc.settings.length) return h('p', {}, 'No setting differs: the results of these runs differ by chance.');
        return table(
            'Settings that differ',
            [
                {title: 'Setting', head: true, of: (s) => h('code', {}, s.name)},
                ...run_heads(doc.runs).map((c) => ({...c, of: (s) => format.text(s.values[c.at])})),
            ],
            doc.settings,
            'narrow.runs',
        );
    }

    return (r) => {
        const ids = [...new Set((r.query.get('ids') || '').split(',').filter(Boolean))];
        let target = psgd.target.of(r.query) /* null: the highest that all reached */,
            docs = {},
            doc = null,
            has_x = Boolean(r.query.get('x')); /* else bytes if the runs have different rules */
        const tables = h('div'),
            commands = h('div'),
            trouble = h('div');
        const controls = psgd.controls(r.query, ['step', 'epoch', 'time', 'bytes', 'tokens'], (what) => {
            if (what === 'x' || (what === 'range' && psgd.source.zooms)) load_curves();
            if (what !== 'x') draw();
        });
        const charts = charts_of.map((c) =>
            psgd.chart(c.title, `compare-${c.title.toLowerCase().replace(' ', '-')}`, {
                zoom: controls.zoom,
                reset: () => controls.zoom(null, null),
            }),
        );
        const runs = () =>
            ids.map((id, i) => ({
                key: id,
                label:
                    doc?.runs.find((run) => run.id === id)?.label || doc?.runs.find((run) => run.id === id)?.name || id,
                ...palette.of(i),
            }));

        /* What only runs of a model of language have. */
        function show_text() {
            const is_there = Boolean(doc?.results.some((result) => result.name === 'tokens'));
            controls.offer_x('tokens', is_there);
            charts_of.forEach((c, i) => (charts[i].element.hidden = Boolean(c.of_text) && !is_there));
        }

        function draw() {
            const s = controls.state,
                all = runs();
            controls.set_curves(all);
            const shown = controls.shown(all);
            const lines = charts_of.map((c) =>
                shown
                    .map(
                        (run) =>
                            docs[c.file]?.[run.key] && curves.of_job(docs[c.file][run.key], c.name, {...run, width: 2}),
                    )
                    .filter((l) => l && l.y.some((v) => v !== null)),
            );
            const is_log_x = s.is_log_x ?? psgd.plan.is_wide(docs.x, lines.flat());
            controls.set_log_x(is_log_x);
            charts_of.forEach((c, i) => {
                if (docs[c.file])
                    charts[i].show({
                        x_kind: docs.x,
                        y_kind: c.kind,
                        y_title: c.y_title,
                        curves: lines[i],
                        is_log: s.is_log && c.kind !== 'percent',
                        is_log_x,
                        smoothing: s.smoothing,
                        from: s.from,
                        to: s.to,
                        sync: 'compare',
                        empty: 'None of these runs has records of this kind.',
                    });
            });
        }

        const load_curves = psgd.calmly(async () => {
            const s = controls.state,
                {x} = s,
                range = psgd.source.zooms ? {points: 500, from: s.from, to: s.to} : {};
            const got = {x};
            await Promise.all(
                ['eval', 'train'].map(async (file) => {
                    got[file] = {};
                    await Promise.all(
                        ids.map(async (id) => {
                            try {
                                got[file][id] = await psgd.source.series(id, {
                                    file,
                                    names: file === 'eval' ? 'loss,accuracy,bits_per_byte' : 'loss,accuracy',
                                    x,
                                    ...range,
                                });
                            } catch {
                                /* A run without these records has no curve. */
                            }
                        }),
                    );
                }),
            );
            if (x === controls.state.x) {
                docs = got;
                draw();
            }
        }, 1000);

        /* Folders instead of ids, if there are any, because an id is known only to the user who submitted the job. */
        async function show_commands() {
            const {jobs} = await psgd.live.jobs().catch(() => ({jobs: []}));
            const names = ids.map((id) => psgd.word(jobs.find((job) => job.id === id)?.folder || id)).join(' ');
            psgd.put(commands, [names, target], () =>
                psgd.commands(
                    `job_submit compare ${names}${target === null ? '' : ` --target ${target}`}`,
                    `job_submit plot ${names} --x bytes`,
                ),
            );
        }

        const load_tables = psgd.calmly(async () => {
            try {
                doc = await psgd.source.compare(ids, target);
                trouble.replaceChildren();
                target_field.show();
                show_text();
                psgd.put(tables, doc, () => [
                    h('section', {}, h('h2', {}, 'Results'), result_table(doc)),
                    h('section', {}, h('h2', {}, 'Settings that differ'), settings_table(doc)),
                ]);
                draw();
            } catch (problem) {
                trouble.replaceChildren(psgd.trouble(problem));
            }
            if (has_x) return;
            has_x = true;
            controls.set_usual_x(doc?.settings.some((s) => s.name === 'codec') ? 'bytes' : 'step');
            load_curves();
        }, 300);

        const target_field = psgd.target.field(
            () => target ?? doc?.target,
            (v) => {
                target = v;
                route.amend({target});
                load_tables();
                show_commands();
            },
        );
        const title = `${ids.length} runs compared`,
            crumb = h('a.crumb', {href: '#/'}, '‹ All jobs');
        if (ids.length < 2 || !psgd.source.compare) {
            return {
                title: 'Compare',
                element: h(
                    'div',
                    {},
                    crumb,
                    h('div.head', {}, h('h1', {tabindex: -1}, 'Compare')),
                    psgd.notice('Two runs are needed', 'Tick them in the list of jobs.'),
                ),
                end: () => charts.forEach((c) => c.end()),
            };
        }
        show_text();
        if (has_x) load_curves();
        load_tables();
        show_commands();
        const end = psgd.live.listen({recorded: (what) => ids.includes(what.id) && (load_curves(), load_tables())});
        return {
            title,
            is_wide: true,
            element: h(
                'div',
                {},
                crumb,
                h('div.head', {}, h('h1', {tabindex: -1}, title)),
                trouble,
                controls.element,
                h('h2.hidden', {}, 'Curves'),
                h(
                    'div.charts.compared',
                    {},
                    charts.map((c) => c.element),
                ),
                h('div.controls.target', {}, target_field.element),
                tables,
                commands,
            ),
            end: () => {
                end();
                charts.forEach((c) => c.end());
            },
        };
    };
})();
