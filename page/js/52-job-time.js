/* The time of a step by phases, and its bytes before and after compression. */
psgd.tabs.push({
    name: 'time',
    title: 'Time and bytes',
    is_for: (job) => !job.executor, /* which has no steps */
    make: (view) => {
        const {h, format, table, palette, curves} = psgd;
        const phases = [
            ['compute_s', 'compute', 'batch, forward, backward'],
            ['encode_s', 'encode', 'the codec writes messages'],
            ['send_s', 'send', 'messages are passed to the network'],
            ['wait_s', 'wait', 'the node waits for other nodes'],
            ['decode_s', 'decode', 'the codec reads messages'],
            ['apply_s', 'apply', 'the model is updated'],
        ];
        const volumes = [
            ['raw_bytes', 'raw, before compression'],
            ['sent_bytes', 'sent'],
            ['recv_bytes', 'received'],
        ];
        const name = (word) => `${view.doc?.job?.name || view.id}-${word}`.toLowerCase().replace(/[^a-z0-9_.-]+/g, '-');
        const split = h('div'),
            controls = psgd.controls(
                view.query,
                ['step'],
                (what) => {
                    if (what === 'range' && psgd.source.zooms) load();
                    draw();
                },
                {is_log: true, log_title: 'Logarithmic time'},
            );
        const on = {zoom: controls.zoom, reset: () => controls.zoom(null, null)};
        const time_chart = psgd.chart('Time of a step', name('time'), on),
            byte_chart = psgd.chart('Bytes of a step', name('bytes'), on);
        let times = null,
            bytes = null;

        function bar(doc) {
            const sums = phases.map(([key]) => Number(doc.time?.[key]) || 0),
                all = sums.reduce((a, b) => a + b, 0);
            if (!all) return psgd.notice('No times yet', 'They appear with the first report of a node.');
            const parts = phases.map(([, word], i) => ({word, share: sums[i] / all, colour: palette.of(i).colour}));
            return [
                h(
                    'p.bound',
                    {},
                    doc.bound_by ? ['Bound by: ', h('strong', {}, doc.bound_by), '. '] : null,
                    `${format.share(parts[0].share + parts[5].share)} of the steps' time is computing and applying, ${format.share(1 - parts[0].share - parts[5].share)} exchange.`,
                ),
                h(
                    'div.stack',
                    {'aria-hidden': 'true'},
                    parts.map((p) =>
                        h('span', {style: {width: `${100 * p.share}%`, 'background-color': `var(${p.colour})`}}),
                    ),
                ),
                table(
                    'Time of all steps',
                    [
                        {
                            title: 'Phase',
                            head: true,
                            of: (i) => [
                                h('span.swatch', {
                                    'aria-hidden': 'true',
                                    style: {'--swatch': `var(${parts[i].colour})`},
                                }),
                                phases[i][1],
                            ],
                        },
                        {title: 'Meaning', wide: true, of: (i) => phases[i][2]},
                        {title: 'Time', number: true, of: (i) => format.seconds(doc.time[phases[i][0]])},
                        {title: 'Share', number: true, of: (i) => format.share(parts[i].share)},
                    ],
                    phases.map((p, i) => i),
                ),
                volume(doc.job.comm),
            ];
        }

        function volume(comm) {
            if (!comm || typeof comm.sent_bytes !== 'number') return null;
            const {raw_bytes: raw, sent_bytes: sent, recv_bytes: received} = comm;
            return table.facts([
                ['Raw, all nodes, before compression', format.bytes(raw)],
                ['Sent, all nodes', format.bytes(sent)],
                ['Received, all nodes', format.bytes(received)],
                [
                    'Raw to sent',
                    sent > 0 && typeof raw === 'number' ? `${format.digits(raw / sent, 3)} : 1` : format.missing,
                ],
            ]);
        }

        function draw() {
            const s = controls.state;
            const of = (doc, list) =>
                list
                    .map(([key, word], i) => curves.of_job(doc, key, {key, label: word, ...palette.of(i), width: 1.5}))
                    .filter(Boolean);
            const model = {
                x_kind: 'step',
                is_log: s.is_log,
                is_log_x: s.is_log_x,
                smoothing: s.smoothing,
                from: s.from,
                to: s.to,
                sync: 'time',
                empty: 'Nothing is recorded yet.',
            };
            if (times) time_chart.show({...model, y_kind: 'seconds', y_title: 'time', curves: of(times, phases)});
            if (bytes)
                byte_chart.show({
                    ...model,
                    is_log: false,
                    y_kind: 'bytes',
                    y_title: 'bytes',
                    curves: of(bytes, volumes),
                });
        }

        const load = psgd.calmly(async () => {
            const range = psgd.source.zooms ? {points: 500, from: controls.state.from, to: controls.state.to} : {};
            const get = (list) =>
                psgd.source.series(view.id, {
                    file: 'train',
                    names: list.map(([key]) => key).join(),
                    x: 'step',
                    ...range,
                });
            try {
                [times, bytes] = await Promise.all([get(phases), get(volumes)]);
                draw();
            } catch (problem) {
                [time_chart, byte_chart].forEach((c) =>
                    c.fail(problem.status === 404 ? 'This job has no records of this kind.' : problem.title),
                );
            }
        }, 1000);
        load();
        return {
            element: h(
                'div',
                {},
                h('section.split', {}, h('h2', {}, 'Where the time goes'), split),
                h('h2', {}, 'Step by step, mean over workers'),
                controls.element,
                h('div.charts', {}, time_chart.element, byte_chart.element),
            ),
            update: (doc) => psgd.put(split, [doc.time, doc.bound_by, doc.job.comm], () => bar(doc)),
            recorded: load,
            end: () => [time_chart, byte_chart].forEach((c) => c.end()),
        };
    },
});
