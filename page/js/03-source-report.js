/* The source of report.html: its own documents, by the paths that they have in `job_submit browse`. */
psgd.sources.report = () => {
    const {query} = psgd.request;
    const documents = psgd.data.documents || {};

    async function get(path) {
        if (!Object.hasOwn(documents, path))
            throw new psgd.Problem(404, 'Not in this report', 'This job has no records of this kind.');
        return documents[path];
    }

    function has(line, q) {
        return (
            (!q.node || String(line.node ?? 'submit') === q.node) &&
            (!q.level || line.level === q.level) &&
            (!q.q || String(line.text).toLowerCase().includes(q.q.toLowerCase()))
        );
    }

    return {
        zooms: false,
        jobs: () => get('/api/jobs'),
        job: (id) => get(`/api/jobs/${id}`),
        series: (id, r) => get(`/api/jobs/${id}/series` + query({file: r.file, names: r.names, x: r.x})),
        peers: (id) => get(`/api/jobs/${id}/peers`),
        histogram: (id, name) => get(`/api/jobs/${id}/histogram` + query({name})),
        confusion: (id) => get(`/api/jobs/${id}/confusion`),
        samples: (id) => get(`/api/jobs/${id}/samples`),
        log: async (id, q) => {
            const all = await get(`/api/jobs/${id}/log`);
            return {...all, lines: all.lines.filter((line) => has(line, q)), next: null};
        },
        /* The folder of report.html. */
        file_href: (id, path) => path.split('/').map(encodeURIComponent).join('/'),
    };
};
