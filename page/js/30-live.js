/* Changes while the page is open: of the list of jobs, and of the records of running jobs. The page has one stream of
 * events (on an agent, a request every two seconds while it is visible) and any number of listeners. */
psgd.live = (() => {
    const listeners = new Set();
    const said = psgd.h('p.hidden', {role: 'status', 'aria-live': 'polite'}),
        banner = psgd.h('p.banner', {role: 'status', hidden: true});
    const states = new Map();
    let jobs = null,
        has_come = null;
    const first = new Promise((resolve) => (has_come = resolve)); /* the first list, or the end of its connection */

    const tell = (what, value) => [...listeners].forEach((l) => l[what] && l[what](value));
    const say = (text) => {
        said.textContent = text;
    };

    function announce(list) {
        list.forEach((job) => {
            const before = states.get(job.id);
            if (before && before !== job.state)
                say(`${psgd.state.name(job)}: ${job.state}${job.reason ? `, ${job.reason}` : ''}`);
            states.set(job.id, job.state);
        });
    }

    function take(doc) {
        jobs = doc;
        has_come();
        announce(doc.jobs || []);
        tell('jobs', doc);
    }

    /* Replaces the jobs that have changed. */
    function change(doc) {
        const now = new Map(doc.jobs.map((j) => [j.id, j]));
        if (jobs) take({...doc, jobs: jobs.jobs.map((j) => now.get(j.id) || j)});
    }

    function connected(is_up, is_final) {
        if (!is_up) has_come();
        banner.hidden = is_up;
        banner.textContent = is_up
            ? ''
            : is_final
              ? 'The program that serves this page refused it, as after a restart. Open the address that it printed.'
              : 'No connection to the program that serves this page; trying again. The page may show old data.';
    }

    return {
        said,
        banner,
        say,
        start: () =>
            psgd.source.watch && psgd.source.watch({jobs: take, changed: change, connected, recorded: (what) => tell('recorded', what)}),
        /* The list of the last event, or of a request. */
        jobs: async () => {
            if (!jobs && psgd.source.streams) await first; /* another request would transfer it twice */
            if (!jobs) take(await psgd.source.jobs());
            return jobs;
        },
        /* A listener is {jobs(document), recorded({id, rows})}; returns a function that removes it. */
        listen: (listener) => {
            listeners.add(listener);
            return () => listeners.delete(listener);
        },
    };
})();

/* Calls f at most once in `pause` ms, and once more if there was a call meanwhile; never twice at a time. */
psgd.calmly = (f, pause) => {
    let is_busy = false,
        is_asked = false;
    return async function run() {
        if (is_busy) {
            is_asked = true;
            return;
        }
        is_busy = true;
        is_asked = false;
        try {
            await f();
        } finally {
            setTimeout(() => {
                is_busy = false;
                if (is_asked) run();
            }, pause);
        }
    };
};
