/* The source of an agent's own page: converts the answers of the agent's routes on the jobs of its machine to the documents
 * of views. On loopback /v1/status needs no token; other routes do, and the page asks the user for it when one refuses. */
psgd.sources.agent = () => {
    const {json, blob, query} = psgd.request;
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
        const m = job.metrics || {},
            is_tested = typeof m.eval_loss === 'number' || typeof m.eval_accuracy === 'number';
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
            metrics: {
                loss: (is_tested ? m.eval_loss : m.loss) ?? null,
                accuracy: (is_tested ? m.eval_accuracy : m.accuracy) ?? null,
                of: is_tested ? 'test' : typeof m.loss === 'number' ? 'training' : null,
            },
        };
    }

    /* Jobs that wait outside of the agent, of the users whose queue watchers have said so; of a user whose jobs are not
     * shown, one line with their number. */
    const waiting = ({queues}) =>
        (queues || []).flatMap((q) =>
            (q.jobs || []).filter((j) => typeof j === 'object' && j).map((j) => ({
                ...j,
                state: 'queued',
                reason: null,
                message: `waits in the queue of ${q.user}`,
                node_count: j.nodes,
                created_at: j.submitted_at,
                can_cancel: false,
                dataset: null,
                model: null,
                folder: null,
                tags: [],
                note: '',
                metrics: {},
            })),
        );

    async function status() {
        const s = await json('/v1/status');
        return {
            agent: s.agent,
            disk_free_bytes: s.disk_free_bytes,
            jobs: [...[...(s.running || []), ...(s.queued || []), ...(s.recent || [])].map(line), ...waiting(s)],
            agents: [],
        };
    }

    const log_lines = (texts, node, first) =>
        texts.map((t, i) => ({
            n: first + i + 1,
            time: null,
            node,
            text: t,
            level: (levels.find(([r]) => r.test(t)) || [0, 'info'])[1],
        }));

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

    /* The log of a job so far: only its new lines are requested. Of a long log the last lines are kept. */
    const kept_lines = 100000,
        part_bytes = 4 << 20; /* at most so much comes in one answer */
    let log = {};

    async function log_so_far(id, job) {
        const of_what = `${id} ${job.attempt}`;
        if (log.of_what !== of_what)
            log = {of_what, bytes: 0, lines: [], open: '', dropped: 0, decoder: new TextDecoder()};
        const mine = log;
        const more = async () => {
            for (let n = part_bytes; n >= part_bytes;) {
                const part = await blob(of(id) + '/logs' + query({after: String(mine.bytes)}), {
                    headers: {Accept: 'text/plain'},
                });
                n = part.size;
                mine.bytes += n;
                const whole = (mine.open + mine.decoder.decode(await part.arrayBuffer(), {stream: true})).split('\n');
                mine.open = whole.pop();
                const first = mine.dropped + mine.lines.length;
                mine.lines.push(...psgd.clean(log_lines(whole, job.node, first)));
                const excess = Math.max(0, mine.lines.length - kept_lines);
                mine.lines.splice(0, excess);
                mine.dropped += excess;
            }
        };
        /* One request after the other: two at once would get the same part. */
        mine.asking = (mine.asking || Promise.resolve()).catch(() => {}).then(more);
        await mine.asking;
        const rest = mine.open ? psgd.clean(log_lines([mine.open], job.node, mine.dropped + mine.lines.length)) : [];
        return [...mine.lines, ...rest];
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
            const all = await log_so_far(id, await json(of(id)));
            const lines = all.filter(
                (l) =>
                    (!q.node || String(l.node) === q.node) &&
                    (!q.level || l.level === q.level) &&
                    (!q.q || l.text.toLowerCase().includes(q.q.toLowerCase())),
            );
            return {lines: lines.slice(-(q.tail || q.limit)), next: null, total: all.length};
        },
        file: (id, path) => blob(`${of(id)}/artifacts/${encodeURIComponent(path)}`, {headers: {Accept: '*/*'}}),
        about: () => json('/v1/agent'),
        /* Requests the jobs every two seconds while the page is visible. */
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
                        .forEach((j) => on.recorded({id: j.id}));
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
