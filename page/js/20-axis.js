/* Axes: units, ticks and their labels, for the chart on the screen and for the exported one. */
psgd.axis = (() => {
    const {format} = psgd;
    const scaled = {
        bytes: [
            [1, 'B'],
            [1e3, 'kB'],
            [1e6, 'MB'],
            [1e9, 'GB'],
            [1e12, 'TB'],
        ],
        time: [
            [1, 's'],
            [180, 'min'],
            [10800, 'h'],
            [259200, 'd'],
        ],
        seconds: [
            [1e-6, 'µs'],
            [1e-3, 'ms'],
            [1, 's'],
        ],
        percent: [[0.01, '%']],
    };
    const divisors = {min: 60, h: 3600, d: 86400};

    /* The unit of an axis that ends at `most`: {unit, div}, where a value divided by `div` is in `unit`. */
    function unit_of(kind, most) {
        const units = scaled[kind];
        if (!units) return {unit: '', div: 1};
        const [from, unit] = units.filter(([least], i) => i === 0 || Math.abs(most) >= least).pop();
        return {unit, div: divisors[unit] || from};
    }

    function linear(lo, hi, n, div, least = 0) {
        const span = (hi - lo) / div;
        if (!(span > 0)) return {ticks: [lo], step: 0};
        const rough = span / Math.max(1, n);
        const power = 10 ** Math.floor(Math.log10(rough));
        const step = Math.max(least, power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999));
        const first = Math.ceil(lo / div / step - 1e-9);
        const out = [];
        for (let i = first; i * step <= hi / div + step * 1e-9; i++) out.push(i * step * div);
        return {ticks: out, step};
    }

    /* 1, 2 and 5 times each power of ten; of many powers only these. */
    function logarithmic(lo, hi) {
        const decades = Math.log10(hi / lo);
        if (decades < 0.7) return linear(lo, hi, 5, 1).ticks.filter((v) => v > 0);
        const out = [];
        for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++)
            (decades > 2.5 ? [1] : [1, 2, 5]).forEach((m) => out.push(Number(`${m}e${e}`)));
        const every = decades > 8 ? Math.ceil(decades / 8) : 1;
        return out.filter((v, i) => v >= lo * 0.999 && v <= hi * 1.001 && i % every === 0);
    }

    function labels(ticks, div, step) {
        const values = ticks.map((v) => v / div);
        const most = Math.max(...values.map(Math.abs));
        if (most >= 1e7 || (most > 0 && most < 1e-4)) return values.map((v) => (v === 0 ? '0' : format.digits(v, 2)));
        const places = step > 0 ? Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9))) : 2;
        return values.map((v) => format.grouped(v.toFixed(places)));
    }

    /* On a logarithmic axis the number of digits differs from tick to tick. */
    const log_labels = (ticks, div) =>
        ticks.map((v) =>
            v / div >= 1e6 || v / div < 1e-4
                ? format.digits(v / div, 1)
                : format.grouped(String(Number((v / div).toPrecision(3)))),
        );

    return {
        /* {ticks, labels, unit} of an axis from lo to hi with about n ticks. */
        of: (kind, lo, hi, n, is_log) => {
            const {unit, div} = unit_of(kind, Math.max(Math.abs(lo), Math.abs(hi)));
            if (is_log) {
                const ticks = logarithmic(lo, hi);
                return {ticks, unit, labels: log_labels(ticks, div)};
            }
            const {ticks, step} = linear(lo, hi, n, div, kind === 'step' ? 1 : 0);
            return {ticks, unit, labels: labels(ticks, div, step)};
        },
        /* A value with its unit, for people. */
        text: (kind, v) =>
            (
                ({
                    bytes: format.bytes,
                    time: format.seconds,
                    seconds: format.seconds,
                    percent: format.percent,
                    step: format.count,
                    tokens: format.count,
                })[kind] || format.number
            )(v),
        x_names: {step: 'step', epoch: 'epoch', time: 'seconds', bytes: 'bytes', tokens: 'tokens'},
        x_titles: {
            step: 'Step',
            epoch: 'Epoch',
            time: 'Time',
            bytes: 'Bytes per worker, sent + received',
            tokens: 'Tokens of all workers',
        },
    };
})();
