#!/usr/bin/env bats
# Runs from files, runs side by side, sweeps and plots.
# shellcheck disable=SC2030,SC2031 # each test is a subshell
load lib
load namespaces

FEW=digits:train=2560,test=400

# The weights without their header, which has the job's id.
weights() {
    python3 -c '
import hashlib, struct, sys
raw = open(sys.argv[1] + "/model/final.safetensors", "rb").read()
print(hashlib.sha256(raw[8 + struct.unpack("<Q", raw[:8])[0]:]).hexdigest())' "$1"
}

@test "a run.json repeats its job to the bit, though the codec's file has changed" {
    start_agents 2
    cp "$ROOT/codecs/localsgd.c" mine.c
    sed -i 's/"localsgd"/"mine"/' mine.c
    "$SUBMIT" -q --codec mine.c:every=7 --node_count 2 --epochs 1 --model softmax --dataset "$FEW" --seed 5 --tag base --tag mine --note 'a first try' -o first
    echo '#error changed' >>mine.c
    "$SUBMIT" --config first/run.json -o again 2>printed
    grep -q 'mine.c has changed since that run: the copy of its source in the results is used' printed
    [ "$(weights first)" = "$(weights again)" ]
    [ "$(jq -S .settings first/run.json)" = "$(jq -S .settings again/run.json)" ]
    [ "$(jq .facts.codec.source_sha256 first/run.json)" = "$(jq .facts.codec.source_sha256 again/run.json)" ]
    # rerun takes the same copy; another seed makes another model.
    "$SUBMIT" rerun first -q --set seed=6 -o other
    [ "$(weights first)" != "$(weights other)" ]
    [ "$("$SUBMIT" list --json | jq '.data.jobs | length')" -eq 3 ]
    [ "$("$SUBMIT" list --tag mine --tag base --json | jq -c '.data.jobs[] | [.tags, .note]')" = '[["base","mine"],"a first try"]' ]
    [[ "$("$SUBMIT" list --tag base)" == *"  #base #mine  a first try" ]]
    # Afterwards it gets another note, which all that show it have.
    "$SUBMIT" note first 'the better one'
    "$SUBMIT" tag "$(jq -r .id first/run.json)" base best
    [[ "$("$SUBMIT" list --tag best)" == *"  #base #best  the better one" ]]
    [[ "$("$SUBMIT" compare first other)" == *"  #base #best  the better one"* ]]
    grep -q 'the better one' first/report.html
    [ "$(jq -r '.files[] | select(.name == "report.html").sha256' first/run.json)" = "$(sha256sum <first/report.html | cut -d ' ' -f 1)" ]
    run "$SUBMIT" note first/records 'no run'
    [ "$status" -eq 6 ]
    [[ "$output" == *"A run is the folder of a job's results, or a job's id."* ]]
    [ "$("$SUBMIT" list --tag other --json | jq '.data.jobs | length')" -eq 0 ]
    # Hidden and deleted runs are not listed; both is undone by the name that the run had.
    "$SUBMIT" hide first
    [ "$("$SUBMIT" list -q | grep -c "$(jq -r .id first/run.json)")" -eq 0 ]
    [ "$("$SUBMIT" list --all -q | grep -c "$(jq -r .id first/run.json)")" -eq 1 ]
    "$SUBMIT" unhide first
    mkdir other/.deleted # what a hostile folder has is its own
    ln -s first latest-link
    [[ "$("$SUBMIT" delete latest-link again)" == *" -> $PWD/.deleted/first"* ]]
    [ "$(echo .deleted/*)" = '.deleted/again .deleted/first' ]
    [ ! -e first ]
    [ "$("$SUBMIT" list -q | wc -l)" -eq 1 ]
    mkdir first
    run "$SUBMIT" undelete first
    [ "$status" -ne 0 ]
    [[ "$output" == *"first exists again: rename it first"* ]]
    rmdir first
    "$SUBMIT" undelete first "$(jq -r .id .deleted/again/run.json)"
    [ "$("$SUBMIT" list -q | wc -l)" -eq 3 ]
    [ -f first/run.json ]
    [ -f again/run.json ]
    run "$SUBMIT" undelete first
    [ "$status" -ne 0 ]
    [[ "$output" == *".deleted has no first"* ]]
    run "$SUBMIT" delete other none
    [ "$status" -ne 0 ]
    [ -d other ] # a wrong name changes nothing
    run "$SUBMIT" plot first --y los
    [ "$status" -eq 2 ]
    [[ "$output" == *"--y los: eval.csv has no such value; it has time_s, "*'Did you mean "loss"?'* ]]
    # As JSON: the means over the workers, which are those of the records.
    "$SUBMIT" plot first --json >curves.json
    python3 - <<'PY'
import csv, json
from collections import defaultdict
losses = defaultdict(list)
for row in csv.DictReader(open("first/records/eval.csv")):
    losses[float(row["step"])].append(float(row["loss"]))
(curve,) = json.load(open("curves.json"))["data"]["curves"]
assert curve["x"] == sorted(losses) and losses, curve
for x, y in zip(curve["x"], curve["y"]):
    assert abs(y - sum(losses[x]) / len(losses[x])) < 1e-9 * y, (x, y, losses[x])
PY
    # The last 20 are listed; --all lists all.
    local id jobs=$XDG_STATE_HOME/psgd/jobs
    id=$(jq -r .id other/run.json)
    for i in {10..30}; do sed "s/$id/j-0copy$i/g" "$jobs/$id.json" >"$jobs/j-0copy$i.json"; done
    [[ "$("$SUBMIT" list | tail -1)" == "4 more: job_submit list --all" ]]
    [ "$("$SUBMIT" list --all | wc -l)" -eq 25 ]
    # For scripts: all ids, one a line; the flag may come before the verb.
    [ "$("$SUBMIT" list -q)" = "$("$SUBMIT" list --json | jq -r '.data.jobs[].id')" ]
    [ "$("$SUBMIT" -q list | wc -l)" -eq 24 ]
    [ "$("$SUBMIT" list -q --tag base)" = "$("$SUBMIT" list --tag base --json | jq -r '.data.jobs[].id')" ]
    [ -z "$("$SUBMIT" list -q --tag none)" ]
    [ "$("$SUBMIT" codecs list -q | head -2)" = "$(printf 'allreduce\nasgd')" ]
    # Each rule and each compressor has a line with its differences from its paper.
    local name
    for name in $("$SUBMIT" codecs list -q); do
        sed -n '/^## Where rules differ/,$p' "$ROOT/docs/rules.md" | grep -qE "^\|.*\`$name\`.* \|.*\|$" || { echo "$name" && return 1; }
    done
    for name in $("$SUBMIT" codecs list --json | jq -r '.data.compressors[].name' | grep -v '^none$'); do
        sed -n '/^## Where compressors differ/,/^## Speed/p' "$ROOT/docs/compression.md" | grep -qE "^\|.*\`$name\`.* \|.*\|$" || { echo "$name" && return 1; }
    done
    rm "$jobs"/j-0copy*
    # The same job in the simulator ends with the same weights.
    "$SUBMIT" simulate -q --config first/run.json -o simulated
    [ "$(weights first)" = "$(weights simulated)" ]
    run "$SUBMIT" compare first other
    [ "$status" -eq 0 ]
    [[ "$output" == *" seed "*" accuracy "* ]]
}

@test "a repeated simulation has its times and, though asynchronous, its weights" {
    "$SUBMIT" simulate -q --codec ps --servers 1 --parallel_sgd asgd --node_count 3 --epochs 1 --model softmax --dataset "$FEW" -o first
    "$SUBMIT" simulate -q --config first/run.json -o again
    [ "$(weights first)" = "$(weights again)" ]
    [ "$(jq .nodes[0].elapsed_s first/run.json)" = "$(jq .nodes[0].elapsed_s again/run.json)" ]
    run "$SUBMIT" plot first --file codec --y stale
    [ "$status" -eq 6 ]
    [[ "$output" == *"--y stale: no run has such a value in codec.csv"*"There are values of staleness."* ]]
}

@test "the schema of --config is valid, accepts a job and names mistakes" {
    python3 -c 'import jsonschema' 2>/dev/null || skip "python3-jsonschema is not installed"
    "$SUBMIT" config schema >schema.json
    cmp schema.json "$ROOT/docs/reference/job.schema.json"
    python3 - <<'END'
import json, jsonschema
schema = json.load(open("schema.json"))
check = getattr(jsonschema, "Draft202012Validator", jsonschema.Draft7Validator)
check.check_schema(schema)
valid = check(schema).is_valid
assert valid({"codec": "fedavg:every=20", "node_count": 4, "learn_rate": 0.1, "sync": "asgd", "no_queue": True})
for wrong in {"epoch": 2}, {"epochs": 0}, {"epochs": "2"}, {"sync": "both"}, {"non_iid": 1}, [], {"codec": ""}:
    assert not valid(wrong), wrong
END
}

@test "a sweep continues where it was killed, and lists the runs that failed" {
    # A wrong combination ends the sweep before the first run, and leaves nothing.
    run "$SUBMIT" sweep --simulate --set codec=fedavg,allreduce --node_count 2 --local-steps 20 -o swept
    [ "$status" -eq 6 ]
    [[ "$output" == *"combination 2 of 2, codec=allreduce: --local-steps has no effect"*"the rules that have it: fedavg:every=20."* ]]
    [ ! -e swept ]
    local crash=$BUILD/tests/codecs/crash.so
    SWEEP=("$SUBMIT" sweep --simulate --set "codec=fedavg,$crash,diloco" --repeat 2 --node_count 2 --epochs 1 --model softmax --dataset "$FEW" -o swept)
    "${SWEEP[@]}" >first.txt 2>first.log 3>&- &
    local pid=$!
    within 60 test -e swept/runs/codec=fedavg_seed=2
    kill -9 $pid
    wait $pid || true
    local first
    first=$(jq -r .id swept/runs/codec=fedavg_seed=1/run.json)
    run "${SWEEP[@]}"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"codec=crash.so~"*"_seed=1: the simulator "*"2 of 6 runs did not succeed"* ]]
    [ "$(jq -r .settings.name swept/runs/codec=fedavg_seed=1/run.json)" = codec-fedavg_seed-1 ]
    [[ "$output" == *"fedavg "*" ± "* ]]
    [ "$(jq -r .id swept/runs/codec=fedavg_seed=1/run.json)" = "$first" ] # it was not run again
    [ "$(head -1 swept/sweep.csv | cut -d, -f1-5)" = codec,runs,failed,accuracy_mean,accuracy_deviation ]
    CRASH=$crash python3 - <<'END'
import csv, json, os, statistics
rows = {r["codec"]: r for r in csv.DictReader(open("swept/sweep.csv"))}
assert [rows[c]["failed"] for c in ("fedavg", os.environ["CRASH"], "diloco")] == ["0", "2", "0"]
got = [json.load(open(f"swept/runs/codec=diloco_seed={s}/run.json"))["mean_over_workers"]["eval_accuracy"] for s in (1, 2)]
assert abs(float(rows["diloco"]["accuracy_mean"]) - statistics.mean(got)) < 1e-8
assert abs(float(rows["diloco"]["accuracy_deviation"]) - statistics.stdev(got)) < 1e-8
assert rows[os.environ["CRASH"]]["accuracy_mean"] == ""
# The machine is measured once, so that runs differ by their rule and seed only.
taken = [json.load(open(f"swept/runs/codec={c}_seed={s}/run.json"))["facts"]["simulation"] for c in ("fedavg", "diloco") for s in (1, 2)]
for key in "step_time", "eval_time_s", "codec_rate_mbps", "overhead":
    assert len({t["result"][key] for t in taken}) == 1 and taken[0]["options"][key] == taken[3]["options"][key] == taken[0]["result"][key], key
assert len(json.load(open("swept/measured.json"))) == 1
assert all(float(rows[c]["time_s_deviation"]) == 0 for c in ("fedavg", "diloco")), rows # seeds do not draw times
END
    run "$SUBMIT" sweep --simulate --set codec=fedavg --node_count 3 -o swept
    [ "$status" -ne 0 ]
    [[ "$output" == *"a sweep with other options"* ]]
    # A pipe in the place of a log is not waited for.
    mkfifo swept/logs/codec=fedavg_seed=3.log
    SWEEP[4]=codec=fedavg SWEEP[6]=3
    run limited "${SWEEP[@]}"
    [ "$status" -eq 6 ]
    [[ "$output" == *"codec=fedavg_seed=3.log: "* ]]
}

@test "a sweep ends with the best value of each group, and its figures are those of the records" {
    SWEEP=("$SUBMIT" sweep --simulate --set "codec=fedavg,diloco" --set "lr=0.1,0.5,1000" --repeat 2 --best-of lr --node_count 2 --epochs 2 --local-steps 5 --eval-every 5 --model softmax --dataset "$FEW" -o swept)
    "${SWEEP[@]}" >table
    cat table
    grep -Eq '^codec +best lr +reached +accuracy +bytes to 0' table
    grep -Eq '^fedavg +1000 +2, [12] diverged' table # and the target is not its accuracy
    [ "$(grep -c ' 2 of 2 ' table)" -eq 2 ]
    python3 "$ROOT/tests/e2e/sweep_figures.py" swept lr ''
    # Another target, with the same runs.
    "${SWEEP[@]}" --target 0.6 --json >doc
    python3 "$ROOT/tests/e2e/sweep_figures.py" swept lr 0.6 >order
    [ "$(jq -c '.data | [.best[] as $i | .combinations[$i].values.codec]' doc)" = "$(jq -c . order)" ]
    grep -q '<a href="runs/codec=fedavg_lr=0.5_seed=2/report.html">' swept/report.html
    grep -q '<th>best lr</th>' swept/report.html
    # Of all combinations, four that are drawn; all have run before.
    "${SWEEP[@]}" --budget 4 2>log >table
    cat table
    [ "$(grep -c 'Run [0-9]* of 8: ' log)" -eq 0 ]
    [ "$(wc -l <swept/sweep.csv)" -eq 5 ]
    python3 "$ROOT/tests/e2e/sweep_figures.py" swept lr ''
    # Another batch takes other times of a step; those of messages and codec are measured once.
    "$SUBMIT" simulate -q --codec fedavg --batch_size 32 --node_count 2 --epochs 1 --model softmax --dataset "$FEW" --measured swept/measured.json -o single
    jq -e 'length == 2 and .[0].measured.step_time != .[1].measured.step_time
        and ([.[].measured | [.overhead, .codec_rate_mbps]] | unique | length == 1)' swept/measured.json
    run "$SUBMIT" sweep --simulate --set codec=fedavg,diloco --best-of lr --node_count 2 -o other
    [ "$status" -eq 2 ]
    [[ "$output" == *"--best-of lr: the sweep does not vary this option"* ]]
    [ ! -e other ]
}

@test "successive halving runs the better half of each group for twice as long, and its figures are those of the records" {
    SWEEP=("$SUBMIT" sweep --simulate -q --search halving --set "codec=fedavg,diloco" --set "lr=0.01,0.1,0.5,1" --repeat 2 --best-of lr --node_count 2 --epochs 2 --local-steps 5 --eval-every 5 --model softmax --dataset "$FEW" -o swept)
    "${SWEEP[@]}" >table
    cat table
    [ "$(grep -Ec '^[a-z]+ +[0-9.]+ +2.* +1 +[34] of 4, stopped' table)" -eq 4 ]
    [ "$(grep -Ec '^[a-z]+ +[0-9.]+ +2.* +2 +[12] of 2 ' table)" -eq 4 ]
    [ "$(find swept/runs -mindepth 1 -maxdepth 1 | wc -l)" -eq 24 ]
    python3 "$ROOT/tests/e2e/sweep_figures.py" swept lr ''
    # A target decides before the accuracy.
    "${SWEEP[@]}" --target 0.5 --json >doc
    python3 "$ROOT/tests/e2e/sweep_figures.py" swept lr 0.5
    jq -e '.data.combinations | length == 8 and all(.rungs[0].epochs == 1) and ([.[] | select(.rungs[1])] | length == 4)' doc
    local wrong
    for wrong in '--search grid --budget 2' '--search random' '--search halving --max-mb 5' '--search halving --max-tokens 5' '--search halving --set max_steps=4,5' '--search halving --set batch_size=8,16'; do
        # shellcheck disable=SC2086 # words
        run "$SUBMIT" sweep --simulate --set lr=0.1,0.2,0.3 --codec fedavg --node_count 2 --epochs 1 $wrong -o other
        echo "$output"
        [ "$status" -eq 2 ]
    done
    [[ "$output" == *"--search halving of 6 combinations has 3 rungs, the first of 1/4 epochs"*"Give --epochs 4 or more"* ]]
}

@test "names of a run are no commands of gnuplot" {
    command -v gnuplot >/dev/null || skip "gnuplot is not installed"
    "$SUBMIT" simulate -q --codec fedavg --node_count 2 --epochs 2 --model softmax --dataset "$FEW" -o run
    cp -r run evil
    jq '.id = "j-evil" | .settings.codec = "x'"'"'; system(\"touch pwned\")\n!touch pwned"' run/run.json >evil/run.json
    "$SUBMIT" plot run evil --x bytes --log-x yes --svg picture.svg --png picture.png
    [ ! -e pwned ]
    grep -q 'touch pwned' picture.svg # as a title
    grep -q 'bytes per worker, sent + received (logarithmic)' picture.svg
    [ "$(head -c 4 picture.png | tail -c 3)" = PNG ]
}

# full COMMAND...: on the full disk it ends with one sentence and a status, and changes no file.
full() {
    local before
    before=$(files_on_disk)
    run "${ON_DISK[@]}" env -C "$T/disk" "$SUBMIT" "$@"
    echo "$output"
    [ "$status" -eq 6 ]
    [[ "$output" == "error: "*"No space left on device
code: DISK_FULL" ]]
    [ "$(files_on_disk)" = "$before" ]
}

files_on_disk() { "${ON_DISK[@]}" find "$T/disk" -type f ! -name '*.log' -exec sha256sum {} +; }

@test "on a full disk report, note, plot and sweep fail with that reason, and leave no partial file" {
    local sweep=(sweep -q --simulate --set seed=1 --codec fedavg --node_count 2 --epochs 1 --model softmax --dataset "$FEW")
    make_disk 4m "$T/disk"
    "${ON_DISK[@]}" env -C "$T/disk" "$SUBMIT" "${sweep[@]}" -o swept
    "${ON_DISK[@]}" dd if=/dev/zero of="$T/disk/else" bs=4k 2>/dev/null || true
    full report swept/runs/seed=1
    full export --to tensorboard swept/runs/seed=1
    full note swept/runs/seed=1 'a note'
    full "${sweep[@]}" -o swept
    full "${sweep[@]}" -o other
    if command -v gnuplot >/dev/null; then
        full plot swept/runs/seed=1 --file train --svg picture.svg
        TMPDIR=$T/disk full plot swept/runs/seed=1 --file train --png picture.png
        "${ON_DISK[@]}" env -C "$T/disk" TMPDIR="$T/disk" "$SUBMIT" plot swept/runs/seed=1 --file train --svg "$T/picture.svg"
        [[ "$(cat picture.svg)" == *"</svg>" ]]
    fi
    run "${ON_DISK[@]}" bash -c "'$SUBMIT' plot '$T/disk/swept/runs/seed=1' >/dev/full"
    [ "$status" -eq 6 ]
}

@test "a file of results is written whole or not at all, and an earlier one is kept if that fails" {
    local job=(--codec plain --node_count 1 --epochs 1 --model softmax --batch_size 16 --dataset "digits:train=48,test=16")
    # No file may have more than 200 kB: report.html has more.
    run bash -c "ulimit -f 200; \"\$@\"" - "$SUBMIT" simulate -q "${job[@]}" -o small
    echo "$output"
    [ "$status" -eq 6 ]
    [[ "$output" == *"small/report.html: File too large"* ]]
    [ -s small/records/train.csv ]
    [ ! -e small/report.html ]
    [ -z "$(find small -name '*.tmp.*')" ]
    start_agents 1
    "$SUBMIT" -q "${job[@]}" -o kept
    sum=$(sha256sum kept/report.html kept/model/final.safetensors)
    touch kept/records/train.csv.tmp.999999999 # as of a job_submit that was killed
    run bash -c "ulimit -f 200; \"\$@\"" - "$SUBMIT" fetch -q -o kept
    echo "$output"
    [ "$status" -eq 6 ]
    [[ "$output" == *"kept/report.html: File too large"* ]]
    [ "$(sha256sum kept/report.html kept/model/final.safetensors)" = "$sum" ]
    [ -z "$(find kept -name '*.tmp.*')" ]
    run bash -c "ulimit -f 1; \"\$@\"" - "$SUBMIT" -q "${job[@]}" --trace trace.json -o traced
    echo "$output"
    [ ! -e trace.json ]
    [ -z "$(find . -name '*.tmp.*')" ]
}
