/* Elements. Text of documents becomes only text nodes, so that no name or log line is parsed as HTML. */
psgd.h = (() => {
    function set(element, name, value) {
        if (value === undefined || value === null || value === false) return;
        if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
        else if (name === 'style')
            /* by the object model, because the page's policy forbids the attribute */
            Object.entries(value).forEach(([k, v]) => element.style.setProperty(k, v));
        else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'indeterminate')
            element[name] = value;
        else element.setAttribute(name, value === true ? '' : value);
    }

    /* h('p.note', {id: 'x', onclick: f}, 'text', child, [more]): null and false are skipped. */
    return (what, attributes, ...children) => {
        const [tag, ...classes] = what.split('.');
        const element = document.createElement(tag);
        if (classes.length) element.className = classes.join(' ');
        Object.entries(attributes || {}).forEach(([k, v]) => set(element, k, v));
        element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
        return element;
    };
})();

/* Replaces the children of a place, unless `key`, the data that they show, is equal to that of the last call. */
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
