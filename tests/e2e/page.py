#!/usr/bin/env python3
"""page.py FOLDER SCENARIO ARGUMENT... [-- SCENARIO ARGUMENT...]... -- the steps of page.bats in a browser, one scenario after the
other; FOLDER is for its profile. Exit status 77: there is no browser, and stderr has the reason."""

import csv as csv_module
import hashlib
import json
import os
import sys
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{ROOT}/tests/lib')
import webdriver  # noqa: E402

HOSTILE = '<script>document.body.dataset.owned=1</script><img src=x onerror="document.body.dataset.owned=1">&lt;b&gt;"\'\u202e\uffff'
ELSEWHERE = ('//evil.example/x', '../../x')  # which a result is not
SWEEP = HOSTILE.replace('/', '_').replace('\u202e\uffff', '')  # the name of a folder
TABS = ('', 'time', 'network', 'classes', 'log', 'settings', 'files')


# Results without a job, of any size, with a name in every place where one can be.

def write(folder, path, text):
    os.makedirs(os.path.dirname(f'{folder}/{path}'), exist_ok=True)
    with open(f'{folder}/{path}', 'w', encoding='utf-8') as f:
        f.write(text)
    return {'name': path, 'bytes': len(text.encode()), 'sha256': hashlib.sha256(text.encode()).hexdigest()}


def train_csv(n_nodes, n_steps):
    head = 'time_s,node,role,epoch,batch,batches,step,samples,loss,accuracy,compute_s,wait_s,raw_bytes,sent_bytes,recv_bytes\n'
    step = [(f'{s / 100:.2f},', f',worker,{1 + (s - 1) // 100},{1 + (s - 1) % 100},100,{s},{64 * s},{2 / s ** 0.3:.4f},'
             f'{1 - 0.9 / s ** 0.3:.3f},0.001,0.0002,400,100,100\n') for s in range(1, n_steps + 1)]
    return head + ''.join(f'{node}'.join(s) for s in step for node in range(n_nodes))


def results(folder, job, name, n_nodes=2, n_steps=200, word='x'):
    """A folder of results as job_submit writes it, whose texts all contain `word`."""
    files = [
        write(folder, 'records/train.csv', train_csv(n_nodes, n_steps)),
        write(folder, 'records/eval.csv', 'time_s,node,epoch,step,samples,loss,accuracy,sent_bytes_total,recv_bytes_total\n' + ''.join(
            f'{e},{n},{e},{100 * e},{6400 * e},{1 / e},{1 - 0.5 / e},{1000 * e},{1000 * e}\n' for e in (1, 2) for n in range(n_nodes)) + (
            f'{word},0,{word},200,{word},{word},{word},,\n')),
        write(folder, 'records/comm.csv', 'time_s,round,node,peer,direction,messages,raw_bytes,wire_bytes,encode_s,transfer_s\n' + ''.join(
            f'1,1,{n},{(n + 1) % n_nodes},{d},1,400,100,0.001,0.{n + 1}\n' for n in range(n_nodes) for d in ('sent', 'received', word))),
        write(folder, 'records/codec.csv', 'time_s,node,step,round,name,value\n' + ''.join(
            f'1,{n},{s},{s},staleness,{s % 3}\n' for s in range(1, 30) for n in range(n_nodes)) + f'1,0,1,1,{word},1\n'),
        write(folder, 'records/confusion.csv', 'node,epoch,step,label,predicted,count\n' + ''.join(
            f'{n},2,200,0,0,40\n{n},2,200,0,1,2\n{n},2,200,1,1,38\n' for n in range(n_nodes)) +
              f'0,2,200,{word},{word},{word}\n'),
        write(folder, 'logs/worker-0.log', f'error: {word}\nwarning: something\n' + ''.join(f'line {i}\n' for i in range(50))),
        write(folder, 'codec/mine.c', f'/* {word} */\n'),
        *({'name': path, 'bytes': 1, 'sha256': ''} for path in ELSEWHERE),
    ]
    run = {'version': 1, 'id': job, 'name': name, 'submitted_at': '2026-01-02T03:04:05.678Z', 'state': 'succeeded', 'reason': None,
           'message': word, 'is_complete': True, 'models_agree': True, 'warnings': [word],
           'settings': {'name': name, 'codec': word, 'node_count': n_nodes, 'dataset': word, 'model': word, 'epochs': 2, 'seed': 7,
                        'steps_per_epoch': n_steps // 2, 'learn_rate': 0.1}, 'versions': {'psgd': word},
           'facts': {'data': {'class_names': [word, 'cat'], 'steps_per_epoch': n_steps // 2}, 'tags': [word], 'note': word},
           'mean_over_workers': {'eval_loss': 0.5, 'eval_accuracy': 0.75, 'loss': 0.5, 'accuracy': 0.75},
           'comm': {'raw_bytes': 80000, 'sent_bytes': 20000, 'recv_bytes': 20000, 'compute_s': 3, 'encode_s': 1, 'send_s': 1, 'wait_s': 2,
                    'decode_s': 0.5, 'apply_s': 0.5, 'bound': 'compute'},
           'nodes': [{'node': n, 'role': 'worker', 'address': word, 'state': 'succeeded', 'reason': None, 'message': word, 'steps': n_steps,
                      'elapsed_s': 12.5} for n in range(n_nodes)], 'files': files}
    write(folder, 'run.json', json.dumps(run))


def hostile_sweep(folder):
    """A sweep whose texts are all hostile, and one of them very long."""
    write(folder, 'sweep.json', '{}')
    for i, rule in enumerate((HOSTILE, 'x' * 5000, 'fedavg "a b"')):
        amended(f'{folder}/runs/{i}', f'j-swept00000{i}', HOSTILE * 20, {'codec': rule, 'learn_rate': HOSTILE if i else 0.1},
                {'eval_loss': 0.5, 'eval_accuracy': 0.5 + i / 10})


def amended(folder, job, name, settings, mean):
    """Such a folder, of a job with other settings and results."""
    results(folder, job, name)
    with open(f'{folder}/run.json', encoding='utf-8') as f:
        run = json.load(f)
    run['settings'].update(settings)
    run['mean_over_workers'] = mean
    write(folder, 'run.json', json.dumps(run))


# What is expected of the browser.

def only_from(b, *allowed):
    """Nothing was asked beyond the page's own server, and the page's policy was never hit."""
    others = [u for u in b.requests() if not u.startswith(('data:', 'blob:', 'about:', *allowed))]
    assert not others, f'the page asked for {others}'
    errors = [e for e in b.errors() if 'Failed to load resource' not in e]  # a job has no such records: 404
    assert not errors, f'the console says {errors}'


def passes_axe(b, where, *rules):
    """All rules, or only these."""
    if not b.script('return !!window.axe'):
        b.script(open(f'{ROOT}/tests/lib/axe/axe.min.js', encoding='utf-8').read())
    found = b.script_async('''const done = arguments[arguments.length - 1], rules = [...arguments].slice(0, -1);
        axe.run(rules.length ? {runOnly: rules} : {}).then((r) => done(r.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html.slice(0, 200)).join(' | ')}`)),
                       (e) => done([String(e)]))''', *rules)
    assert not found, f'axe in {where}: ' + '\n'.join(found)


def title_of(b, name):
    b.wait(lambda: b.text('h1').strip() == name, f'the heading {name}')


def drawn(b, place):
    b.wait(lambda: b.script('''return document.querySelector('h1') && !document.querySelector('.tab:empty') &&
        [...document.querySelectorAll('.chart')].every((c) => c.querySelector('canvas') || c.querySelector('.plot-note:not([hidden])'))'''),
           f'{place} to be drawn')


def origin(url):
    at = urllib.parse.urlsplit(url)
    return f'{at.scheme}://{at.netloc}/'


def steps_drawn(b):
    """The last step of the training loss, as the chart says it to those who do not see it; narrow spaces group digits."""
    label = b.script('''return [...document.querySelectorAll('.picture')].map((p) => p.getAttribute('aria-label'))
        .find((l) => l.startsWith('Chart: Training loss')) || \'\'''')
    words = label.split(' at step ')
    return int(''.join(c for c in words[1].split(',')[0] if c.isdigit())) if len(words) > 1 else 0


# The scenarios.

def live(b, url, first, second, running):
    """Jobs on agents: listed, searched, compared; one that runs grows, is searched in its log, and is cancelled."""
    b.open(url)
    for name in (first, second, running):
        b.wait(f'a={name}')
    b.type('input[aria-label="Search jobs"]', second)
    b.wait(lambda: not b.find(f'a={first}') and b.find(f'a={second}'), 'the search to leave one job')
    b.type('input[aria-label="Search jobs"]', 'codec=fedavg lr<=5e-2 accuracy>1%')
    b.wait(lambda: b.find(f'a={first}') and not b.find(f'a={second}') and not b.find(f'a={running}'), 'the conditions to leave one job')
    b.type('input[aria-label="Search jobs"]', 'colour=red')
    b.wait('p~No job has colour')
    b.type('input[aria-label="Search jobs"]', ' ')
    for name in (first, second):
        b.click(f'input[aria-label="Tick {name}"]')
    b.click('a=Compare 2 runs')
    title_of(b, '2 runs compared')
    b.wait('td~%')
    b.wait('code=learn_rate')  # which differs
    b.wait(lambda: b.script('return document.querySelector("input[type=number]").value'), 'the accuracy that both reached')
    b.wait('code=job_submit compare logs/0.05 logs/0.1')  # not by ids, which another machine does not know
    b.click('label=bytes')
    b.wait(lambda: 'x=bytes' in b.address(), 'the address to keep the choice')
    b.wait(lambda: 'over bytes' in b.text('.chart .unit'), 'curves over bytes')
    b.click('label=Logarithmic x')
    b.wait(lambda: '(logarithmic)' in b.text('.chart .unit') and 'logx=1' in b.address(), 'a logarithmic axis')
    b.click('button=Test accuracy as CSV')
    file = f'{b.folder}/downloads/compare-test-accuracy.csv'
    b.wait(lambda: os.path.exists(file) and os.path.getsize(file), 'the CSV of a chart')
    assert open(file, encoding='utf-8').readline().strip() == 'curve,bytes,accuracy,min,max'
    b.back()
    title_of(b, 'Jobs')

    b.click(f'a={running}')
    title_of(b, running)
    before = b.wait(lambda: steps_drawn(b), 'a first curve')
    b.wait(lambda: steps_drawn(b) > before, f'a curve that grows beyond step {before}')
    b.click('a=Nodes')
    b.wait('p~recorded only in rounds of messages')  # in an all-reduce
    b.click('a=Log')
    b.wait('.log li')
    b.type('input[aria-label="Search the log"]', 'isolation')
    b.wait(lambda: b.find('.log mark') and len(b.find('.log li')) == len(b.find('.log li:has(mark)')), 'lines with the word only')
    b.click('button=Cancel')
    b.click('button=Let it run')
    b.wait(lambda: not b.find('dialog'), 'the question to go')
    b.click('button=Cancel')
    b.click('button=Cancel the job')
    b.wait('.head .state.cancelled')
    only_from(b, origin(url))


def queued(b, url, name):
    """A job that waits in the queue has its place and what it waits for, also on its own page, and can be cancelled."""
    b.open(url)
    b.wait(f'a={name}')
    b.wait('.state.queued')
    assert 'place 1 of 1' in b.text('table.jobs'), b.text('table.jobs')
    b.wait(lambda: b.script("""return [...document.querySelectorAll('section table tbody tr')].filter((r) =>
        /\\d, load \\d/.test(r.textContent) && /GB of/.test(r.textContent)).length""") == 2, 'the load and memory of both agents')
    passes_axe(b, 'a job that waits')
    b.click(f'a={name}')
    title_of(b, name)
    b.wait('.head .state.queued')
    b.back()
    b.click(f'button[aria-label="Cancel {name}"]')
    b.wait('p~does not run')
    b.click('button=Let it wait')
    b.wait(lambda: not b.find('dialog'), 'the question to go')
    b.click(f'button[aria-label="Cancel {name}"]')
    b.click('button=Cancel the job')
    b.wait(lambda: not b.find(f'a={name}'), 'the job to leave the list')
    only_from(b, origin(url))


def amount(v):
    """Bytes as the page shows them."""
    for unit in ('B', 'kB', 'MB', 'GB'):
        if v < 999.5:
            break
        v /= 1000
    return (f'{v:g}' if unit == 'B' else f'{v:.{3 - len(str(int(v)))}f}') + '\u202f' + unit


def cells(b):
    """The table of combinations: {title of a column: text}, without the deviations, for each row."""
    return b.script('''const heads = [...document.querySelectorAll('.sweep thead th')].map((t) => t.textContent.replace(/[↓↑]/, ''));
        return [...document.querySelectorAll('.sweep tbody tr')].map((tr) => Object.fromEntries([...tr.children].map((cell, i) =>
            [heads[i], (cell.firstChild?.nodeType === 3 ? cell.firstChild : cell).textContent])))''')


def sweep(b, url, name, csv_path):
    """A sweep's combinations, those that are best, filtered, sorted and compared; the figures are those of sweep.csv."""
    with open(csv_path, encoding='utf-8') as f:
        csv = list(csv_module.DictReader(f))
    b.open(url)
    b.click(f'a=sweep {name}')
    title_of(b, f'Sweep {name}')
    b.wait('table.sweep td')
    b.wait('p~reaches')
    best = [row for row in csv if row['best'] == '1']
    rows = cells(b)
    assert len(rows) == len(best) == 2, (rows, best)
    for row in rows:
        of = next(r for r in best if r['codec'].startswith(row['codec']))
        assert row['learn_rate'] == of['lr'], (row, of)
        assert row['Test accuracy'] == f"{100 * float(of['accuracy_mean']):.2f}\u202f%", (row, of)
        assert row['Bytes per worker'] == amount(float(of['bytes_mean'])), (row, of)
    passes_axe(b, 'a sweep')
    b.colours(True)
    passes_axe(b, 'a sweep in dark', 'color-contrast')
    b.colours(False)
    b.wait(lambda: b.script('return document.querySelectorAll(".picture canvas").length') == 2, 'both charts')
    b.click('label=Only the best')
    b.wait(lambda: len(cells(b)) == len(csv), 'all combinations')
    b.click('button=learn_rate')
    b.wait(lambda: [row['learn_rate'] for row in cells(b)] == sorted(row['lr'] for row in csv), 'the order by the rate')
    b.type('input[type=search]', 'codec=fedavg lr<0.3')
    b.wait(lambda: [(row['codec'], row['learn_rate']) for row in cells(b)] == [('fedavg', '0.2')], 'one combination')
    b.type('input[type=search]', 'rate>1')
    b.wait('p~rate: there are codec')
    b.type('input[type=search]', 'accuracy>0%')
    b.wait(lambda: len(cells(b)) == len(csv), 'all combinations again')
    along_axes(b, csv)
    b.script('const e = document.querySelector("input[type=number]"); e.value = 1; e.dispatchEvent(new Event("change"))')
    b.wait('button~Bytes to 1.00')
    b.wait('p~1.00')
    b.size(400, 800)
    assert b.script('return document.documentElement.scrollWidth') <= 400
    b.size(1280, 900)
    b.click('input[aria-label="Choose all combinations that are listed"]')
    b.click(f'a=Compare {2 * len(csv)} runs')
    title_of(b, f'{2 * len(csv)} runs compared')
    b.wait('td~%')
    b.wait(lambda: 'over bytes' in b.text('.chart .unit'), 'curves over bytes, because the rules differ')
    b.click('label=step')
    b.wait(lambda: 'x=step' in b.address(), 'the address to keep another x')
    b.size(1920, 900)
    assert b.script('return document.querySelector(".compared").getBoundingClientRect().right') > 1800
    only_from(b, origin(url))


def halved(b, url, name, csv_path):
    """A sweep by successive halving: a row for each combination, of which only those of the last rung can be the best."""
    with open(csv_path, encoding='utf-8') as f:
        csv = list(csv_module.DictReader(f))
    b.open(f'{url}#/sweep/' + urllib.parse.quote(f'logs/{name}', safe='') + '?all=1')
    b.wait(lambda: len(cells(b)) == len(csv), 'a row for each combination')
    for row in cells(b):
        of = next(r for r in csv if r['codec'].startswith(row['codec']) and r['lr'] == row['learn_rate'])
        assert row['Bytes per worker'] == amount(float(of['bytes_mean'])), (row, of)
        assert row['Test accuracy'] == f"{100 * float(of['accuracy_mean']):.2f}\u202f%", (row, of)
        assert ('stopped at epochs' in row['Runs']) == (int(row['epochs']) < max(int(r['epochs']) for r in cells(b))), row
    b.click('label=Only the best')
    best = [(r['codec'], r['lr']) for r in csv if r['best'] == '1']
    b.wait(lambda: len(cells(b)) == len(best), 'the best ones')
    assert sorted((row['codec'], row['learn_rate']) for row in cells(b)) == sorted(best), (cells(b), best)
    only_from(b, origin(url))


def names(b):
    return b.script("return [...document.querySelectorAll('table.jobs tbody th a:first-child')].map((a) => a.textContent)")


def lived(b, url, folder):
    """Runs are grouped, hidden, deleted, each undone, and have a note and tags; `folder` is that of a sweep's runs."""
    b.open(url)
    b.type('input[type=search]', 'sweep=rates')
    b.wait(lambda: names(b) and all('seed=' in name for name in names(b)), 'the runs of one sweep')
    everything = names(b)
    first, second, *_ = everything
    assert first.startswith(('fedavg lr=', 'allreduce lr=')) and 'seed=' in first, first  # not the whole name of the folder
    group = 'const s = document.querySelector(\'select[aria-label="Group by"]\'); s.value = arguments[0]; s.dispatchEvent(new Event("change"))'
    b.script(group, 'codec')
    b.wait('button[aria-expanded]')
    assert len(b.find('tr.group')) == 2 and 'best test accuracy' in b.text('tr.group'), b.text('table.jobs')
    b.click('tr.group button')
    b.wait(lambda: len(names(b)) == len(everything) / 2, 'a group to close')
    b.click('tr.group button')
    passes_axe(b, 'groups of jobs')
    b.script(group, '')
    for act, words, shown in (('Hide', 'hidden', False), ('Delete', 'deleted', False)):
        b.click(f'input[aria-label="Tick {first}"]')
        b.click(f'input[aria-label="Tick {second}"]')
        b.click(f'button={act}')
        b.wait(lambda: b.text('.done').startswith(f'2 runs {words}'), f'{act} to say what it did')
        b.wait(lambda: len(names(b)) == len(everything) - 2 and first not in names(b), f'{act} to leave the others')
        if act == 'Hide':
            passes_axe(b, 'a list of jobs with hidden ones')
            b.click('label=2 hidden')
            b.wait(lambda: sorted(names(b)) == sorted(everything), 'the hidden ones, too')
            b.click('label=2 hidden')
        else:
            assert len(os.listdir(f'{folder}/.deleted')) == 2
        b.click('button=Undo')
        b.wait(lambda: b.text('.done') == '2 runs: undone.', 'the undoing')
        b.wait(lambda: sorted(names(b)) == sorted(everything), 'all runs again')
    assert not os.listdir(f'{folder}/.deleted')
    b.click(f'a={first}')
    b.click('button=Add a note or tags')
    b.type('textarea', HOSTILE[:100])
    b.type('dialog input', 'best, lr 0.5 ,,')
    passes_axe(b, 'the dialog for a note')
    b.click('button=Save')
    b.wait(lambda: b.text('.job-note') == HOSTILE[:100] and b.find('span=lr 0.5') and b.find('span=best'), 'the note and tags')
    b.click('button=Edit note and tags')
    b.type('dialog input', 'best')
    b.click('button=Save')
    b.wait(lambda: not b.find('span=lr 0.5') and b.text('.job-note') == HOSTILE[:100], 'one tag less')
    b.back()
    b.type('input[type=search]', 'tag=best')
    b.wait(lambda: names(b) == [first], 'the run with the tag')
    b.type('input[type=search]', ' ')
    b.size(400, 800)
    assert b.script('return document.documentElement.scrollWidth') <= 400
    b.size(1280, 900)
    assert b.script('return document.documentElement.scrollWidth') <= 1280
    assert not b.script('return document.body.dataset.owned')
    only_from(b, origin(url))


def along_axes(b, csv):
    """The combinations as lines across axes: a value, by keys, and a range, by the mouse, filter the table."""
    everything = len(csv)
    assert len(b.find('.axes g')) == everything and b.text('.axis-title') == 'codec', b.text('.parallel')
    b.script('document.querySelector(\'button[aria-label="Only codec fedavg"]\').focus()')
    b.keys('Enter')
    b.wait(lambda: {row['codec'] for row in cells(b)} == {'fedavg'}, 'one rule')
    assert len(b.find('.axes g.listed')) == len(cells(b)) < everything == len(b.find('.axes g'))
    assert b.script('return document.activeElement.getAttribute("aria-pressed")') == 'true'
    b.keys('Enter')
    b.wait(lambda: len(cells(b)) == everything, 'all rules again')
    b.drag('.axis:nth-of-type(3) .axis-line', 0, 0.3, is_down=True)  # the upper part of the test accuracy
    most = max(float(row['accuracy_mean']) for row in csv)
    b.wait(lambda: 0 < len(cells(b)) < everything, 'the more accurate ones')
    assert f'{100 * most:.2f}\u202f%' in [row['Test accuracy'] for row in cells(b)], cells(b)
    value = b.script('return document.querySelector("input[type=search]").value')
    assert 'accuracy>=' in value and 'accuracy<=' in value, value
    b.drag('.axis:nth-of-type(3) .axis-line', 0.5, 0.5, is_down=True)
    b.wait(lambda: len(cells(b)) == everything, 'all combinations after a click')


def views(b, url, job, other):
    """Every view is right for assistive technology in both sets of colours, can be used by keys, and shows texts as texts."""
    base = origin(url)
    b.open(url)
    b.wait('table.jobs td')
    places = ['#/', *(f'#/job/{job}/{tab}' for tab in TABS), f'#/compare?ids={job},{other}',
              '#/sweep/' + urllib.parse.quote(f'logs/{SWEEP}', safe=''), '#/job/j-nonesuch', '#/nowhere']
    for dark in (False, True):
        b.colours(dark)
        for place in places:
            b.open(base + place)
            drawn(b, place)
            if dark:
                passes_axe(b, f'{place} in dark', 'color-contrast')  # the one rule about colours
                continue
            passes_axe(b, place)
            assert not b.script('return document.body.dataset.owned || document.querySelector("main img")'), f'a text became HTML in {place}'
            if f'job/{job}/' in place or place == '#/':
                assert HOSTILE[:30] in b.text(), f'{place} lacks the text'
            assert '\u202e' not in b.script('return document.documentElement.textContent.replace(document.getElementById("psgd-data").textContent, "")'), (
                f'{place} turns text around'
            )
    b.colours(False)
    b.open(f'{base}#/compare?ids={job},{other}')
    drawn(b, 'a comparison')
    b.click('button=Test accuracy as PNG')  # with such names in its legend
    file = f'{b.folder}/downloads/compare-test-accuracy.png'
    b.wait(lambda: os.path.exists(file) and os.path.getsize(file), 'the PNG of a chart')
    special(b, base)
    theme(b, base)
    keys(b, base, job)
    phone(b, base, places)
    only_from(b, base)


def tiles(b):
    return dict(b.script('''return [...document.querySelectorAll('.tile')].map((t) => [t.querySelector('dt').textContent,
        t.querySelector('dd').firstChild.textContent])'''))


def special(b, base):
    """A job without training opens on its nodes; of one that was never tested the figures are said to be those of training."""
    b.open(base)
    b.click('a=counts words')
    title_of(b, 'counts words')
    b.wait('nav.tabs [aria-current=page]')
    assert b.text('nav.tabs [aria-current=page]') == 'Nodes' and not b.find('.chart') and not b.find('a=Curves')
    assert list(tiles(b)) == ['Progress', 'Time', 'Sent, all nodes'], tiles(b)
    b.back()
    b.wait('small=training')
    b.click('a=ended early')
    title_of(b, 'ended early')
    b.wait('.tile')
    shown = tiles(b)
    assert (shown.get('Training accuracy'), shown.get('Training loss')) == ('25.00\u202f%', '2.500') and 'Test loss' not in shown, shown


def theme(b, base):
    ground = 'return getComputedStyle(document.body).backgroundColor'
    b.open(base)
    light = b.script(ground)
    b.click('button=Dark colours')
    dark = b.script(ground)
    assert light == 'rgb(255, 255, 255)' and dark != light, (light, dark)
    b.open('about:blank')
    b.open(base)
    assert b.script(ground) == dark, 'the choice of colours is not kept'
    b.click('button=Light colours')
    assert b.script(ground) == light


def keys(b, base, job):
    """By Tab and Enter alone: past the frame, into a job, to its log; what has the focus is always seen."""
    focus = '''const e = document.activeElement, s = getComputedStyle(e), seen = e.closest('.choice') ? getComputedStyle(e.nextElementSibling) : s;
        return [e.textContent.trim() || e.getAttribute('aria-label') || '', seen.outlineStyle]'''

    def tab_to(name):
        for _ in range(80):
            b.keys('Tab')
            text, outline = b.script(focus)
            assert outline != 'none', f'the focus on {text[:80]!r} is not seen'
            if text == name:
                return
        raise AssertionError(f'Tab does not lead to {name}')

    b.open('about:blank')
    b.open(base)
    b.wait('table.jobs td')
    b.keys('Tab')
    assert b.script(focus)[0] == 'Skip to the contents'
    b.keys('Enter')
    assert b.script('return document.activeElement.id') == 'main'
    tab_to('Test accuracy')
    b.keys('Enter')
    b.wait('th[aria-sort]:has(button:focus)')
    b.open(base + f'#/job/{job}')
    b.wait('nav.tabs')
    tab_to('Log')
    b.keys('Enter')
    b.wait('.log li')


def phone(b, base, places):
    """Nothing but tables and matrices, which scroll by themselves, is wider than a phone."""
    b.size(400, 800)
    for place in places:
        b.open(base + place)
        drawn(b, place)
        wide = b.script('return document.documentElement.scrollWidth')
        assert wide <= 400, f'{place} is {wide} wide'


def many(b, url, job):
    """10^6 rows of 32 nodes: the mean and the range, each node on demand, a part of it in more detail."""
    b.open(url)
    b.wait('table.jobs td')
    b.open(f'{origin(url)}#/job/{job}')
    b.wait(lambda: steps_drawn(b) > 0, 'the curves')
    assert len(b.script('return [...document.querySelectorAll(".chart .plot canvas")].map((c) => c.width)')) >= 4
    b.click('summary=32 nodes')
    b.click('button=worker 31')
    b.wait(lambda: 'show=' in b.address(), 'the choice of a node')
    rows = 'return psgd.source.series(arguments[0], {file: "train", names: "loss", x: "step", points: 1000}).then((d) => [d.rows, d.nodes.length])'
    assert b.script(rows, job) == [10 ** 6, 32]
    b.drag('.chart:nth-of-type(4) .u-over', 0.4, 0.5)
    b.wait(lambda: 'from=' in b.address() and 'to=' in b.address(), 'the range in the address')
    b.wait(lambda: 12000 < steps_drawn(b) < 17000, 'the curves of that range')
    b.click('button=Whole range')
    b.wait(lambda: steps_drawn(b) > 30000, 'the whole range again')
    only_from(b, origin(url))


def report(b, path):
    """report.html from its file: the same views, and nobody is asked."""
    b.open(f'file://{urllib.parse.quote(path)}')
    b.wait(lambda: steps_drawn(b) == 200, 'the curves')
    assert HOSTILE[:30] in b.text('h1') and '\u202e' not in b.text('h1')
    b.click('label=bytes')
    b.wait(lambda: 'over bytes' in b.text('.chart .unit'), 'curves over bytes')
    b.wait('code=job_submit plot hostile --x bytes')
    for tab, what in (('Time and bytes', '.stack'), ('Nodes', 'table.matrix'), ('Classes', 'td.diagonal'), ('Settings', 'pre.source'),
                      ('Files', 'a[href="records/train.csv"]'), ('Log', '.log li.error')):
        b.click(f'a={tab}')
        b.wait(what)
    b.click('a=Files')
    b.wait('a[href="records/train.csv"]')
    assert not b.find('a[href*="evil"], a[href*=".."]') and ELSEWHERE[0] in b.text()
    b.click('a=Log')
    b.wait('.log li.error')
    b.type('input[aria-label="Search the log"]', 'line 42')
    b.wait(lambda: len(b.find('.log li')) == 1, 'one line of the log')
    b.click('a=Classes')
    b.wait('p~80 are right, 97.50')  # each sample once, though two workers tested the test set
    assert not b.script('return document.body.dataset.owned')
    assert not b.find('button=Cancel')
    only_from(b, 'file://' + urllib.parse.quote(path))


def fact(b, name):
    return b.script('''return [...document.querySelectorAll('.facts dt')].find((t) => t.textContent === arguments[0])
        ?.nextSibling.textContent''', name)


def agent(b, url, job, token):
    """An agent's own page: its jobs without a token, on loopback; one of them with it. What it says of itself is of now."""
    b.open(url)
    b.wait(f'a={job}')
    b.wait('.facts dd')
    up = fact(b, 'Up for')
    b.wait(lambda: fact(b, 'Up for') not in (up, None), 'the time that the agent is up to grow')
    assert fact(b, 'Processors').split(',')[0].isdigit() and 'load' in fact(b, 'Processors'), fact(b, 'Processors')
    assert 'GB' in fact(b, 'Free memory') and fact(b, 'Waiting jobs') == '0', fact(b, 'Free memory')
    passes_axe(b, 'the jobs of an agent')
    b.click(f'a={job}')
    b.type('input[type=password]', 'wrong')
    b.click('button=Show')
    b.wait(lambda: b.script('return document.querySelector("input[type=password]")?.value === ""'), 'the question again')
    b.type('input[type=password]', token)
    b.click('button=Show')
    b.wait(lambda: steps_drawn(b) > 0, 'the curves')
    passes_axe(b, 'a job of an agent')
    b.click('a=Log')
    b.wait('.log li')
    b.click('a=Files')
    b.click('button=train.csv')
    file = f'{b.folder}/downloads/train.csv'
    b.wait(lambda: os.path.exists(file) and os.path.getsize(file), 'the file')
    assert not b.find('button=Cancel') and not b.find('input[type=checkbox][aria-label^=Tick]')
    only_from(b, url)


def main(folder, scenario, *arguments):
    if scenario == 'results':
        results(arguments[0], arguments[1], HOSTILE, word=HOSTILE)
        results(arguments[0] + '-other', arguments[2], 'other')
        amended(arguments[0] + '-executor', 'j-executor0001', 'counts words', {'executor': True}, {})
        hostile_sweep(os.path.join(os.path.dirname(arguments[0]), SWEEP))
        amended(arguments[0] + '-untested', 'j-untested0001', 'ended early', {}, {'loss': 2.5, 'accuracy': 0.25, 'eval_loss': None})
        return 0
    if scenario == 'many-results':
        results(arguments[0], arguments[1], 'many', n_nodes=32, n_steps=31250)
        return 0
    words = [scenario, *arguments]
    try:
        with webdriver.Browser(folder) as b:
            try:
                while words:
                    end = words.index('--') if '--' in words else len(words)
                    {'live': live, 'queued': queued, 'sweep': sweep, 'lived': lived, 'halved': halved, 'views': views, 'agent': agent, 'many': many, 'report': report}[words[0]](b, *words[1:end])
                    del words[:end + 1]
            except Exception:
                b.screenshot(f'{folder}/failure.png')
                raise
    except webdriver.Missing as e:
        print(e, file=sys.stderr)
        return 77
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
