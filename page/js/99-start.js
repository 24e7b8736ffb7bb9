/* The frame of the page, and the view that the address names. */
(() => {
    const {h, route, live, views, sources} = psgd;
    const mode = sources[psgd.data.mode] ? psgd.data.mode : 'report';
    const main = h('main', {id: 'main', tabindex: -1});
    let shown = null,
        view_key = null;

    psgd.source = sources[mode]();

    function frame() {
        const where = {browse: 'jobs here and on the agents', report: 'report of a job', agent: location.host}[mode];
        const home = h('a.brand', {href: '#/'}, h('span.brand-name', {}, 'psgd'), h('span.where', {}, where));
        document.body.prepend(
            h(
                'a.skip',
                {
                    href: '#main',
                    onclick: (e) => {
                        e.preventDefault(); /* the part behind # names the view */
                        main.focus();
                    },
                },
                'Skip to the contents',
            ),
            h('header', {}, home, psgd.theme.button()),
            live.banner,
            main,
            live.said,
        );
    }

    function open(r) {
        const make = views[r.view];
        if (!make)
            return {
                title: 'Not found',
                element: h(
                    'div',
                    {},
                    h('h1', {tabindex: -1}, 'Not found'),
                    psgd.notice(
                        'There is no such view',
                        'The address may be incomplete.',
                        h('p', {}, h('a', {href: '#/'}, 'All jobs')),
                    ),
                ),
                end: () => {},
            };
        return make(r);
    }

    async function show(is_first) {
        const r = route.parse();
        const key = `${r.view}/${r.id}`;
        if (shown && key === view_key && shown.move && shown.move(r)) return;
        if (mode === 'report' && r.view === 'jobs') {
            const doc = await live.jobs();
            location.replace(route.href(['job', doc.jobs[0].id]));
            return;
        }
        shown?.end?.();
        view_key = key;
        shown = open(r);
        document.title = `${shown.title} · psgd`;
        main.replaceChildren(shown.element);
        document.body.classList.toggle('whole', Boolean(shown.is_wide));
        if (!is_first) {
            scrollTo(0, 0);
            main.querySelector('h1')?.focus({preventScroll: true});
        }
    }

    frame();
    addEventListener('hashchange', () => show(false));
    addEventListener('psgd-token', () => {
        view_key = null;
        show(false);
    });
    live.start();
    show(true);
})();
