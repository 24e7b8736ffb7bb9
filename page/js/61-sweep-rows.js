/* The rows of a sweep's page: a combination of settings each, with the mean over its runs; which rows are the best, and what
 * charts draw of them. */
psgd.sweep_rows = (() => {
    const {format, curves} = psgd;
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
    const label = (row) =>
        Object.entries(row.values)
            .map(([name, v]) => setting_text(name, v))
            .join(', ');

    return {results, of: rows_of, label, is_better, best: best_rows, common_target, curve_of, front_of};
})();
