/* The texts with which a model of language goes on as it learns, the latest first. */
psgd.tabs.push({
    name: 'samples',
    title: 'Samples',
    is_for: (job) => psgd.source.samples && psgd.is_of_text(job),
    make: (view) => {
        const {h, format} = psgd;
        const place = h('div');

        const sample = (s) => [
            h('h3', {}, `Step ${format.count(s.step)}, epoch ${format.count(s.epoch)}`),
            h('pre.sample', {}, h('strong', {}, s.prompt), s.text),
        ];

        const load = psgd.calmly(async () => {
            try {
                const doc = await psgd.source.samples(view.id);
                psgd.put(place, doc, () => [...doc.samples].reverse().map(sample));
            } catch (problem) {
                psgd.put(place, problem.title, () =>
                    problem.status === 404
                        ? psgd.notice(
                              'No samples',
                              'A job with --sample-prompt TEXT has one at each evaluation: the text with which its model goes on.',
                          )
                        : psgd.trouble(problem),
                );
            }
        }, 2000);
        load();
        return {element: h('div', {}, h('h2', {}, 'Samples of text'), place), recorded: load};
    },
});
