#!/usr/bin/env bats
# Simulations in which a function of a training program computes for many clients (psgd.trainer.client).
load lib
load documents
bats_require_minimum_version 1.5.0

# Least squares in Python without any library: one weight for two features, a row for each of 60 points. Each client counts its
# calls, and draws a random number in each. Its argument says what goes wrong in round 2 of client 3.
write_client() {
    cat >client.py <<'PY'
import os
import random
import sys

import psgd.trainer

rows = [((i * 7) % 11 - 5, (i * 5) % 7 - 3) for i in range(60)]
labels = [i % 3 for i in range(60)]
fault = sys.argv[1] if len(sys.argv) > 1 else ""


def errors(params, indices):
    return [params["W"][0] * rows[i][0] + params["W"][1] * rows[i][1] - (3 * rows[i][0] - 2 * rows[i][1]) for i in indices]


def slope(params, indices):
    found = errors(params, indices)
    return [sum(2 * e * rows[i][k] for e, i in zip(found, indices)) / len(indices) for k in range(2)], sum(e * e for e in found) / len(indices)


def train(params, indices, round, client):
    client.state["calls"] = client.state.get("calls", 0) + 1
    client.log(calls=client.state["calls"], drawn=random.random())
    if client.node == 3 and round == 2:
        if fault == "raise":
            raise ValueError("no such row")
        if fault == "kill":
            os.kill(os.getpid(), 9)
        if fault == "exit":
            print("the disk is full", file=sys.stderr)
            os._exit(7)
        if fault == "nan":
            params["W"][1] = float("nan")
        if fault == "loss":
            return params, float("nan"), len(indices)
        if fault == "percent":
            return params, 0, len(indices), 93.5
        if fault == "shape":
            return {"W": [1, 2, 3]}, 0, len(indices)
        if fault == "name":
            return {"V": [1, 2]}, 0, len(indices)
        if fault == "values":
            return params
    for step in range(3):
        by, loss = slope(params, indices)
        for k in range(2):
            params["W"][k] -= 0.02 * by[k]
    return params, loss, len(indices)


def gradient(params, indices, step):
    by, loss = slope(params, indices)
    return {"W": by}, loss, len(indices)


def evaluate(params):
    if fault == "evaluate" and psgd.trainer.worker().steps_done == 2:
        raise ValueError("no such test")
    found = errors(params, range(60))
    psgd.trainer.worker().log(largest=max(abs(e) for e in found))
    return sum(e * e for e in found) / 60


job = {"evaluate": evaluate, "rows": 60, "labels": labels}
if fault == "gradient":
    psgd.trainer.client({"W": (2,)}, gradient=gradient, **job)
elif fault == "no-test":
    psgd.trainer.client({"W": (2,)}, train, rows=60)
else:
    psgd.trainer.client({"W": (2,)}, train, rounds=4, **job)
    print("its table is written")
PY
}

# clients OUT OPTION...: ten clients, five rounds, unless an option says otherwise.
clients() {
    "$SUBMIT" simulate -q --trainer client.py --node_count 10 --codec fedavg --epochs 5 --step-time 0.1 --eval-time 0.01 -o "$@" >said 2>log
}

# column FILE NAME: its values.
column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) k = i } NR > 1 { print $k }' "$1"; }

# ends_below OUT LOSS: the last evaluation.
ends_below() { column "$1/records/eval.csv" loss | tail -1 | awk -v most="$2" '{ exit !($1 < most) }'; }

# digests FILE...: without the first line, so that files of different folders can be compared.
digests() { sha256sum "$@" | cut -d' ' -f1; }

@test "a hundred clients by two processes leave the records, evaluations, metrics and model of a job" {
    write_client
    clients out --node_count 30 --client-processes 2
    jq -e '.state == "succeeded" and .facts.simulation.result.models_agree and .settings.trainer == "client.py" and .settings.steps_per_epoch == 1 and
        .facts.simulation.options.client_processes == 2' out/run.json
    [ "$(wc -l <out/records/train.csv)" -eq 151 ]
    [ "$(column out/records/train.csv samples | sort -u | tr '\n' ' ')" = "10 2 4 6 8 " ]
    ends_below out 5
    # Each client's state lives from round to round.
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["metric"] == "calls" && $at["value"] != $at["step"] + 1 { exit 1 }' out/records/metrics.csv
    [ "$(grep -c ',calls,' out/records/metrics.csv)" -eq 150 ]
    "$SUBMIT" model inspect out/model/final.safetensors --json >model.json
    [ "$(jq -r '[.data.tensors[] | "\(.name) \(.shape)"] | join(" ")' model.json)" = "W [2]" ]
    grep 'its table is written' out/logs/trainer-0.log
    [ -f out/logs/trainer-1.log ]
    [ ! -e out/logs/trainer-2.log ]
    [ -s out/report.html ]
}

@test "the results do not depend on the number of processes" {
    write_client
    clients one --client-processes 1 --participate 0.5 --partition dirichlet:0.5 --speed 0.5-2
    clients three --client-processes 3 --participate 0.5 --partition dirichlet:0.5 --speed 0.5-2
    [ "$(cd one && digests records/{train,eval,metrics,comm}.csv model/final.safetensors)" = "$(cd three && digests records/{train,eval,metrics,comm}.csv model/final.safetensors)" ]
    # Half of the clients take part in each round, and the others are not computed.
    [ "$(grep -c ',calls,' one/records/metrics.csv)" -eq 25 ]
    clients five --client-processes 5 --psgd asgd --servers 1 --speed 0.5-2
    clients two --client-processes 2 --psgd asgd --servers 1 --speed 0.5-2
    [ "$(cd five && digests records/{train,eval,metrics}.csv)" = "$(cd two && digests records/{train,eval,metrics}.csv)" ]
}

@test "gradients of a function are updated by psgd's optimizer, under each kind of rule" {
    write_client
    local rule
    for rule in "allreduce" "fedprox --local-steps 2" "scaffold --local-steps 2" "ps --servers 1" "fedavg --local-steps 3"; do
        # shellcheck disable=SC2086 # options
        clients "out-${rule%% *}" --node_count 3 --batch_size 5 --learn_rate 0.02 --epochs 6 --codec $rule -- gradient
        jq -e '.state == "succeeded" and .settings.steps_per_epoch == 4' "out-${rule%% *}/run.json"
        ends_below "out-${rule%% *}" 1
    done
    clients twice --node_count 3 --batch_size 5 --learn_rate 0.02 --epochs 6 --codec ndc --redundancy 2 -- gradient
    jq -e '.state == "succeeded" and .facts.simulation.result.models_agree' twice/run.json
}

# fails FAULT MESSAGE [OPTION...]: a job in which a client has that fault.
fails() {
    local ended=0
    clients "out-$1" "${@:3}" -- "$1" || ended=$?
    cat log
    [ "$ended" -eq 1 ]
    grep -F "$2" log
}

@test "a function that fails ends the job with the reason, and the log has its traceback" {
    write_client
    fails raise 'node(3), TrainerFailed: step 3 of worker 3: client.py: line 26: ValueError: no such row (its output is in logs/trainer-1.log)' --client-processes 2
    grep -q 'Traceback' out-raise/logs/trainer-1.log
    # The process that did not compute worker 3 knows that the job has failed, too.
    grep 'the job has failed: step 3 of worker 3: client.py: line 26: ValueError: no such row' out-raise/logs/trainer-0.log
    run ! grep 'its table is written' out-raise/logs/trainer-0.log
    jq -e '.nodes[3].reason == "TrainerFailed"' out-raise/run.json
    fails evaluate 'evaluation after step 2: client.py: line 58: ValueError: no such test (its output is in logs/trainer-'
    fails kill 'step 3 of worker 3: client.py was killed by signal 9'
    fails exit 'step 3 of worker 3: client.py ended with exit status 7: the disk is full'
    fails nan "node(3), NumericDivergence: step 3 of worker 3: 'W' has values that are not finite after train()"
    fails loss 'node(3), NumericDivergence: node 3, epoch 3, step 3: the loss is nan'
    fails percent 'client.py has given the accuracy 93.5: it is a share of the samples, 0 to 1'
    fails shape "'W' has 2 numbers, the value 3"
    fails name "train() returned params without 'W'"
    fails no-test 'client() has no evaluate=, and --patience needs evaluations' --patience 1
    fails values 'train() returned Vector, and not (params, loss, samples)'
}

@test "what a function cannot have is refused in a sentence" {
    write_client
    run -6 clients no --codec allreduce
    grep 'codec allreduce combines or changes gradients, and train() of client.py gives parameters' log
    run -6 clients no --learn_rate 0.1
    grep -- '--learn_rate has no effect with --trainer: client.py has its own optimizer' log
    run -6 clients no --node_count 70
    grep 'the data has 60 rows, and the job 70 workers' log
    printf 'import psgd.trainer\nw = psgd.trainer.open({"W": (2,)})\nwhile w.next():\n    w.stepped(loss=0, samples=1, lr=0)\n' >loop.py
    run -6 "$SUBMIT" simulate --trainer loop.py --codec fedavg --node_count 3 --max-steps 3 --local-steps 1 -o no
    [[ $output == *"loop.py has a loop of its own, and a simulation calls a function"*"psgd.trainer.client()"* ]]
    echo '{"Worker": ["127.0.0.1:1"]}' >worker.json
    run -6 "$SUBMIT" --trainer client.py --codec allreduce --node_count 1 -- gradient
    [[ $output == *"client.py gives gradients, and on agents a program makes its updates itself"* ]]
    run -6 "$SUBMIT" simulate --client-processes 2 --codec fedavg --node_count 2 -o no
    [[ $output == *"--client-processes has no effect in this job"* ]]
    [ ! -e no ]
}

# largest OUT: node, step and value of the metrics that evaluations log.
largest() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["metric"] == "largest" { print $at["node"], $at["step"], $at["value"] }' "$1/records/metrics.csv" | sort
}

@test "the same program runs alone and on agents, where it is one client" {
    write_client
    PYTHONPATH=$ROOT/python limited python3 client.py 2>alone
    grep 'alone, after 4 steps: loss' alone
    PYTHONPATH=$ROOT/python limited python3 client.py gradient 2>alone
    grep 'alone, after 1 steps: loss' alone
    start_agents 2
    "$SUBMIT" -q --trainer client.py --codec fedavg --node_count 2 --epochs 4 -o agents
    clients simulated --node_count 2 --epochs 4
    [ "$(jq '[.nodes[].params_sha256]' agents/run.json)" = "$(jq '[.nodes[].params_sha256]' simulated/run.json)" ]
    # What its evaluations log are rows of each worker in both.
    [ "$(grep -c ',largest,' simulated/records/metrics.csv)" -eq 8 ]
    cmp <(largest agents) <(largest simulated)
    cmp <(without_times agents/records/train.csv | cut -d, -f1-8 | sort) <(without_times simulated/records/train.csv | cut -d, -f1-8 | sort)
}

@test "a simulation without given times measures its function" {
    write_client
    "$SUBMIT" simulate -q --trainer client.py --node_count 3 --codec fedavg --epochs 2 -o out
    jq -e '.facts.simulation.result | .step_time_s > 0 and .eval_time_s > 0' out/run.json
    # What was measured left neither state nor metrics behind.
    [ "$(grep -c ',calls,' out/records/metrics.csv)" -eq 6 ]
    [ "$(grep -c ',calls,2' out/records/metrics.csv)" -eq 3 ]
}

@test "while a simulation waits long for its program, a line says for what" {
    # It goes on when the line is in the file of its first argument: its second one says when it waits.
    cat >slow.py <<'PY'
import os
import sys
import time

import psgd.trainer

log, wait = sys.argv[1:]
is_described = os.path.exists(log + ".described")


def await_line(text):
    while text not in open(log).read():
        time.sleep(0.2)


def train(params, indices, round):
    if wait == "turn" and round == 1:
        await_line("step 2 of worker 0: slow.py has computed for ")
    return params, 0, 1


open(log + ".described", "w").close()
if wait == "start" and is_described:
    await_line("slow.py has not come to its first step in ")
psgd.trainer.client({"W": (2,)}, train)
PY
    local wait
    for wait in start turn; do
        "$SUBMIT" simulate -q --trainer slow.py --node_count 1 --codec fedavg --epochs 2 --step-time 0.1 --eval-time 0.01 -o "$wait" \
            -- "$PWD/$wait.log" "$wait" 2>"$wait.log" &
    done
    wait
    cat ./*.log
    for wait in start turn; do
        jq -e '.state == "succeeded"' "$wait/run.json"
        grep 'its output is in logs/trainer-0.log; Ctrl-C ends the simulation' "$wait.log"
    done
}

# bats test_tags=check
@test "the commands for many clients in docs/trainer.md run as written" {
    with_python numpy
    ln -s "$BUILD" build
    blocks 'python clients' docs/trainer.md >client.py
    blocks 'sh clients' docs/trainer.md >session.sh
    grep -q -- '--trainer client.py' session.sh
    limited bash -e session.sh 3>&-
    jq -e '.state == "succeeded" and .facts.simulation.result.models_agree' clients/run.json
    jq -e '.state == "succeeded"' gradients/run.json
    "$SUBMIT" simulate -q --trainer "$ROOT/examples/trainers/numpy_clients.py" --codec fedavg --node_count 20 --epochs 3 -o example
    column example/records/eval.csv accuracy | tail -1 | awk '{ exit !($1 > 0.8) }'
}
