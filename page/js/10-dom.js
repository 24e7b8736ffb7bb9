/* Elements. Text from outside becomes text nodes only, so that no name or log line is ever read as HTML. */
psgd.h = (() => {
    function set(element, name, value) {
        if (value === undefined || value === null || value === false) return;
        if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
        else if (name === 'style')
            /* by the object model: the page's policy forbids the attribute */
            Object.entries(value).forEach(([k, v]) => element.style.setProperty(k, v));
        else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'indeterminate')
            element[name] = value;
        else element.setAttribute(name, value === true ? '' : value);
    }

    /* h('p.note', {id: 'x', onclick: f}, 'text', child, [more]): null and false are no child. */
    return (what, attributes, ...children) => {
        const [tag, ...classes] = what.split('.');
        const element = document.createElement(tag);
        if (classes.length) element.className = classes.join(' ');
        Object.entries(attributes || {}).forEach(([k, v]) => set(element, k, v));
        element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
        return element;
    };
})();

/* Puts children in the place of others, unless what they show is what is shown already: `key` says what. */
psgd.put = (element, key, make) => {
    const text = JSON.stringify(key);
    if (element.psgd_key === text) return;
    element.psgd_key = text;
    element.replaceChildren(...[make()].flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
};

/* Unique ids, for labels. */
psgd.id = (() => {
    let n = 0;
    return (word) => `${word}-${++n}`;
})();
