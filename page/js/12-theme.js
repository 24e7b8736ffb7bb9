/* Light, dark, or the system's colours. The browser stores the choice, if it may. */
psgd.theme = (() => {
    const names = {'': 'as the system', light: 'light', dark: 'dark'};
    const listeners = new Set();
    const system = matchMedia('(prefers-color-scheme: dark)');
    let chosen = '';

    function kept() {
        try {
            return localStorage.getItem('psgd-theme') || '';
        } catch {
            return '';
        }
    }

    function keep() {
        try {
            localStorage.setItem('psgd-theme', chosen);
        } catch {
            /* Without storage the choice holds until the page is closed. */
        }
    }

    function apply() {
        if (chosen) document.documentElement.dataset.theme = chosen;
        else delete document.documentElement.dataset.theme;
        listeners.forEach((f) => f());
    }

    function button() {
        const label = psgd.h('span', {}, '');
        const element = psgd.h(
            'button.quiet',
            {
                type: 'button',
                onclick: () => {
                    chosen = is_dark() ? 'light' : 'dark';
                    if ((chosen === 'dark') === system.matches) chosen = ''; /* the system's setting, also when it changes */
                    keep();
                    apply();
                    show();
                },
            },
            psgd.h('span.theme-mark', {'aria-hidden': 'true'}),
            label,
        );
        const show = () => {
            label.textContent = is_dark() ? 'Light' : 'Dark';
            element.title = `Colours: ${names[chosen]}`;
            element.setAttribute('aria-label', is_dark() ? 'Light colours' : 'Dark colours');
        };
        show();
        listeners.add(show);
        return element;
    }

    const is_dark = () => (chosen ? chosen === 'dark' : system.matches);
    chosen = names[kept()] === undefined ? '' : kept();
    apply();
    system.addEventListener('change', apply);
    return {button, is_dark, changed: listeners};
})();

/* The present colour of a custom property of the style, for a canvas. */
psgd.colour = (() => {
    let probe;
    return (name) => {
        if (!probe) {
            probe = psgd.h('span.probe', {hidden: true});
            document.body.append(probe);
        }
        probe.style.color = `var(${name})`;
        return getComputedStyle(probe).color;
    };
})();
