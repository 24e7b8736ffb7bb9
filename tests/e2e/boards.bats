#!/usr/bin/env bats
# bats file_tags=check
# Results for TensorBoard and MLflow: --tensorboard, --mlflow, export. tests/python reads them back.
load lib

read_back() { # read_back RUN EVENTS MLRUNS
    RUN=$1 EVENTS=$2 MLRUNS=$3 PYTHONPATH=$ROOT/tests/python PYTHONDONTWRITEBYTECODE=1 limited python3 -m unittest test_boards 3>&-
}

# bats test_tags=long
@test "a job's curves are written for TensorBoard and MLflow as its records have them" {
    start_agents 2
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 2 --dataset digits:train=2560,test=200 --name no.1 -o out --tensorboard --mlflow there/mlruns
    read_back out out/tensorboard there/mlruns
    # Again from the folder: the same files.
    "$SUBMIT" export out --to tensorboard -o again
    diff -r out/tensorboard again
    [ "$("$SUBMIT" export --to mlflow)" = "$(echo mlruns/*/*/artifacts | sed "s|^|$T/|; s|/artifacts$||")" ]
    read_back out again mlruns
    # Again, over the existing files, and beside an experiment of that name that MLflow made.
    "$SUBMIT" export out --to mlflow
    read_back out again mlruns
    mv mlruns/*/ mlruns/7
    sed -i 's/^name: .*/name: digits mlp-tutorial/; s/^experiment_id: .*/experiment_id: "7"/' mlruns/7/meta.yaml
    rm -r mlruns/7/*/
    [[ "$("$SUBMIT" export out --to mlflow)" == "$T/mlruns/7/"* ]]
}

@test "the commands in docs/boards.md run as written" {
    build_with_few_digits
    sed -n '/^```sh$/,/^```$/p' "$ROOT/docs/boards.md" | grep -v '^```' >session.sh
    grep -q -- '--mlflow mlruns' session.sh
    limited bash -e session.sh 3>&-
    read_back averaged averaged/tensorboard mlruns
    read_back reduced reduced/tensorboard mlruns
}

@test "a detached job's request is kept for the command that fetches its results" {
    start_agents 1
    id=$("$SUBMIT" -q --codec plain --epochs 1 --dataset digits:train=1280,test=200 --model softmax --tensorboard --mlflow mlruns --detach --no-queue -o out)
    mkdir elsewhere
    cd elsewhere
    "$SUBMIT" wait "$id"
    [ -s "$(echo ../out/tensorboard/worker-0/*)" ]
    [ -e "$(echo ../mlruns/*/*/metrics/eval/loss/worker-0)" ]
    # Fetching again keeps the results, and writes the files of the options now given, also without the agent.
    rm -r ../out/tensorboard ../mlruns
    stop_agents
    "$SUBMIT" fetch "$id" --tensorboard
    [ -s "$(echo ../out/tensorboard/worker-0/*)" ]
}

@test "a simulation's curves are written, and what cannot be written is named" {
    "$SUBMIT" simulate --codec fedavg --node_count 3 --epochs 2 --dataset digits:train=2560,test=200 -o out --tensorboard --mlflow mlruns
    read_back out out/tensorboard mlruns
    [ "$(cat mlruns/*/*/metrics/eval/loss/worker-2 | wc -l)" -eq 2 ]
    : >file
    run "$SUBMIT" simulate --codec fedavg --epochs 1 --dataset digits:train=1280,test=200 --model softmax -o other --mlflow file/mlruns
    [ "$status" -eq 9 ]
    [[ "$output" == *"--mlflow: "*"file"*"next: job_submit export --to mlflow $T/other"* ]]
    [ -s other/model/final.safetensors ]
    run "$SUBMIT" export out
    [ "$status" -eq 2 ]
    [[ "$output" == *"export needs --to tensorboard or --to mlflow"* ]]
    run "$SUBMIT" export out --to npz
    [ "$status" -eq 2 ]
    run "$SUBMIT" export "$T" --to mlflow
    [ "$status" -eq 6 ]
    [[ "$output" == *"run.json"* ]]
}
