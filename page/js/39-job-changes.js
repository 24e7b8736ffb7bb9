/* What the page changes of jobs that have ended: note and tags, which lists hide, which results are deleted. A change
 * of the list is undone by a button beside what was done. */
psgd.changes = (() => {
    const {h} = psgd;
    const name_of = psgd.state.name;
    const named = (jobs) => (jobs.length === 1 ? name_of(jobs[0]) : `${jobs.length} runs`);

    /* The results are in a folder here, and the job writes nothing there any more. */
    const can_change = (job) => Boolean(psgd.source.change && job.folder && psgd.state.is_over(job));

    const said = h('p.done', {role: 'status', hidden: true});

    function say(text, undo) {
        said.hidden = !text;
        said.replaceChildren(
            text,
            undo
                ? h('button.small', {type: 'button', onclick: undo, 'aria-label': `Undo: ${text}`}, 'Undo')
                : '',
        );
    }

    async function change_all(jobs, action) {
        const failed = [];
        for (const job of jobs) {
            try {
                await psgd.source.change(job.id, action);
            } catch (problem) {
                failed.push(`${name_of(job)}: ${problem.detail || problem.title || problem}`);
            }
        }
        return failed;
    }

    /* Does something with jobs, and offers the opposite. */
    async function act(jobs, action, opposite, words) {
        const some = jobs.filter(can_change);
        const failed = await change_all(some, action);
        const skipped = jobs.length - some.length;
        const troubles = [
            ...failed.slice(0, 3),
            skipped ? `${skipped} without results in a folder here, or not ended, stay as they are` : '',
        ].filter(Boolean);
        const text = [some.length > failed.length ? `${named(some)} ${words}.` : '', ...troubles].filter(Boolean);
        say(
            text.join(' '),
            some.length > failed.length
                ? async () => {
                      const again = await change_all(some, opposite);
                      say(again.length ? again.slice(0, 3).join(' ') : `${named(some)}: undone.`);
                  }
                : null,
        );
    }

    /* A dialog for note and tags of a job. */
    function edit(job) {
        const error = h('p.error', {role: 'alert', hidden: true});
        const title = h('h2', {id: psgd.id('edit')}, `Note and tags of ${name_of(job)}`);
        const field = (label, attributes) => {
            const id = psgd.id('field');
            const input = h(attributes.rows ? 'textarea' : 'input', {id, ...attributes});
            input.value = attributes.value;
            return {input, element: h('p.field', {}, h('label', {for: id}, label), input)};
        };
        const note = field('Note', {rows: 3, maxlength: 255, value: job.note || ''});
        const tags = field('Tags, separated by commas', {type: 'text', value: (job.tags || []).join(', ')});
        const close = () => {
            dialog.close();
            dialog.remove();
        };
        const save = h('button', {type: 'submit'}, 'Save');
        const dialog = h(
            'dialog',
            {'aria-labelledby': title.id, oncancel: close},
            h(
                'form',
                {
                    onsubmit: async (e) => {
                        e.preventDefault();
                        save.disabled = true;
                        try {
                            await psgd.source.change(job.id, 'label', {note: note.input.value, tags: tags.input.value});
                            close();
                        } catch (problem) {
                            error.textContent = [problem.title, problem.detail].filter(Boolean).join(': ');
                            error.hidden = false;
                            save.disabled = false;
                        }
                    },
                },
                title,
                note.element,
                tags.element,
                error,
                h('div.buttons', {}, h('button', {type: 'button', onclick: close}, 'Leave as it is'), save),
            ),
        );
        document.body.append(dialog);
        dialog.showModal();
    }

    return {
        can_change,
        edit,
        said,
        hide: (jobs) => act(jobs, 'hide', 'unhide', 'hidden'),
        unhide: (jobs) => act(jobs, 'unhide', 'hide', 'shown again'),
        remove: (jobs) => act(jobs, 'delete', 'undelete', 'deleted: moved into .deleted beside the folder'),
    };
})();
