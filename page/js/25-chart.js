/* A chart: title, a summary of the curves in words, the picture, and its exports. uPlot draws lines and axes; this file
 * draws the range behind them. The picture has a fixed height, so that nothing moves when data arrive. */
psgd.chart = (() => {
    const {h, axis, format, colour} = psgd;
    const font = '12px system-ui, sans-serif',
        readout_most = 8,
        described_most = 12;

    function last(values) {
        for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return i;
        return -1;
    }

    function best(values, lower) {
        let at = -1;
        values.forEach((v, i) => {
            if (v !== null && (at < 0 || (lower ? v < values[at] : v > values[at]))) at = i;
        });
        return at;
    }

    /* A curve in words: "last 0.21 at step 40, lowest 0.2 at step 38". If not each row is a point, the extremes are those of
     * all rows, "near" a point; if the document lacks these, the text has none, as a row between two points could be one. */
    function words(plan, c) {
        const at_x = (i) =>
            `${plan.x_kind === 'time' || plan.x_kind === 'bytes' ? '' : `${plan.x_kind} `}${axis.text(plan.x_kind, c.x[i])}`;
        const i = last(c.y);
        const odd = c.odd
            ? `${format.number(c.odd.value)} from ${plan.x_kind} ${axis.text(plan.x_kind, c.odd.x)} on`
            : '';
        if (i < 0) return odd || 'no values';
        const extremes = {percent: ['highest'], loss: ['lowest']}[plan.y_kind] || ['lowest', 'highest'];
        const [lowest, highest] = c.every > 1 ? [c.lo, c.hi] : [c.y, c.y];
        return [
            `last ${axis.text(plan.y_kind, c.y[i])} at ${at_x(i)}`,
            ...extremes.map((word) => {
                const values = word === 'lowest' ? lowest : highest;
                const k = values ? best(values, word === 'lowest') : -1;
                return k < 0
                    ? ''
                    : `${word} ${axis.text(plan.y_kind, values[k])} ${c.every > 1 ? 'near' : 'at'} ${at_x(k)}`;
            }),
            c.every > 1 ? `one row in ${c.every} is drawn` : '',
            odd,
        ]
            .filter(Boolean)
            .join(', ');
    }

    /* One line: the words of the mean or of the only curve; of several curves the last values. */
    function summary(plan) {
        const {curves} = plan;
        const one = curves.length === 1 ? curves[0] : curves.find((c) => c.key === 'mean');
        if (one) return (curves.length > 1 ? `${one.label}: ` : '') + words(plan, one);
        return (
            curves
                .slice(0, readout_most)
                .map((c) => `${c.label} ${last(c.y) < 0 ? words(plan, c) : axis.text(plan.y_kind, c.y[last(c.y)])}`)
                .join(', ') + (curves.length > readout_most ? ` and ${curves.length - readout_most} more` : '')
        );
    }

    /* The picture in words, for screen readers. */
    function description(plan) {
        const more = plan.curves.length - described_most;
        return (
            plan.curves
                .slice(0, described_most)
                .map((c) => `${c.label}: ${words(plan, c)}. `)
                .join('') + (more > 0 ? `And ${more} more curves.` : '')
        );
    }

    /* The table for uPlot, with one column of x for all curves. */
    function table(lines) {
        if (!lines.length) return [[], []];
        const [first] = lines;
        const is_same = lines.every((l) => l.x.length === first.x.length && l.x.every((v, i) => v === first.x[i]));
        return is_same ? [first.x, ...lines.map((l) => l.y)] : uPlot.join(lines.map((l) => [l.x, l.y]));
    }

    function draw_band(u, {points, colour: name}) {
        const x = (v) => u.valToPos(v, 'x', true),
            y = (v) => u.valToPos(v, 'y', true);
        u.ctx.save();
        u.ctx.beginPath();
        u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
        u.ctx.clip();
        u.ctx.beginPath();
        points.forEach((p) => u.ctx.lineTo(x(p.x), y(p.hi)));
        points
            .slice()
            .reverse()
            .forEach((p) => u.ctx.lineTo(x(p.x), y(p.lo)));
        u.ctx.closePath();
        u.ctx.fillStyle = colour(name);
        u.ctx.globalAlpha = name === '--band' ? 1 : 0.15;
        u.ctx.fill();
        u.ctx.restore();
    }

    /* The values with a dot: all of a few, else those without a line, because their neighbours are missing. */
    function dots(u, series) {
        const y = u.data[series],
            at = [];
        y.forEach((v, i) => v !== undefined && at.push(i));
        const seen = at.filter((i) => y[i] !== null);
        return at.length < 12
            ? seen
            : at.filter(
                  (i, k) =>
                      y[i] !== null &&
                      (k === 0 || y[at[k - 1]] === null) &&
                      (k === at.length - 1 || y[at[k + 1]] === null),
              );
    }

    function options(plan, width, height, hooks) {
        const ink = colour('--muted'),
            line = colour('--grid');
        const of = (scale, kind, is_log, per) => ({
            stroke: ink,
            font,
            gap: 4,
            grid: {stroke: line, width: 1},
            ticks: {stroke: line, width: 1, size: 4},
            splits: (u, i, lo, hi) =>
                axis.of(kind, lo, hi, Math.max(2, Math.floor((i ? height : width) / per)), is_log).ticks,
            values: (u, ticks) =>
                ticks.length
                    ? axis.of(
                          kind,
                          u.scales[scale].min,
                          u.scales[scale].max,
                          Math.max(2, Math.floor((scale === 'x' ? width : height) / per)),
                          is_log,
                      ).labels
                    : [],
        });
        return {
            width,
            height,
            legend: {show: false},
            padding: [8, 12, 0, 0],
            scales: {
                x: {time: false, distr: plan.is_log_x ? 3 : 1, range: () => plan.x},
                y: {distr: plan.is_log ? 3 : 1, range: () => plan.y},
            },
            axes: [
                {
                    ...of('x', plan.x_kind, plan.is_log_x, 70),
                    size: 30,
                    grid: {show: false},
                    filter: (u, splits) => splits,
                },
                {...of('y', plan.y_kind, plan.is_log, 38), size: 58, filter: (u, splits) => splits},
            ],
            cursor: {
                drag: {x: true, y: false, setScale: false},
                points: {size: 6},
                sync: {key: plan.sync || 'none', scales: ['x', null]},
            },
            series: [
                {},
                ...plan.lines.map((l) => ({
                    stroke: colour(l.colour),
                    width: l.width,
                    dash: l.dash,
                    spanGaps: false,
                    points: {
                        show: true,
                        filter: dots,
                        size: l.dot || (l.y.length < 12 ? 5 : 3.5),
                        fill: colour(l.colour),
                    },
                })),
            ],
            hooks,
        };
    }

    function unit_text(plan) {
        const x = axis.of(plan.x_kind, ...plan.x, 4, plan.is_log_x).unit,
            y = axis.of(plan.y_kind, ...plan.y, 4, plan.is_log).unit;
        const over = axis.x_titles[plan.x_kind].toLowerCase();
        const log = '(logarithmic)';
        return [y && `in ${y}`, plan.is_log && log, `over ${over}`, x && `in ${x}`, plan.is_log_x && log]
            .filter(Boolean)
            .join(' ');
    }

    /* `on`: {zoom(from, to), reset()}. The result: {element, show(model), fail(text), end()}. */
    return (title, name, on) => {
        const heading = h('h3', {id: psgd.id('chart')}, title),
            unit = h('span.unit');
        const readout = h('p.readout'),
            place = h('div.plot'),
            note = h('p.plot-note', {hidden: true});
        const picture = h('div.picture', {role: 'img', 'aria-label': `Chart: ${title}`}, place);
        const exports = ['PNG', 'SVG', 'CSV'].map((kind) =>
            h(
                'button.quiet.small',
                {
                    type: 'button',
                    disabled: true,
                    'aria-label': `${title} as ${kind}`,
                    onclick: () => psgd.export[kind.toLowerCase()](plan, name),
                },
                kind,
            ),
        );
        const element = h(
            'figure.chart',
            {'aria-labelledby': heading.id},
            h('figcaption', {}, h('div.chart-title', {}, heading, unit), h('div.exports', {}, exports)),
            readout,
            h('div.stage', {}, picture, note),
        );
        let plan = null,
            drawn = null;

        function at_cursor(u) {
            const i = u.cursor.idx;
            if (i === null || i === undefined || u.cursor.left < 0) {
                readout.textContent = summary(plan);
                return;
            }
            const shown = plan.lines
                .map((l, k) => [l, u.data[k + 1][i]])
                .filter(([, v]) => v !== null && v !== undefined);
            shown.sort(([a], [b]) => (b.key === 'mean') - (a.key === 'mean'));
            readout.textContent =
                `${axis.x_titles[plan.x_kind]} ${axis.text(plan.x_kind, u.data[0][i])}: ` +
                shown
                    .slice(0, readout_most)
                    .map(([l, v]) => `${l.label} ${axis.text(plan.y_kind, v)}`)
                    .join(', ') +
                (shown.length > readout_most ? ` and ${shown.length - readout_most} more` : '');
        }

        function selected(u) {
            const {left, width} = u.select;
            u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
            if (width > 4 && on.zoom) on.zoom(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
        }

        function draw() {
            if (drawn) drawn.destroy();
            drawn = null;
            if (!plan || !place.clientWidth) return;
            drawn = new uPlot(
                options(plan, place.clientWidth, place.clientHeight, {
                    setCursor: [at_cursor],
                    setSelect: [selected],
                    drawAxes: [(u) => plan.bands.forEach((b) => draw_band(u, b))],
                }),
                table(plan.lines),
                place,
            );
            if (on.reset) drawn.over.addEventListener('dblclick', on.reset);
        }

        function say(text) {
            note.textContent = text;
            note.hidden = !text;
        }

        const resized = new ResizeObserver(() =>
            drawn && drawn.width !== place.clientWidth
                ? drawn.setSize({width: place.clientWidth, height: place.clientHeight})
                : !drawn && draw(),
        );
        resized.observe(place);
        psgd.theme.changed.add(draw);
        return {
            element,
            show: (model) => {
                plan = psgd.plan({title, ...model});
                unit.textContent = unit_text(plan);
                readout.textContent = summary(plan);
                picture.setAttribute('aria-label', `Chart: ${title} ${unit_text(plan)}. ${description(plan)}`);
                exports.forEach((b) => {
                    b.disabled = !plan.curves.length;
                });
                say(model.curves.length ? '' : model.empty || 'No curve is switched on.');
                draw();
            },
            fail: (text) => {
                plan = null;
                draw();
                readout.textContent = '';
                say(text);
            },
            end: () => {
                resized.disconnect();
                psgd.theme.changed.delete(draw);
                if (drawn) drawn.destroy();
            },
        };
    };
})();
