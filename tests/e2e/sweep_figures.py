"""Recomputes the figures of a sweep from the records of its runs: sweep_figures.py FOLDER BEST_OF TARGET. TARGET "": chosen."""
import csv, glob, json, math, statistics, sys
from collections import defaultdict

folder, best_of, target = sys.argv[1:]
rows = list(csv.DictReader(open(f"{folder}/sweep.csv")))
keys = list(rows[0])[: list(rows[0]).index("runs")]


def number(text):
    return float(text) if text else math.nan


def curves(path, column):
    """The mean over the workers at each step: [(step, time, bytes, value)]."""
    at = defaultdict(list)
    for row in csv.DictReader(open(path)):
        total = number(row.get("sent_bytes_total", "")) + number(row.get("recv_bytes_total", ""))
        at[int(row["step"])].append((number(row["time_s"]), total, number(row[column])))
    return [(step, *(statistics.fmean(v) for v in zip(*at[step]))) for step in sorted(at)]


def measure(run):
    accuracy, loss = curves(f"{run}/records/eval.csv", "accuracy"), curves(f"{run}/records/eval.csv", "loss")
    first = curves(f"{run}/records/train.csv", "loss")[0][3]
    last = loss[-1][3]
    return {"accuracy": accuracy, "last": accuracy[-1][3], "diverged": not math.isfinite(last) or last > first}


def close(text, value):
    assert math.isclose(number(text), value, rel_tol=1e-6, abs_tol=1e-9), (text, value)


runs = []
for row in rows:
    of_row = []
    for path in glob.glob(f"{folder}/runs/*"):
        doc = json.load(open(f"{path}/run.json"))
        settings = {**doc["settings"], "lr": doc["settings"]["learn_rate"]}
        if all(str(settings[k]) == row[k] or (k != "codec" and float(settings[k]) == float(row[k])) for k in keys):
            of_row.append(measure(path))
    runs.append(of_row)

# The best of each group by the mean accuracy, if no target was given; the target that all of them reached.
groups = defaultdict(list)
for i, row in enumerate(rows):
    groups[tuple(row[k] for k in keys if k != best_of)].append(i)
if not target:
    best = [min(of, key=lambda i: (sum(r["diverged"] for r in runs[i]), -statistics.fmean(r["last"] for r in runs[i]))) for of in groups.values()]
    reached = [max(p[3] for p in r["accuracy"]) for i in best for r in runs[i] if not r["diverged"]]
    aim = math.floor(min(reached) * 1e4 + 1e-6) / 1e4
else:
    aim = float(target)
for row, of_row in zip(rows, runs):
    assert len(of_row) == int(row["runs"]) - int(row["failed"]), row
    assert sum(r["diverged"] for r in of_row) == int(row["diverged"]), row
    close(row["target"], aim)
    close(row["accuracy_mean"], statistics.fmean(r["last"] for r in of_row))
    close(row["accuracy_deviation"], statistics.stdev(r["last"] for r in of_row))
    hits = [next(p for p in r["accuracy"] if p[3] >= aim) for r in of_row if any(p[3] >= aim for p in r["accuracy"])]
    assert len(hits) == int(row["reached"]), (row, hits)
    for name, part in ("steps_to_target", 0), ("time_to_target_s", 1), ("bytes_to_target", 2):
        if hits:
            close(row[f"{name}_mean"], statistics.fmean(h[part] for h in hits))
        if len(hits) > 1:
            close(row[f"{name}_deviation"], statistics.stdev(h[part] for h in hits))
    row["cost"] = (-len(hits), statistics.fmean(h[2] for h in hits) if hits else math.inf)
if target:
    best = [min(of, key=lambda i: (rows[i]["cost"], -number(rows[i]["accuracy_mean"]))) for of in groups.values()]
assert [i for i, row in enumerate(rows) if row["best"] == "1"] == sorted(best), (best, rows)
print(json.dumps([rows[i]["codec"] for i in sorted(best, key=lambda i: rows[i]["cost"])]))
