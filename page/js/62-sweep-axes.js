/* The combinations of a sweep as lines across parallel axes, one for each setting that varies and for some results. A
 * value of a setting is a button, and a range of a result is drawn with the pointer; both become conditions of the
 * filter, where they can be typed as well. */
psgd.sweep_axes = (() => {
    const {h, format, axis} = psgd;
    const named_most = 12; /* values of a setting, up to which each has its place */
    const results = [
        {key: 'accuracy', title: 'Test accuracy', kind: 'percent'},
        {key: 'bytes_to_target', title: 'Bytes to the target', kind: 'bytes'},
        {key: 'time_to_target_s', title: 'Time to the target', kind: 'time'},
        {key: 'bytes', title: 'Bytes per worker', kind: 'bytes'},
    ];
    /* Shares of an axis' height: where its values are, and where a combination without a value passes. */
    const top = 0.05,
        bottom = 0.86,
        none = 0.97;

    const svg = (name, attributes) => {
        const element = document.createElementNS('http://www.w3.org/2000/svg', name);
        Object.entries(attributes).forEach(([k, v]) => element.setAttribute(k, v));
        return element;
    };
    const in_order = (a, b) =>
        typeof a === 'number' && typeof b === 'number'
            ? a - b
            : format.text(a).localeCompare(format.text(b), 'en', {numeric: true});

    /* An axis is {key, title, at(row), ticks: [{at, text, value}]}; `value` only of a setting's tick. */
    function setting_axis(key, rows) {
        const found = new Map(rows.map((row) => [format.text(row.values[key]), row.values[key]]));
        const values = [...found.values()].sort(in_order);
        if (values.length > named_most && values.every((v) => typeof v === 'number'))
            return number_axis({key, title: key, kind: 'number'}, rows, (row) => row.values[key]);
        const texts = values.map(format.text);
        const place = (i) =>
            texts.length > 1 ? bottom - (i / (texts.length - 1)) * (bottom - top) : (top + bottom) / 2;
        return {
            key,
            title: key,
            at: (row) => place(texts.indexOf(format.text(row.values[key]))),
            ticks: texts.length > 2 * named_most ? [] : texts.map((text, i) => ({at: place(i), text, value: text})),
        };
    }

    function number_axis({key, title, kind}, rows, of) {
        const is_value = (v) => typeof v === 'number' && Number.isFinite(v);
        const values = rows.map(of).filter(is_value);
        if (!values.length) return null;
        const [lo, hi] = [Math.min(...values), Math.max(...values)];
        const is_log = lo > 0 && hi > 10 * lo;
        const share = (v) => (hi === lo ? 0.5 : is_log ? Math.log(v / lo) / Math.log(hi / lo) : (v - lo) / (hi - lo));
        const place = (v) => bottom - share(v) * (bottom - top);
        const {ticks, labels, unit} = axis.of(kind, lo, hi, 5, is_log);
        return {
            key,
            title,
            kind,
            at: (row) => (is_value(of(row)) ? place(of(row)) : none),
            ticks: [
                ...(hi > lo
                    ? ticks.map((v, i) => ({at: place(v), text: `${labels[i]}${unit && format.space}${unit}`}))
                    : [{at: place(lo), text: axis.text(kind, lo)}]),
                ...(rows.every((row) => is_value(of(row))) ? [] : [{at: none, text: 'none'}]),
            ],
            /* The value at a share of the height. */
            value_at: (at) => {
                const s = Math.max(0, Math.min(1, (bottom - at) / (bottom - top)));
                return is_log ? lo * (hi / lo) ** s : lo + s * (hi - lo);
            },
        };
    }

    const axes_of = (rows) =>
        [
            ...Object.keys(rows[0]?.values || {}).map((key) => setting_axis(key, rows)),
            ...results.map((r) => number_axis(r, rows, (row) => row.of[r.key].mean)),
        ].filter(Boolean);

    const digits = (v) => Number(v.toPrecision(4));
    const number = (kind, v) => (kind === 'percent' ? `${digits(100 * v)}%` : String(digits(v)));

    function line(row, axes, is_listed) {
        const d = axes.map((a, i) => `${i ? 'L' : 'M'}${i + 0.5} ${a.at(row)}`).join('');
        const group = svg('g', {class: is_listed ? 'listed' : 'other', 'data-key': row.key});
        const seen = svg('path', {d, class: 'line', 'stroke-dasharray': row.dash.join(' ')});
        seen.style.setProperty('stroke', `var(${row.colour})`);
        group.append(seen, svg('path', {d, class: 'near'}));
        return group;
    }

    /* amend(key, conditions) replaces the conditions about a key in the filter, and conditions() has those that hold. */
    return (amend, conditions) => {
        const how =
            'A line is a combination. A click on a value, or a range drawn along the axis of a result, filters the ' +
            'table; what is not listed there is grey.';
        const place = h('div.axes'),
            readout = h('p.hint');
        let rows = [];

        const show_readout = (row) => {
            const values = (row ? results : [])
                .map((r) => [r.title.toLowerCase(), row.of[r.key].mean, r.kind])
                .filter(([, v]) => v !== null)
                .map(([title, v, kind]) => `${title} ${axis.text(kind, v)}`);
            readout.textContent = row ? [row.label, ...values].join(', ') : how;
        };

        function light(key) {
            place.querySelectorAll('g').forEach((g) => g.classList.toggle('lit', g.getAttribute('data-key') === key));
            show_readout(rows.find((row) => row.key === key));
        }

        function tick(a, t) {
            const style = {top: `${100 * t.at}%`};
            if (t.value === undefined) return h('span.tick', {style}, t.text);
            const condition = psgd.search.condition(a.key, '=', t.value);
            if (!condition) return h('span.tick', {style, title: t.text}, t.text);
            const is_on = conditions().includes(condition);
            return h(
                'button.tick',
                {
                    type: 'button',
                    style,
                    title: t.text,
                    'aria-pressed': String(is_on),
                    'aria-label': `Only ${a.title} ${t.text}`,
                    'data-key': `${a.key} ${t.value}`,
                    onclick: () => {
                        amend(a.key, is_on ? [] : [condition]);
                        place.querySelector(`[data-key="${CSS.escape(`${a.key} ${t.value}`)}"]`)?.focus();
                    },
                },
                t.text,
            );
        }

        /* A range is drawn along an axis; a click without one removes it. */
        function draw_range(column, a, start) {
            const box = column.getBoundingClientRect();
            const share = (e) => Math.max(0, Math.min(1, (e.clientY - box.top) / box.height));
            const range = h('span.axis-range');
            const from = share(start);
            let to = from;
            const move = (e) => {
                to = share(e);
                range.style.setProperty('top', `${100 * Math.min(from, to)}%`);
                range.style.setProperty('height', `${100 * Math.abs(to - from)}%`);
            };
            const stop = () => {
                column.removeEventListener('pointermove', move);
                column.removeEventListener('pointerup', stop);
                column.removeEventListener('pointercancel', stop);
                range.remove();
                const [lo, hi] = [Math.max(from, to), Math.min(from, to)].map((at) => number(a.kind, a.value_at(at)));
                amend(
                    a.key,
                    Math.abs(to - from) * box.height < 4
                        ? []
                        : [psgd.search.condition(a.key, '>=', lo), psgd.search.condition(a.key, '<=', hi)],
                );
            };
            column.append(range);
            column.setPointerCapture(start.pointerId);
            column.addEventListener('pointermove', move);
            column.addEventListener('pointerup', stop);
            column.addEventListener('pointercancel', stop);
        }

        function axis_element(a) {
            const column = h(
                'div.axis-line',
                {class: `axis-line${a.value_at ? ' ranged' : ''}`},
                a.ticks.map((t) => tick(a, t)),
            );
            if (a.value_at) column.addEventListener('pointerdown', (e) => e.button === 0 && draw_range(column, a, e));
            return h('div.axis', {}, h('span.axis-title', {title: a.title}, a.title), column);
        }

        return {
            element: h(
                'section.parallel',
                {},
                h('h2', {}, 'Settings and results'),
                h('div.scroll', {tabindex: 0, role: 'region', 'aria-label': 'Parallel coordinates'}, place),
                readout,
            ),
            light,
            /* `listed`: the rows in the table. */
            show: (all, listed) => {
                rows = all;
                const axes = axes_of(rows),
                    are_listed = new Set(listed);
                const n = axes.length;
                const lines = svg('svg', {
                    viewBox: `0 0 ${n || 1} 1`,
                    preserveAspectRatio: 'none',
                    role: 'img',
                    'aria-label':
                        `${listed.length} of ${rows.length} combinations as lines across ` +
                        `${axes.map((a) => a.title).join(', ')}; the table has their values`,
                });
                lines.append(
                    ...rows.filter((row) => !are_listed.has(row)).map((row) => line(row, axes, false)),
                    ...listed.map((row) => line(row, axes, true)),
                );
                lines.addEventListener('pointerover', (e) =>
                    light(e.target.closest('g')?.getAttribute('data-key') ?? null),
                );
                lines.addEventListener('pointerleave', () => light(null));
                place.style.setProperty('--axes', n);
                place.replaceChildren(lines, ...axes.map(axis_element));
                show_readout(null);
            },
        };
    };
})();
