/* A chart as a file: SVG, PNG (the SVG drawn by the browser at twice the size), or CSV of its curves. The background is
 * white, as in a paper. */
psgd.export = (() => {
    const {axis} = psgd;
    const size = {width: 720, height: 400, left: 64, right: 20, top: 44, bottom: 50, legend: 18};
    /* The colours of 00-colours.css on white. */
    const colours = {
        '--curve-0': '#0068a8',
        '--curve-1': '#c04a00',
        '--curve-2': '#00795a',
        '--curve-3': '#a8447c',
        '--curve-4': '#6a55c0',
        '--curve-5': '#8a6500',
        '--ink': '#1b1f24',
    };

    /* Replaces characters that XML 1.0 forbids even as references (its section 2.2). */
    const escape = (text) =>
        String(text)
            .replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)
            .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu, '\ufffd');
    const at = (v) => v.toFixed(1);

    function scale(range, from, to, is_log) {
        const f = is_log ? Math.log : (v) => v;
        const [lo, hi] = range.map(f);
        return (v) => from + ((f(v) - lo) / (hi - lo)) * (to - from);
    }

    function line_path(line, x, y, range) {
        let path = '',
            pen = 'M';
        line.x.forEach((v, i) => {
            if (v < range[0] || v > range[1]) return;
            if (line.y[i] === null) {
                pen = 'M';
                return;
            }
            /* A single value is a line without length; its round ends make it a dot. */
            path += `${pen}${at(x(v))} ${at(y(line.y[i]))}${pen === 'M' && (line.y[i + 1] ?? null) === null ? 'h0' : ''}`;
            pen = 'L';
        });
        return path;
    }

    function text(x, y, anchor, words, more = '') {
        return `<text x="${at(x)}" y="${at(y)}" text-anchor="${anchor}"${more}>${escape(words)}</text>`;
    }

    /* Rows of legend entries that fit the width. */
    function legend(lines, width) {
        const rows = [[]];
        let used = 0;
        lines.forEach((l) => {
            const wide = 36 + 6.6 * l.label.length;
            if (used + wide > width && rows[rows.length - 1].length) {
                rows.push([]);
                used = 0;
            }
            rows[rows.length - 1].push({...l, at: used});
            used += wide;
        });
        return rows;
    }

    function svg(plan) {
        const rows = legend(plan.lines, size.width - size.left - size.right);
        const height = size.height + 8 + rows.length * size.legend;
        const right = size.width - size.right,
            bottom = size.height - size.bottom;
        const x = scale(plan.x, size.left, right, plan.is_log_x),
            y = scale(plan.y, bottom, size.top, plan.is_log);
        const xs = axis.of(plan.x_kind, ...plan.x, 8, plan.is_log_x),
            ys = axis.of(plan.y_kind, ...plan.y, 6, plan.is_log);
        const parts = [
            `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${height}" ` +
                `viewBox="0 0 ${size.width} ${height}" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#1b1f24">`,
            `<rect width="${size.width}" height="${height}" fill="#fff"/>`,
            text(size.left, 24, 'start', plan.title, ' font-size="15" font-weight="600"'),
        ];
        ys.ticks.forEach((v, i) =>
            parts.push(
                `<path d="M${size.left} ${at(y(v))}H${right}" stroke="#e3e6ea"/>`,
                text(size.left - 8, y(v) + 4, 'end', ys.labels[i]),
            ),
        );
        xs.ticks.forEach((v, i) =>
            parts.push(
                `<path d="M${at(x(v))} ${bottom}v5" stroke="#1b1f24"/>`,
                text(x(v), bottom + 19, 'middle', xs.labels[i]),
            ),
        );
        const log = (is_log) => (is_log ? ', logarithmic' : '');
        const unit = xs.unit ? ` (${xs.unit})` : '',
            y_unit = ys.unit ? ` (${ys.unit})` : '';
        parts.push(
            text(
                (size.left + right) / 2,
                bottom + 38,
                'middle',
                axis.x_titles[plan.x_kind] + unit + log(plan.is_log_x),
            ),
            text(size.left, 38, 'start', plan.y_title + y_unit + log(plan.is_log), ' font-size="11" fill="#57606a"'),
        );
        plan.bands.forEach((band) => {
            const seen = band.points.filter((p) => p.x >= plan.x[0] && p.x <= plan.x[1]);
            const up = seen.map((p) => `${at(x(p.x))} ${at(y(p.hi))}`),
                down = seen.map((p) => `${at(x(p.x))} ${at(y(p.lo))}`).reverse();
            const fill = colours[band.colour] || '#8c96a3';
            parts.push(`<path d="M${[...up, ...down].join('L')}Z" fill="${fill}" fill-opacity="0.2"/>`);
        });
        plan.lines.forEach((l) =>
            parts.push(
                `<path d="${line_path(l, x, y, plan.x)}" fill="none" stroke="${colours[l.colour]}" ` +
                    `stroke-width="${l.width}" stroke-linejoin="round" stroke-linecap="round"${l.dash.length ? ` stroke-dasharray="${l.dash.join(' ')}"` : ''}/>`,
            ),
        );
        parts.push(`<path d="M${size.left} ${bottom}H${right}" stroke="#1b1f24"/>`);
        rows.forEach((row, i) =>
            row.forEach((l) => {
                const left = size.left + l.at,
                    base = size.height + 8 + i * size.legend;
                parts.push(
                    `<path d="M${at(left)} ${base - 4}h22" stroke="${colours[l.colour]}" stroke-width="2.5"` +
                        `${l.dash.length ? ` stroke-dasharray="${l.dash.join(' ')}"` : ''}/>`,
                    text(left + 28, base, 'start', l.label),
                );
            }),
        );
        return {text: `${parts.join('\n')}\n</svg>\n`, width: size.width, height};
    }

    function save(blob, name) {
        const url = URL.createObjectURL(blob);
        const link = psgd.h('a', {href: url, download: name, hidden: true});
        document.body.append(link);
        link.click();
        link.remove();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
    }

    function png(plan, name) {
        const drawn = svg(plan),
            image = new Image();
        const url = URL.createObjectURL(new Blob([drawn.text], {type: 'image/svg+xml'}));
        const failed = () => psgd.live.say(`${name}: this browser cannot draw a PNG; use SVG`);
        image.addEventListener('load', () => {
            const canvas = psgd.h('canvas', {width: 2 * drawn.width, height: 2 * drawn.height});
            canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
            URL.revokeObjectURL(url);
            canvas.toBlob((blob) => (blob ? save(blob, name) : failed()), 'image/png');
        });
        image.addEventListener('error', () => {
            URL.revokeObjectURL(url);
            failed();
        });
        image.src = url;
    }

    /* A cell by RFC 4180; an apostrophe is put before a text that a spreadsheet would read as a formula. */
    const cell = (v) => {
        const words = v === null || v === undefined ? '' : String(v);
        const safe = typeof v === 'string' && /^[=+\-@\t\r]/.test(words) ? `'${words}` : words;
        return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
    };

    /* One row per drawn point, without smoothing. */
    function csv(plan) {
        const rows = [['curve', axis.x_names[plan.x_kind], plan.y_title, 'min', 'max']];
        plan.curves.forEach((c) =>
            c.x.forEach((x, i) => {
                if (x >= plan.x[0] && x <= plan.x[1])
                    rows.push([c.label, x, c.y[i], c.lo ? c.lo[i] : null, c.hi ? c.hi[i] : null]);
            }),
        );
        return rows.map((r) => r.map(cell).join(',')).join('\r\n') + '\r\n';
    }

    return {
        svg: (plan, name) => save(new Blob([svg(plan).text], {type: 'image/svg+xml'}), `${name}.svg`),
        png: (plan, name) => png(plan, `${name}.png`),
        csv: (plan, name) => save(new Blob([csv(plan)], {type: 'text/csv'}), `${name}.csv`),
        text: (words, name) => save(new Blob([words], {type: 'text/plain'}), name),
        blob: save,
    };
})();
