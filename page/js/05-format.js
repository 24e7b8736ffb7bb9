/* Numbers for people: three or four digits, a narrow space, a unit. */
psgd.format = (() => {
    const space = '\u202f',
        missing = '–';
    const byte_units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

    /* The text of a missing value, or of "nan", "inf", "-inf" in a series; null for a finite number. */
    function unusual(v) {
        if (v === null || v === undefined || v === '') return missing;
        if (typeof v !== 'number') return {nan: 'not a number', inf: '∞', '-inf': '−∞'}[v] || missing;
        return Number.isFinite(v) ? null : Number.isNaN(v) ? 'not a number' : v > 0 ? '∞' : '−∞';
    }

    /* Digits in groups of three, and a minus sign as wide as a digit. */
    function grouped(text) {
        const [whole, part] = text.split('.');
        const digits = whole.replace(/\B(?=(\d{3})+(?!\d))/g, space).replace('-', '−');
        return part === undefined ? digits : `${digits}.${part}`;
    }

    function digits(v, n) {
        const size = Math.abs(v);
        if (size !== 0 && (size < 1e-4 || size >= 1e9)) {
            const [m, e] = v.toExponential(n - 1).split('e');
            return `${m.replace('-', '−')}·10${superscript(Number(e))}`;
        }
        const before = size < 1 ? 1 : Math.floor(Math.log10(size)) + 1;
        return grouped(v.toFixed(Math.max(0, Math.min(6, n - before + (size < 0.1 && size > 0 ? 1 : 0)))));
    }

    function superscript(e) {
        return String(e).replace(/./g, (c) => (c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(c)]));
    }

    function bytes(v) {
        if (unusual(v)) return unusual(v);
        let unit = 0;
        while (Math.abs(v) >= 999.5 && unit < byte_units.length - 1) {
            v /= 1000;
            unit++;
        }
        return `${unit ? v.toPrecision(3) : v}${space}${byte_units[unit]}`;
    }

    const two = (v) => String(v).padStart(2, '0');

    function seconds(v) {
        if (unusual(v)) return unusual(v);
        const size = Math.abs(v);
        if (size === 0) return `0${space}s`;
        if (size < 0.9995e-3) return `${digits(v * 1e6, 3)}${space}µs`;
        if (size < 0.9995) return `${digits(v * 1e3, 3)}${space}ms`;
        if (size < 59.95) return `${digits(v, 3)}${space}s`;
        const s = Math.round(v);
        if (s < 3600) return `${Math.floor(s / 60)}${space}min ${two(s % 60)}${space}s`;
        if (s < 86400) return `${Math.floor(s / 3600)}${space}h ${two(Math.floor(s / 60) % 60)}${space}min`;
        return `${Math.floor(s / 86400)}${space}d ${two(Math.floor(s / 3600) % 24)}${space}h`;
    }

    function when(text) {
        const at = new Date(text);
        if (!text || Number.isNaN(at.getTime())) return missing;
        const today = new Date().toDateString() === at.toDateString();
        return at.toLocaleString(
            undefined,
            today
                ? {hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false}
                : {year: 'numeric', month: 'short', day: '2-digit', hour: '2-digit', minute: '2-digit', hour12: false},
        );
    }

    return {
        missing,
        space,
        bytes,
        seconds,
        when,
        digits,
        grouped,
        number: (v) => unusual(v) || (Number.isInteger(v) && Math.abs(v) < 1e9 ? grouped(String(v)) : digits(v, 4)),
        count: (v) => unusual(v) || grouped(String(Math.round(v))),
        percent: (v) => unusual(v) || `${(100 * v).toFixed(Math.abs(v) >= 0.9995 ? 1 : 2)}${space}%`,
        share: (v) => unusual(v) || `${(100 * v).toFixed(v > 0 && v < 0.1 ? 1 : 0)}${space}%`,
        /* 0, 1, ... are workers, -2, -3, ... servers; -1 and null are job_submit. */
        node: (v) =>
            v === null || v === undefined || v === -1 ? 'job_submit' : v >= 0 ? `worker ${v}` : `server ${-2 - v}`,
        text: (v) =>
            v === null || v === undefined || v === '' ? missing : typeof v === 'object' ? JSON.stringify(v) : String(v),
    };
})();
