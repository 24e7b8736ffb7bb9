/* The source of an agent's own page: what the agent's routes say of the jobs on its machine, in the form that views take.
 * On loopback /v1/status needs no token; the rest does, which is asked for when it is needed. */
psgd.sources.agent = () => {
    const {json, text, blob, query} = psgd.request;
    const of = (id) => `/v1/jobs/${encodeURIComponent(id)}`;
    const pause_ms = 2000;
    const levels = [
        [/^(error|fatal)/i, 'error'],
        [/^warn/i, 'warn'],
        [/^debug/i, 'debug'],
    ];

    function line(job) {
        const ratio = job.progress?.ratio,
            is_running = job.state === 'running' && ratio > 0;
        const m = job.metrics || {};
        return {
            ...job,
            node_count: (job.nodes || []).filter((n) => n.node >= 0).length || null,
            dataset: null,
            model: null,
            eta_s: is_running ? (job.elapsed_s * (1 - ratio)) / ratio : null,
            folder: null,
            tags: [],
            note: '',
            can_cancel: false,
            metrics: {loss: m.eval_loss ?? m.loss ?? null, accuracy: m.eval_accuracy ?? m.accuracy ?? null},
        };
    }

    async function status() {
        const s = await json('/v1/status');
        return {
            agent: s.agent,
            disk_free_bytes: s.disk_free_bytes,
            jobs: [...(s.running || []), ...(s.queued || []), ...(s.recent || [])].map(line),
            agents: [],
        };
    }

    function log_lines(words, node) {
        return words
            .replace(/\n$/, '')
            .split('\n')
            .map((t, i) => ({
                n: i + 1,
                time: null,
                node,
                text: t,
                level: (levels.find(([r]) => r.test(t)) || [0, 'info'])[1],
            }));
    }

    async function details(id) {
        const job = await json(of(id)),
            {artifacts} = await json(of(id) + '/artifacts');
        return {
            job: line(job),
            nodes: (job.nodes || []).map((n) => ({
                ...n,
                state: n.node === job.node ? job.state : null,
                step: n.node === job.node ? job.progress?.step : null,
                message: n.node === job.node ? job.message : '',
            })),
            settings: {},
            warnings: [],
            time: job.comm,
            bound_by: null,
            classes: null,
            codec_source: null,
            versions: {
                engine: job.engine,
                isolation: job.isolation,
                codec_sha256: job.codec_sha256,
                submitter: job.submitter,
            },
            files: artifacts.map((a) => ({path: a.name, bytes: a.bytes, sha256: a.sha256})),
        };
    }

    return {
        zooms: true,
        jobs: status,
        job: details,
        series: (id, r) =>
            json(
                of(id) +
                    '/metrics' +
                    query({file: r.file, names: r.names, x: r.x, points: r.points, from: r.from, to: r.to}),
            ),
        log: async (id, q) => {
            const [job, words] = await Promise.all([
                json(of(id)),
                text(of(id) + '/logs' + query({after: '0'}), {headers: {Accept: 'text/plain'}}),
            ]);
            const all = words ? log_lines(words, job.node) : [];
            const lines = all.filter(
                (l) =>
                    (!q.node || String(l.node) === q.node) &&
                    (!q.level || l.level === q.level) &&
                    (!q.q || l.text.toLowerCase().includes(q.q.toLowerCase())),
            );
            return {lines: lines.slice(-q.limit), next: null, total: all.length};
        },
        file: (id, path) => blob(`${of(id)}/artifacts/${encodeURIComponent(path)}`, {headers: {Accept: '*/*'}}),
        about: () => json('/v1/agent'),
        /* Asks again every two seconds, while the page is seen. */
        watch: (on) => {
            let steps = new Map();
            const ask = async () => {
                if (document.hidden) return;
                try {
                    const doc = await status();
                    on.connected(true);
                    on.jobs(doc);
                    doc.jobs
                        .filter((j) => steps.has(j.id) && steps.get(j.id) !== j.progress?.step)
                        .forEach((j) => on.grown({id: j.id}));
                    steps = new Map(doc.jobs.map((j) => [j.id, j.progress?.step]));
                } catch (problem) {
                    on.connected(problem.status !== 0);
                }
            };
            const timer = setInterval(ask, pause_ms);
            return () => clearInterval(timer);
        },
    };
};
