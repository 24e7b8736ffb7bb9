/* The files of the results as links. */
psgd.tabs.push({
    name: 'files',
    title: 'Files',
    make: (view) => {
        const {h, format, table} = psgd;
        const place = h('div');

        /* run.json has the names, so a name that leads out of the folder or to another site, such as //host/x, gets no
         * link. */
        const is_within = (path) => path.split('/').every((part) => !['', '.', '..'].includes(part));

        /* An agent requires its token in a header, which a link cannot send. */
        function link(path) {
            if (!is_within(path)) return path;
            if (!psgd.source.file)
                return h('a', {href: psgd.source.file_href(view.id, path), download: path.split('/').pop()}, path);
            const button = h(
                'button.link',
                {
                    type: 'button',
                    onclick: async () => {
                        try {
                            psgd.export.blob(await psgd.source.file(view.id, path), path.split('/').pop());
                        } catch (problem) {
                            psgd.live.say(`${path}: ${problem.title}`);
                            button.after(h('small.error', {}, ` ${problem.title}`));
                        }
                    },
                },
                path,
            );
            return button;
        }

        function show(doc) {
            const files = (doc.files || []).filter((f) => f.path);
            if (!files.length)
                return psgd.notice('No files yet', 'job_submit fetches them from the agents when the job has ended.');
            return [
                table(
                    'Files',
                    [
                        {title: 'File', head: true, of: (f) => link(f.path)},
                        {title: 'Size', number: true, of: (f) => format.bytes(f.bytes)},
                        {
                            title: 'SHA-256',
                            wide: true,
                            of: (f) => (f.sha256 ? h('code.digest', {}, f.sha256) : format.missing),
                        },
                    ],
                    files,
                ),
                psgd.data.mode === 'report'
                    ? h('p.hint', {}, 'These links lead to files in the folder of this report.')
                    : null,
            ];
        }

        return {
            element: h('div', {}, h('h2', {}, 'Files'), place),
            update: (doc) => psgd.put(place, [doc.files, doc.job.folder], () => show(doc)),
        };
    },
});
