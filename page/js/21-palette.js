/* Colours of curves that colour-blind people can distinguish (after Okabe and Ito); more than six curves also differ in
 * their dashes. */
psgd.palette = (() => {
    const n_colours = 6;
    const dashes = [[], [7, 3], [2, 3], [10, 3, 2, 3]];

    return {
        of: (i) => ({colour: `--curve-${i % n_colours}`, dash: dashes[Math.floor(i / n_colours) % dashes.length]}),
        mean: {colour: '--ink', dash: []},
    };
})();
