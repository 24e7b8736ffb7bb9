#!/usr/bin/env bats
# Codecs for users: list, show, parameters; and requests of a codec to its node.
# Takes about 1 minute.
load lib

@test "codecs are listed, including the user's own" {
    mkdir mine && cp "$ROOT/codecs/dummy.c" mine/other.c && echo 'no codec' >mine/torn.so
    export PSGD_CODEC_PATH=$T/mine
    run "$SUBMIT" codecs list
    echo "$output"
    [ "$status" -eq 0 ]
    for c in "$ROOT"/codecs/*.c; do [[ "$output" == *"$(basename "$c" .c) "* ]]; done
    [[ "$output" == *"fedavg "*"combination"*"parameters"*"McMahan"* ]]
    [[ "$output" == *"other "*"source"*"mine/other.c"* ]]
    [[ "$output" == *"torn "*"broken"* ]]
    "$SUBMIT" codecs list --json | jq -e '.ok and ([.data.codecs[].name] | . == sort and index("gossip") and index("torn"))'
}

@test "compressors are listed with their parameters, and each codec with those that it accepts" {
    run "$SUBMIT" codecs list
    echo "$output"
    grep -qE '^plain +combination +gradients +lossy up +Chen' <<<"$output"
    grep -qE '^fedavg +combination +parameters +lossy down +McMahan' <<<"$output"
    grep -qE '^doublesqueeze +combination +gradients +lossy +Tang' <<<"$output"
    grep -qE '^doublebuffer +combination +gradients +lossy up +Akiba' <<<"$output"
    grep -qE '^topk +selects +ratio=0.01 +biased +Aji and Heafield, EMNLP 2017$' <<<"$output"
    grep -qE '^qsgd +values +bits=4,bucket=512,norm=l2 +unbiased +Alistarh' <<<"$output"
    grep -qE '^huffman +symbols +none +Huffman 1952' <<<"$output"
    for c in "$ROOT"/codecs/compress/*.c; do
        # A codec that is a compressor prints its name in its row of the table.
        grep -q '^const struct compressor compress_' "$c" || continue
        [[ "$output" == *$'\n'"$(basename "$c" .c) "* ]]
    done
    "$SUBMIT" codecs list --json | jq -e '[.data.compressors[] | select(.error == "none") | .name] == ["none", "huffman"]'
}

@test "a compressor is shown with its parameters, its error bound and its paper" {
    run "$SUBMIT" codecs show topk
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == "topk: Aji and Heafield, EMNLP 2017"* ]]
    [[ "$output" == *"biased: |C(v) - v|^2 <= (1 - k / n) |v|^2"* ]]
    grep -qE '^ratio +float +0.01 +1e-06 to 1 +fraction of the values that is sent$' <<<"$output"
    grep -qE '^ef +bool +false +true\|false' <<<"$output"
    [[ "$("$SUBMIT" codecs show huffman)" == *"It takes no parameters."* ]]
    "$SUBMIT" codecs show randomk --json | jq -e '.data | .error == "biased" and .options.unbiased == false'
    "$SUBMIT" codecs show randomk:unbiased=true --json | jq -e '.data | .error == "unbiased" and .options.unbiased'
    run "$SUBMIT" codecs show qsgd:bits=9
    [ "$status" -ne 0 ]
    [[ "$output" == *"bits: 9 is not between 2 and 8"* ]]
    # A codec of that name is the user's own file.
    sed 's/"dummy"/"topk"/' "$ROOT/codecs/dummy.c" >topk.c
    [[ "$("$SUBMIT" codecs show ./topk.c)" == "topk: none: independent training"* ]]
}

@test "a built-in codec or a user's file is shown with its parameters" {
    run "$SUBMIT" codecs show easgd
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == "easgd: Zhang"* ]]
    [[ "$output" == *"alpha "*"float"*"(its own)"*"0 to 1"* ]]
    [[ "$output" == *"every "*"int"*"0 to 1000000000"* ]]
    [[ "$output" == *"workers among each other, or with parameter servers"* ]]
    "$SUBMIT" codecs show gossip:graph=exponential --json >facts
    [ "$(jq -r '.data.options.graph' facts)" = exponential ]
    [ "$(jq -r '.data.parameters[0].default' facts)" = ring ]
    [ "$(jq -r '.data | .runs_by, .can_be_kept, .handles_node_loss, .compression' facts | tr '\n' ' ')" = "events true true lossless " ]
    [[ "$("$SUBMIT" codecs show allreduce)" == *"workers among each other, in ssgd"* ]]
    run "$SUBMIT" codecs show ps
    [[ "$output" == *"which run the optimizer"* ]]
    [[ "$output" == *"It takes no parameters."* ]]
    sed 's/"dummy"/"mine"/' "$ROOT/codecs/dummy.c" >mine.c
    run "$SUBMIT" codecs show mine.c
    [[ "$output" == "mine: none: independent training"* ]]
    run "$SUBMIT" codecs show gossip:graph=star
    [ "$status" -eq 6 ]
    [[ "$output" == *'graph: "star" is not one of ring|exponential'* ]]
    run "$SUBMIT" codecs
    [ "$status" -eq 2 ]
}

@test "parameters reach the codec, and all of them are in run.json" {
    start_agents 2
    "$SUBMIT" -q --codec easgd:every=6,alpha=0.25 --node_count 2 --dataset "$FEW" --epochs 2 --model softmax -o out
    jq -e '.facts.codec.options == {"alpha": 0.25} and .settings.codec_options == "alpha=0.25"
           and .settings.local_steps == 6' out/run.json
    [ "$(tail -1 out/records/comm.csv | cut -d, -f2)" -eq 4 ] # after steps 6, 12, 18 and 20
    cp "$ROOT/codecs/easgd.c" "with:colon.c"
    "$SUBMIT" -q --codec ./with:colon.c:alpha=0.5 --node_count 2 --dataset "$FEW" --epochs 1 --model softmax --local-steps 90 -o own
    jq -e '.facts.codec.options.alpha == 0.5 and .settings.local_steps == 90' own/run.json
}

@test "an unknown parameter is refused before anything is shipped" {
    echo '{"Worker": ["127.0.0.1:1"]}' >worker.json
    no() { # no WORDS ARGUMENTS...
        local words=$1
        shift
        run "$SUBMIT" "$@"
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"$words"* ]]
    }
    no 'no parameter "evry" (did you mean "every"?); it takes every (0 to 1000000000' --codec fedavg:evry=3
    no 'alpha: 7 is not between 0 and 1; it takes alpha (0 to 1' --codec easgd:alpha=7
    no 'no parameter "every"; it takes none' --codec plain:every=3
    no '--local-steps 5 and --codec fedavg:every=10 set the same parameter' --codec fedavg:every=10 --local-steps 5
    no 'codec gossip needs the message of every worker in an exchange; it does not support asgd' --codec gossip --psgd asgd
    no 'it cannot use redundant blocks' --codec allreduce --redundancy 2 --node_count 2
    no 'updates the weights on parameter servers, and the job has none' --codec ps
    echo '{"PS": "127.0.0.1:2", "Worker": ["127.0.0.1:1"]}' >worker.json
    no 'the workers decide when they exchange' --codec fedavg --server_codec fedavg:every=3
    no 'only one of the codecs fedavg and ps runs the optimizer on the servers' --codec fedavg --server_codec ps
}

# bats test_tags=long
@test "with ps the servers run the optimizer, and their codec.csv records the staleness of gradients" {
    start_agents 4
    write_workers 2 2
    "$SUBMIT" -q --codec plain --server_codec null --node_count 2 --epochs 1 --model softmax -o plain
    "$SUBMIT" -q --codec ps --node_count 2 --epochs 1 --model softmax -o ps
    [ "$(cut -d, -f2,6 plain/records/eval.csv | sort)" = "$(cut -d, -f2,6 ps/records/eval.csv | sort)" ]
    "$SUBMIT" -q --codec ps --node_count 2 --epochs 1 --model softmax --gradient-descent adam -o adam
    [ "$(jq .models_agree adam/run.json)" = true ]
    [ ! -e ps/records/codec.csv ]
    "$SUBMIT" -q --codec ps --psgd asgd --node_count 2 --epochs 1 --model softmax -o asgd
    [ "$(head -1 asgd/records/codec.csv)" = time_s,node,step,round,name,value ]
    [ "$(grep -c ',-2,0,[0-9]*,staleness,' asgd/records/codec.csv)" -eq 374 ]
    [ "$(grep -c ',-3,0,[0-9]*,staleness,' asgd/records/codec.csv)" -eq 374 ]
}

# bats test_tags=long
@test "ps and gossip resume from their checkpoints with the results of an uninterrupted job" {
    start_agents 3
    for c in ps gossip; do
        if [ "$c" = ps ]; then write_workers 2 1; else write_workers 3; fi
        n=$(jq '.Worker | length' worker.json)
        args=(-q --node_count "$n" --model softmax --gradient-descent adam --codec "$c")
        "$SUBMIT" "${args[@]}" --epochs 4 -o "whole-$c"
        "$SUBMIT" "${args[@]}" --epochs 2 --checkpoint-every 1 -o "half-$c"
        "$SUBMIT" -q --resume "half-$c" --epochs 4 -o "rest-$c"
        last() { awk -F, '$3 == 4 { print $2, $4, $6, $7 }' "$1/records/eval.csv" | sort; }
        [ "$(last "whole-$c" | wc -l)" -eq "$n" ]
        diff <(last "whole-$c") <(last "rest-$c")
    done
}

@test "a codec can change the learning rate, request evaluations and end the job" {
    start_agents 2
    "$SUBMIT" -q --codec "$BUILD/tests/codecs/control.so" --node_count 2 --dataset "$FEW" --epochs 2 --model softmax -o out
    [ "$(jq -r .state out/run.json)" = succeeded ]
    [ "$(awk -F, '$2 == 0 { print $7 }' out/records/train.csv | tail -1)" -eq 7 ]
    [ "$(awk -F, '$2 == 0 { print $11 }' out/records/train.csv | tr '\n' ' ')" = "0.05 0.05 0.05 0.0125 0.0125 0.0125 0.0125 " ]
    [ "$(awk -F, '$2 == 0 { print $4 }' out/records/eval.csv | tr '\n' ' ')" = "5 7 " ]
    [ "$(awk -F, '$2 == 1 { print $3 $6 }' out/records/codec.csv | tr '\n' ' ')" = "11 21 30.25 40.25 50.25 60.25 70.25 " ]
    [ -s out/model/final.safetensors ]
}

# bats test_tags=long
@test "rules that divide the messages about blocks among their holders arrive at plain's weights" {
    start_agents 3
    args=(-q --node_count 3 --redundancy 2 --epochs 1 --model softmax)
    "$SUBMIT" "${args[@]}" --codec plain --path gather -o plain
    sent() { jq '[.nodes[].comm.sent_bytes] | add' "$1/run.json"; }
    for rule in ndc ccdc; do
        "$SUBMIT" "${args[@]}" --codec $rule -o $rule
        [ "$(jq .models_agree $rule/run.json)" = true ]
        cmp <(tail -c 30000 $rule/model/final.safetensors) <(tail -c 30000 plain/model/final.safetensors)
        [ "$(jq -n "$(sent $rule) < 0.6 * $(sent plain)")" = true ]
    done
    run "$SUBMIT" simulate -q --codec ccdc --node_count 4 --redundancy 2 --block_assignment dup --gradients 10
    [ "$status" -eq 6 ]
    [[ "$output" == *"not every set of 2 workers holds a block; use --block_assignment iid"* ]]
}

# bats test_tags=long
@test "an inherently asynchronous rule is checked and run in asgd only" {
    start_agents 3
    write_workers 2 1
    local codec=sync_replicas verb
    run "$SUBMIT" codecs test "$codec"
    echo "$output"
    [ "$status" -eq 0 ]
    for check in ends cost converges malformed loss; do grep -qE "^ok +$check " <<<"$output"; done
    for check in timing restore; do
        grep -qE "^- +$check +it does not support ssgd \(CODEC_NO_SSGD\), and this check is for ssgd only$" <<<"$output"
    done
    [[ "$("$SUBMIT" codecs show "$codec")" == *", in asgd"*"checkpoints  no"* ]]
    for verb in "" validate "simulate -q --gradients 10 --servers 1"; do
        # shellcheck disable=SC2086 # split into words
        run "$SUBMIT" $verb --codec "$codec" --node_count 2
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"codec sync_replicas is asynchronous; it does not support ssgd"*"--parallel_sgd asgd"* ]]
    done
    "$SUBMIT" -q --codec "$codec" --psgd asgd --node_count 2 --epochs 1 --model softmax -o out
    [ "$(jq -r .state out/run.json)" = succeeded ]
    [ "$(jq -n "$(tail -1 out/records/eval.csv | cut -d, -f7) > 0.7")" = true ]
    # The message without the limit; a round, whose cost is that of a whole one; and values that no job could have.
    sed 's/ *\.limits = CODEC_NO_SSGD,//' "$ROOT/codecs/sync_replicas.c" >limitless.c
    run "$SUBMIT" codecs test limitless.c --check timing
    [ "$status" -eq 1 ]
    [[ "$output" == *"the result depends on the order of messages"* ]]
    sed 's/\.combine = &ps,/& .limits = CODEC_NO_SSGD,/' "$ROOT/codecs/ps.c" >round.c
    for check in cost result; do
        [[ "$("$SUBMIT" codecs test round.c --check $check)" == "- "*"this check is for ssgd only" ]]
    done
    sed 's/CODEC_NO_SSGD/& | CODEC_NO_ASGD/' "$ROOT/codecs/sync_replicas.c" >neither.c
    run "$SUBMIT" codecs show neither.c
    [ "$status" -eq 6 ]
    [[ "$output" == *"codec sync_replicas excludes both ssgd and asgd (.limits): no job can use it"* ]]
}

# bats test_tags=long
@test "a name of Parallel-SGD is a rule with options, and options on the command line replace them" {
    start_agents 2
    start_agent 2
    write_workers 2 1
    local preset expected servers
    settings_of() { jq -r '.settings | [.codec, .codec_options, .compress, .compress_down, .sync] | join(" ")' "$1/run.json"; }
    "$SUBMIT" -q --codec sgq --node_count 2 --epochs 1 --model softmax -o sgq
    [ "$(settings_of sgq)" = "ps  sgq|huffman sgq:ef=true|huffman ssgd" ]
    "$SUBMIT" simulate -q --codec sgq --compress fp16 --servers 1 --node_count 2 --epochs 1 --model softmax -o given
    [ "$(settings_of given)" = "ps  fp16 sgq:ef=true|huffman ssgd" ]
    "$SUBMIT" simulate -q --codec dc:lambda=0.5 --servers 1 --node_count 2 --epochs 1 --model softmax -o dc
    [ "$(settings_of dc)" = "dc_asgd mode=adaptive,lambda=0.5,decay=0.95   asgd" ]
    run "$SUBMIT" simulate --codec dc --servers 1 --node_count 2 --epochs 1 --model softmax -o said
    [[ "$output" == *"--codec dc stands for --codec dc_asgd:mode=adaptive --parallel_sgd asgd, where these options are not given."* ]]
    # Given parameters of the rule and of the optimizer count, too, also in a job that is repeated or resumed.
    "$SUBMIT" simulate -q --codec dc:mode=constant --servers 1 --node_count 2 --epochs 1 --model softmax -o constant
    [[ "$(settings_of constant)" == "dc_asgd mode=constant,"* ]]
    "$SUBMIT" simulate -q --codec eamsgd --optimizer sgd --node_count 2 --epochs 1 --model softmax -o sgd
    [ "$(jq -r '.settings | "\(.codec) \(.gradient_descent) \(.momentum)"' sgd/run.json)" = "easgd sgd 0" ]
    "$SUBMIT" -q --codec fedavg --node_count 2 --epochs 1 --model softmax -o base
    "$SUBMIT" rerun -q "$(jq -r .id base/run.json)" --set codec=eamsgd --set momentum=0.9 -o again
    [ "$(jq -r '.settings | "\(.codec) \(.gradient_descent) \(.momentum)"' again/run.json)" = "easgd nesterov 0.9" ]
    "$SUBMIT" -q --codec sgq --node_count 2 --epochs 2 --model softmax --checkpoint-every 1 -o kept
    "$SUBMIT" -q --resume kept --codec sgq --epochs 3 -o on
    [ "$(settings_of on)" = "$(settings_of kept)" ]
    # Wrong names and jobs without servers.
    run "$SUBMIT" simulate -q --codec sgqq --node_count 2
    [[ "$output" == *'unknown codec "sgqq"; did you mean "sgq"?'* ]]
    run "$SUBMIT" simulate -q --codec sgq --node_count 2
    [ "$status" -eq 6 ]
    [[ "$output" == *"codec ps updates the weights on parameter servers, and the job has none"*"Add some with --servers N."* ]]
    # All names, each as in `codecs list`.
    "$SUBMIT" codecs list --json | jq -r '.data.presets[] | "\(.name)\t\(.options)"' >presets
    [ "$(wc -l <presets)" -ge 12 ]
    while IFS=$'\t' read -r preset expected; do
        rm -rf short long
        case $preset in
        gradcode | eamsgd) servers=() ;;
        *) servers=(--servers 1) ;;
        esac
        # shellcheck disable=SC2086 # split into words
        "$SUBMIT" simulate -q $expected "${servers[@]}" --node_count 2 --gradients 50 --steps 2 --step-time 0.01 -o long
        "$SUBMIT" simulate -q --codec "$preset" "${servers[@]}" --node_count 2 --gradients 50 --steps 2 --step-time 0.01 -o short
        cmp <(jq -S '.settings | del(.name)' short/run.json) <(jq -S '.settings | del(.name)' long/run.json)
    done <presets
    # A codec of one's own with that name is that.
    mkdir -p codecs
    sed 's/name = "plain"/name = "sgq"/' "$ROOT/codecs/plain.c" >codecs/sgq.c
    "$SUBMIT" simulate -q --codec sgq --node_count 2 --epochs 1 --model softmax -o own
    [ "$(settings_of own)" = "sgq    ssgd" ]
}

# shellcheck disable=SC2030 # each @test is a subshell of its own
# bats test_tags=check
@test "every built-in codec passes the conformance suite" {
    local c check
    one() { # one CODEC CHECK: of what it receives a tenth of the mutations
        local few=()
        if [ "$2" = malformed ] && ! is_long; then few=(--mutations 100000); fi
        "$SUBMIT" codecs test "$1" --check "$2" "${few[@]}"
    }
    "$SUBMIT" codecs test plain --json | jq -r '.data.checks[].check' >checks
    # The host handles times and lost nodes alike for all rules of a kind, which take most of the time.
    is_long || sed -i -n '/^equal$/p; /^result$/p; /^restore$/p; /^malformed$/p' checks
    for c in "$ROOT"/codecs/*.c; do
        c=${c##*/} c=${c%.c}
        case $c in
        fedavg) ;; # below
        gossip | ps | ccdc) "$SUBMIT" codecs test "$c" ;;
        *) while read -r check; do one "$c" "$check"; done <checks ;;
        esac
    done
    "$SUBMIT" codecs test fedavg:every=4 --json >outcome
    jq -e '.ok and .data.codec == "fedavg" and (.data.checks | length) == 10' outcome
    [ "$(jq -r '[.data.checks[] | select(.outcome == "ok") | .check] | join(" ")' outcome | sed 's/ memory//')" \
        = "ends timing equal result cost converges restore loss" ]
    [ "$("$SUBMIT" codecs test dummy --check malformed)" = "-       malformed  it receives no messages" ]
}

# fails CODEC CHECK WORDS: that check of a test codec fails with this message, and its replay fails as well.
# shellcheck disable=SC2030,SC2031 # it calls `run` itself
fails() {
    local replay
    run "$SUBMIT" codecs test "$BUILD/tests/codecs/$1" --check "$2"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == "FAILED  $2 "*"$3"* ]]
    replay=$(grep -o 'job_submit codecs test .*' <<<"$output")
    [[ "$replay" == *" --check $2"* ]]
    # shellcheck disable=SC2016 # expanded by the other shell
    run limited bash -c '"$1"/'"$replay" bash "$BUILD" # as a user would type it
    [ "$status" -eq 1 ]
    [[ "$output" == *"$3"* ]]
}

@test "broken codecs are detected, each with its error" {
    fails broken_sum.so result 'with the mean of all gradients it would be'
    fails broken_lost.so ends 'node 1: it waits for'
    fails broken_order.so timing 'the result depends on the order of messages'
    fails broken_race.so timing 'the result depends on the order of messages'
    fails broken_bounds.so malformed 'in step 0 reads beyond the end of the message'
    fails half.so equal '2 workers: workers end different: parameter 50 is '
}

@test "an event rule is checked for calls at the wrong time, each with its error" {
    "$SUBMIT" codecs test "$BUILD/tests/codecs/broken_events.so" --mutations 10000
    fails broken_events.so:what=wait ends 'on_grad is called, although on_message has returned CODEC_WAIT'
    fails broken_events.so:what=grads ends 'its on_message writes to grads while on_grad does not wait'
    fails broken_events.so:what=params ends 'its on_message writes to params while the node does not wait, and its layers may be half computed'
    fails broken_events.so:what=early ends 'sent a malformed gradient, or of another step'
    fails broken_events.so:what=step ends 'it waits for a message, but there are no more events'
    # A rule that cannot be asynchronous.
    sed 's/^    wire_put_f32s/    if (!c->is_sync)\n        return codec_fail(c, "where are the others?");\n&/; s/n_params \/ 2/n_params/' \
        "$ROOT/tests/codecs/half.c" >common.c
    run "$SUBMIT" codecs test common.c --check ends
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"asgd: node "*"where are the others?. A rule that cannot be asynchronous declares .limits = CODEC_NO_ASGD."* ]]
    # The room of a message, where none is declared.
    sed 's/n_params \/ 2/n_params/; s/^    wire_put_f32s.*/&\n&/' "$ROOT/tests/codecs/half.c" >long.c
    run "$SUBMIT" codecs test long.c --check ends
    echo "$output"
    [[ "$output" == *"its message is longer than 468 bytes, the room without .message_bytes: 64 + 4 n_params"* ]]
}

@test "endless timers and messages without progress of a worker fail a check and a simulation" {
    local codec=$BUILD/tests/codecs/restless.so what place='but no worker has gone on from .* s of simulated time, in step [0-9]+; meanwhile'
    for what in flood now echo; do
        run "$SUBMIT" codecs test "$codec:what=$what" --check ends
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == "FAILED  ends       "*" workers: node "*": it waits for "*"may not send more than the links carry"* ]]
        grep -qE "$place the rule's timers have expired [0-9]+ times and [0-9]+ messages have arrived, and [0-9]+ messages are queued" <<<"$output"
    done
    # Without messages a wait ends by --round-timeout, as in a job.
    run "$SUBMIT" codecs test "$codec:what=timers" --check ends
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == "FAILED  ends       2 workers: node "*": a message has not arrived for 60 s"* ]]
    run "$SUBMIT" simulate -q --codec "$codec:what=echo" --node_count 2 --gradients 100 --steps 2 --epochs 1 -o endless
    echo "$output"
    [ "$status" -eq 1 ]
    grep -qE "Simulation failed: node\(0\), RoundTimeout: it waits for .*$place" <<<"$output"
    # A worker that computes for 100 s goes on, whatever the timers of the other one.
    "$SUBMIT" codecs test "$codec" --check ends
    "$SUBMIT" simulate -q --codec "$codec" --node_count 2 --gradients 100 --steps 2 --epochs 1 --speed 1=1e-4 \
        --round-timeout 1000 -o slow
}

@test "workers that end different are named in the table, in run.json and by status; by simulate, too" {
    start_agents 2
    local codec=$BUILD/tests/codecs/half.so what='The workers end different: the weights of node 1 differ from those of node 0, and codec half'
    local few=(--node_count 2 --dataset "$FEW" --epochs 1 --model softmax)
    run "$SUBMIT" -q --codec "$codec" "${few[@]}" -o half
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"Warning: $what"* ]]
    [[ "$output" != *"Sent and received"* && "$output" == *"Results in $T/half" ]] # -q: no more than the result
    jq -e --arg what "$what" '(.warnings | length) == 1 and (.warnings[0] | startswith($what))
        and (.nodes | map(.params_sha256) | unique | length) == 2' half/run.json
    [[ "$("$SUBMIT" status)" == *"Sent and received are bytes as on a network"*"Warning: $what"* ]]
    [[ "$("$SUBMIT" simulate -q --codec "$codec" "${few[@]}")" == *"Warning: $what"* ]]
    # A rule that means it, and one whose workers keep their own weights beside the model.
    for codec in gossip easgd; do
        "$SUBMIT" -q --codec $codec "${few[@]}" -o $codec
        jq -e '.warnings == []' $codec/run.json
    done
}

@test "each broken promise of a codec fails its check" {
    fails broken_promise.so:what=cost cost 'in 12 steps; its .sends declares'
    fails broken_promise.so:what=global restore "its state does not contain all of the rule's state"
    fails broken_server.so restore '3 workers, 1 server: worker 0, parameter 0: in the end'
    fails broken_combine.so:what=params ends 'its contribute writes to params, which codec.h does not allow there'
    sed 's/\.n_vectors = 2,//' "$ROOT/tests/codecs/broken_combine.c" >one_vector.c
    run "$SUBMIT" codecs test one_vector.c --check ends
    [ "$status" -eq 1 ]
    [[ "$output" == *"contribute of node "*"uses a pointer that is NULL. "*"v[1] and further ones .n_vectors"* ]]
    "$SUBMIT" codecs test "$BUILD/tests/codecs/broken_combine.so:what=params" --check loss # every node ends with the error
    fails broken_combine.so:what=global ends 'its apply writes to params'
    fails broken_combine.so:what=pull ends 'its on_gradient writes to params'
    fails broken_combine.so:what=weight ends 'its contribute returned the weight nan; a weight is finite and not negative'
    fails broken_combine.so:what=negative ends 'its contribute returned the weight -1'
    fails broken_blocks.so:what=noise timing 'redundancy 2: worker 0 ends with other weights under seed 2'
    fails broken_blocks.so:what=holder malformed ': codec broken_blocks: a malformed gradient of block '
    fails broken_promise.so:what=trace malformed 'truncated to 0 of its 404 bytes, but has already changed its state'
    fails broken_refusal.so:what=extra malformed 'accepts a message of 412 bytes and 1 more'
    fails broken_refusal.so:what=count malformed 'with 0x0 as its word 0, but has already changed its state'
    fails broken_refusal.so:what=part malformed 'but has already changed its gradients'
    fails broken_refusal.so:what=factor malformed 'but has already changed a field of struct codec'
    fails broken_refusal.so:what=draw malformed "but has already changed the node's random numbers"
    fails broken_refusal.so:what=record malformed 'but has already changed codec.csv'
    fails broken_refusal.so:what=outside malformed 'reads a message differently after it has refused others'
    fails broken_promise.so:what=taken malformed 'accepts a message truncated to 0 of its 404 bytes'
    fails broken_compressed.so:what=raw malformed 'compressed: node 0: codec broken_compressed: worker 0 sent a malformed'
    fails broken_compressed.so:what=beyond malformed 'reads beyond the end of a vector, 1 bytes past it'
    fails broken_collective.so malformed 'on_collective of node '
    fails broken_promise.so:what=sign converges 'the loss is'
    fails broken_order.so loss 'hangs: it waits for a message'
    for what in memory aligned; do
        run "$SUBMIT" codecs test "$BUILD/tests/codecs/broken_promise.so:what=$what" --check memory
        # A sanitizer's build has its own malloc, and reports that it cannot count.
        [ "$status" -eq 1 ] || [[ "$output" == "-       memory"* ]]
        [[ "$output" == *"the codec has allocated memory"* ]] || [[ "$output" == *"cannot count"* ]]
    done
    # Memory that the host allocates for messages does not count as the codec's.
    "$SUBMIT" codecs test "$BUILD/tests/codecs/broken_order.so" --check memory
}

# bats test_tags=check
@test "a million messages are mutated, and an error only in the last one is found" {
    cat >late.c <<'C'
#include <stdlib.h>

#include "codec_events.h"

static int patience = 1000000; /* messages received without harm */

static int late_encode(struct codec *c, struct wire_out *out)
{
    wire_put_f32s(out, c->grads, c->n_params);
    return CODEC_GO;
}

static int late_merge(struct codec *c, int from, struct wire_in *in)
{
    wire_get_f32s(in, c->n_params);
    if (--patience == 0)
        abort();
    return wire_ok(in) ? CODEC_GO : codec_fail(c, "worker %d sent a malformed gradient", from);
}

static const struct codec_round late = {.before_update = true, .encode = late_encode, .merge = late_merge};

CODEC_PLUGIN(.name = "late", .source = "a test", .more = CODEC_MORE(.round = &late))
C
    run "$SUBMIT" codecs test late.c --check malformed
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"merge of node "*" has crashed (signal 6, Aborted)"* ]]
    "$SUBMIT" codecs test late.c --check malformed --mutations 1000
}

@test "a codec that crashes, loops or calls exit is reported, and the other checks are run" {
    fails crash.so ends 'in step 3 ' # "uses a pointer that is NULL", or how UBSan ends the process
    fails call_exit.so ends 'in step 3 has ended the process (status 0): a codec must not call exit'
    run "$SUBMIT" codecs test "$BUILD/tests/codecs/spin.so" --check ends
    [ "$status" -eq 1 ]
    [[ "$output" == *"on_step of node 0 in step 3 has not returned for 10 s: does it loop?"* ]]
    run "$SUBMIT" codecs test "$BUILD/tests/codecs/crash.so"
    [ "$(grep -c '^FAILED' <<<"$output")" -gt 3 ]
    [[ "$output" == *"crash: some checks failed" ]]
    sed -e 's/return CODEC_GO/return kill(0, SIGKILL)/' -e 's/<time.h>/<signal.h>\n#include &/' <"$ROOT/tests/codecs/spin.c" >kill.c
    run setsid -w "$SUBMIT" codecs test kill.c --check ends
    [ "$status" -eq 1 ]
    [[ "$output" == *"has crashed (signal 9, Killed)"* ]]
    run "$SUBMIT" codecs test fedavg --check timng
    [ "$status" -eq 2 ]
    [[ "$output" == *"Did you mean timing?"* ]]
}

# signalled SIGNALS COMMAND...: runs a check that would take a day, and sends it these signals; sets status and output.
signalled() {
    local signals=$1 pid s
    shift
    "$@" codecs test gossip --check malformed --mutations 1000000000 ${JSON:+"$JSON"} >printed 2>&1 3>&- &
    pid=$!
    within 60 pgrep -x codec_check -P $pid
    for s in $signals; do kill -s "$s" $pid; done
    status=0
    wait $pid || status=$?
    output=$(cat printed)
    echo "$output"
}

@test "a signal ends a check with its exit status" {
    signalled INT "$SUBMIT"
    [ "$status" -eq 130 ]
    [[ "$output" == *"interrupted (Ctrl-C)"* ]]
    JSON=--json signalled TERM "$SUBMIT"
    [ "$status" -eq 143 ]
    [[ "$output" == *"interrupted by a signal"*'"exit_status":143'* ]]
}

@test "a check started by nohup survives the terminal" {
    signalled HUP env --default-signal=HUP "$SUBMIT" # this test may itself have been started by nohup
    [ "$status" -eq 129 ]
    # Of two signals the first one is reported; a second one ends at once.
    signalled "HUP TERM" env --ignore-signal=HUP "$SUBMIT"
    [ "$status" -eq 143 ]
    [[ "$output" == *"interrupted by a signal"* ]]
}

# bats test_tags=long,check
@test "a new codec of each kind compiles without a warning, passes the suite and is not overwritten" {
    local kind
    for kind in "" combination rounds events; do
        # shellcheck disable=SC2086 # no third word where it is empty
        "$SUBMIT" codecs new mine $kind >printed
        [ "$(wc -l <mine.c)" -le 60 ]
        cc -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Werror -fsyntax-only -I"$BUILD/include" mine.c
        grep -q "a rule by ${kind:-combination}" printed
        grep -q 'job_submit codecs test mine.c' printed
        run "$SUBMIT" codecs test mine.c
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(grep -c "^ok " <<<"$output")" -ge 4 ] # a sanitizer's build does not count allocations
        if [ "$kind" = rounds ]; then # whose result is declared
            run "$SUBMIT" codecs test mine.c:factor=0.5 --check result
            [ "$status" -eq 1 ]
        fi
        rm mine.c
    done
    run "$SUBMIT" codecs new mine ring
    [ "$status" -eq 2 ]
    [[ "$output" == *"\"ring\": a codec's kind is combination, rounds or events"* ]]
    [ ! -e mine.c ]
    echo mine >mine.c
    run "$SUBMIT" codecs new mine
    [ "$status" -eq 6 ]
    [[ "$output" == *"mine.c exists already"* ]]
    [ "$(cat mine.c)" = mine ]
    run "$SUBMIT" codecs new ../mine
    [ "$status" -eq 2 ]
}

# bats test_tags=check
@test "a new codec may have any name, including keywords of C and names of codec.h" {
    local name
    for name in double codec int log; do
        "$SUBMIT" codecs new $name
        run "$SUBMIT" codecs test $name.c --check cost
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" != *warning* ]]
    done
}
