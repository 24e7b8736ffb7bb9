/* Processors and memory of an agent's machine, as facts. The load is the mean number of processes that ran or waited
 * for a processor in the last minute. */
psgd.machine_facts = (machine) => {
    const {format} = psgd;
    const m = machine || {};
    const load = typeof m.load === 'number' ? m.load.toFixed(1) : format.missing;
    return [
        typeof m.cpus === 'number' ? ['Processors', `${format.count(m.cpus)}, load ${load}`] : null,
        typeof m.mem_bytes === 'number'
            ? ['Free memory', `${format.bytes(m.mem_available_bytes)} of ${format.bytes(m.mem_bytes)}`]
            : null,
    ];
};

/* The present facts of an agent and its machine, above the list of its jobs: [title, text] each. The returned function
 * requests them at each call; a route that refused a token is not requested again, because the agent counts refusals. */
psgd.agent_facts = () => {
    const {format} = psgd;
    const waiting = new Set(['queued', 'pending']);
    let is_refused = false;

    async function more_of() {
        if (is_refused || !psgd.source.about) return {};
        try {
            return await psgd.source.about();
        } catch (problem) {
            is_refused = problem.status === 401 || problem.status === 403;
            return {}; /* the status is all */
        }
    }

    return async (doc) => {
        const a = doc.agent || {},
            more = await more_of();
        return [
            ['State', format.text(a.state)],
            ['Version', format.text(a.version)],
            ['Up for', format.seconds(a.uptime_s)],
            ['Isolation of jobs', format.text(a.isolation)],
            more.slots ? ['Free slots', `${more.slots_free} of ${more.slots}`] : null,
            ['Waiting jobs', format.count(doc.jobs.filter((j) => waiting.has(j.state)).length)],
            ...psgd.machine_facts(a.machine),
            ['Free disk', format.bytes(doc.disk_free_bytes ?? more.disk_free_bytes)],
        ];
    };
};

/* A form for an agent's token. */
psgd.ask_token = () => {
    const {h} = psgd;
    const id = psgd.id('token'),
        field = h('input', {type: 'password', id, autocomplete: 'off', size: 44});
    return h(
        'form.token',
        {
            onsubmit: (e) => {
                e.preventDefault();
                psgd.request.set_token(field.value.trim());
                dispatchEvent(new Event('psgd-token'));
            },
        },
        h('label', {for: id}, 'Token with scope read'),
        field,
        h('button', {type: 'submit'}, 'Show'),
    );
};
