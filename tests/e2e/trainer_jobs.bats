#!/usr/bin/env bats
# Jobs whose gradients a training program computes (--trainer): what job_submit asks it, refuses, ships and collects.
load lib
bats_require_minimum_version 1.5.0

# write_program [FILE]: least squares in Python without any library: two weights and a statistic, 10 batches of 8 rows an epoch. Its
# argument --rate is its learning rate.
write_program() {
    cat >"${1:-train.py}" <<'PY'
import sys

import psgd.trainer

rate = float(sys.argv[sys.argv.index("--rate") + 1]) if "--rate" in sys.argv else 0.1
w = psgd.trainer.open({"W": (2,), "bias": (), "seen": (1,)}, statistics=("seen",))
w["W"][0] = 0.25
print("starts", sys.argv[1:])
for batch in psgd.trainer.steps(range(10)):
    rows = [((batch * 8 + i) % 7 - 3, (batch * 8 + i) % 5 - 2) for i in range(8)]
    errors = [w["W"][0] * a + w["W"][1] * b - (3 * a - 2 * b) for a, b in rows]
    for k in range(2):
        w.grad["W"][k] = sum(2 * e * row[k] for e, row in zip(errors, rows)) / 8
    by = w.gradient(loss=sum(e * e for e in errors) / 8, samples=8, lr=rate)
    for k in range(2):
        w["W"][k] -= rate * by["W"][k]
    w.log(rate=rate)
    w.stepped()
PY
}

@test "validate starts the program, and shows its tensors and steps" {
    write_program
    "$SUBMIT" validate --trainer train.py --codec fedavg --local-steps 5 --epochs 3 -- --rate 0.05 >said 2>log
    grep 'Model train.py, of a training program' said
    grep -E '^W +\(2\) +2$' said
    grep -E '^seen +\(1\) +1  statistic$' said
    grep 'train.py: 10 steps an epoch, 30 in all.' said
    grep 'The program train.py: 1 file' log
    "$SUBMIT" validate --trainer train.py --codec fedavg --local-steps 5 --epochs 3 --json -- --rate 0.05 >said.json
    jq -e '.data.settings | .trainer == "train.py" and .arguments == "--rate\n0.05\n" and .steps_per_epoch == 10 and
        .starts_from == "weights" and .dataset == ""' said.json
}

@test "a program that fails, or does not call psgd, fails before an agent is asked" {
    echo '{"Worker": ["127.0.0.1:1"]}' >worker.json
    printf 'import psgd.trainer\nprint("reading")\nopen("none.csv")\n' >train.py
    run -6 "$SUBMIT" --trainer train.py --codec fedavg --node_count 1
    [[ $output == *"error: train.py ended with exit status 1 on this machine: FileNotFoundError"*"'none.csv'"*"code: TRAINER"* ]]
    [[ $output == *"The last lines of train.py:"*"reading"*"line 3"* ]]
    printf 'print("no psgd here")\n' >train.py
    run -6 "$SUBMIT" --trainer train.py --codec fedavg --node_count 1
    [[ $output == *"error: train.py ended without psgd.trainer.open() or wrap(): nothing was exchanged"*"docs/trainer.md shows the lines"* ]]
    printf 'import none_such_module\n' >train.py
    run -6 "$SUBMIT" --trainer train.py --codec fedavg --node_count 1
    [[ $output == *"--trainer-python names another interpreter"* ]]
    run -6 "$SUBMIT" --trainer train.py --trainer-python /none/python --codec fedavg --node_count 1
    [[ $output == *"cannot run /none/python"* ]]
    run -6 "$SUBMIT" --trainer train.py --codec ps --node_count 1
    [[ $output == *"codec ps updates the parameters on servers"*"--codec allreduce"* ]]
    run -6 "$SUBMIT" --main run.py --codec fedavg --node_count 1
    [[ $output == *"--main has no effect in this job: it names a file of --trainer DIR"* ]]
    run -6 "$SUBMIT" --trainer trian.py --codec fedavg --node_count 1
    [[ $output == *"--trainer trian.py: there is no such file or folder in $PWD"* ]]
    printf 'print("started"); raise SystemExit(3)\n' >train.py # all else is checked before the program is started
    run -6 "$SUBMIT" --trainer train.py --codec fedavg --node_count 2
    [[ $output == *"worker.json lists 1 worker"* ]]
    run -6 "$SUBMIT" --trainer train.py --codec allreduce --compress topp --node_count 1
    [[ $output == *"topp"* && $output != *"exit status 3"* ]]
    rm worker.json
    run -6 "$SUBMIT" --trainer train.py --codec fedavg --node_count 1
    [[ $output == *"worker.json"* && $output != *"exit status 3"* ]]
    run -2 "$SUBMIT" --codec fedavg --node_count 1 -- --rate 1
    [[ $output == *"Arguments after -- are those of a training program"* ]]
}

@test "a program whose epoch has no known length needs --max-steps" {
    write_program
    sed -i 's/steps(range(10))/steps(iter(lambda: 1, None))/' train.py
    run -6 "$SUBMIT" validate --trainer train.py --codec allreduce
    [[ $output == *"does not say how many batches an epoch has"*"Loop over psgd.trainer.steps(loader)"*"--max-steps N"* ]]
    run -6 "$SUBMIT" validate --trainer train.py --codec fedavg --max-steps 20
    [[ $output == *"--local-steps N"* ]]
    "$SUBMIT" validate --trainer train.py --codec fedavg --max-steps 20 --local-steps 4 >said
    grep 'train.py: 20 steps an epoch, 20 in all.' said
}

@test "a job with a program has the records, the model and the report of any job" {
    start_agents 2
    mkdir program
    write_program program/main.py
    "$SUBMIT" --trainer program --codec fedavg --local-steps 5 --node_count 2 --epochs 3 -o out -- --rate 0.05 >said 2>log
    grep 'The program main.py: 1 file' log
    grep -E '^   0  worker  succeeded' said
    [ "$(wc -l <out/records/train.csv)" -eq 61 ]
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "loss") k = i } NR > 1 { last = $k } END { exit !(last < 1) }' out/records/train.csv
    grep -q ',rate,0.05' out/records/metrics.csv
    grep -q "starts \['--rate', '0.05'\]" out/logs/worker-0.log
    [ -s out/report.html ]
    [ "$(grep -c -e 'job_submit predict' -e confusion -e checkpoints out/README.txt)" -eq 0 ]
    grep '^records/metrics.csv' out/README.txt
    jq -e '.facts.options | .codec == "fedavg" and ([has("model", "dataset", "batch_size", "learn_rate")] | any | not)' out/run.json
    jq -e '.warnings == ["Workers 0, 1 had equal losses in each of the first 5 recorded steps: they compute the same batches, and " +
        "one of them would do. psgd.trainer.batches(), shard(), or psgd_shard() in C, give each worker its own part of the data."]' out/run.json
    jq -e '.state == "succeeded" and .models_agree and .settings.trainer == "main.py" and .settings.model == "main.py" and
        .facts.arguments == ["--rate", "0.05"] and [.facts.trainer.files[].name] == ["main.py"]' out/run.json
    "$SUBMIT" model inspect out/model/final.safetensors --json >model.json
    [ "$(jq -r '[.data.tensors[].name] | sort | join(" ")' model.json)" = "W bias seen" ]
    run "$SUBMIT" predict out
    [ "$status" -ne 0 ]
    [[ $output == *"training program"* ]]
    "$SUBMIT" compare out >compared
    grep -E '^run .* rate$' compared
    grep -E ' 0\.05(00)?$' compared
    "$SUBMIT" plot out --y loss --file train >plotted
    "$SUBMIT" plot out --y rate --file metrics >plotted
    grep -qF '"file":"metrics","x":"step","names":["rate"]' out/report.html
}

@test "a job with a program is repeated with its arguments, and resumed" {
    start_agents 2
    write_program
    local job=(--trainer train.py --codec fedavg --local-steps 5 --node_count 2)
    "$SUBMIT" -q "${job[@]}" --epochs 2 --checkpoint-every 1 -o out -- --rate 0.05
    "$SUBMIT" rerun out -o again 2>log
    [ "$(grep -c 'has changed since that run' log)" -eq 0 ]
    [ "$(jq -r .settings.arguments again/run.json)" = "$(jq -r .settings.arguments out/run.json)" ]
    cmp <(jq -S .mean_over_workers.loss out/run.json) <(jq -S .mean_over_workers.loss again/run.json)
    "$SUBMIT" -q --config out/run.json -o third
    [ "$(jq -r .settings.arguments third/run.json)" = "$(jq -r .settings.arguments out/run.json)" ]
    "$SUBMIT" -q --resume out --epochs 4 -o resumed
    [ "$(jq -r .settings.arguments resumed/run.json)" = "$(jq -r .settings.arguments out/run.json)" ]
    [ "$(jq .facts.start.epoch resumed/run.json)" = 2 ]
    run -6 "$SUBMIT" -q --resume out --epochs 5 -o other -- --rate 0.5
    [[ $output == *"arguments was"* ]]
    echo "# another one" >>train.py
    "$SUBMIT" rerun out -o changed 2>log
    grep 'train.py has changed since that run: its present files are sent.' log
    "$SUBMIT" -q "${job[@]}" --epochs 1 --init-from out/model/final.safetensors -o continued
    [ "$(jq -r .facts.start.from continued/run.json)" = weights ]
}

# write_evaluating: a program whose evaluations after step n, up to 40, have the accuracy n / 100 and the loss 1 / n, and later ones are
# worse. Its argument --slow: each step takes 10 ms.
write_evaluating() {
    cat >train.py <<'PY'
import sys, time

import psgd.trainer

w = psgd.trainer.open({"W": (2,), "head.bias": (1,)})


def evaluate():
    n = w.steps_done
    w.log(f1=n / 200)
    return (1 / n, n / 100, 50) if n <= 40 else (1.0, 0.1, 50)


for batch in psgd.trainer.steps(range(10), evaluate):
    w.grad["W"][0], w.grad["W"][1], w.grad["head.bias"][0] = 1, 0, w.info.node
    w.gradient(loss=1, samples=8, lr=0.5)
    w["W"][0] += 1
    w.stepped()
    time.sleep(0.01 if "--slow" in sys.argv else 0)
PY
}

column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) k = $i == name ? i : k } NR > 1 { print $k }' "$1" | sort -nu | xargs; }

@test "evaluations of a program are made and end its job when it was asked to" {
    start_agents 2
    write_evaluating
    local job=("$SUBMIT" -q --trainer train.py --codec fedavg --local-steps 5 --node_count 2 --epochs 20)
    "${job[@]}" --max-steps 13 --eval-every 4 -o often
    [ "$(column often/records/eval.csv step)" = "4 8 10 12 13" ]
    [ "$(column often/records/eval.csv accuracy)" = "0.04 0.08 0.1 0.12 0.13" ]
    [ "$(column often/records/metrics.csv value)" = "0.02 0.04 0.05 0.06 0.065" ]
    "${job[@]}" --target-accuracy 0.3 -o reached
    jq -e '.state == "succeeded" and .stopped.reason == "target_accuracy" and .stopped.step == 30' reached/run.json
    "${job[@]}" --patience 2 -o waited
    jq -e '.stopped.reason == "patience" and .stopped.step == 70 and .stopped.accuracy == 0.1' waited/run.json
    sed 's|n / 100, 50|n, 50|' train.py >percent.py
    run -1 "${job[@]/train.py/percent.py}" -o percent
    [[ $output == *"percent.py has given the accuracy 10: it is a share of the samples, 0 to 1"* ]]
    sed -i 's/steps(range(10), evaluate)/steps(range(10))/' train.py
    run -1 "${job[@]}" --target-accuracy 0.3 -o silent
    [[ $output == *"train.py has not evaluated after step 10, and --target-accuracy needs it"* ]]
    "${job[@]}" --max-steps 20 -o none
    [ "$(wc -l <none/records/eval.csv)" -eq 1 ]
}

@test "the model of a program's running job has its names, and the whole of a step" {
    start_agents 2
    write_evaluating
    "$SUBMIT" -q --trainer train.py --codec allreduce --node_count 2 --epochs 100000 --record-every 1000 --detach --no-queue -o out -- --slow
    within 60 is_at_step 0 20
    "$SUBMIT" snapshot "$(only_job 0)" -o now.safetensors
    "$SUBMIT" cancel -q "$(only_job 0)"
    python3 - "$ROOT/python" <<'PY'
import struct, sys
sys.path.insert(0, sys.argv[1])
from psgd import safetensors
tensors, metadata = safetensors.read("now.safetensors")
assert set(tensors) == {"W", "head.bias"}, tensors
w = struct.unpack("2f", bytes(tensors["W"]))
assert w[1] == 0 and w[0] >= 20 and w[0] == float(metadata["step"]), (w, metadata)
PY
}

@test "a program is swept, checked and launched as any job" {
    write_program
    start_agents 2
    local job=(--trainer train.py --codec fedavg --node_count 2 --epochs 1)
    "$SUBMIT" sweep "${job[@]}" --set local_steps=2,5 -o swept -- --rate 0.05 >table
    [ "$(cut -d, -f1-3 swept/sweep.csv | xargs)" = "local_steps,runs,failed 2,1,0 5,1,0" ]
    grep -q "starts \['--rate', '0.05'\]" swept/runs/local_steps=5/logs/worker-0.log
    run -6 "$SUBMIT" sweep "${job[@]}" --set codec=fedavg,ps -o refused
    [[ $output == *"codec ps updates the parameters on servers"* ]]
    "$SUBMIT" validate "${job[@]}" >said
    run -2 "$SUBMIT" run "${job[@]}"
    [[ $output == *"--trainer"* ]]
    stop_agents
    local chief other
    chief=127.0.0.1:$(free_port)
    other=127.0.0.1:$(free_port)
    "$SUBMIT" launch --worker_hosts "$chief,$other" --job_name worker --task_index 1 2>worker.log 3>&- &
    HOLDERS+=($!)
    "$SUBMIT" launch --worker_hosts "$chief,$other" --job_name worker --task_index 0 --trainer train.py --codec allreduce --epochs 1 \
        -o launched -- --rate 0.05
    jq -e '.state == "succeeded" and .models_agree' launched/run.json
}

@test "a frozen tensor that is another than where the job was submitted is named" {
    start_agents 2
    cat >train.py <<'PY'
import os
import sys

import psgd.trainer
from psgd.trainer_vector import Tensor

w = psgd.trainer.Worker([Tensor("head", (2,))], 5, frozen=[("base.weight", 7), ("base.bias", os.getpid() if sys.argv[1:] else 8)])
while w.next():
    w.stepped(loss=1.0, samples=1, lr=0.1)
PY
    local job=(--trainer train.py --codec fedavg --local-steps 2 --node_count 2 --epochs 1)
    "$SUBMIT" -q "${job[@]}" -o same
    jq -e '.facts.model.description.frozen == {"base.weight": 7, "base.bias": 8}' same/run.json
    run -1 "$SUBMIT" -q "${job[@]}" -o other -- by-pid
    [[ $output == *"'base.bias' is frozen, and in train.py on node "*" has other values than where the job was submitted"* ]]
    [[ $output == *"load it from the same file"* ]]
}

@test "a program whose tensors lie elsewhere stores them where psgd reads them, also for a checkpoint and a snapshot" {
    start_agents 2
    cat >train.py <<'PY'
import sys
import time
from array import array

import psgd.trainer
from psgd.trainer_vector import Tensor

N, SLOW = 3, "--slow" in sys.argv
target = [1.0, -2.0, 3.0]


class Copying(psgd.trainer.Worker):
    own = array("f", [0.5] * N)

    def _load(self):
        self.own = array("f", self.params.flat)

    def _flush(self):
        self.params.flat[:] = self.own

    def stepped(self, **numbers):
        if "nan" in sys.argv and not self._is_read:
            self.params.fill(float("nan"))
        else:
            self._flush()
        super().stepped(**numbers)


w = Copying([Tensor("w", (N,))], 10)
w._flush()
while w.next():
    if w.evaluation_due:
        w.evaluated(loss=sum(abs(a - b) for a, b in zip(w.own, target)))
        continue
    for k in range(N):
        w.own[k] -= 0.05 * (1 + w.info.node) * (w.own[k] - target[k])
    if SLOW:
        time.sleep(0.05)
    w.stepped(loss=1.0, samples=1, lr=0.05)
PY
    local job=(--trainer train.py --codec fedavg --local-steps 7 --node_count 2 --epochs 4 --eval-every 3 --checkpoint-every 1)
    "$SUBMIT" -q "${job[@]}" -o plain -- copy
    "$SUBMIT" -q "${job[@]}" -o nan -- nan
    cmp <(tail -c 12 plain/model/final.safetensors) <(tail -c 12 nan/model/final.safetensors)
    cmp <(jq -S .mean_over_workers.loss plain/run.json) <(jq -S .mean_over_workers.loss nan/run.json)
    "$SUBMIT" -q --resume nan --epochs 6 -o resumed
    "$SUBMIT" -q "${job[@]}" --epochs 6 -o whole -- nan
    cmp <(tail -c 12 resumed/model/final.safetensors) <(tail -c 12 whole/model/final.safetensors)
    "$SUBMIT" -q --trainer train.py --codec fedavg --local-steps 1000 --node_count 2 --epochs 1000 --detach --no-queue -o long -- nan --slow
    within 60 is_at_step 1 10
    "$SUBMIT" snapshot --node 1 -o now.safetensors
    "$SUBMIT" cancel -q "$(api 0 GET "/v1/jobs?limit=1" | jq -r ".jobs[0].id")"
    python3 - <<'PY'
import struct
data = open("now.safetensors", "rb").read()
w = struct.unpack("<3f", data[-12:])
assert all(x == x and x != 0.5 for x in w), w
PY
}

@test "a codec's factor on the learning rate is the program's, or its step fails" {
    start_agents 2
    write_program
    local job=(--trainer train.py --codec "$BUILD/tests/codecs/control.so" --node_count 2 --epochs 1)
    run -1 "$SUBMIT" -q "${job[@]}" -o refused
    [[ $output == *"the job's rule changes the learning rate, here by 0.25: multiply that of each update by Worker.lr_factor"* ]]
    sed -i 's/-= rate \*/-= w.lr_factor * rate */' train.py
    "$SUBMIT" -q "${job[@]}" -o out
    [ "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "lr") at = i; next } $0 ~ /,/ { print $at }' out/records/train.csv | sort | uniq -c | awk '{ print $2 "x" $1 }' | tr '\n' ' ')" = "0.025x8 0.1x6 " ]
}
