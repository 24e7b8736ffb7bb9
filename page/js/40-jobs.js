/* The view of all jobs: a table with search and sorting, the agents, and the choice of runs to compare. */
psgd.views = {};

psgd.views.jobs = (() => {
    const {h, format, state, route} = psgd;
    const picked = new Set(); /* ids to compare, as long as the page is open */
    const order = {by: 'created_at', down: true};
    const wanted = {text: '', state: ''};

    /* Below a value of training in a column of test results. */
    const of_training = (job) => (job.metrics?.of === 'training' ? h('small', {}, 'training') : null);
    const data_of = (job) => [job.dataset, job.model].filter(Boolean).join(' · ');
    const columns = [
        {
            key: 'name',
            title: 'Job',
            head: true,
            of: (j) => j.name || j.id,
            show: (j) => [
                h('a', {href: route.href(['job', j.id])}, j.name || j.id),
                h('small.id', {}, j.id),
                psgd.data.mode === 'browse' && !j.folder ? h('small', {}, 'from the agents') : null,
                state.sweep_of(j)
                    ? h('a.tag', {href: route.href(['sweep', state.sweep_of(j)])}, `sweep ${j.sweep}`)
                    : null,
                (j.tags || []).filter(Boolean).map((t) => h('span.tag', {}, t)),
            ],
        },
        {
            key: 'state',
            title: 'State',
            of: (j) => j.state,
            show: (j) => [
                state.pill(j.state),
                state.why(j) ? h('small.why', {title: state.why(j)}, state.why(j)) : null,
            ],
        },
        {key: 'progress', title: 'Progress', wide: true, of: (j) => j.progress?.ratio, show: (j) => state.progress(j)},
        {key: 'elapsed_s', title: 'Time', number: true, wide: true, of: (j) => j.elapsed_s, show: (j) => state.time(j)},
        {key: 'codec', title: 'Codec', wide: true, of: (j) => j.codec, show: (j) => format.text(j.codec)},
        {
            key: 'node_count',
            title: 'Workers',
            number: true,
            wide: true,
            of: (j) => j.node_count,
            show: (j) => format.count(j.node_count),
        },
        {
            key: 'data',
            title: 'Data · model',
            wide: true,
            of: data_of,
            show: (j) => [j.dataset || (j.model ? null : format.missing), j.model ? h('small', {}, j.model) : null],
        },
        {
            key: 'loss',
            title: 'Test loss',
            number: true,
            wide: true,
            of: (j) => j.metrics?.loss,
            show: (j) => [format.number(j.metrics?.loss), of_training(j)],
        },
        {
            key: 'accuracy',
            title: 'Test accuracy',
            number: true,
            of: (j) => j.metrics?.accuracy,
            show: (j) => [format.percent(j.metrics?.accuracy), of_training(j)],
        },
        {
            key: 'sent',
            title: 'Sent, all nodes',
            number: true,
            wide: true,
            of: (j) => j.comm?.sent_bytes,
            show: (j) => format.bytes(j.comm?.sent_bytes),
        },
        {
            key: 'created_at',
            title: 'Submitted',
            wide: true,
            of: (j) => j.created_at,
            show: (j) => format.when(j.created_at),
        },
    ];

    function compare(a, b) {
        if (a === b) return 0;
        if (a === null || a === undefined) return 1;
        if (b === null || b === undefined) return -1;
        return (
            (typeof a === 'number' && typeof b === 'number'
                ? a - b
                : String(a).localeCompare(String(b), 'en', {numeric: true})) * (order.down ? -1 : 1)
        );
    }

    /* What conditions of the search are about. */
    const values_of = (j) => ({
        name: j.name,
        id: j.id,
        state: j.state,
        reason: j.reason,
        codec: j.codec,
        dataset: j.dataset,
        model: j.model,
        node_count: j.node_count,
        loss: j.metrics?.loss,
        accuracy: j.metrics?.accuracy,
        seconds: j.elapsed_s,
        sent: j.comm?.sent_bytes,
        sweep: j.sweep,
        tag: j.tags || [],
        note: j.note,
        folder: j.folder,
        ...j.settings,
    });

    function chosen(jobs) {
        const terms = psgd.search.parse(wanted.text);
        const {of} = columns.find((c) => c.key === order.by);
        return jobs
            .filter(
                (j) =>
                    (!wanted.state || j.state === wanted.state) &&
                    psgd.search.matches(terms, values_of(j), [
                        j.name,
                        j.id,
                        j.codec,
                        j.dataset,
                        j.model,
                        j.reason,
                        j.message,
                        j.note,
                        j.folder,
                        ...(j.tags || []),
                    ]),
            )
            .sort((a, b) => compare(of(a), of(b)));
    }

    function agents_table(agents) {
        return psgd.table(
            'Agents',
            [
                {title: 'Agent', head: true, of: (a) => a.address},
                {
                    title: 'State',
                    of: (a) =>
                        h(
                            'span.state',
                            {class: `state ${a.state === 'up' ? 'succeeded' : 'failed'}`},
                            h('span', {'aria-hidden': 'true'}, a.state === 'up' ? '✓' : '✕'),
                            ` ${a.state}`,
                        ),
                },
                {
                    title: 'Slots in use',
                    number: true,
                    of: (a) =>
                        typeof a.slots === 'number'
                            ? `${a.slots_used ?? format.missing} of ${a.slots}`
                            : format.missing,
                },
                {title: 'Message', of: (a) => a.message || ''},
            ],
            agents,
        );
    }

    return () => {
        let doc = {jobs: [], agents: []};
        const rows = new Map();
        const compare_link = h('a.button', {}, 'Compare'),
            count = h('span.count', {role: 'status'});
        const body = h('tbody'),
            heads = h('tr'),
            empty = h('div'),
            agents = h('section', {hidden: true});
        const states = h('select', {
            'aria-label': 'State',
            onchange: (e) => {
                wanted.state = e.target.value;
                show();
            },
        });

        function sort_by(c) {
            [order.down, order.by] = [order.by === c.key ? !order.down : c.number || c.key === 'created_at', c.key];
            show_heads();
            show();
            heads.querySelector(`[data-key="${c.key}"] button`).focus();
        }

        function show_heads() {
            heads.replaceChildren(
                ...(psgd.source.compare ? [h('th.pick', {scope: 'col'}, h('span.hidden', {}, 'Compare'))] : []),
                ...columns.map((c) =>
                    h(
                        'th',
                        {
                            scope: 'col',
                            'data-key': c.key,
                            class: [c.number && 'number', c.wide && 'wide'].filter(Boolean).join(' ') || null,
                            'aria-sort': order.by === c.key ? (order.down ? 'descending' : 'ascending') : null,
                        },
                        h(
                            'button.sort',
                            {type: 'button', onclick: () => sort_by(c)},
                            c.title,
                            h(
                                'span.arrow',
                                {'aria-hidden': 'true'},
                                order.by === c.key ? (order.down ? '↓' : '↑') : '',
                            ),
                        ),
                    ),
                ),
                ...(psgd.source.cancel ? [h('th.wide', {scope: 'col'}, h('span.hidden', {}, 'Actions'))] : []),
            );
        }

        function new_row(job) {
            const cells = columns.map((c) =>
                h(c.head ? 'th' : 'td', {
                    scope: c.head ? 'row' : null,
                    class: [c.number && 'number', c.wide && 'wide'].filter(Boolean).join(' ') || null,
                }),
            );
            const pick = h('input', {
                type: 'checkbox',
                checked: picked.has(job.id),
                'aria-label': `Compare ${job.name || job.id}`,
                onchange: (e) => {
                    picked[e.target.checked ? 'add' : 'delete'](job.id);
                    show_picked();
                },
            });
            const action = psgd.source.cancel ? h('td.action.wide') : null;
            return {
                cells,
                action,
                element: h('tr', {}, psgd.source.compare ? h('td.pick', {}, pick) : null, cells, action),
            };
        }

        function fill(row, job) {
            row.cells.forEach((cell, i) =>
                psgd.put(
                    cell,
                    columns[i].key === 'state'
                        ? [job.state, state.why(job)]
                        : columns[i].key === 'progress'
                          ? [job.progress, job.state]
                          : columns[i].key === 'elapsed_s'
                            ? [job.elapsed_s, job.eta_s]
                            : [columns[i].of(job), job.id, job.tags, job.sweep, job.folder, job.metrics?.of],
                    () => columns[i].show(job),
                ),
            );
            if (row.action)
                psgd.put(row.action, [job.can_cancel, job.name], () =>
                    job.can_cancel
                        ? h(
                              'button.small',
                              {
                                  type: 'button',
                                  'aria-label': `Cancel ${job.name || job.id}`,
                                  onclick: () => psgd.cancel(job),
                              },
                              'Cancel',
                          )
                        : '',
                );
        }

        function show_picked() {
            const ids = [...picked].filter((id) => doc.jobs.some((j) => j.id === id));
            compare_link.textContent = ids.length < 2 ? 'Tick two runs to compare' : `Compare ${ids.length} runs`;
            if (ids.length < 2) compare_link.removeAttribute('href');
            else compare_link.href = route.href(['compare'], {ids: ids.join(',')});
            compare_link.setAttribute('aria-disabled', String(ids.length < 2));
        }

        function show_states() {
            const found = [...new Set(doc.jobs.map((j) => j.state))].sort();
            psgd.put(states, [found, wanted.state], () => [
                h('option', {value: ''}, 'any state'),
                ...found.map((s) => h('option', {value: s}, s)),
            ]);
            states.value = wanted.state;
        }

        function show() {
            const list = chosen(doc.jobs);
            const elements = list.map((job) => {
                if (!rows.has(job.id)) rows.set(job.id, new_row(job));
                fill(rows.get(job.id), job);
                return rows.get(job.id).element;
            });
            if (elements.length !== body.children.length || elements.some((e, i) => body.children[i] !== e))
                body.replaceChildren(...elements);
            count.textContent =
                list.length === doc.jobs.length
                    ? `${list.length} ${list.length === 1 ? 'job' : 'jobs'}`
                    : `${list.length} of ${doc.jobs.length} jobs`;
            /* The names that conditions may have; only for the notice that none of them holds. */
            const known = list.length ? [] : [...new Set(doc.jobs.flatMap((j) => Object.keys(values_of(j))))];
            const unknown = list.length ? [] : psgd.search.unknown(psgd.search.parse(wanted.text), known);
            psgd.put(empty, [doc.jobs.length, list.length, unknown], () =>
                list.length
                    ? []
                    : doc.jobs.length
                      ? psgd.notice(
                            'No job matches',
                            unknown.length
                                ? `No job has ${unknown.join(' or ')}: there are ${known.join(', ')}.`
                                : 'Clear the search, or choose another state.',
                        )
                      : psgd.notice(
                            'No jobs yet',
                            'The folder has no results, and the agents of worker.json have no jobs. A job appears here as soon as it is submitted.',
                            psgd.command('job_submit --codec fedavg --node_count 2 --epochs 2 -o logs/first'),
                        ),
            );
            show_states();
            show_picked();
            psgd.put(agents, doc.agents, () =>
                doc.agents?.length ? [h('h2', {}, 'Agents'), agents_table(doc.agents)] : [],
            );
            agents.hidden = !doc.agents?.length;
        }

        const search = h('input', {
            type: 'search',
            placeholder: 'name, codec=diloco, accuracy>95%…',
            'aria-label': 'Search jobs',
            value: wanted.text,
            oninput: (e) => {
                wanted.text = e.target.value;
                show();
            },
        });
        show_heads();
        const about = h('div.about-agent');
        const facts_of = psgd.source.about ? psgd.agent_facts() : null;
        const show_about = psgd.calmly(async () => {
            if (!facts_of) return;
            const facts = await facts_of(doc);
            psgd.put(about, facts, () => psgd.table.facts(facts));
        }, 1000);
        const element = h(
            'div',
            {},
            h('div.head', {}, h('h1', {tabindex: -1}, 'Jobs'), count),
            about,
            h('div.toolbar', {}, search, states, psgd.source.compare ? compare_link : null),
            h(
                'div.scroll',
                {tabindex: 0, role: 'region', 'aria-label': 'Jobs'},
                h('table.jobs', {}, h('caption.hidden', {}, 'Jobs'), h('thead', {}, heads), body),
            ),
            empty,
            agents,
            psgd.commands(
                ...(psgd.data.mode === 'agent'
                    ? [`curl -s ${location.origin}/v1/status`]
                    : ['job_submit list', 'job_submit compare DIR DIR']),
            ),
        );
        const end = psgd.live.listen({
            jobs: (d) => {
                doc = d;
                show();
                show_about();
            },
        });
        psgd.live
            .jobs()
            .then((d) => {
                doc = d;
                show();
                show_about();
            })
            .catch((problem) => empty.replaceChildren(psgd.trouble(problem)));
        return {title: 'Jobs', element, end};
    };
})();
