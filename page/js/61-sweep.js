/* The view of a sweep: a row for each combination, the mean over its seeds; which of them are best, their curves, and
 * accuracy over bytes. */
psgd.views.sweep = (() => {
    const {h, format, palette, curves, route} = psgd;
    const curves_most = 6; /* combinations whose curves are drawn until some are chosen */
    const results = [
        {key: 'accuracy', title: 'Test accuracy', show: format.percent},
        {key: 'reached', title: 'Reached', show: (v, row) => `${v} of ${row.n_runs}`},
        {key: 'bytes_to_target', title: 'Bytes to the target', show: format.bytes},
        {key: 'steps_to_target', title: 'Steps to the target', show: format.count},
        {key: 'time_to_target_s', title: 'Time to the target', show: format.seconds},
        {key: 'bytes', title: 'Bytes per worker', show: format.bytes},
        {key: 'loss', title: 'Test loss', show: format.number},
        {key: 'time_s', title: 'Time', show: format.seconds},
    ];

    /* The mean and the sample's standard deviation of the numbers among the values. */
    function mean_of(values) {
        const list = values.filter((v) => typeof v === 'number' && Number.isFinite(v));
        const mean = list.reduce((sum, v) => sum + v, 0) / list.length;
        const squares = list.reduce((sum, v) => sum + (v - mean) ** 2, 0);
        return {
            n: list.length,
            mean: list.length ? mean : null,
            deviation: list.length > 1 ? Math.sqrt(squares / (list.length - 1)) : null,
        };
    }

    /* The settings that make a row: not the seed, and none that follows from the codec, as its steps between rounds. */
    function shown_settings(doc) {
        const codec = doc.settings.find((s) => s.name === 'codec');
        const follows = (s) => {
            const of = new Map();
            return (
                codec &&
                s !== codec &&
                s.values.every((v, i) => {
                    const before = of.get(codec.values[i]);
                    of.set(codec.values[i], JSON.stringify(v));
                    return before === undefined || before === JSON.stringify(v);
                })
            );
        };
        return doc.settings.filter((s) => s.name !== 'seed' && !follows(s));
    }

    /* The rows of a document of compare: runs that differ in nothing but the seed are one row. */
    function rows_of(doc) {
        const settings = shown_settings(doc);
        const value = (name, i) => doc.results.find((r) => r.name === name)?.values[i] ?? null;
        const rows = new Map();
        doc.runs.forEach((run, i) => {
            const values = Object.fromEntries(settings.map((s) => [s.name, s.values[i]]));
            const key = JSON.stringify(values);
            if (!rows.has(key)) rows.set(key, {key, values, at: []});
            rows.get(key).at.push(i);
        });
        return [...rows.values()].map((row) => {
            const good = row.at.filter((i) => doc.runs[i].state === 'succeeded');
            const of = Object.fromEntries(results.map((r) => [r.key, mean_of(good.map((i) => value(r.key, i)))]));
            const n_reached = good.filter((i) => typeof value('steps_to_target', i) === 'number').length;
            return {
                ...row,
                of: {...of, reached: {n: good.length, mean: n_reached, deviation: null}},
                ids: row.at.map((i) => doc.runs[i].id),
                n_runs: row.at.length,
                n_failed: row.at.length - good.length,
                n_diverged: good.filter((i) => doc.runs[i].diverged).length,
                best_accuracy: good.filter((i) => !doc.runs[i].diverged).map((i) => value('best_accuracy', i)),
            };
        });
    }

    const less = (a, b) => (a === null) - (b === null) || (a ?? 0) - (b ?? 0); /* what is missing comes last */

    /* As docs/compare.md says: with a target the row of which most runs reach it, then that with the fewest bytes and steps;
     * then that with fewer diverged runs, the higher accuracy, the lower loss. */
    function is_better(a, b, has_target) {
        const mean = (row, key) => row.of[key].mean;
        const order = [
            ...(has_target
                ? [
                      mean(b, 'reached') - mean(a, 'reached'),
                      less(mean(a, 'bytes_to_target'), mean(b, 'bytes_to_target')),
                      less(mean(a, 'steps_to_target'), mean(b, 'steps_to_target')),
                  ]
                : []),
            a.n_diverged - b.n_diverged,
            (mean(b, 'accuracy') ?? -1) - (mean(a, 'accuracy') ?? -1),
            less(mean(a, 'loss'), mean(b, 'loss')),
        ];
        return (order.find((v) => v !== 0) || 0) < 0;
    }

    /* The best row of those that differ only in the searched settings. */
    function best_rows(rows, searched, has_target) {
        const best = new Map();
        rows.forEach((row) => {
            const key = JSON.stringify(Object.entries(row.values).filter(([name]) => !searched.has(name)));
            if (!best.has(key) || is_better(row, best.get(key), has_target)) best.set(key, row);
        });
        return new Set(best.values());
    }

    /* The highest accuracy that all runs of these rows reached, but for those that have diverged; null: none. */
    function common_target(rows) {
        const reached = [...rows].flatMap((row) => row.best_accuracy).filter((v) => typeof v === 'number');
        return reached.length ? Math.floor(Math.min(...reached) * 1e4 + 1e-9) / 1e4 || null : null;
    }

    /* The mean over the runs of a row, and their range: of their first tests, of their second ones, and so on. */
    function curve_of(row, docs) {
        const lines = docs.map((d) => d && curves.of_job(d, 'accuracy', {})).filter((c) => c && c.x.length);
        if (!lines.length) return null;
        const n = Math.min(...lines.map((l) => l.x.length));
        const at = (i, f) => {
            const list = lines.map((l) => l.y[i]).filter((v) => v !== null);
            return list.length ? f(list) : null;
        };
        const sum = (list) => list.reduce((a, b) => a + b, 0);
        const points = [...Array(n).keys()];
        return {
            key: row.key,
            label: row.label,
            colour: row.colour,
            dash: row.dash,
            width: 2,
            every: lines[0].every,
            odd: lines.map((l) => l.odd).find(Boolean) || null,
            has_range: true,
            x: points.map((i) => sum(lines.map((l) => l.x[i])) / lines.length),
            y: points.map((i) => at(i, (list) => sum(list) / list.length)),
            lo: points.map((i) => at(i, (list) => Math.min(...list))),
            hi: points.map((i) => at(i, (list) => Math.max(...list))),
        };
    }

    /* The rows that no other row beats in both, accuracy and bytes. */
    function front_of(rows) {
        let highest = -Infinity;
        return rows
            .filter((row) => row.of.bytes.mean !== null && row.of.accuracy.mean !== null)
            .sort((a, b) => a.of.bytes.mean - b.of.bytes.mean || b.of.accuracy.mean - a.of.accuracy.mean)
            .filter((row) => row.of.accuracy.mean > highest && ((highest = row.of.accuracy.mean), true));
    }

    const setting_text = (name, v) => (name === 'codec' ? format.text(v) : `${name}=${format.text(v)}`);

    return (r) => {
        const folder = r.id,
            name = folder.split('/').pop();
        const given = Number(r.query.get('target'));
        let target = given > 0 && given <= 1 ? given : null,
            doc = null,
            rows = [],
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
                                {class: best.has(row) ? 'best' : null},
                                h('td.pick', {}, pick(row)),
                                settings.map((s, i) =>
                                    h(
                                        i ? 'td' : 'th',
                                        {scope: i ? null : 'row'},
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
            const names = rows.length ? Object.keys(rows[0].values) : [];
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
                    curve_of(
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
                front = front_of(all.slice());
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
            pareto.show({
                x_kind: 'bytes',
                y_kind: 'percent',
                y_title: 'accuracy',
                curves: front.length > 1 ? [...points, {...line, ...edge}] : points,
                is_log_x: psgd.plan.is_wide('bytes', points),
                smoothing: 0,
                from: null,
                to: null,
                empty: 'None of these runs has been tested.',
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
            rows = rows_of(doc).map((row) => ({
                ...row,
                label:
                    Object.entries(row.values)
                        .map(([s, v]) => setting_text(s, v))
                        .join(', ') || name,
            }));
            if (!searched) {
                const wanted = r.query.get('best');
                const names = rows.length ? Object.keys(rows[0].values) : [];
                searched = new Set(
                    wanted
                        ? wanted.split(',').filter((s) => names.includes(s))
                        : names.filter((s) => s === 'learn_rate'),
                );
            }
            best = best_rows(rows, searched, target !== null);
            /* The first colours are those of the best rows. */
            [...best, ...rows.filter((row) => !best.has(row))].forEach((row, i) => Object.assign(row, palette.of(i)));
        }

        const load = psgd.calmly(async () => {
            try {
                take(await psgd.source.compare_sweep(folder, target));
                const common = target === null ? common_target(best) : null;
                if (common !== null && common !== doc.target) take(await psgd.source.compare_sweep(folder, common));
                trouble.replaceChildren();
                if (document.activeElement !== target_input)
                    /* somebody types another one */
                    target_input.value =
                        typeof doc.target === 'number' ? Number((100 * doc.target).toPrecision(6)) : '';
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

        const target_id = psgd.id('target');
        const target_input = h('input', {
            type: 'number',
            id: target_id,
            min: 1,
            max: 100,
            step: 'any',
            placeholder: 'common',
            onchange: (e) => {
                const v = Number(e.target.value) / 100;
                target = v > 0 && v <= 1 ? v : null;
                route.amend({target});
                load();
            },
        });
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
                    h('div.control', {}, h('label', {for: target_id}, 'Target accuracy'), target_input, '%'),
                    best_of,
                    h('label.control', {}, only_best, 'Only the best'),
                ),
                h('div.toolbar', {}, search, compare_link),
                hint,
                place,
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
