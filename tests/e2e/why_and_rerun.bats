#!/usr/bin/env bats
# Why a job ended, and running it again.

load lib

why_of() { "$SUBMIT" why "$@" 2>why.err; }

ends_with() { # ends_with STATUS COMMAND...: its messages are in $output
    local expected=$1
    shift
    run "$@"
    [ "$status" -eq "$expected" ]
}

@test "why names the node that ended first, the files that are kept and the next command, also without its agents" {
    start_agents 2
    long_job -o result >submit.out 2>&1 3>&- &
    local job=$! id
    within 60 is_at_step 1 10
    kill -9 "$(api 1 GET /v1/jobs | jq '.jobs[0].pid')"
    wait "$job" || [ $? -eq 1 ]
    id=$(jq -r .id result/run.json)
    why_of "$id" >live
    grep -q "^$id failed because node(1) at 127.0.0.1:${PORTS[1]} ended with RunnerDied (.*killed by signal 9.*node(0)" live
    grep -q "^Kept: its records.* in $T/result" live
    grep -q "^next: tail $T/result/logs/worker-1.log" live
    [ "$("$SUBMIT" why "$id" --json | jq -r '.data.cause_node')" -eq 1 ]
    stop_agents
    why_of "$id" >kept
    diff live kept
    grep -q '0 of 2 agents answer; this is what was recorded' why.err
    why_of result >from_folder
    diff live from_folder
}

@test "why reports of a running job whose agents do not answer that it may still run" {
    start_agents 1
    "$SUBMIT" --node_count 1 --epochs 100000 --record-every 1000 --detach --no-queue -o result >id 2>/dev/null
    why_of >live
    grep -q "^$(<id) is running: node(0) at 127.0.0.1:${PORTS[0]}" live
    grep -q "^next: job_submit wait $(<id)" live
    "$SUBMIT" cancel "$(<id)" --reason 'not needed' >/dev/null 2>&1
    why_of >cancelled
    grep -q "was cancelled because node(0) at .* ended with UserCancelled (Ctrl-C, .*): not needed" cancelled
    ends_with 6 "$SUBMIT" why j-nosuchjob
}

@test "rerun gives the same weights and rows, and --set changes one parameter" {
    start_agents 2
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 2 --seed 7 --gradient-descent adam --dataset "$FEW" -o first >/dev/null 2>&1
    "$SUBMIT" rerun "$(jq -r .id first/run.json)" -o second >/dev/null 2>&1
    cmp <(tail -c 400000 first/model/final.safetensors) <(tail -c 400000 second/model/final.safetensors)
    diff <(without_times first/records/train.csv) <(without_times second/records/train.csv)
    diff <(jq -S .settings first/run.json) <(jq -S .settings second/run.json)
    [ "$(jq -r .facts.rerun_of second/run.json)" = "$(jq -r .id first/run.json)" ]
    # From the folder, without the index of jobs.
    rm -r state/psgd/jobs
    "$SUBMIT" rerun first --set epochs=1 --set learn_rate=0.002 -o third >/dev/null 2>&1
    [ "$(jq -c '[.settings.epochs, .settings.learn_rate, .settings.seed]' third/run.json)" = '[1,0.002,7]' ]
}

@test "rerun refuses a name that is not a parameter of a job" {
    start_agents 1
    "$SUBMIT" --node_count 1 --epochs 1 --dataset "$FEW" -o first >/dev/null 2>&1
    ends_with 2 "$SUBMIT" rerun --set epoch=2
    [[ $output == *'--set: unknown option --epoch'*'--epochs'* ]]
    ends_with 2 "$SUBMIT" rerun --set output=elsewhere
    [[ $output == *'--set output=elsewhere: not an option of the job itself'* ]]
    ends_with 2 "$SUBMIT" rerun --set epochs=none
    ends_with 6 "$SUBMIT" rerun j-nosuchjob
}

@test "of a job that its agent has removed, time and reason are printed" {
    start_agent 0 --keep 1
    write_workers 1
    local id n
    for n in 1 2; do "$SUBMIT" -q --codec fedavg --node_count 1 --epochs 1 --model softmax --dataset "$FEW" -o "out$n"; done
    id=$(jq -r .id out1/run.json)
    run "$SUBMIT" logs "$id"
    [ "$status" -eq 6 ]
    [[ "$output" == *"$id was removed at 20"*": this agent keeps the last 1 ended jobs (--keep)"* ]]
    run "$SUBMIT" fetch "$id" # what was fetched in time stays
    [ "$status" -eq 0 ]
}
