/* A job's state and progress as elements, and the dialog before a job is cancelled, for all views. */
psgd.state = (() => {
    const {h, format, table} = psgd;
    const marks = {
        succeeded: '✓',
        failed: '✕',
        cancelled: '–',
        running: '●',
        queued: '○',
        pending: '○',
        preparing: '◔',
        ready: '◑',
        stopping: '◌',
    };
    const ended = new Set(['succeeded', 'failed', 'cancelled']);

    const is_over = (job) => ended.has(job.state);

    const pill = (state) =>
        h(
            'span.state',
            {class: `state ${marks[state] ? state : 'unknown'}`},
            h('span', {'aria-hidden': 'true'}, marks[state] || '?'),
            ` ${state || 'unknown'}`,
        );

    function progress(job) {
        const p = job.progress || {};
        const ratio = is_over(job) && job.state === 'succeeded' ? 1 : p.ratio;
        const words = p.steps
            ? `${format.count(p.step)} of ${format.count(p.steps)} steps`
            : p.step
              ? `${format.count(p.step)} steps`
              : '';
        return h(
            'div.progress',
            {title: p.epochs ? `epoch ${p.epoch ?? 0} of ${p.epochs}` : null},
            table.bar(ratio, is_over(job) ? 'over' : ''),
            h('small', {}, words || format.missing),
        );
    }

    function time(job) {
        const left =
            !is_over(job) && typeof job.eta_s === 'number' ? h('small', {}, `${format.seconds(job.eta_s)} left`) : null;
        return [h('span', {}, format.seconds(job.elapsed_s)), left];
    }

    /* The reason of the state, if there is one. */
    const why = (job) => [job.reason, job.message].filter(Boolean).join(': ');

    /* "Test loss", or "Training loss" of a job that was not tested: of its last step. */
    const measured = (job, word) =>
        job.metrics?.of ? `${{test: 'Test', training: 'Training'}[job.metrics.of] || ''} ${word.toLowerCase()}`.trim() : word;

    /* The folder of the job's sweep; null: it has none. */
    const sweep_of = (job) => (job.sweep && job.folder ? job.folder.replace(/\/runs\/[^/]*$/, '') : null);

    /* A short name; of a run of a sweep what varies, as in the name of its folder: "fedavg lr=0.1 seed=1". */
    const name = (job) =>
        sweep_of(job)
            ? job.folder
                  .replace(/^.*\//, '')
                  .replace(/^codec=/, '')
                  .replace(/_(?=[a-z][a-z0-9_-]*=)/g, ' ')
            : job.name || job.id;

    return {sweep_of, name, pill, progress, time, why, measured, is_over};
})();

/* A dialog before a job is cancelled. */
psgd.cancel = (job) => {
    const {h} = psgd;
    const error = h('p.error', {role: 'alert', hidden: true});
    const act = h('button.danger', {type: 'button'}, 'Cancel the job'),
        close = () => {
            dialog.close();
            dialog.remove();
        };
    const title = h('h2', {id: psgd.id('cancel')}, `Cancel ${psgd.state.name(job)}?`);
    const dialog = h(
        'dialog',
        {'aria-labelledby': title.id, oncancel: close},
        title,
        h(
            'p',
            {},
            job.state === 'queued'
                ? 'It is taken out of the queue, and does not run.'
                : 'Its nodes stop after their present step. The records so far are kept.',
        ),
        error,
        h(
            'div.buttons',
            {},
            h('button', {type: 'button', onclick: close}, job.state === 'queued' ? 'Let it wait' : 'Let it run'),
            act,
        ),
    );
    act.addEventListener('click', async () => {
        act.disabled = true;
        try {
            await psgd.source.cancel(job.id);
            psgd.live.say(`${psgd.state.name(job)} is being cancelled`);
            close();
        } catch (problem) {
            error.textContent = [problem.title || String(problem), problem.detail].filter(Boolean).join(': ');
            error.hidden = false;
            act.disabled = false;
        }
    });
    document.body.append(dialog);
    dialog.showModal();
};
