/* What an agent says of itself and of its machine, above the list of its jobs; and the question for its token. */
psgd.agent_facts = async () => {
    const {format, table} = psgd;
    const doc = await psgd.live.jobs(),
        a = doc.agent || {};
    let more = {};
    try {
        more = await psgd.source.about();
    } catch {
        /* Without a token the status is all. */
    }
    return table.facts([
        ['State', format.text(a.state)],
        ['Version', format.text(a.version)],
        ['Up for', format.seconds(a.uptime_s)],
        ['Isolation of jobs', format.text(a.isolation)],
        more.slots ? ['Free slots', `${more.slots_free} of ${more.slots}`] : null,
        more.cpus ? ['Processors', format.count(more.cpus)] : null,
        more.mem_bytes ? ['Memory', format.bytes(more.mem_bytes)] : null,
        ['Free disk', format.bytes(doc.disk_free_bytes ?? more.disk_free_bytes)],
    ]);
};

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
