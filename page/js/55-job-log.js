/* The log: the lines of job_submit and of the nodes, filtered by node, level and words. */
psgd.tabs.push({
    name: 'log',
    title: 'Log',
    make: (view) => {
        const {h, format, route, state} = psgd;
        const page = 2000;
        const wanted = {
            node: view.query.get('node') || '',
            level: view.query.get('level') || '',
            q: view.query.get('q') || '',
        };
        const lines = h('ol.log'),
            count = h('span.count', {role: 'status'}),
            more = h('div.buttons');
        const frame = h('div.scroll.log-frame', {tabindex: 0, role: 'region', 'aria-label': 'Log lines'}, lines);
        const nodes = h('select', {'aria-label': 'Node', onchange: (e) => want('node', e.target.value)});
        const levels = h(
            'select',
            {'aria-label': 'Level', onchange: (e) => want('level', e.target.value)},
            [
                ['', 'any level'],
                ['error', 'errors'],
                ['warn', 'warnings'],
                ['info', 'info'],
                ['debug', 'debug'],
            ].map(([value, text]) => h('option', {value}, text)),
        );
        const search = h('input', {
            type: 'search',
            placeholder: 'Search the log…',
            'aria-label': 'Search the log',
            value: wanted.q,
            oninput: (e) => want('q', e.target.value),
        });
        const follow = h('input', {type: 'checkbox', onchange: () => load()});
        let asked = 0,
            shown = null /* the document, with the lines of all pages so far */,
            timer = null;

        function want(key, value) {
            wanted[key] = value;
            route.amend(wanted);
            clearTimeout(timer);
            timer = setTimeout(() => load(), key === 'q' ? 200 : 0);
        }

        /* Marks the words of the search. */
        function marked(text) {
            if (!wanted.q) return text;
            const out = [],
                low = text.toLowerCase(),
                word = wanted.q.toLowerCase();
            if (low.length !== text.length) return text;
            for (let at = 0, next; ; at = next + word.length) {
                next = low.indexOf(word, at);
                out.push(text.slice(at, next < 0 ? undefined : next));
                if (next < 0) return out;
                out.push(h('mark', {}, text.slice(next, next + word.length)));
            }
        }

        /* job_submit's lines begin with a level and a time, which have columns here. */
        const words = (text) => text.replace(/^(INFO|WARN(ING)?|ERROR|DEBUG) \w+ \w+@[\d:]{8} : /, '');

        const line = (l) =>
            h(
                'li',
                {class: ['error', 'warn', 'debug'].includes(l.level) ? l.level : null},
                h('span.time', {}, l.time || ''),
                h('span.node', {}, format.node(l.node)),
                h(
                    'span.words',
                    {},
                    l.level === 'error' || l.level === 'warn' ? h('span.hidden', {}, `${l.level}: `) : null,
                    marked(words(String(l.text))),
                ),
            );

        function show(doc) {
            const is_end = frame.scrollTop + frame.clientHeight >= frame.scrollHeight - 8;
            psgd.put(lines, [doc.lines, wanted], () => doc.lines.map(line));
            const n = doc.lines.length,
                total = doc.total ?? n,
                is_filtered = wanted.node || wanted.level || wanted.q;
            count.textContent = doc.next
                ? `the first ${format.count(n)}${is_filtered ? ' matching' : ''}, of ${format.count(total)} lines`
                : n < total
                  ? `${is_filtered && n < page ? '' : 'the last '}${format.count(n)} of ${format.count(total)} lines`
                  : `${format.count(n)} ${n === 1 ? 'line' : 'lines'}`;
            psgd.put(more, [doc.next, n, wanted], () =>
                doc.next
                    ? h(
                          'button',
                          {
                              type: 'button',
                              onclick: () => load(doc.next),
                          },
                          'Show more',
                      )
                    : n
                      ? []
                      : is_filtered
                        ? psgd.notice('No line matches', 'Clear the search, or choose another node or level.')
                        : psgd.notice('The log is empty', 'Lines appear when job_submit or a node writes some.'),
            );
            if (follow.checked && (is_end || follow.is_new)) frame.scrollTop = frame.scrollHeight;
        }

        /* The end of a followed log; else its first lines, or the lines after `after`. */
        async function load(after) {
            const mine = ++asked;
            const part = follow.checked ? {tail: page} : {after, limit: page};
            try {
                const doc = await psgd.source.log(view.id, {...wanted, ...part});
                if (mine !== asked) return;
                shown = part.after ? {...doc, lines: [...shown.lines, ...doc.lines]} : doc;
                show(shown);
            } catch (problem) {
                if (mine === asked)
                    psgd.put(more, problem.title, () =>
                        problem.status === 404
                            ? psgd.notice('No log', 'This job has no log yet.')
                            : psgd.trouble(problem),
                    );
            }
        }

        const again = psgd.calmly(() => load(), 1000);
        const poll = setInterval(() => follow.checked && !document.hidden && again(), 2000);
        follow.addEventListener('change', () => {
            follow.is_new = true;
        });
        frame.addEventListener(
            'wheel',
            () => {
                follow.is_new = false;
            },
            {passive: true},
        );
        load();
        return {
            element: h(
                'div',
                {},
                h('div.toolbar', {}, search, nodes, levels, h('label.control.follow', {}, follow, 'Follow'), count),
                frame,
                more,
            ),
            update: (doc) => {
                psgd.put(
                    nodes,
                    doc.nodes?.map((n) => n.node),
                    () => [
                        h('option', {value: ''}, 'all nodes'),
                        psgd.data.mode === 'agent' ? null : h('option', {value: 'submit'}, 'job_submit'),
                        (doc.nodes || []).map((n) => h('option', {value: n.node}, format.node(n.node))),
                    ],
                );
                nodes.value = wanted.node;
                levels.value = wanted.level;
                follow.disabled = state.is_over(doc.job);
                follow.parentElement.hidden = psgd.data.mode === 'report';
            },
            recorded: () => follow.checked && again(),
            end: () => {
                clearInterval(poll);
                clearTimeout(timer);
            },
        };
    },
});
