/* The plan of a chart: which line is drawn where, on the screen and in a file. Made of a model
 *     {title, x_kind, y_kind, y_title, curves, behind, is_log, is_log_x, smoothing, from, to}
 * in which from and to are the range of x, or null for all, and `behind` are curves whose range is drawn behind the lines;
 * a curve with `has_range` has its own range, from lo to hi at each point. */
psgd.plan = (() => {
    const {curves} = psgd;
    const parts = 300; /* of the range behind the lines */
    const smoothed_least = 20; /* points; the average of fewer, as of tests once an epoch, lags behind all of them */

    function range_of(lists) {
        let lo = Infinity,
            hi = -Infinity;
        lists.forEach((list) =>
            list.forEach((v) => {
                if (v !== null && v < lo) lo = v;
                if (v !== null && v > hi) hi = v;
            }),
        );
        return lo <= hi ? [lo, hi] : null;
    }

    function y_range(lines, points, kind, is_log) {
        const found = range_of([...lines.map((l) => l.y), points.map((p) => p.lo), points.map((p) => p.hi)]);
        if (!found) return is_log ? [0.1, 1] : [0, 1];
        let [lo, hi] = found;
        if (is_log) return lo === hi ? [lo / 1.5, hi * 1.5] : [lo * (lo / hi) ** 0.04, hi * (hi / lo) ** 0.04];
        if (lo === hi) {
            const by = Math.abs(lo) * 0.1 || 1;
            [lo, hi] = [lo - by, hi + by];
        }
        const pad = (hi - lo) * 0.05;
        const floor = found[0] >= 0 ? 0 : -Infinity,
            ceiling = kind === 'percent' && found[1] <= 1 ? 1 : Infinity;
        return [Math.max(floor, lo - pad), Math.min(ceiling, hi + pad)];
    }

    /* The bytes of rules differ by orders of magnitude: on a linear axis the curves of most are at its edge. */
    const apart = 10;
    function is_wide(x_kind, list) {
        const ends = list.map((c) => Math.max(0, ...c.x.slice(-1))).filter((v) => v > 0);
        return x_kind === 'bytes' && ends.length > 1 && Math.max(...ends) > apart * Math.min(...ends);
    }

    const own_range = (c) => ({
        colour: c.colour,
        points: c.x.map((x, i) => ({x, lo: c.lo[i], hi: c.hi[i]})).filter((p) => p.lo !== null && p.hi !== null),
    });
    const within = (x, lo, hi) => x.map((v) => v >= lo && v <= hi);

    const make = (model) => {
        const is_log_x = model.is_log_x && model.curves.some((c) => c.x.some((v) => v > 0));
        const positive = (list) => (is_log_x ? list.map((v) => (v > 0 ? v : null)) : list);
        const all = range_of(model.curves.map((c) => positive(c.x))) || [0, 1];
        let lo = model.from ?? all[0],
            hi = model.to ?? all[1];
        if (is_log_x && !(lo > 0)) lo = all[0];
        if (!(hi > lo)) [lo, hi] = is_log_x ? [all[0] / 1.5, all[0] * 1.5] : [lo - 0.5, lo + 0.5];
        const is_positive = model.curves.some((c) => c.y.some((v) => v > 0));
        const is_log = model.is_log && is_positive;
        const drop = (v) => (is_log && !(v > 0) ? null : v);
        const lines = model.curves.map((c) => {
            const y = (c.y.length < smoothed_least ? c.y : curves.smooth(c.y, model.smoothing)).map(drop);
            const first = is_log_x ? c.x.findIndex((v) => v > 0) : 0; /* x grows */
            return first > 0 ? {...c, x: c.x.slice(first), y: y.slice(first)} : {...c, y};
        });
        const behind = model.behind?.length && hi > lo ? curves.envelope(model.behind, lo, hi, parts, is_log_x) : [];
        /* A range that is as thin as its line is not drawn. */
        const bands = [{colour: '--band', points: behind}, ...model.curves.filter((c) => c.has_range).map(own_range)]
            .map((b) => ({...b, points: b.points.filter((p) => (!is_log || p.lo > 0) && (!is_log_x || p.x > 0))}))
            .filter((b) => b.points.length > 1 && b.points.some((p) => p.lo !== p.hi));
        const seen = lines.map((l) => {
            const is_in = within(l.x, lo, hi);
            return {y: l.y.filter((v, i) => is_in[i])};
        });
        const points = bands.flatMap((b) => b.points).filter((p) => p.x >= lo && p.x <= hi);
        return {
            ...model,
            lines,
            bands,
            x: [lo, hi],
            is_log,
            is_log_x,
            y: y_range(seen, points, model.y_kind, is_log),
        };
    };
    return Object.assign(make, {is_wide});
})();
