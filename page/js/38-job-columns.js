/* The columns of the list of jobs, what its search finds, and its order. */
psgd.job_columns = (() => {
    const {h, format, state, route} = psgd;
    const own_most = 8; /* columns of the users' own metrics */

    /* Below a value of training in a column of test results. */
    const of_training = (job) => (job.metrics?.of === 'training' ? h('small', {}, 'training') : null);
    const data_of = (job) => [job.dataset, job.model].filter(Boolean).join(' · ');
    const fixed = [
        {
            key: 'name',
            title: 'Job',
            head: true,
            of: state.name,
            show: (j) => [
                h('a', {href: route.href(['job', j.id])}, state.name(j)),
                h('small.id', {}, j.id),
                psgd.data.mode === 'browse' && !j.folder ? h('small', {}, 'from the agents') : null,
                state.sweep_of(j)
                    ? h('a.tag', {href: route.href(['sweep', state.sweep_of(j)])}, `sweep ${j.sweep}`)
                    : null,
                (j.tags || []).filter(Boolean).map((t) => h('span.tag', {}, t)),
                j.hidden ? h('span.tag', {}, 'hidden') : null,
                j.note ? h('small.list-note', {title: j.note}, j.note) : null,
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

    /* The columns, with one for each metric that a job's program or model has of its own. */
    function of(jobs) {
        const names = [...new Set(jobs.flatMap((j) => (j.values ? Object.keys(j.values) : [])))].slice(0, own_most);
        const own = names.map((name) => ({
            key: `values/${name}`,
            title: name,
            number: true,
            wide: true,
            of: (j) => j.values?.[name],
            show: (j) => format.number(j.values?.[name]),
        }));
        const at = fixed.findIndex((c) => c.key === 'sent');
        return [...fixed.slice(0, at), ...own, ...fixed.slice(at)];
    }

    const texts = new Intl.Collator('en', {numeric: true}); /* localeCompare() takes ten times as long */

    /* Of two values; what is missing comes last in either direction. */
    function compare(a, b, is_down) {
        const [no_a, no_b] = [a, b].map((v) => v === null || v === undefined);
        if (no_a || no_b) return no_a - no_b;
        const order = typeof a === 'number' && typeof b === 'number' ? a - b : texts.compare(a, b);
        return is_down ? -order : order;
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
        ...j.values,
    });

    const texts_of = (j) => [
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
    ];

    /* By what jobs can be grouped: the title, and a job's group. */
    const groups = {
        sweep: ['sweep', (j) => state.sweep_of(j) && `sweep ${state.sweep_of(j)}`],
        codec: ['codec', (j) => j.codec],
        data: ['data and model', data_of],
        tag: ['tag', (j) => j.tags?.[0]],
        folder: ['folder', (j) => j.folder?.replace(/\/?[^/]*$/, '')],
        state: ['state', (j) => j.state],
    };

    return {of, compare, values_of, texts_of, groups};
})();
