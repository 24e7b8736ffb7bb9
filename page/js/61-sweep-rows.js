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

    /* The columns of results: those of each sweep, and the metrics that its model or program has of its own. */
    const columns = (doc) => [
        ...results,
        ...doc.results
            .filter((r) => r.name.startsWith('metrics/'))
            .map((r) => ({key: r.name, title: r.name.replace('metrics/', ''), show: format.number})),
    ];

    /* The setting whose value is the length of a rung of successive halving: runs stopped before the last rung have it in
     * their names, those of the last rung do not. null: the sweep has no rungs. */
    function rung_setting(doc) {
        const has = (name) => (run) => new RegExp(`(^|_)${name}-\\d+(_|$)`).test(run.name);
        const is_one = (name) => doc.runs.some(has(name)) && !doc.runs.every(has(name));
        return doc.settings.map((s) => s.name).find((name) => ['epochs', 'max_steps'].includes(name) && is_one(name));
    }

    /* The results of the parts of a run, which are in their order: bytes and seconds of a part that went on from the one
     * before are those of both. */
    function whole(parts, doc, value) {
        const sums = ['bytes', 'time_s'];
        let all = null;
        parts.forEach((i) => {
            const own = Object.fromEntries(columns(doc).map((c) => [c.key, value(c.key, i)]));
            const before = doc.runs[i].resumed ? all : null;
            all = {...own, best_accuracy: value('best_accuracy', i)};
            if (!before) return;
            const has_reached = typeof before.steps_to_target === 'number';
            ['bytes_to_target', 'time_to_target_s', 'steps_to_target'].forEach((key) => {
                const offset = {bytes_to_target: before.bytes, time_to_target_s: before.time_s}[key] || 0;
                if (has_reached) all[key] = before[key];
                else if (typeof own[key] === 'number') all[key] = own[key] + offset;
            });
            sums.forEach((key) => {
                if (typeof own[key] === 'number') all[key] = own[key] + (before[key] || 0);
            });
            all.best_accuracy = Math.max(all.best_accuracy ?? 0, before.best_accuracy ?? 0);
        });
        return all;
    }

    /* The rows of a document of compare: runs that differ in nothing but the seed, and the length of a rung, are one
     * row. */
    function rows_of(doc) {
        const settings = shown_settings(doc),
            rung = rung_setting(doc);
        const value = (name, i) => doc.results.find((r) => r.name === name)?.values[i] ?? null;
        const setting = (name, i) => doc.settings.find((s) => s.name === name)?.values[i];
        const rows = new Map();
        doc.runs.forEach((run, i) => {
            const values = Object.fromEntries(settings.map((s) => [s.name, s.values[i]]));
            const key = JSON.stringify(rung ? {...values, [rung]: null} : values);
            const seed = JSON.stringify(setting('seed', i));
            if (!rows.has(key)) rows.set(key, {key, values, rung, by_seed: new Map()});
            const {by_seed} = rows.get(key);
            if (!by_seed.has(rung ? seed : i)) by_seed.set(rung ? seed : i, []);
            by_seed.get(rung ? seed : i).push(i);
        });
        return [...rows.values()].map(({by_seed, ...row}) => {
            const runs = [...by_seed.values()].map((parts) =>
                rung ? parts.sort((a, b) => setting(rung, a) - setting(rung, b)) : parts,
            );
            const last = (parts) => parts[parts.length - 1];
            const at = runs.map(last);
            const budget = rung ? Math.max(...at.map((i) => setting(rung, i))) : null;
            const good = runs.filter((parts) => doc.runs[last(parts)].state === 'succeeded');
            const numbers = good.map((parts) => whole(parts, doc, value));
            const of = Object.fromEntries(columns(doc).map((c) => [c.key, mean_of(numbers.map((n) => n[c.key]))]));
            const n_reached = numbers.filter((n) => typeof n.steps_to_target === 'number').length;
            return {
                ...row,
                at,
                budget,
                values: rung ? {...row.values, [rung]: budget} : row.values,
                of: {...of, reached: {n: good.length, mean: n_reached, deviation: null}},
                ids: at.map((i) => doc.runs[i].id),
                n_runs: at.length,
                n_failed: at.length - good.length,
                n_diverged: good.filter((parts) => doc.runs[last(parts)].diverged).length,
                best_accuracy: good.flatMap((parts, k) =>
                    doc.runs[last(parts)].diverged ? [] : [numbers[k].best_accuracy],
                ),
            };
        });
    }

    const less = (a, b) => (a === null) - (b === null) || (a ?? 0) - (b ?? 0); /* what is missing comes last */

    /* As docs/compare.md says: with a target the row of which most runs reach it, then that with the fewest bytes and steps;
     * then that with fewer diverged runs, the higher accuracy, the lower loss. */
    function is_better(a, b, has_target) {
        const mean = (row, key) => row.of[key].mean;
        const order = [
            b.budget - a.budget, /* only those that reach the last rung can be the best */
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
            const key = JSON.stringify(
                Object.entries(row.values).filter(([name]) => !searched.has(name) && name !== row.rung),
            );
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
            .filter(([name]) => name !== row.rung)
            .map(([name, v]) => setting_text(name, v))
            .join(', ');

    return {columns, of: rows_of, label, is_better, best: best_rows, common_target, curve_of, front_of};
})();
