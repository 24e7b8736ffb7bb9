#!/usr/bin/env bats
# Training programs in C, started by hand: alone, as workers of no job.
load lib
load documents

@test "a program in C needs psgd_trainer.c, any C11 compiler and libc, and trains alone" {
    local cc found=0
    for cc in gcc clang; do
        command -v $cc >/dev/null || continue
        found=1
        mkdir -p copies
        cp "$ROOT"/shared/trainer/{psgd_trainer.[ch],trainer_launch.h,trainer_wire.h} "$ROOT/examples/trainers/linear.c" copies
        $cc -std=c11 -O1 -Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
            copies/linear.c copies/psgd_trainer.c -o linear
        rm -r copies
        limited env -i ./linear >said 2>why
        [ "$(<why)" = "the program has no more data" ]
        read -r -a w < <(tr -d w,b <said)
        awk 'BEGIN { for (k = 1; k <= 5; k++) { d = ARGV[k] - (k < 5 ? k : 0.5); if (d * d > 1e-4) exit 1 } }' "${w[@]}"
    done
    [ $found = 1 ] || skip "no C compiler"
}

@test "a program in C++ includes psgd_trainer.h" {
    command -v c++ >/dev/null || skip "no C++ compiler"
    printf '#include "psgd_trainer.h"\nint main() { psgd *p; psgd_tensor t = {"W", 1, {3}, false}; return psgd_open(&p, &t, 1); }\n' >program.cc
    cc -c -I"$ROOT/shared/trainer" "$ROOT/shared/trainer/psgd_trainer.c" -o library.o
    c++ -Wall -Wextra -Werror -I"$ROOT/shared/trainer" program.cc library.o -o program
    ./program
}

@test "a program that links nn/ computes what the built-in worker computes, to the bit" {
    start_agents 1
    "$SUBMIT" --workers worker.json --node_count 1 --codec plain --epochs 2 --model mlp-tutorial --dataset "$FEW" -q -o built-in
    mkdir packages
    cp -L agent0/jobs/*/packages/* packages
    mv packages/train.safetensors packages/train-0.safetensors
    limited "$BUILD/tests/trainers/mlp_nn" packages >said
    [ "$(<said)" = "$(tail -1 built-in/records/eval.csv | awk -F, '{ print "loss " $6 ", accuracy " $7 }')" ]
}

@test "the commands for the example in C in docs/trainer.md run as written" {
    command -v cc >/dev/null || skip "no C compiler"
    start_agents 2
    ln -s "$BUILD" build
    ln -s "$ROOT/examples" "$ROOT/shared" .
    blocks 'sh c' docs/trainer.md >session.sh
    grep -q -- '--trainer ./linear' session.sh
    run limited sh -e session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^w 1.000 2.000 3.000 4.000, b 0.500$' <<<"$output")" = 2 ]
    grep -qx 'all steps are done' by-c/logs/worker-1.log
    [ "$(wc -l <by-c/records/eval.csv)" -gt 4 ]
}

# run_built_in NAME OPTION...: a job of two nodes by psgd's own worker; its data and settings go to NAME-packages.
run_built_in() {
    local name=$1 node job
    shift
    "$SUBMIT" -q --workers worker.json --node_count 2 --epochs 2 "$@" --model mlp-tutorial --dataset digits:train=1280,test=1 \
        --learn_rate 0.05 -o "$name" # a test set of one sample is not divided over the workers, as a program's is not
    job=$(jq -r .id "$name/run.json")
    mkdir "$name-packages"
    for ((node = 0; node < $(jq .settings.node_count "$name/run.json"); node++)); do
        cp -L "agent$node/jobs/$job/packages/"*.{json,safetensors} "$name-packages"
        mv "$name-packages/train.safetensors" "$name-packages/train-$node.safetensors"
    done
}

# run_program NAME OUT OPTION...: the same by a program with these data and settings.
run_program() {
    local name=$1 out=$2
    shift 2
    "$SUBMIT" -q --workers worker.json --node_count 2 --epochs 2 "$@" --trainer "$BUILD/tests/trainers/mlp_nn" -o "$out" -- "$T/$name-packages"
}

# as_built_in NAME OPTION...
as_built_in() {
    run_built_in "$@"
    run_program "$1" "$1-program" "${@:2}"
    are_equal "$1" "$1-program"
}

# bats test_tags=check
@test "a job by a program that links nn/ equals the built-in one to the bit" {
    start_agents 2
    as_built_in fedavg --codec fedavg --local-steps 3 # and the last steps are no whole round
    as_built_in diloco --codec diloco --local-steps 5 --eval-every 4
    as_built_in sockets --codec allreduce --local-path off --max-steps 13
    as_built_in topk --codec doublesqueeze --compress topk:per=layer,ef=true
}

# With LONG=1 every rule that takes a program, and more options.
# bats test_tags=check
@test "and so does one by each kind of rule, path and option" {
    start_agents 2
    local rule every="--local-steps 5"
    # shellcheck disable=SC2086 # options
    {
        as_built_in fedprox --codec fedprox $every
        as_built_in scaffold --codec scaffold $every
        as_built_in allreduce --codec allreduce --max-steps 13
        as_built_in doublebuffer --codec doublebuffer
        as_built_in median --codec fedavg $every --aggregate median
        as_built_in participate --codec fedavg --local-steps 2 --participate 0.5
        as_built_in overlap --codec fedavg $every --overlap 1
        if is_long; then
            for rule in localsgd slowmo easgd fedadam fedavgm fednova fedpaq fedyogi; do as_built_in $rule --codec $rule $every; done
            for rule in plain signsgd doublesqueeze laq easgd_grad; do as_built_in $rule --codec $rule; done
            as_built_in ring --codec allreduce --allreduce ring
            as_built_in skip --codec plain --on-nonfinite skip
        fi
    }
}

@test "a program's job on servers equals the built-in one" {
    start_agents 3
    write_workers 2 1
    as_built_in servers --codec doublesqueeze --path servers
}

@test "a program's job that is resumed equals one that was not interrupted: its optimizer's state is in the checkpoint" {
    start_agents 2
    run_built_in whole --codec fedavg --local-steps 3 --gradient-descent adam
    run_program whole half --codec fedavg --local-steps 3 --epochs 1 --checkpoint-every 1
    "$SUBMIT" -q --resume half --epochs 2 -o rest
    are_equal whole rest 10 # steps: an epoch
}

# pair NAME LIST NODES OPTION...: the job of psgd's worker and that of the program, on the agents of LIST. Both are refused for the same
# reason, or both equal to the bit. Failures are counted.
pair() {
    run_pair "$@" >pair.log 2>&1 || {
        echo "$*: $(grep . pair.log | tail -1)"
        n_failed=$((n_failed + 1))
    }
    rm -rf "$1" "$1-program"
}
run_pair() {
    local name=$1 options=(-q --epochs 2 --workers "$2" --node_count "$3" "${@:4}") status=0 other=0
    "$SUBMIT" "${options[@]}" --model mlp-tutorial --dataset "$FEW" --learn_rate 0.05 -o "$name" 2>built-in.err || status=$?
    "$SUBMIT" "${options[@]}" --trainer "$BUILD/tests/trainers/mlp_nn" -o "$name-program" -- "$T/data-$3-packages" 2>program.err || other=$?
    cat program.err
    case $status-$other in
    6-6) diff <(grep ^error built-in.err) <(grep ^error program.err) && echo refused >>outcomes ;;
    0-0) are_equal "$name" "$name-program" && echo equal >>outcomes ;;
    *) return 1 ;;
    esac
}

ROUNDS='asgd diloco easgd easgd_grad fedadam fedavg fedavgm fednova fedpaq fedprox fedyogi localsgd scaffold slowmo'
STEPS='allreduce doublebuffer doublesqueeze laq plain signsgd'
EVENTS='dc_qsgd downpour dummy gossip'

# start_pairs: agents, lists of two workers without and with a server, and the data of jobs of one and of two workers.
start_pairs() {
    start_agents 3
    write_workers 2 1
    cp worker.json servers.json
    write_workers 2
    cp worker.json workers.json
    run_built_in data-1 --node_count 1 --codec plain
    run_built_in data-2 --codec plain
    : >outcomes
    n_failed=0
}

# pairs RULE OPTION...: by the rule, in rounds of 5 steps where it has rounds. Of an asynchronous job with two workers no run is as the
# other.
pairs() {
    local rule=$1 list=workers.json nodes=2 options=(--codec "$1")
    shift
    [[ " $ROUNDS " != *" $rule "* ]] || options+=(--local-steps 5)
    case $rule in
    asgd | dc_qsgd | downpour) list=servers.json nodes=1 ;;
    easgd_grad) options=(--codec easgd_grad) ;;
    esac
    [[ " $* " != *' servers '* ]] || list=servers.json
    pair "$rule" $list $nodes "${options[@]}" "$@"
}

# bats test_tags=long
@test "a program's job equals the built-in one to the bit by every rule, path and option that both take" {
    local rule path
    start_pairs
    for rule in $ROUNDS $STEPS $EVENTS; do
        pairs "$rule"
        for path in allreduce tree gather servers; do pairs "$rule" --path $path; done
        pairs "$rule" --participate 0.5
        pairs "$rule" --overlap 1
        pairs "$rule" --aggregate median
        pairs "$rule" --on-node-loss continue
        pairs "$rule" --max-steps 13 --eval-every 4
        pairs "$rule" --compress 'layer0=fp16;*=int8'
        pairs "$rule" --compress topk:ratio=0.1,per=layer,ef=true
    done
    sort outcomes | uniq -c
    [ $n_failed -eq 0 ]
    [ "$(grep -c equal outcomes)" -gt 150 ]
}

# bats test_tags=long
@test "a program's job equals the built-in one to the bit by every rule and compressor that go together" {
    local rule chain
    start_pairs
    for rule in $ROUNDS $STEPS $EVENTS; do
        for chain in none fp16 bf16 int8 fixed8 topk randomk qsgd tern sgq onebit 'none|huffman'; do
            pairs "$rule" --compress "$chain"
        done
        pairs "$rule" --path gather --compress qsgd
        pairs "$rule" --path servers --compress qsgd --compress-down tern
    done
    sort outcomes | uniq -c
    [ $n_failed -eq 0 ]
    [ "$(grep -c equal outcomes)" -gt 150 ]
}
