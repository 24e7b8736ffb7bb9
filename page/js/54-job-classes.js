/* The confusion matrix of the last evaluation. */
psgd.tabs.push({
    name: 'classes',
    title: 'Classes',
    is_for: (job) => psgd.source.confusion && !job.executor,
    make: (view) => {
        const {h, format} = psgd;
        const place = h('div');

        const sum = (list) => list.reduce((a, b) => a + b, 0);
        const ratio = (a, b) => (b ? a / b : null);

        function confused(counts, names) {
            const found = counts
                .flatMap((row, i) => row.map((v, k) => ({v, i, k})))
                .filter((c) => c.v > 0 && c.i !== c.k)
                .sort((a, b) => b.v - a.v);
            return found.length
                ? ` Most often taken for another: ${found
                      .slice(0, 3)
                      .map((c) => `${names[c.i]} for ${names[c.k]} (${format.count(c.v)})`)
                      .join(', ')}.`
                : '';
        }

        function show(doc) {
            const {counts} = doc,
                names = counts.map((row, i) => format.text(doc.classes?.[i] ?? i));
            const labelled = counts.map(sum),
                predicted = counts.map((row, k) => sum(counts.map((r) => r[k])));
            const right = sum(counts.map((row, i) => row[i])),
                all = sum(labelled);
            return [
                h(
                    'p',
                    {},
                    `${format.node(doc.node)}, after step ${format.count(doc.step)}, epoch ${doc.epoch}: ${format.count(right)} of ${format.count(all)} are right, ` +
                        `${format.percent(right / all)}.${confused(counts, names)}`,
                ),
                psgd.matrix({
                    caption: 'Confusion matrix: a row is a label, a column a prediction',
                    corner: 'label ↓  predicted →',
                    names,
                    share: (i, k) => ratio(counts[i][k], labelled[i]) || 0,
                    text: (i, k) => (counts[i][k] ? format.count(counts[i][k]) : '·'),
                    more: [
                        {title: 'recall', of: (i) => format.share(ratio(counts[i][i], labelled[i]))},
                        {title: 'precision', of: (i) => format.share(ratio(counts[i][i], predicted[i]))},
                    ],
                }),
                h(
                    'p.hint',
                    {},
                    'The counts are those of one worker, of the whole test set. Shaded by the share of the row. Recall: of the samples with a label, those predicted as it. Precision: of those predicted as it, those that are.',
                ),
            ];
        }

        const load = psgd.calmly(async () => {
            try {
                const doc = await psgd.source.confusion(view.id);
                psgd.put(place, doc, () => show(doc));
            } catch (problem) {
                psgd.put(place, problem.title, () =>
                    problem.status === 404
                        ? psgd.notice(
                              'No confusion matrix',
                              'It is recorded if the model\'s document has "metrics": ["confusion"].',
                          )
                        : psgd.trouble(problem),
                );
            }
        }, 2000);
        load();
        return {element: h('div', {}, h('h2', {}, 'Confusion matrix'), place), recorded: load};
    },
});
