/* Colours of curves, told apart also by those who see fewer colours (after Okabe and Ito); beyond six, dashes help. */
psgd.palette = (() => {
    const n_colours = 6;
    const dashes = [[], [7, 3], [2, 3], [10, 3, 2, 3]];

    return {
        of: (i) => ({colour: `--curve-${i % n_colours}`, dash: dashes[Math.floor(i / n_colours) % dashes.length]}),
        mean: {colour: '--ink', dash: []},
    };
})();
