/* The address names the view behind #, so that Back works and a link leads to a view:
 *     #/   #/job/ID/TAB?x=bytes   #/compare?ids=A,B   #/sweep/FOLDER?target=0.95 */
psgd.route = (() => {
    function parse() {
        const [path, query] = location.hash.replace(/^#/, '').split('?');
        const parts = path
            .split('/')
            .filter(Boolean)
            .map((part) => {
                try {
                    return psgd.clean(decodeURIComponent(part));
                } catch {
                    return part;
                }
            });
        return {
            view: parts[0] || 'jobs',
            id: parts[1] || '',
            tab: parts[2] || '',
            query: new URLSearchParams(query || ''),
        };
    }

    /* The address of a view, without the empty values of the query. */
    function href(parts, query = {}) {
        const given = Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== '');
        const text = given.map(([k, v]) => `${k}=${encodeURIComponent(v).replace(/%2C/g, ',')}`).join('&');
        return `#/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
    }

    /* Changes values of the present view's query, without a new entry for Back. */
    function amend(values) {
        const r = parse();
        const parts = [r.view === 'jobs' ? '' : r.view, r.id, r.tab].filter(Boolean);
        history.replaceState(null, '', href(parts, {...Object.fromEntries(r.query), ...values}));
    }

    return {parse, href, amend};
})();
