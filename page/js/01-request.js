/* Requests to the program that served this page. A failure is thrown as psgd.Problem, whose texts can be shown
 * without a change. */
psgd.Problem = class extends Error {
    constructor(status, title, detail) {
        super(title);
        this.status = status; /* HTTP's; 0: no answer */
        this.title = title;
        this.detail = detail || '';
    }
};

psgd.request = (() => {
    const headers = {Accept: 'application/json'};

    async function problem_of(response) {
        let said = {};
        try {
            said = psgd.clean(await response.json());
        } catch {
            /* A body that is not JSON is not shown. */
        }
        return new psgd.Problem(
            response.status,
            String(said.title || `Answer ${response.status}`),
            String(said.detail || ''),
        );
    }

    async function answer(path, options) {
        let response;
        try {
            response = await fetch(path, {...options, headers: {...headers, ...options.headers}, cache: 'no-store'});
        } catch {
            throw new psgd.Problem(0, 'No answer', 'The program that serves this page does not answer.');
        }
        if (!response.ok) throw await problem_of(response);
        return response;
    }

    return {
        json: async (path, options = {}) => psgd.parse(await (await answer(path, options)).text()),
        blob: async (path, options = {}) => (await answer(path, options)).blob(),
        /* Kept in memory only: after a reload the user types it again. */
        set_token: (token) => {
            headers.Authorization = `Bearer ${token}`;
        },
        /* "?a=1&b=2" of the values that are neither undefined, null nor empty, in their order. */
        query: (values) => {
            const given = Object.entries(values).filter(([, v]) => v !== undefined && v !== null && v !== '');
            return given.length
                ? '?' + given.map(([k, v]) => `${k}=${encodeURIComponent(v).replace(/%2C/g, ',')}`).join('&')
                : '';
        },
    };
})();
