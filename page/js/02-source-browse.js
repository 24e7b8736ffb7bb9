/* A source gets the documents that views show. Each mode has one, with the same functions; a mode may lack cancel,
 * compare and watch. This source requests documents from `job_submit browse`. */
psgd.sources = {
    browse: () => {
        const {json, query} = psgd.request;
        const of = (id) => `/api/jobs/${encodeURIComponent(id)}`;

        return {
            /* Can series be requested in a range? */
            zooms: true,
            /* Does watch() send the list of jobs at once? */
            streams: true,
            jobs: () => json('/api/jobs'),
            job: (id) => json(of(id)),
            series: (id, r) =>
                json(
                    of(id) +
                        '/series' +
                        query({file: r.file, names: r.names, x: r.x, points: r.points, from: r.from, to: r.to}),
                ),
            peers: (id) => json(of(id) + '/peers'),
            histogram: (id, name) => json(of(id) + '/histogram' + query({name})),
            confusion: (id) => json(of(id) + '/confusion'),
            samples: (id) => json(of(id) + '/samples'),
            log: (id, q) => json(of(id) + '/log' + query(q)),
            file_href: (id, path) => `${of(id)}/files/${path.split('/').map(encodeURIComponent).join('/')}`,
            compare: (ids, target) => json('/api/compare' + query({ids: ids.join(','), target})),
            /* The same of all runs of a sweep. */
            compare_sweep: (folder, target) => json('/api/compare' + query({sweep: folder, target})),
            /* Hides, deletes or labels a job; `values`: the query. */
            change: (id, action, values = {}) => {
                const given = new URLSearchParams(values).toString(); /* an empty note removes it */
                return json(`${of(id)}/${action}${given ? `?${given}` : ''}`, {
                    method: 'POST',
                    headers: {'X-Psgd': '1'},
                });
            },
            cancel: (id) => json(of(id) + '/cancel', {method: 'POST', headers: {'X-Psgd': '1'}}),
            /* Calls jobs(document), changed(document of the changed jobs), recorded({id, rows}) and connected(is_up,
             * is_final) of `on` at events; returns a function that ends this. */
            watch: (on) => {
                const events = new EventSource('/api/events');
                events.addEventListener('open', () => on.connected(true));
                events.addEventListener('error', () => on.connected(false, events.readyState === EventSource.CLOSED));
                events.addEventListener('jobs', (e) => on.jobs(psgd.parse(e.data)));
                events.addEventListener('changed', (e) => on.changed(psgd.parse(e.data)));
                events.addEventListener('recorded', (e) => on.recorded(psgd.parse(e.data)));
                return () => events.close();
            },
        };
    },
};
