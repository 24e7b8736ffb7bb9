/* The controls of all charts of a view: x, smoothing, logarithmic axes, range, curves. Their values are in the address. */
psgd.controls = (() => {
    const {h, axis, route} = psgd;
    const few = 8; /* nodes, up to which each has its curve without being asked for */

    function from_query(query, xs, is_log) {
        const number = (name) =>
            query.get(name) && Number.isFinite(Number(query.get(name))) ? Number(query.get(name)) : null;
        return {
            x: xs.includes(query.get('x')) ? query.get('x') : xs[0],
            smoothing: Math.min(0.99, Math.max(0, number('smooth') || 0)),
            is_log: query.get('log') === null ? is_log : query.get('log') === '1',
            is_log_x: {0: false, 1: true}[query.get('logx')] ?? null /* as the curves choose */,
            from: number('from'),
            to: number('to'),
            chosen: query.get('show') === null ? null : new Set(query.get('show').split(',').filter(Boolean)),
        };
    }

    function keep(s, usual_x, is_log) {
        route.amend({
            x: s.x === usual_x ? '' : s.x,
            smooth: s.smoothing || '',
            log: s.is_log === is_log ? '' : Number(s.is_log),
            logx: s.is_log_x === null ? '' : Number(s.is_log_x),
            from: s.from,
            to: s.to,
            show: s.chosen ? [...s.chosen].join(',') || 'none' : '',
        });
    }

    function radios(legend, values, chosen, change) {
        const name = psgd.id('choice');
        return h(
            'fieldset.choice',
            {},
            h('legend', {}, legend),
            values.map(([value, text]) =>
                h(
                    'label',
                    {},
                    h('input', {type: 'radio', name, value, checked: value === chosen, onchange: () => change(value)}),
                    h('span', {}, text),
                ),
            ),
        );
    }

    /* xs: the names of x. on_change('x' | 'look' | 'range' | 'curves'). is_log: the value without one in the address. */
    function make(query, xs, on_change, {is_log = false, log_title = 'Logarithmic y'} = {}) {
        const state = from_query(query, xs, is_log);
        let usual_x = xs[0];
        const changed = (what) => {
            keep(state, usual_x, is_log);
            on_change(what);
        };
        const smooth_id = psgd.id('smooth'),
            smooth_text = h('output', {for: smooth_id}),
            chips = h('div.chips', {role: 'group', 'aria-label': 'Curves'});
        const range_text = (v) => (v === null ? '' : String(Number(v.toPrecision(6))));
        const [from, to] = ['from', 'to'].map((key) =>
            h('input', {
                type: 'text',
                inputmode: 'decimal',
                size: 7,
                'aria-label': `Range of x, ${key}`,
                placeholder: key === 'from' ? 'first' : 'last',
                onchange: (e) => {
                    const v = Number(e.target.value);
                    state[key] = e.target.value.trim() === '' || !Number.isFinite(v) ? null : v;
                    e.target.value = range_text(state[key]);
                    changed('range');
                },
            }),
        );
        const log_x = h('input', {
            type: 'checkbox',
            checked: state.is_log_x,
            onchange: (e) => {
                state.is_log_x = e.target.checked;
                changed('look');
            },
        });
        const reset = h('button.small', {type: 'button', onclick: () => zoom(null, null)}, 'Whole range');

        function show() {
            smooth_text.textContent = state.smoothing ? state.smoothing.toFixed(2) : 'off';
            from.value = range_text(state.from);
            to.value = range_text(state.to);
            reset.disabled = state.from === null && state.to === null;
        }

        function zoom(lo, hi) {
            [state.from, state.to] = [lo, hi].map((v) => (v === null ? null : Number(v.toPrecision(6))));
            show();
            changed('range');
        }

        function is_shown(key, n) {
            return state.chosen ? state.chosen.has(key) : n <= few || key === 'mean';
        }

        /* The buttons that switch curves on and off: one for each {key, label, colour, dash}. */
        function set_curves(curves) {
            const n = curves.filter((c) => c.key !== 'mean').length;
            psgd.put(chips, [curves.map((c) => [c.key, c.label, is_shown(c.key, n)]), state.chosen === null], () => {
                const all = curves.map((c) => chip(c, curves, n));
                const mean = curves.findIndex((c) => c.key === 'mean');
                if (n <= few) return all;
                const nodes = all.filter((c, i) => i !== mean);
                return [
                    mean >= 0 ? all[mean] : null,
                    h(
                        'details',
                        {open: chips.querySelector('details')?.open},
                        h('summary', {}, `${n} nodes`),
                        h('div.chips', {}, nodes),
                    ),
                ];
            });
        }

        function chip(c, curves, n) {
            const on = is_shown(c.key, n);
            return h(
                'button.chip',
                {
                    type: 'button',
                    'aria-pressed': String(on),
                    'data-key': c.key,
                    onclick: () => {
                        state.chosen = new Set(
                            curves.map((k) => k.key).filter((k) => (k === c.key ? !on : is_shown(k, n))),
                        );
                        changed('curves');
                        chips.querySelector(`[data-key="${CSS.escape(c.key)}"]`)?.focus();
                    },
                },
                h('span.swatch', {
                    'aria-hidden': 'true',
                    class: `swatch${c.dash.length ? ' dashed' : ''}`,
                    style: {'--swatch': `var(${c.colour})`},
                }),
                h('span.chip-text', {}, c.label),
            );
        }

        const over =
            xs.length < 2
                ? null
                : radios(
                      'Over',
                      xs.map((x) => [x, axis.x_names[x]]),
                      state.x,
                      (x) => {
                          /* A range of steps is no range of seconds. */
                          [state.x, state.is_log_x, state.from, state.to] = [x, null, null, null];
                          show();
                          changed('x');
                      },
                  );
        const element = h(
            'div.controls',
            {},
            over,
            h(
                'div.control',
                {},
                h('label', {for: smooth_id}, 'Smoothing'),
                h('input', {
                    type: 'range',
                    id: smooth_id,
                    min: 0,
                    max: 0.99,
                    step: 0.01,
                    value: state.smoothing,
                    oninput: (e) => {
                        state.smoothing = Number(e.target.value);
                        show();
                        changed('look');
                    },
                }),
                smooth_text,
            ),
            h(
                'label.control',
                {},
                h('input', {
                    type: 'checkbox',
                    checked: state.is_log,
                    onchange: (e) => {
                        state.is_log = e.target.checked;
                        changed('look');
                    },
                }),
                log_title,
            ),
            h('label.control', {}, log_x, 'Logarithmic x'),
            h(
                'div.control.range',
                {},
                h('span', {'aria-hidden': 'true'}, 'From'),
                from,
                h('span', {'aria-hidden': 'true'}, 'to'),
                to,
                reset,
            ),
            chips,
        );
        show();
        return {
            element,
            state,
            /* Is x logarithmic in the plans of the charts? */
            set_log_x: (is_log_x) => {
                log_x.checked = is_log_x;
            },
            /* The x of an address without one. */
            set_usual_x: (x) => {
                usual_x = x;
                if (query.get('x')) return;
                state.x = x;
                over.querySelectorAll('input').forEach((input) => (input.checked = input.value === x));
            },
            /* Hides an x that none of the runs has, unless it is the one in use. */
            offer_x: (x, is_there) =>
                over.querySelectorAll('input').forEach((input) => {
                    if (input.value === x) input.closest('label').hidden = !is_there && !input.checked;
                }),
            zoom,
            set_curves,
            shown: (curves) => {
                const n = curves.filter((c) => c.key !== 'mean').length;
                return curves.filter((c) => is_shown(c.key, n));
            },
        };
    }

    return make;
})();

/* The target accuracy of runs that are compared, in percent. */
psgd.target = {
    /* That of the address; null: none. */
    of: (query) => {
        const v = Number(query.get('target'));
        return v > 0 && v <= 1 ? v : null;
    },
    /* A field for it. now(): the one in use. change(v) is called with the one that was typed; null: the common one. */
    field: (now, change) => {
        const {h} = psgd;
        const id = psgd.id('target');
        const put = () => {
            const v = now();
            input.value = typeof v === 'number' ? Number((100 * v).toPrecision(6)) : '';
        };
        const input = h('input', {
            type: 'number',
            id,
            min: 1,
            max: 100,
            step: 'any',
            placeholder: 'common',
            onchange: () => {
                const v = Number(input.value) / 100;
                if (input.value === '') change(null);
                else if (v > 0 && v <= 1) change(v);
                else put();
            },
        });
        return {
            element: h('div.control', {}, h('label', {for: id}, 'Target accuracy'), input, '%'),
            /* Shows the one in use, unless somebody types another one. */
            show: () => document.activeElement === input || put(),
        };
    },
};
