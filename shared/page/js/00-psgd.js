/* The page's one global name, to which each file adds its part, and the JSON document that the page began with:
 * {"mode": "browse" | "report" | "agent", "documents": {PATH: DOCUMENT} of a report}. */
const psgd = {
    data: JSON.parse(document.getElementById('psgd-data').textContent),
};
