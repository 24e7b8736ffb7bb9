/* The view of one job: its description and state, and one of its tabs. A tab is {name, title, is_for(job), make(job view)}:
 * is_for says whether the job has the tab (absent: each has it), and make returns {element, update(document), recorded(),
 * end()}, of which only element is required. A view opens with the first tab of the job. */
psgd.tabs = [];

psgd.views.job = (() => {
    const {h, format, state, table, route} = psgd;

    function tile(title, value, more) {
        return h('div.tile', {}, h('dt', {}, title), h('dd', {}, value, more ? h('small', {}, more) : null));
    }

    /* Of a model of language. */
    function text_tiles(job) {
        if (!psgd.is_of_text(job)) return [];
        const {tokens, tokens_per_s, perplexity, bits_per_byte: bits} = job.text;
        return [
            tile('Perplexity', format.number(perplexity), bits ? `${format.number(bits)} bits/byte` : null),
            tile(
                'Tokens',
                format.count(tokens),
                tokens_per_s ? `${format.count(Math.round(tokens_per_s))} a second` : null,
            ),
        ];
    }

    function tiles(job) {
        const {metrics = {}, comm = {}, progress = {}} = job;
        const left = !state.is_over(job) && typeof job.eta_s === 'number' ? `${format.seconds(job.eta_s)} left` : null;
        const raw = comm?.raw_bytes > comm?.sent_bytes * 1.02 ? `of ${format.bytes(comm.raw_bytes)} raw` : null;
        const spent = [
            tile('Time', format.seconds(job.elapsed_s), left),
            tile('Sent, all nodes', format.bytes(comm?.sent_bytes), raw),
        ];
        if (job.executor)
            return h(
                'dl.tiles',
                {},
                tile('Progress', format.share(job.state === 'succeeded' ? 1 : (progress?.ratio ?? 0))),
                spent,
            );
        return h(
            'dl.tiles',
            {},
            tile(state.measured(job, 'Accuracy'), format.percent(metrics?.accuracy)),
            tile(state.measured(job, 'Loss'), format.number(metrics?.loss)),
            text_tiles(job),
            tile('Step', format.count(progress?.step), progress?.steps ? `of ${format.count(progress.steps)}` : null),
            tile(
                'Epoch',
                format.count(progress?.epoch),
                progress?.epochs ? `of ${format.count(progress.epochs)}` : null,
            ),
            spent,
        );
    }

    function subtitle(job) {
        const workers =
            typeof job.node_count === 'number'
                ? `${job.node_count} ${job.node_count === 1 ? 'worker' : 'workers'}`
                : null;
        const parts = [
            job.id,
            job.codec,
            workers,
            [job.dataset, job.model].filter(Boolean).join(' · '),
            job.created_at ? format.when(job.created_at) : null,
        ];
        return [
            h(
                'p.subtitle',
                {},
                parts
                    .filter(Boolean)
                    .map((p, i) => [i ? h('span.dot', {'aria-hidden': 'true'}, ' · ') : null, h('span', {}, p)]),
            ),
            job.tags?.length
                ? h(
                      'p.tags',
                      {},
                      job.tags.map((t) => h('span.tag', {}, t)),
                  )
                : null,
            job.note ? h('p.job-note', {}, job.note) : null,
            psgd.changes.can_change(job)
                ? h(
                      'button.quiet.small.edit',
                      {type: 'button', onclick: () => psgd.changes.edit(job)},
                      job.note || job.tags?.length ? 'Edit note and tags' : 'Add a note or tags',
                  )
                : null,
        ];
    }

    function warnings(doc) {
        const {job} = doc;
        const failed =
            job.state === 'failed' && state.why(job)
                ? [h('div.warning.bad', {}, h('strong', {}, 'Failed. '), state.why(job))]
                : state.why(job)
                  ? [h('p.why', {}, state.why(job))]
                  : [];
        return [...failed, ...(doc.warnings || []).map((w) => h('div.warning', {}, h('strong', {}, 'Warning. '), w))];
    }

    return (r) => {
        const {id} = r;
        const name = h('h1', {tabindex: -1}, id),
            pill = h('span.pill-place'),
            action = h('span.action'),
            about = h('div.about'),
            warn = h('div.warnings');
        const figures = h('div.figures'),
            bar = h('div.progress-place'),
            place = h('div.tab'),
            nav = h('nav.tabs', {'aria-label': 'Parts of this job'});
        const commands = h('div');
        const view = {id, doc: null, query: r.query};
        let tab = null,
            tab_name = null;

        const tabs = () => psgd.tabs.filter((t) => !t.is_for || t.is_for(view.doc.job));

        function show_nav() {
            nav.replaceChildren(
                ...tabs().map((t) =>
                    h(
                        'a',
                        {
                            href: route.href(['job', id, t.name].filter(Boolean)),
                            'aria-current': t.name === tab_name ? 'page' : null,
                        },
                        t.title,
                    ),
                ),
            );
            nav.scrollLeft = Math.max(0, (nav.querySelector('[aria-current]')?.offsetLeft || 0) - nav.offsetLeft - 40);
        }

        function open(next) {
            tab?.end?.();
            const found = next ? psgd.tabs.find((t) => t.name === next) : tabs()[0];
            tab_name = found ? found.name : next;
            tab = found ? found.make(view) : {element: psgd.notice('A job has no such part', 'Choose one above.')};
            place.replaceChildren(tab.element);
            tab.update?.(view.doc);
            show_nav();
        }

        function show_job(job) {
            name.textContent = state.name(job);
            document.title = `${state.name(job)} · psgd`;
            psgd.put(pill, job.state, () => state.pill(job.state));
            psgd.put(
                about,
                [job.id, job.codec, job.node_count, job.dataset, job.model, job.created_at, job.tags, job.note, job.state],
                () => subtitle(job),
            );
            psgd.put(figures, [job.metrics, job.text, job.progress, job.elapsed_s, job.eta_s, job.comm, job.state], () =>
                tiles(job),
            );
            psgd.put(bar, [job.progress?.ratio, job.state], () =>
                state.is_over(job) ? [] : table.bar(job.progress?.ratio),
            );
            psgd.put(action, [job.can_cancel, job.name], () =>
                job.can_cancel && psgd.source.cancel
                    ? h('button', {type: 'button', onclick: () => psgd.cancel(job)}, 'Cancel')
                    : [],
            );
        }

        function show(doc) {
            const is_first = !view.doc;
            view.doc = doc;
            show_job(doc.job);
            psgd.put(warn, [doc.warnings, doc.job.state, doc.job.reason, doc.job.message], () => warnings(doc));
            psgd.put(commands, [doc.job.state, doc.job.folder], () => psgd.commands(...psgd.job_commands(doc.job)));
            if (is_first) open(r.tab);
            else tab.update?.(doc);
        }

        const load = psgd.calmly(async () => {
            try {
                show(await psgd.source.job(id));
            } catch (problem) {
                if (!view.doc) place.replaceChildren(psgd.trouble(problem));
            }
        }, 1000);

        const end_listening = psgd.live.listen({
            jobs: (list) => {
                const job = list.jobs.find((j) => j.id === id);
                if (!job || !view.doc || JSON.stringify(job) === JSON.stringify(view.doc.job)) return;
                const has_ended = state.is_over(job) && !state.is_over(view.doc.job);
                show_job(job);
                load(); /* the nodes' states, too, and files and warnings at the end */
                if (has_ended) tab?.recorded?.();
            },
            recorded: (what) => what.id === id && tab?.recorded?.(),
        });
        load();
        const crumb = psgd.data.mode === 'report' ? null : h('a.crumb', {href: '#/'}, '‹ All jobs');
        return {
            title: id,
            element: h(
                'div',
                {},
                crumb,
                h('div.head', {}, name, pill, action),
                about,
                warn,
                figures,
                bar,
                nav,
                place,
                commands,
            ),
            /* Shows another tab of the same job without a new view; true if it did. */
            move: (next) => {
                if (next.id !== id || !view.doc) return false;
                view.query = next.query;
                open(next.tab);
                return true;
            },
            end: () => {
                tab?.end?.();
                end_listening();
            },
        };
    };
})();

psgd.is_of_text = (job) => typeof job?.text?.tokens === 'number';

/* Commands for a terminal about this job. They name its folder, if it has one, because an id is known only to the user who
 * submitted the job. */
psgd.job_commands = (job) => {
    const out = [],
        folder = job.folder && psgd.word(job.folder);
    if (psgd.data.mode === 'agent') return [`curl -s ${location.origin}/v1/jobs/${job.id}`];
    if (!psgd.state.is_over(job)) out.push(`job_submit wait ${job.id}`, `job_submit logs ${job.id}`);
    else if (job.state === 'failed') out.push(`job_submit why ${folder || job.id}`);
    if (folder && !job.executor) out.push(`job_submit plot ${folder} --x ${psgd.is_of_text(job) ? 'tokens' : 'bytes'}`);
    if (folder && job.executor) out.push(`ls ${folder}/output`);
    return out.length ? out : [`job_submit status ${job.id}`];
};
