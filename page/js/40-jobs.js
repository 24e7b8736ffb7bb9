/* The view of all jobs: a table with search, groups and sorting, the agents, and what is done with the ticked jobs. */
psgd.views = {};

psgd.views.jobs = (() => {
    const {h, format, state, route, changes, job_columns} = psgd;
    const shown_first = 100; /* rows; as many more each time that their end comes into sight */
    const picked = new Set(); /* ids that are ticked, as long as the page is open */
    const order = {by: 'created_at', down: true};
    const wanted = {text: '', state: '', group: '', has_hidden: false};
    const closed = new Set(); /* groups whose jobs are not shown */

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
                ...['Processors', 'Free memory'].map((name) => ({
                    title: name,
                    number: true,
                    wide: true,
                    of: (a) => psgd.machine_facts(a.machine).find((fact) => fact?.[0] === name)?.[1] || format.missing,
                })),
                {
                    title: 'Waiting jobs',
                    number: true,
                    of: (a) => (a.state === 'up' ? format.count(a.waiting) : format.missing),
                },
                {title: 'Message', of: (a) => a.message || ''},
            ],
            agents,
        );
    }

    /* The jobs that the controls leave, in their order. */
    function chosen(jobs, columns) {
        const terms = psgd.search.parse(wanted.text);
        const {of} = columns.find((c) => c.key === order.by) || columns[0];
        return jobs
            .filter(
                (j) =>
                    (!j.hidden || wanted.has_hidden) &&
                    (!wanted.state || j.state === wanted.state) &&
                    (!terms.length ||
                        psgd.search.matches(terms, job_columns.values_of(j), job_columns.texts_of(j))),
            )
            .map((job) => ({job, value: of(job)}))
            .sort((a, b) => job_columns.compare(a.value, b.value, order.down))
            .map((x) => x.job);
    }

    /* What the table shows: jobs, and before those of a group {group, jobs}. Groups are in the order of their first
     * jobs. */
    function entries(list) {
        const group = job_columns.groups[wanted.group];
        if (!group) return list;
        const found = new Map();
        list.forEach((job) => {
            const name = group[1](job) || `no ${group[0]}`;
            if (!found.has(name)) found.set(name, []);
            found.get(name).push(job);
        });
        return [...found].flatMap(([name, jobs]) => [{group: name, jobs}, ...(closed.has(name) ? [] : jobs)]);
    }

    const option = (value, text) => h('option', {value}, text);
    const classes = (c) => [c.number && 'number', c.wide && 'wide'].filter(Boolean).join(' ') || null;

    return () => {
        let doc = {jobs: [], agents: []},
            columns = job_columns.of([]),
            list = [],
            n_shown = shown_first;
        const rows = new Map();
        const compare_link = h('a.button', {}, 'Compare'),
            count = h('span.count', {role: 'status'});
        const body = h('tbody'),
            heads = h('tr'),
            empty = h('div'),
            agents = h('section', {hidden: true});
        const control = (key, label, options, attributes = {}) =>
            h(
                'select',
                {
                    'aria-label': label,
                    onchange: (e) => {
                        wanted[key] = e.target.value;
                        show_from_start();
                    },
                    ...attributes,
                },
                options,
            );
        const states = control('state', 'State', []);
        const groups = control('group', 'Group by', [
            option('', 'no groups'),
            Object.entries(job_columns.groups).map(([key, [title]]) => option(key, `by ${title}`)),
        ]);
        groups.value = wanted.group;
        const more = h('button', {type: 'button', onclick: () => show_more(), hidden: true});
        new IntersectionObserver((seen) => seen.some((s) => s.isIntersecting) && show_more(), {
            rootMargin: '600px',
        }).observe(more);

        const has_hidden = h('input', {
            type: 'checkbox',
            checked: wanted.has_hidden,
            onchange: () => {
                wanted.has_hidden = has_hidden.checked;
                show_from_start();
            },
        });
        const hidden_text = h('span'),
            hidden_control = h('label.control', {hidden: true}, has_hidden, hidden_text);

        function show_from_start() {
            n_shown = shown_first;
            show();
        }

        function show_more() {
            if (more.hidden) return;
            n_shown += shown_first;
            show_rows();
        }

        function sort_by(c) {
            [order.down, order.by] = [order.by === c.key ? !order.down : c.number || c.key === 'created_at', c.key];
            show_heads();
            show_from_start();
            heads.querySelector(`[data-key="${CSS.escape(c.key)}"] button`).focus();
        }

        const pick_all = h('input', {
            type: 'checkbox',
            'aria-label': 'Tick all jobs that are listed',
            onchange: () => {
                list.forEach((j) => picked[pick_all.checked ? 'add' : 'delete'](j.id));
                show_picked();
            },
        });

        function show_heads() {
            heads.replaceChildren(
                ...(psgd.source.compare ? [h('th.pick', {scope: 'col'}, pick_all)] : []),
                ...columns.map((c) =>
                    h(
                        'th',
                        {
                            scope: 'col',
                            'data-key': c.key,
                            class: classes(c),
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
                h(c.head ? 'th' : 'td', {scope: c.head ? 'row' : null, class: classes(c)}),
            );
            const pick = h('input', {
                type: 'checkbox',
                'aria-label': `Tick ${state.name(job)}`,
                onchange: (e) => {
                    picked[e.target.checked ? 'add' : 'delete'](job.id);
                    show_picked();
                },
            });
            const action = psgd.source.cancel ? h('td.action.wide') : null;
            return {
                cells,
                action,
                pick,
                element: h('tr', {}, psgd.source.compare ? h('td.pick', {}, pick) : null, cells, action),
            };
        }

        function fill(row, job) {
            row.pick.checked = picked.has(job.id);
            row.cells.forEach((cell, i) => {
                const {key} = columns[i];
                psgd.put(
                    cell,
                    key === 'state'
                        ? [job.state, state.why(job)]
                        : key === 'progress'
                          ? [job.progress, job.state]
                          : key === 'elapsed_s'
                            ? [job.elapsed_s, job.eta_s]
                            : [columns[i].of(job), job.id, job.tags, job.note, job.sweep, job.folder, job.hidden].concat(
                                  job.metrics?.of,
                              ),
                    () => columns[i].show(job),
                );
            });
            if (row.action)
                psgd.put(row.action, [job.can_cancel, job.name], () =>
                    job.can_cancel
                        ? h(
                              'button.small',
                              {
                                  type: 'button',
                                  'aria-label': `Cancel ${state.name(job)}`,
                                  onclick: () => psgd.cancel(job),
                              },
                              'Cancel',
                          )
                        : '',
                );
        }

        function row_of(job) {
            if (!rows.has(job.id)) rows.set(job.id, new_row(job));
            fill(rows.get(job.id), job);
            return rows.get(job.id).element;
        }

        function group_row({group, jobs}) {
            const best = Math.max(
                ...jobs.map((j) => (j.metrics?.of === 'test' ? (j.metrics.accuracy ?? -Infinity) : -Infinity)),
            );
            const is_open = !closed.has(group);
            const button = h(
                'button.quiet',
                {
                    type: 'button',
                    'aria-expanded': String(is_open),
                    'data-group': group,
                    onclick: () => {
                        closed[is_open ? 'add' : 'delete'](group);
                        show_rows();
                        body.querySelector(`[data-group="${CSS.escape(group)}"]`)?.focus();
                    },
                },
                h('span', {'aria-hidden': 'true'}, is_open ? '▾' : '▸'),
                h('span.group-name', {}, group),
            );
            const facts = [
                `${format.count(jobs.length)} ${jobs.length === 1 ? 'job' : 'jobs'}`,
                best > -Infinity ? `best test accuracy ${format.percent(best)}` : null,
            ];
            return h(
                'tr.group',
                {},
                h(
                    'th',
                    {scope: 'rowgroup', colspan: columns.length + 2},
                    button,
                    h('small', {}, facts.filter(Boolean).join(', ')),
                ),
            );
        }

        const actions = h('span.buttons-of-picked', {}, [
            ['Hide', changes.hide, (jobs) => jobs.some((j) => !j.hidden)],
            ['Show again', changes.unhide, (jobs) => jobs.some((j) => j.hidden)],
            ['Delete', changes.remove, () => true],
        ].map(([text, act, is_for]) =>
            h(
                'button',
                {
                    type: 'button',
                    'data-for': text,
                    onclick: async () => {
                        const jobs = picked_jobs().filter(text === 'Delete' ? () => true : (j) => is_for([j]));
                        picked.clear();
                        show_picked();
                        await act(jobs);
                    },
                },
                text,
            ),
        ));

        /* In the order in which they were ticked. */
        function picked_jobs() {
            const by_id = new Map(doc.jobs.map((j) => [j.id, j]));
            return [...picked].map((id) => by_id.get(id)).filter(Boolean);
        }

        function show_picked() {
            const jobs = picked.size ? picked_jobs() : [],
                n = jobs.length;
            compare_link.textContent = n < 2 ? 'Tick two runs to compare' : `Compare ${n} runs`;
            if (n < 2) compare_link.removeAttribute('href');
            else compare_link.href = route.href(['compare'], {ids: jobs.map((j) => j.id).join(',')});
            compare_link.setAttribute('aria-disabled', String(n < 2));
            const can = jobs.some(changes.can_change);
            actions.hidden = !can;
            actions.querySelector('[data-for=Hide]').hidden = !jobs.some((j) => !j.hidden);
            actions.querySelector('[data-for="Show again"]').hidden = !jobs.some((j) => j.hidden);
            const n_listed = list.filter((j) => picked.has(j.id)).length;
            pick_all.checked = n_listed > 0 && n_listed === list.length;
            pick_all.indeterminate = n_listed > 0 && n_listed < list.length;
            rows.forEach((row, id) => {
                row.pick.checked = picked.has(id);
            });
        }

        function show_states() {
            const found = [...new Set(doc.jobs.map((j) => j.state))].sort();
            psgd.put(states, [found, wanted.state], () => [option('', 'any state'), found.map((s) => option(s, s))]);
            states.value = wanted.state;
            const n_hidden = doc.jobs.filter((j) => j.hidden).length;
            hidden_control.hidden = !n_hidden;
            hidden_text.textContent = `${format.count(n_hidden)} hidden`;
        }

        function show_columns() {
            const now = job_columns.of(doc.jobs);
            if (now.length === columns.length && now.every((c, i) => c.key === columns[i].key)) return;
            columns = now;
            rows.clear();
            show_heads();
        }

        function show_rows() {
            const all = entries(list);
            const elements = all.slice(0, n_shown).map((x) => (x.jobs ? group_row(x) : row_of(x)));
            if (elements.length !== body.children.length || elements.some((e, i) => body.children[i] !== e))
                body.replaceChildren(...elements);
            more.hidden = all.length <= n_shown;
            more.textContent = `${format.count(all.length - n_shown)} more`;
        }

        function show_empty(n_jobs) {
            /* The names that conditions may have; only for the notice that none of them holds. */
            const known = list.length ? [] : [...new Set(doc.jobs.flatMap((j) => Object.keys(job_columns.values_of(j))))];
            const unknown = list.length ? [] : psgd.search.unknown(psgd.search.parse(wanted.text), known);
            psgd.put(empty, [n_jobs, list.length, unknown], () =>
                list.length
                    ? []
                    : n_jobs
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
        }

        function show() {
            show_columns();
            list = chosen(doc.jobs, columns);
            show_rows();
            const n_jobs = doc.jobs.filter((j) => !j.hidden || wanted.has_hidden).length;
            count.textContent =
                list.length === n_jobs
                    ? `${format.count(n_jobs)} ${n_jobs === 1 ? 'job' : 'jobs'}`
                    : `${format.count(list.length)} of ${format.count(n_jobs)} jobs`;
            show_empty(n_jobs);
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
                show_from_start();
            },
        });
        show_heads();
        show_picked();
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
            h(
                'div.toolbar',
                {},
                search,
                states,
                groups,
                hidden_control,
                psgd.source.change ? actions : null,
                psgd.source.compare ? compare_link : null,
            ),
            changes.said,
            h(
                'div.scroll',
                {tabindex: 0, role: 'region', 'aria-label': 'Jobs'},
                h('table.jobs', {}, h('caption.hidden', {}, 'Jobs'), h('thead', {}, heads), body),
            ),
            more,
            empty,
            agents,
            psgd.commands(
                ...(psgd.data.mode === 'agent'
                    ? [`curl -s ${location.origin}/v1/status`]
                    : ['job_submit list', 'job_submit compare DIR DIR']),
            ),
        );
        const take = (d) => {
            doc = d;
            show();
            show_about();
        };
        const end = psgd.live.listen({jobs: take});
        psgd.live
            .jobs()
            .then(take)
            .catch((problem) => empty.replaceChildren(psgd.trouble(problem)));
        return {title: 'Jobs', element, end};
    };
})();
