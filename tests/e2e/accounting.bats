#!/usr/bin/env bats
# Where time and bytes went: the columns of train.csv, the job's comm object, the trace.
load lib

# The parts of each step add up to the time between rows, over each whole epoch of each worker.
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

@test "the parts of a step add up to it, with and without a server" {
    start_agents 3
    write_workers 2 1
    for codec in plain fedavg; do
        "$SUBMIT" -q --codec $codec --server_codec null --node_count 2 --epochs 2 --local-steps 5 -o $codec
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
assert total("star", "decode_s") == 0  # a worker of a server adopts: that is applying
for column in "encode_s", "send_s", "decode_s":
    assert total("alone", column) == 0
PY
}

@test "the job's comm object is the sum of comm.csv" {
    start_agents 3
    write_workers 2 1
    "$SUBMIT" -q --codec plain --server_codec null --node_count 2 --epochs 1 -o plain
    "$SUBMIT" -q --codec fedavg --node_count 2 --epochs 2 --local-steps 10 -o star
    python3 - <<'PY'
import csv, json
for folder in "plain", "star":
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

@test "rows are in the file when progress says so" {
    start_agents 1
    "$SUBMIT" -q --codec plain --node_count 1 --epochs 100000 --detach -o out
    within 10 is_at_step 0 200
    run=$(echo "$T"/agent0/jobs/*/run)
    for _ in $(seq 5); do
        step=$(grep '"progress"' "$run/events.jsonl" | tail -1 | jq .step)
        [ "$(tail -1 "$run/train.csv" | cut -d, -f7)" -ge "$step" ]
        sleep 0.3
    done
    pid=$(api 0 GET "/v1/jobs/$(only_job 0)" | jq .pid)
    step=$(grep '"progress"' "$run/events.jsonl" | tail -1 | jq .step)
    kill -9 "$pid"
    within 5 is_in_state 0 failed
    [ "$(tail -c 1 "$run/train.csv" | xxd -p)" = 0a ]
    [ "$(tail -1 "$run/train.csv" | cut -d, -f7)" -ge "$step" ]
}
