#!/usr/bin/env bats
# job_submit launch: a cluster as in TensorFlow, each task started by a command of its own.
load lib

# launch STATE ARGUMENTS...: one task, as a user with that state folder.
launch() {
    XDG_STATE_HOME=$T/$1 exec "$SUBMIT" launch "${@:2}"
}

# Hosts of a server and two workers.
choose_hosts() {
    PS=127.0.0.1:$(free_port)
    CHIEF=127.0.0.1:$(free_port)
    OTHER=127.0.0.1:$(free_port)
}

is_quiet() { # is_quiet ADDRESS...: nothing listens there
    local address
    for address in "$@"; do ! curl -sk -o /dev/null "https://$address/healthz" || return 1; done
}

@test "a server and two workers, started each on its own, train when all are there, and end with the job's status" {
    choose_hosts
    make_token cluster.token
    local hosts=(--ps_hosts "$PS" --worker_hosts "$CHIEF,$OTHER" --token-file cluster.token)
    launch ann --job_name worker --task_index 0 "${hosts[@]}" --codec ps --model softmax --epochs 1 -o out 2>chief.log 3>&- &
    local chief=$!
    # The chief names the tasks that it waits for.
    within 60 grep -q "Waiting until ..:..:.. for /job:worker/task:1 ($OTHER), /job:ps/task:0 ($PS)" chief.log
    # Other users: of their agents the chief has only the token.
    launch bob --job_name worker --task_index 1 "${hosts[@]}" 2>worker.log 3>&- &
    local worker=$!
    launch eve --job_name ps --task_index 0 "${hosts[@]}" 2>ps.log 3>&- &
    local ps=$!
    wait "$chief" && wait "$worker" && wait "$ps"
    [ "$(jq -r '[.nodes[].state] | join(" ")' out/run.json)" = "succeeded succeeded succeeded" ]
    grep -q 'succeeded' worker.log && grep -q 'succeeded' ps.log
    is_quiet "$PS" "$CHIEF" "$OTHER"
}

@test "a task that is stopped ends the job, and every other task has an exit status of that" {
    choose_hosts
    local hosts=(--worker_hosts "$CHIEF,$OTHER") code=0
    launch ann --job_name worker --task_index 1 "${hosts[@]}" 2>worker.log 3>&- &
    local worker=$!
    launch ann --job_name worker --task_index 0 "${hosts[@]}" --model softmax --epochs 100000 --record-every 1000 -o out \
        2>chief.log 3>&- &
    local chief=$!
    within 60 grep -q 'running' worker.log
    kill -INT "$worker"
    exit_is 130 wait "$worker"
    code=0
    wait "$chief" || code=$?
    [ "$code" -eq 1 ] || [ "$code" -eq 8 ]
    is_quiet "$CHIEF" "$OTHER"
    # The other way round: the chief is stopped.
    launch ann --job_name worker --task_index 1 "${hosts[@]}" 2>worker.log 3>&- &
    worker=$!
    launch ann --job_name worker --task_index 0 "${hosts[@]}" --model softmax --epochs 100000 --record-every 1000 -o out2 \
        2>chief.log 3>&- &
    chief=$!
    within 60 grep -q 'running' worker.log
    kill -TERM "$chief"
    exit_is 143 wait "$chief"
    code=0
    wait "$worker" || code=$? # cancelled, or lost its peer before it knew
    echo "status $code" && cat worker.log
    [ "$code" -eq 1 ] || [ "$code" -eq 8 ]
    is_quiet "$CHIEF" "$OTHER"
}

@test "a task prints why its agent does not start, and how long it has waited" {
    choose_hosts
    PORTS[0]=${CHIEF#*:}
    start_agent 0
    run "$SUBMIT" launch --job_name worker --worker_hosts "$CHIEF"
    [ "$status" -eq 6 ]
    [[ "$output" == *"an agent answers at $CHIEF already"* ]]
    stop_agents
    run "$SUBMIT" launch --job_name worker --worker_hosts "$CHIEF,$OTHER" --task-timeout 1
    [ "$status" -eq 5 ]
    [[ "$output" == *"after 1 s there is no answer from /job:worker/task:1 ($OTHER)"* ]]
    run "$SUBMIT" launch --job_name worker --task_index 1 --worker_hosts "$CHIEF,$OTHER" --task-timeout 1
    [ "$status" -eq 5 ]
    [[ "$output" == *"within 1 s the chief at $CHIEF has submitted no job"* ]]
    # A job that cannot be ends the tasks that wait for it, too.
    launch ann --job_name worker --task_index 1 --worker_hosts "$CHIEF,$OTHER" --ps_hosts "$PS" 2>worker.log 3>&- &
    local worker=$!
    within 60 grep -q 'Waiting until' worker.log
    run "$SUBMIT" launch --job_name worker --worker_hosts "$CHIEF,$OTHER" --ps_hosts "$PS" --codec gossip
    [ "$status" -eq 2 ]
    [[ "$output" == *"rule gossip takes no servers"* ]]
    exit_is 3 wait "$worker"
    grep -q "the chief at $CHIEF has ended without a job" worker.log
    is_quiet "$PS" "$CHIEF" "$OTHER"
}

@test "a task beyond loopback runs the training program that its own command names" {
    local address
    address=$(hostname -I | cut -d' ' -f1)
    [ -n "$address" ] || skip "this machine has loopback addresses only"
    CHIEF=$address:$(free_port)
    make_token cluster.token
    printf '%s\n' 'import psgd.trainer' 'w = psgd.trainer.open({"W": (3,)})' 'for _ in psgd.trainer.steps(range(4)):' \
        '    w.gradient(loss=1.0, samples=1, lr=0.1)' '    w.stepped()' >train.py
    (launch ann --job_name worker --worker_hosts "$CHIEF" --token-file cluster.token --codec fedavg --trainer train.py -q -o out)
    [ "$(jq -r '.nodes[0].state' out/run.json)" = succeeded ]
    grep 'training programs: any' ann/psgd/launch/*/agent.log
    is_quiet "$CHIEF"
}
