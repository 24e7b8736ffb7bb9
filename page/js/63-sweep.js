/* The view of a sweep: a row for each combination, the mean over its seeds; which of them are best, their curves, and
 * accuracy over bytes. */
psgd.views.sweep = (() => {
    const {h, format, palette, route, sweep_rows} = psgd;
    const {is_better} = sweep_rows;
    const curves_most = 6; /* combinations whose curves are drawn until some are chosen */

    return (r) => {
        const folder = r.id,
            name = folder.split('/').pop();
        let target = psgd.target.of(r.query),
            doc = null,
            rows = [],
            results = [] /* columns */,
            best = new Set(),
            searched = null;
        const order = {by: null, down: false},
            picked = new Set();
        let series = {x: null, of: new Map()};

        const trouble = h('div'),
            answer = h('p.answer', {role: 'status'}),
            hint = h('p.hint'),
            place = h('div.combinations'),
            commands = h('div');
        const controls = psgd.controls(r.query, ['bytes', 'step', 'epoch', 'time'], (what) => {
            if (what === 'x') load_curves();
            else draw();
        });
        const accuracy = psgd.chart('Test accuracy', 'sweep-accuracy', {
            zoom: controls.zoom,
            reset: () => controls.zoom(null, null),
        });
        const axes = psgd.sweep_axes(
            (key, conditions) => {
                search.value = psgd.search.amended(search.value, key, conditions);
                route.amend({q: search.value});
                show();
            },
            () => psgd.search.parse(search.value).map((t) => t.text),
        );
        const pareto = psgd.chart('Test accuracy at the end, over bytes', 'sweep-pareto', {});
        const search = h('input', {
            type: 'search',
            placeholder: 'codec=fedavg lr<0.1 accuracy>95%',
            'aria-label': 'Filter the combinations',
            value: r.query.get('q') || '',
            oninput: () => {
                route.amend({q: search.value});
                show();
            },
        });
        const only_best = h('input', {
            type: 'checkbox',
            checked: r.query.get('all') !== '1',
            onchange: () => {
                route.amend({all: only_best.checked ? '' : 1});
                show();
            },
        });
        const compare_link = h('a.button', {}, 'Compare'),
            best_of = h('fieldset.choice', {}),
            count = h('span.count', {role: 'status'});

        function values_of(row) {
            const of = Object.fromEntries(Object.entries(row.of).map(([k, v]) => [k, v.mean]));
            return {
                ...row.values,
                ...of,
                seconds: of.time_s,
                runs: row.n_runs,
                failed: row.n_failed,
                diverged: row.n_diverged,
            };
        }

        /* The rows that the filter leaves, in the order of the table. */
        function chosen() {
            const terms = psgd.search.parse(search.value);
            const known = rows.length ? Object.keys(values_of(rows[0])) : [];
            const unknown = rows.length ? psgd.search.unknown(terms, known) : [];
            hint.textContent = unknown.length ? `${unknown.join(', ')}: there are ${known.join(', ')}` : '';
            const column = results.find((c) => c.key === order.by);
            const value = (row) => (column ? row.of[column.key].mean : row.values[order.by]);
            const sign = order.down ? -1 : 1;
            return rows
                .filter((row) => !only_best.checked || best.has(row))
                .filter((row) => psgd.search.matches(terms, values_of(row), [row.label]))
                .sort((a, b) => {
                    if (!order.by) return is_better(a, b, true) ? -1 : is_better(b, a, true) ? 1 : 0;
                    const [x, y] = [value(a), value(b)];
                    if (typeof x === 'number' && typeof y === 'number') return sign * (x - y);
                    if (x === null || y === null) return (x === null) - (y === null);
                    return sign * String(x).localeCompare(String(y), 'en', {numeric: true});
                });
        }

        function head(key, title) {
            return {
                'aria-sort': order.by === key ? (order.down ? 'descending' : 'ascending') : null,
                content: h(
                    'button.sort',
                    {
                        type: 'button',
                        onclick: () => {
                            order.down = order.by === key ? !order.down : ['accuracy', 'reached'].includes(key);
                            order.by = key;
                            show();
                            place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
                        },
                        'data-key': key,
                    },
                    title,
                    h('span.arrow', {'aria-hidden': 'true'}, order.by === key ? (order.down ? '↓' : '↑') : ''),
                ),
            };
        }

        const pick = (row) =>
            h('input', {
                type: 'checkbox',
                checked: picked.has(row.key),
                'aria-label': `Choose ${row.label}`,
                onchange: (e) => {
                    picked[e.target.checked ? 'add' : 'delete'](row.key);
                    show_picked();
                    load_curves();
                },
            });

        function pick_all(list) {
            const has_all = list.length > 0 && list.every((row) => picked.has(row.key));
            return h('input', {
                type: 'checkbox',
                checked: has_all,
                indeterminate: !has_all && list.some((row) => picked.has(row.key)),
                'aria-label': 'Choose all combinations that are listed',
                onchange: (e) => {
                    list.forEach((row) => picked[e.target.checked ? 'add' : 'delete'](row.key));
                    show();
                    load_curves();
                },
            });
        }

        function cell(row, column) {
            const v = row.of[column.key];
            if (v.mean === null) return format.missing;
            return [
                column.show(v.mean, row),
                v.deviation !== null ? h('small', {}, ` ± ${column.show(v.deviation)}`) : null,
            ];
        }

        const runs_of = (row) =>
            row.at.map((i) => [
                h(
                    'a',
                    {href: route.href(['job', doc.runs[i].id]), title: doc.runs[i].name || doc.runs[i].id},
                    seed_of(i),
                ),
                ' ',
            ]);
        const seed_of = (i) => {
            const seeds = doc.settings.find((s) => s.name === 'seed');
            return seeds ? `seed ${format.text(seeds.values[i])}` : 'run';
        };

        function table(list) {
            const settings = rows.length ? Object.keys(rows[0].values) : [];
            const longest = Math.max(...rows.map((row) => row.budget ?? 0));
            const target_text = typeof doc.target === 'number' ? format.percent(doc.target) : 'the target';
            const heads = [
                ...settings.map((s) => ({key: s, ...head(s, s)})),
                ...results.map((c) => ({
                    key: c.key,
                    number: true,
                    ...head(
                        c.key,
                        c.key === 'reached' ? `Reached ${target_text}` : c.title.replace('the target', target_text),
                    ),
                })),
            ];
            return h(
                'div.scroll',
                {tabindex: 0, role: 'region', 'aria-label': 'Combinations'},
                h(
                    'table.sweep',
                    {},
                    h('caption.hidden', {}, 'Combinations'),
                    h(
                        'thead',
                        {},
                        h(
                            'tr',
                            {},
                            h('th.pick', {scope: 'col'}, pick_all(list)),
                            heads.map((c) =>
                                h(
                                    'th',
                                    {scope: 'col', class: c.number ? 'number' : null, 'aria-sort': c['aria-sort']},
                                    c.content,
                                ),
                            ),
                            h('th', {scope: 'col'}, 'Runs'),
                        ),
                    ),
                    h(
                        'tbody',
                        {},
                        list.map((row) =>
                            h(
                                'tr',
                                {
                                    class: best.has(row) ? 'best' : null,
                                    onpointerenter: () => axes.light(row.key),
                                    onpointerleave: () => axes.light(null),
                                },
                                h('td.pick', {}, pick(row)),
                                settings.map((s, i) =>
                                    h(
                                        i ? 'td' : 'th',
                                        {scope: i ? null : 'row', title: format.text(row.values[s])},
                                        i
                                            ? null
                                            : h('span.swatch', {
                                                  'aria-hidden': 'true',
                                                  class: `swatch${row.dash.length ? ' dashed' : ''}`,
                                                  style: {'--swatch': `var(${row.colour})`},
                                              }),
                                        format.text(row.values[s]),
                                    ),
                                ),
                                results.map((c) => h('td.number', {}, cell(row, c))),
                                h(
                                    'td.sweep-runs',
                                    {},
                                    runs_of(row),
                                    row.budget !== null && row.budget < longest
                                        ? h('small', {}, `stopped at ${row.rung} ${format.count(row.budget)} `)
                                        : null,
                                    row.n_failed ? h('small', {}, `${row.n_failed} not succeeded `) : null,
                                    row.n_diverged ? h('small.diverged', {}, `${row.n_diverged} diverged`) : null,
                                ),
                            ),
                        ),
                    ),
                ),
            );
        }

        function show_answer() {
            const list = rows.filter((row) => best.has(row)).sort((a, b) => (is_better(a, b, true) ? -1 : 1));
            const t = typeof doc.target === 'number' ? format.percent(doc.target) : null;
            const [first] = list;
            answer.textContent = !t
                ? 'No run has been tested yet.'
                : !first || !first.of.reached.mean
                  ? `No run reached an accuracy of ${t}.`
                  : `${first.label} reaches ${t} with the fewest bytes: ${format.bytes(first.of.bytes_to_target.mean)} per worker` +
                    `, in ${first.of.reached.mean} of ${first.n_runs} runs.`;
        }

        function show_picked() {
            const ids = rows.filter((row) => picked.has(row.key)).flatMap((row) => row.ids);
            compare_link.textContent =
                ids.length < 2 ? 'Tick combinations to compare their runs' : `Compare ${ids.length} runs`;
            if (ids.length < 2) compare_link.removeAttribute('href');
            else compare_link.href = route.href(['compare'], {ids: ids.join(',')});
            compare_link.setAttribute('aria-disabled', String(ids.length < 2));
        }

        function show_best_of() {
            const names = rows.length ? Object.keys(rows[0].values).filter((s) => s !== rows[0].rung) : [];
            psgd.put(best_of, [names, [...searched]], () => [
                h('legend', {}, 'Best of'),
                names.map((s) =>
                    h(
                        'label',
                        {},
                        h('input', {
                            type: 'checkbox',
                            checked: searched.has(s),
                            onchange: (e) => {
                                searched[e.target.checked ? 'add' : 'delete'](s);
                                route.amend({best: [...searched].join(',') || 'none'});
                                load();
                            },
                        }),
                        h('span', {}, s),
                    ),
                ),
            ]);
        }

        function show() {
            const list = chosen();
            place.replaceChildren(
                list.length
                    ? table(list)
                    : psgd.notice('No combination matches', 'Clear the filter, or list all combinations.'),
            );
            axes.show(rows, list);
            count.textContent = `${list.length} of ${rows.length} combinations, ${doc.runs.length} runs`;
            show_picked();
            draw();
        }

        /* The rows whose curves are drawn: those that are ticked, else the first of the table. */
        const drawn = () => {
            const ticked = rows.filter((row) => picked.has(row.key));
            return ticked.length ? ticked : chosen().slice(0, curves_most);
        };

        function draw() {
            if (!doc) return;
            const s = controls.state;
            const list = drawn()
                .map((row) =>
                    sweep_rows.curve_of(
                        row,
                        row.ids.map((id) => series.of.get(id)),
                    ),
                )
                .filter(Boolean);
            const is_log_x = s.is_log_x ?? psgd.plan.is_wide(series.x, list);
            controls.set_curves(list);
            controls.set_log_x(is_log_x);
            accuracy.show({
                x_kind: series.x || s.x,
                y_kind: 'percent',
                y_title: 'accuracy',
                curves: controls.shown(list),
                is_log: s.is_log,
                is_log_x,
                smoothing: s.smoothing,
                from: s.from,
                to: s.to,
                empty: 'None of these runs has been tested.',
            });
            const all = chosen(),
                front = sweep_rows.front_of(all.slice());
            const points = all
                .filter((row) => row.of.bytes.mean !== null && row.of.accuracy.mean !== null)
                .map((row) => ({
                    key: row.key,
                    label: row.label,
                    colour: row.colour,
                    dash: row.dash,
                    width: 2,
                    dot: 9,
                    every: 1,
                    odd: null,
                    lo: null,
                    hi: null,
                    x: [row.of.bytes.mean],
                    y: [row.of.accuracy.mean],
                }));
            const line = {
                ...palette.mean,
                key: 'mean',
                label: 'Pareto front',
                dash: [4, 3],
                width: 1.25,
                every: 1,
                odd: null,
            };
            const edge = {
                x: front.map((row) => row.of.bytes.mean),
                y: front.map((row) => row.of.accuracy.mean),
                lo: null,
                hi: null,
            };
            const bytes = points.map((p) => p.x[0]),
                is_wide = psgd.plan.is_wide('bytes', points);
            pareto.show({
                x_kind: 'bytes',
                y_kind: 'percent',
                y_title: 'accuracy',
                curves: front.length > 1 ? [...points, {...line, ...edge}] : points,
                is_log_x: is_wide,
                smoothing: 0,
                from: points.length ? (is_wide ? Math.min(...bytes) / 1.3 : 0) : null,
                to: points.length ? Math.max(...bytes) * (is_wide ? 1.3 : 1.05) : null,
                empty: 'None of these runs has been tested and has its bytes.',
            });
        }

        const load_curves = psgd.calmly(async () => {
            const {x} = controls.state;
            if (series.x !== x) series = {x, of: new Map()};
            const mine = series;
            await Promise.all(
                drawn()
                    .flatMap((row) => row.ids)
                    .filter((id) => !mine.of.has(id))
                    .map(async (id) => {
                        try {
                            mine.of.set(
                                id,
                                await psgd.source.series(id, {file: 'eval', names: 'accuracy', x, points: 200}),
                            );
                        } catch {
                            mine.of.set(id, null); /* a run without tests has no curve */
                        }
                    }),
            );
            if (mine === series) draw();
        }, 300);

        function take(said) {
            doc = said;
            results = sweep_rows.columns(doc);
            rows = sweep_rows.of(doc).map((row) => ({...row, label: sweep_rows.label(row) || name}));
            if (!searched) {
                const wanted = r.query.get('best');
                const names = rows.length ? Object.keys(rows[0].values) : [];
                searched = new Set(
                    wanted
                        ? wanted.split(',').filter((s) => names.includes(s))
                        : names.filter((s) => s === 'learn_rate'),
                );
            }
            best = sweep_rows.best(rows, searched, target !== null);
            /* The first colours are those of the best rows. */
            [...best, ...rows.filter((row) => !best.has(row))].forEach((row, i) => Object.assign(row, palette.of(i)));
        }

        const load = psgd.calmly(async () => {
            try {
                take(await psgd.source.compare_sweep(folder, target));
                const common = target === null ? sweep_rows.common_target(best) : null;
                if (common !== null && common !== doc.target) take(await psgd.source.compare_sweep(folder, common));
                trouble.replaceChildren();
                target_field.show();
                show_best_of();
                show_answer();
                show();
                load_curves();
                const to = target === null ? '' : ` --target ${target}`;
                psgd.put(commands, [folder, target], () =>
                    psgd.commands(
                        `job_submit compare ${psgd.word(folder)}/runs/*${to}`,
                        `cat ${psgd.word(folder)}/sweep.csv`,
                    ),
                );
            } catch (problem) {
                trouble.replaceChildren(psgd.trouble(problem));
            }
        }, 300);

        const target_field = psgd.target.field(
            () => doc?.target,
            (v) => {
                target = v;
                route.amend({target});
                load();
            },
        );
        const title = `Sweep ${name}`;
        if (!psgd.source.compare_sweep)
            return {
                title,
                element: h(
                    'div',
                    {},
                    h('div.head', {}, h('h1', {tabindex: -1}, title)),
                    psgd.notice('Not here', 'job_submit browse shows sweeps.'),
                ),
                end: () => [accuracy, pareto].forEach((c) => c.end()),
            };
        load();
        let states = null; /* of the runs, at the last event */
        const end = psgd.live.listen({
            jobs: (d) => {
                const now = JSON.stringify(
                    (d.jobs || []).filter((j) => psgd.state.sweep_of(j) === folder).map((j) => [j.id, j.state]),
                );
                if (states !== null && now !== states) load();
                states = now;
            },
        });
        return {
            title,
            is_wide: true,
            element: h(
                'div',
                {},
                h('a.crumb', {href: '#/'}, '‹ All jobs'),
                h('div.head', {}, h('h1', {tabindex: -1}, title), count),
                trouble,
                answer,
                h(
                    'div.controls.target',
                    {},
                    target_field.element,
                    best_of,
                    h('label.control', {}, only_best, 'Only the best'),
                ),
                h('div.toolbar', {}, search, compare_link),
                hint,
                place,
                axes.element,
                h('h2.hidden', {}, 'Curves'),
                controls.element,
                h('div.charts.compared', {}, accuracy.element, pareto.element),
                commands,
            ),
            end: () => {
                end();
                [accuracy, pareto].forEach((c) => c.end());
            },
        };
    };
})();
