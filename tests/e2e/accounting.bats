#!/usr/bin/env bats
# Accounting of time and bytes: the columns of train.csv, the job's comm object, the trace.
load lib

# The phases of each step add up to the time between rows, for each whole epoch of each worker.
assert_parts_add_up() { # assert_parts_add_up FOLDER...
    python3 - "$@" <<'PY'
import csv, sys
PARTS = "compute_s encode_s send_s wait_s decode_s apply_s".split()
for folder in sys.argv[1:]:
    rows = list(csv.DictReader(open(f"{folder}/records/train.csv")))
    for key in sorted({(r["node"], r["epoch"]) for r in rows}):
        steps = [r for r in rows if (r["node"], r["epoch"]) == key]
        assert [int(r["step"]) for r in steps] == list(range(int(steps[0]["step"]), int(steps[-1]["step"]) + 1))
        wall = float(steps[-1]["time_s"]) - float(steps[0]["time_s"])
        parts = {p: sum(float(r[p]) for r in steps[1:]) for p in PARTS}
        print(folder, key, wall, parts)
        assert abs(sum(parts.values()) - wall) < 0.02 * wall
        assert all(float(r[p]) >= 0 for r in steps for p in PARTS)
        assert parts["compute_s"] > 0 and parts["apply_s"] > 0
PY
}

@test "the phases of a step add up to its time, with and without a server" {
    start_agents 3
    write_workers 2 1
    for codec in plain fedavg:every=5; do
        "$SUBMIT" -q --codec $codec --path gather --server_codec null --node_count 2 --epochs 2 -o ${codec%:*}
    done
    "$SUBMIT" -q --codec fedavg --node_count 2 --epochs 2 --local-steps 5 -o star
    "$SUBMIT" -q --codec dummy --server_codec null --node_count 1 --epochs 2 --model softmax -o alone
    assert_parts_add_up plain fedavg star alone
    python3 - <<'PY'
import csv
def total(folder, column):
    return sum(float(r[column]) for r in csv.DictReader(open(f"{folder}/records/train.csv")))
for folder in "plain", "fedavg", "star":
    for column in "encode_s", "send_s", "wait_s":
        assert total(folder, column) > 0, (folder, column)
assert total("plain", "decode_s") > 0 and total("fedavg", "decode_s") > 0
assert total("star", "decode_s") == 0  # with a server a worker adopts the reply: that is applying
for column in "encode_s", "send_s", "decode_s":
    assert total("alone", column) == 0
PY
}

@test "the job's comm object is the sum of comm.csv" {
    start_agents 3
    write_workers 2 1
    "$SUBMIT" -q --codec plain --path gather --server_codec null --node_count 2 --epochs 1 -o plain
    "$SUBMIT" -q --codec fedavg --node_count 2 --epochs 2 --local-steps 10 -o star
    "$SUBMIT" -q --codec downpour --psgd asgd --node_count 2 --epochs 1 --dataset "$FEW" -o late # replies come after the last step
    python3 - <<'PY'
import csv, json
for folder in "plain", "star", "late":
    run = json.load(open(f"{folder}/run.json"))
    rows = list(csv.DictReader(open(f"{folder}/records/comm.csv")))
    for n in run["nodes"]:
        mine = [r for r in rows if int(r["node"]) == n["node"]]
        peers = {p["peer"]: p for p in n["comm"]["peers"]}
        assert set(peers) == {int(r["peer"]) for r in mine}
        for way, short in ("sent", "sent"), ("received", "recv"):
            def sum_of(column, peer=None):
                return sum(int(r[column]) for r in mine if r["direction"] == way and peer in (None, int(r["peer"])))
            assert n["comm"][f"{short}_messages"] == sum_of("messages") > 0
            assert n["comm"][f"{short}_bytes"] == sum_of("wire_bytes")
            for peer, p in peers.items():
                assert p[f"{short}_messages"] == sum_of("messages", peer)
                assert p[f"{short}_raw_bytes"] == sum_of("raw_bytes", peer)
                assert p[f"{short}_bytes"] == sum_of("wire_bytes", peer)
        assert n["comm"]["raw_bytes"] == sum(p["sent_raw_bytes"] for p in peers.values())
    job = run["comm"]
    for key in "sent_messages", "recv_messages", "raw_bytes", "sent_bytes", "recv_bytes":
        assert job[key] == sum(n["comm"][key] for n in run["nodes"])
    assert job["sent_bytes"] == job["recv_bytes"] and 0.9 < job["compression_ratio"] < 1
    parts = "compute_s encode_s send_s wait_s decode_s apply_s".split()
    for key in parts:
        assert abs(job[key] - sum(n["comm"][key] for n in run["nodes"] if n["role"] == "worker")) < 1e-4
    own = job["compute_s"] + job["apply_s"]
    assert abs(job["share"] - (1 - own / sum(job[k] for k in parts))) < 1e-3
    assert job["bound"] in ("compute", "communication", "slowest worker")
PY
    api 0 GET "/v1/jobs/$(only_job 0)" | jq -e '.comm.raw_bytes > 0 and .comm.compute_s > 0 and .comm.sent_messages > 0'
    run "$SUBMIT" status
    [[ "$output" =~ 'Time of the steps: '[0-9]+' % computing, '[0-9]+' % exchanging ('[0-9]+' % waiting). Bound by: ' ]]
}

# bats test_tags=long
@test "progress reports a row only after it was written to the file" {
    start_agents 1
    "$SUBMIT" -q --codec plain --node_count 1 --epochs 100000 --detach --no-queue -o out
    within 60 is_at_step 0 200
    run=$(echo "$T"/agent0/jobs/*/run)
    for _ in $(seq 5); do
        step=$(grep '"progress"' "$run/events.jsonl" | tail -1 | jq .step)
        [ "$(tail -1 "$run/train.csv" | cut -d, -f7)" -ge "$step" ]
        sleep 0.3
    done
    pid=$(api 0 GET "/v1/jobs/$(only_job 0)" | jq .pid)
    step=$(grep '"progress"' "$run/events.jsonl" | tail -1 | jq .step)
    kill -9 "$pid"
    within 60 is_in_state 0 failed
    [ "$(tail -c 1 "$run/train.csv" | od -An -tx1)" = " 0a" ]
    [ "$(tail -1 "$run/train.csv" | cut -d, -f7)" -ge "$step" ]
}

# assert_trace_is_sound TRACE FOLDER: it agrees with the records, and the spans of a node do not overlap.
assert_trace_is_sound() {
    python3 - "$1" "$2" <<'PY'
import collections, csv, json, sys
trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"]
nodes = {n["pid"]: n for n in trace["otherData"]["nodes"]}
rows = {(int(r["node"]), int(r["step"])): r for r in csv.DictReader(open(sys.argv[2] + "/records/train.csv"))}
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
assert {n["node"] for n in nodes.values()} == {int(name.split()[1]) for name in names.values()}
PARTS = "compute encode send wait decode apply".split()
for pid, node in nodes.items():
    assert node["dropped"] == 0
    spans = {cat: sorted((e for e in events if e["ph"] == "X" and e["pid"] == pid and e["cat"] == cat), key=lambda e: e["ts"])
             for cat in ("step", "phase")}
    for track in spans.values():
        for a, b in zip(track, track[1:]):
            assert a["ts"] + a["dur"] <= b["ts"] + 0.002, (a, b)
    # There is no gap between the first span and the last.
    phases = spans["phase"]
    assert abs(phases[-1]["ts"] + phases[-1]["dur"] - phases[0]["ts"] - sum(e["dur"] for e in phases)) < 0.002 * len(phases)
    if node["node"] < 0:
        assert not spans["step"] and {"wait", "decode", "encode", "send"} <= {e["name"] for e in phases}
        continue
    assert {"evaluate"} <= {e["name"] for e in phases}
    of_step = collections.defaultdict(list)
    for e in phases:
        of_step[e["args"]["step"]].append(e)
    assert len(spans["step"]) == sum(1 for k in rows if k[0] == node["node"])
    for s in spans["step"]:
        step, parts = s["args"]["step"], of_step[s["args"]["step"]]
        assert all(s["ts"] - 0.002 <= e["ts"] and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + 0.002 for e in parts)
        assert all(e["name"] in PARTS for e in parts)
        row = rows[node["node"], step]
        for p in PARTS:
            traced = sum(e["dur"] for e in parts if e["name"] == p)
            assert abs(traced - 1e6 * float(row[p + "_s"])) < 0.01 + 0.001 * len(parts), (step, p, traced, row[p + "_s"])
ends = collections.defaultdict(list)
for e in events:
    if e["ph"] in "sf":
        ends[e["id"]].append(e)
slack = max(n["uncertainty_us"] for n in nodes.values())
for both in ends.values():
    assert sorted(e["ph"] for e in both) == ["f", "s"]
    out, arrived = sorted(both, key=lambda e: e["ph"], reverse=True)
    assert out["pid"] != arrived["pid"] and out["ts"] < arrived["ts"] + slack
sent = sum(int(r["messages"]) for r in csv.DictReader(open(sys.argv[2] + "/records/comm.csv")) if r["direction"] == "sent")
assert len(ends) == sent > 0
PY
}

# bats test_tags=long
@test "the spans of a trace cover every node's time and sum to the records" {
    start_agents 3
    write_workers 2 1
    "$SUBMIT" -q --codec fedavg --node_count 2 --epochs 2 --local-steps 20 --trace star.json -o star
    assert_trace_is_sound star.json star
    run "$SUBMIT" --codec plain --path gather --server_codec null --node_count 2 --epochs 1 --trace plain.json -o plain
    [ "$status" -eq 0 ]
    [[ "$output" == *"Trace of 2 nodes in plain.json"* ]]
    assert_trace_is_sound plain.json plain
    # It can be fetched again, and a job without --trace has none.
    "$SUBMIT" fetch --trace again.json -o again
    cmp plain.json again.json
    "$SUBMIT" -q --codec plain --server_codec null --node_count 2 --epochs 1 --model softmax -o none
    [ ! -e "$T/agent0/jobs/$(api 0 GET /v1/jobs | jq -r '.jobs[0].id')/run/trace.bin" ]
    run "$SUBMIT" fetch --trace none.json -o none2
    [ "$status" -eq 9 ]
    [[ "$output" == *"No node has a trace"* ]]
}

@test "a trace that cannot be written is refused before the job, and reported if it fails later" {
    start_agents 1
    touch file
    for bad in file/x nowhere/t.json .; do
        run "$SUBMIT" -q --codec plain --node_count 1 --epochs 1 --model softmax --trace $bad -o out
        [ "$status" -eq 6 ]
        [[ "$output" == *"--trace $bad: "* ]]
        [ ! -e out ]
    done
    [ "$(api 0 GET /v1/jobs | jq '.jobs | length')" -eq 0 ]
    mkdir there
    id=$("$SUBMIT" -q --codec plain --node_count 1 --epochs 100000 --model softmax --trace there/t.json --detach --no-queue -o out)
    [ ! -e there/t.json ]
    "$SUBMIT" wait -q "$id" --trace there/t.json >printed 2>&1 3>&- &
    within 60 grep -q 'Waiting for' out/logs/submit.log
    within 60 is_at_step 0 1
    rmdir there
    "$SUBMIT" cancel "$id"
    wait $! || true
    cat printed
    grep -q "The trace is missing: there/t.json: .*job_submit fetch $id --trace FILE" printed
    "$SUBMIT" fetch -q "$id" --trace t.json
    [ -s t.json ]
}

@test "traces of nodes with different clocks share one time axis" {
    command -v unshare >/dev/null && unshare -rT --fork --monotonic 5000 true 2>/dev/null || skip "no time namespaces here"
    start_agent 0
    ENTER=(unshare -rT --fork --monotonic 5000)
    start_agent 1
    AGENTS[1]=$(pgrep -P "${AGENTS[1]}") # unshare itself receives no signal, and ends with it
    write_workers 2
    "$SUBMIT" -q --codec plain --path gather --node_count 2 --epochs 1 --trace both.json -o both
    assert_trace_is_sound both.json both
    # 5000 s apart, within the reported uncertainty: half the time that an HTTP response took.
    jq -e '.otherData.nodes | .[0].offset_us == 0 and .[0].uncertainty_us == 0 and .[1].uncertainty_us > 0 and
        .[1].uncertainty_us < 60e6 and (.[1].offset_us + 5e9 | fabs) <= .[1].uncertainty_us' both.json
}
