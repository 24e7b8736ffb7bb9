"""Recomputes the figures of a sweep from the records of its runs: sweep_figures.py FOLDER BEST_OF TARGET. TARGET "": chosen."""
import csv, glob, json, math, statistics, sys
from collections import defaultdict

folder, best_of, target = sys.argv[1:]
rows = list(csv.DictReader(open(f"{folder}/sweep.csv")))
keys = list(rows[0])[: list(rows[0]).index("runs")]
unit = next((u for u in ("epochs", "steps") if f"rung_1_{u}" in rows[0]), None)  # of successive halving
n_rungs = sum(f"rung_{k}_place" in rows[0] for k in range(1, 20)) or 1


def number(text):
    return float(text) if text else math.nan


def curves(path, column):
    """The mean over the workers at each step: [(step, time, bytes, value)]."""
    at = defaultdict(list)
    for row in csv.DictReader(open(path)):
        total = number(row.get("sent_bytes_total", "")) + number(row.get("recv_bytes_total", ""))
        at[int(row["step"])].append((number(row["time_s"]), total, number(row[column])))
    return [(step, *(statistics.fmean(v) for v in zip(*at[step]))) for step in sorted(at)]


def spent(doc):
    """Seconds of the slowest node, bytes of a worker."""
    workers = [n for n in doc["nodes"] if n["node"] >= 0]
    return max(n["elapsed_s"] for n in doc["nodes"]), statistics.fmean(n["sent_bytes"] + n["recv_bytes"] for n in workers)


def measure(run):
    """A run, with the shorter runs from whose checkpoints it went on before it."""
    doc = json.load(open(f"{run}/run.json"))
    earlier = doc["facts"]["options"].get("resume")
    before = measure(earlier) if earlier else {"accuracy": [], "time": 0, "bytes": 0}
    seconds, total = spent(doc)
    accuracy = [(step, at + before["time"], b + before["bytes"], v) for step, at, b, v in curves(f"{run}/records/eval.csv", "accuracy")]
    loss = curves(f"{run}/records/eval.csv", "loss")
    first = before["first"] if earlier else curves(f"{run}/records/train.csv", "loss")[0][3]
    last = loss[-1][3]
    return {"accuracy": before["accuracy"] + accuracy, "last": accuracy[-1][3], "loss": last, "first": first,
            "diverged": not math.isfinite(last) or last > first, "resumed": bool(earlier),
            "time": seconds + before["time"], "bytes": total + before["bytes"]}


def close(text, value):
    assert math.isclose(number(text), value, rel_tol=1e-6, abs_tol=1e-9), (text, value)


def hits_of(runs, aim):
    return [next(p for p in r["accuracy"] if p[3] >= aim) for r in runs if any(p[3] >= aim for p in r["accuracy"])]


def order(runs, aim):
    """By what a value is better than another: the target first, if one was given, then the accuracy."""
    hits = hits_of(runs, aim) if target else []
    mean = lambda part: statistics.fmean(h[part] for h in hits) if hits else math.inf
    return (-len(hits), mean(2), mean(0), sum(r["diverged"] for r in runs), -statistics.fmean(r["last"] for r in runs),
            statistics.fmean(r["loss"] for r in runs))


# The runs of each combination in each of its rungs.
found = defaultdict(list)
for path in sorted(glob.glob(f"{folder}/runs/*")):
    doc = json.load(open(f"{path}/run.json"))
    settings = {**doc["settings"], "lr": doc["settings"]["learn_rate"], "steps": doc["settings"]["max_steps"]}
    codecs = settings["codec"], doc["facts"]["options"].get("codec")
    for i, row in enumerate(rows):
        if all(row[k] in codecs if k == "codec" else float(settings[k]) == float(row[k]) for k in keys):
            found[i, settings[unit] if unit else None].append(measure(path))

groups = defaultdict(list)
for i, row in enumerate(rows):
    groups[tuple(row[k] for k in keys if k != best_of and (best_of or not unit))].append(i)
aim = float(target) if target else math.nan

# Successive halving: of n in a rung of a group the floor(n / 2) best go on.
members = dict(groups)
for k in range(1, n_rungs + 1 if unit else 1):
    for group, of in members.items():
        length = int(rows[of[0]][f"rung_{k}_{unit}"])
        ranked = sorted(of, key=lambda i: order(found[i, length], aim))
        for i in range(len(rows)):
            if i in groups[group] and i not in of:
                assert rows[i][f"rung_{k}_place"] == "", rows[i]
        for place, i in enumerate(ranked, 1):
            row, runs = rows[i], found[i, length]
            assert (int(row[f"rung_{k}_place"]), int(row[f"rung_{k}_of"])) == (place, len(of)), (k, place, row)
            close(row[f"rung_{k}_accuracy"], statistics.fmean(r["last"] for r in runs))
            assert int(row[f"rung_{k}_resumed"]) == sum(r["resumed"] for r in runs), row
            assert int(row[f"rung_{k}_goes_on"]) == (k < n_rungs and place <= max(1, len(of) // 2)), (k, place, row)
        if k < n_rungs:
            members[group] = sorted(ranked[: max(1, len(of) // 2)])
runs = [found[i, max(int(rows[i][f"rung_{k}_{unit}"] or 0) for k in range(1, n_rungs + 1)) if unit else None] for i in range(len(rows))]

# The best of each group of those that went on to the end; if no target was given, the one that all of these reached.
best = [min(of, key=lambda i: order(runs[i], aim)) for of in members.values()]
if not target:
    reached = [max(p[3] for p in r["accuracy"]) for i in best for r in runs[i] if not r["diverged"]]
    aim = math.floor(min(reached) * 1e4 + 1e-6) / 1e4
for row, of_row in zip(rows, runs):
    assert len(of_row) == int(row["runs"]) - int(row["failed"]), row
    assert sum(r["diverged"] for r in of_row) == int(row["diverged"]), row
    close(row["target"], aim)
    hits = hits_of(of_row, aim)
    assert len(hits) == int(row["reached"]), (row, hits)
    figures = {"accuracy": [r["last"] for r in of_row], "time_s": [r["time"] for r in of_row], "bytes": [r["bytes"] for r in of_row]}
    for name, part in ("steps_to_target", 0), ("time_to_target_s", 1), ("bytes_to_target", 2):
        figures[name] = [h[part] for h in hits]
    for name, values in figures.items():
        if values:
            close(row[f"{name}_mean"], statistics.fmean(values))
        if len(values) > 1:
            close(row[f"{name}_deviation"], statistics.stdev(values))
    row["cost"] = (-len(hits), statistics.fmean(h[2] for h in hits) if hits else math.inf)
assert [i for i, row in enumerate(rows) if row["best"] == "1"] == sorted(best), (best, rows)
print(json.dumps([rows[i].get("codec") for i in sorted(best, key=lambda i: rows[i]["cost"])]))
