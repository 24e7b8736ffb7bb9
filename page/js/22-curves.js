/* Curves: converts the series documents of a source for charts. A curve is {key, label, colour, dash, width, x, y, lo, hi,
 * every, odd}: each `every`-th row is a point; lo and hi are the extremes of the rows since the point before, or null if
 * the document has none; `odd` is {x, value} of the first value that is not finite. */
psgd.curves = (() => {
    const {palette, format} = psgd;

    function numbers(values) {
        return (values || []).map((v) => (typeof v === 'number' && Number.isFinite(v) ? v : null));
    }

    function first_odd(x, values) {
        const at = (values || []).findIndex((v) => typeof v === 'string');
        return at < 0 ? null : {x: x[at], value: values[at]};
    }

    function curve(of, name, rest) {
        const x = of.x || [];
        return {
            ...rest,
            x,
            y: numbers(of[name]),
            lo: of[`${name}_min`] ? numbers(of[`${name}_min`]) : null,
            hi: of[`${name}_max`] ? numbers(of[`${name}_max`]) : null,
            every: typeof of.every === 'number' ? of.every : 1,
            odd: first_odd(x, of[name]),
        };
    }

    const has_values = (c) => c.y.some((v) => v !== null) || c.odd;

    /* The curves of one name: each node's, and, of several workers, the mean. */
    function of_series(doc, name) {
        const nodes = (doc.nodes || [])
            .map((n, i) =>
                curve(n, name, {key: String(n.node), label: format.node(n.node), ...palette.of(i), width: 1.25}),
            )
            .filter(has_values);
        if (nodes.length < 2 || !doc.mean) return nodes.map((n) => ({...n, width: 2}));
        return [
            ...nodes,
            curve(doc.mean, name, {key: 'mean', label: 'mean over workers', ...palette.mean, width: 2.25}),
        ].filter(has_values);
    }

    /* One curve for a whole job: the mean, or the only node's. */
    function of_job(doc, name, rest) {
        const of = doc.mean && doc.mean.x && doc.mean.x.length ? doc.mean : (doc.nodes || [])[0];
        return of ? curve(of, name, rest) : null;
    }

    /* An exponential moving average without the bias of its start: `weight` of the past, 0 to 1. */
    function smooth(values, weight) {
        if (!(weight > 0)) return values;
        let mean = 0,
            share = 0;
        return values.map((v) => {
            if (v === null) return null;
            mean = weight * mean + (1 - weight) * v;
            share = weight * share + (1 - weight);
            return mean / share;
        });
    }

    /* The range of all curves' values in each of n parts of x from lo to hi, drawn behind the lines. */
    function envelope(curves, lo, hi, n, is_log) {
        const f = is_log ? Math.log : (v) => v,
            back = is_log ? Math.exp : (v) => v;
        const span = f(hi) - f(lo);
        const low = new Array(n).fill(Infinity),
            high = new Array(n).fill(-Infinity);
        curves.forEach((c) =>
            c.x.forEach((x, i) => {
                if (is_log && !(x > 0)) return;
                const at = Math.min(n - 1, Math.floor(((f(x) - f(lo)) / span) * n));
                const least = (c.lo || c.y)[i],
                    most = (c.hi || c.y)[i];
                if (least === null || most === null || at < 0 || x > hi) return;
                low[at] = Math.min(low[at], least);
                high[at] = Math.max(high[at], most);
            }),
        );
        return low
            .map((v, i) => ({x: back(f(lo) + ((i + 0.5) / n) * span), lo: v, hi: high[i]}))
            .filter((p) => p.lo <= p.hi);
    }

    return {of_series, of_job, smooth, envelope};
})();
