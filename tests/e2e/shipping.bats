#!/usr/bin/env bats
# Shipping of codecs: from a user's file to agents that may be other machines, with policies of their own.
load lib

# A user's codec: `mine`, which is the built-in dummy under another name.
write_mine() { sed 's/"dummy"/"mine"/' "$ROOT/codecs/dummy.c" >mine.c; }

small_job() { "$SUBMIT" --node_count "$1" --epochs 1 --model softmax --dataset "$FEW" "${@:2}"; }

digest() { sha256sum "$1" | cut -d' ' -f1; }

@test "source, manifest and digests are fetched with the results, and the job can be repeated from them" {
    start_agents 2
    write_mine
    small_job 2 -q --codec mine.c -o out
    cmp mine.c out/codec/mine.c
    local object
    object=agent0/jobs/$(only_job 0)/packages/codec.so
    jq -e --arg o "$(digest "$object")" --arg s "$(digest mine.c)" '.facts.codec
        | .sha256 == $o and .source_sha256 == $s and (.compiler | length > 3) and (.flags | contains("-O3"))' out/run.json
    jq -e --slurpfile run out/run.json '. as $m | $run[0].facts.codec | $m.sha256 == .sha256
        and $m.source_sha256 == .source_sha256 and $m.architecture == .architecture and $m.abi == .abi' out/codec/mine.json
    [ "$(api 0 GET /v1/jobs | jq -r '.jobs[0].codec_sha256')" = "$(digest "$object")" ]
    rm mine.c
    "$SUBMIT" fetch -q -o again
    cmp out/codec/mine.c again/codec/mine.c
    small_job 2 -q --codec out/codec/mine.c -o repeated
    diff <(without_times out/records/train.csv) <(without_times repeated/records/train.csv)
    [ "$(jq -r .facts.codec.sha256 out/run.json)" = "$(jq -r .facts.codec.sha256 repeated/run.json)" ]
}

@test "a server's own codec is fetched beside the workers', an object without a source" {
    start_agents 2
    write_workers 1 1
    cp "$ROOT/codecs/fedavg.c" served.c
    cp "$BUILD/codecs/fedavg.so" own.so
    small_job 1 -q --codec own.so --server_codec served.c -o out
    cmp served.c out/codec/server-fedavg.c
    [ -s out/codec/fedavg.json ]
    [ ! -e out/codec/fedavg.c ]
}

@test "a codec that an agent does not allow is refused with one message, before anything is shipped" {
    start_agent 0
    start_agent 1 --codecs allowlist
    write_workers 2
    write_mine
    run small_job 2 --codec mine.c -o out
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"node(1): agent 127.0.0.1:${PORTS[1]}: codec mine (SHA-256 "*", source $(digest mine.c)) is neither built into this agent nor on its list"* ]]
    [[ "$output" == *"hint: "*"a line with $(digest mine.c) to $T/agent1/codecs.allow"* ]]
    [[ "$output" != *"Reply requirements"* ]]
    [ "$(curl -s "http://127.0.0.1:${PORTS[0]}/v1/status" | jq '.running | length')" -eq 0 ]
    # With the source on the list the agent compiles it, and loads nothing else.
    sha256sum mine.c >>agent1/codecs.allow
    run small_job 2 --codec mine.c -o out
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"Reply requirements"* ]]
    grep -q 'codec mine (made for .* by .*) is compiled here' out/logs/worker-1.log
    [ "$(grep -c 'is compiled here' out/logs/worker-0.log)" -eq 0 ]
    [ ! -e "agent1/jobs/$(only_job 1)/packages/codec.so" ]
    # With the object on the list, that is loaded.
    jq -r .facts.codec.sha256 out/run.json >agent1/codecs.allow
    small_job 2 -q --codec mine.c -o object
    [ "$(grep -c 'is compiled here' object/logs/worker-1.log)" -eq 0 ]
}

@test "an agent that allows only its own codecs runs those" {
    start_agent 0 --codecs builtin
    write_workers 1
    write_mine
    small_job 1 -q --codec fedavg -o out
    run small_job 1 --codec mine.c -o no
    [ "$status" -eq 4 ]
    [[ "$output" == *"it runs no other (--codecs builtin)"* ]]
    [ "$(api 0 GET /v1/agent | jq -r .limits.codecs)" = builtin ]
}

put_blob() { # put_blob FILE: prints its digest
    api 0 PUT "/v1/blobs/sha256/$(digest "$1")" -H 'Content-Type: application/octet-stream' --data-binary "@$1" >/dev/null
    digest "$1"
}

put_package() { # put_package ID PACKAGE NAME:FILE...: prints the answer's status
    local files='' f
    for f in "${@:3}"; do files="$files,\"${f%%:*}\":\"$(put_blob "${f#*:}")\""; done
    status_of 0 PUT "/v1/jobs/$1/packages/$2" -H 'Content-Type: application/json' -d "{\"files\":{${files#,}}}"
}

reserve_by_hand() { # reserve_by_hand ID CODEC
    api 0 POST /v1/jobs -H 'Content-Type: application/json' -d '{"id":"'"$1"'","attempt":1,"node":0,"role":"worker",
        "name":"hand","codec":"'"$2"'","node_count":1,"server_count":0,"submitter":"test"}' >/dev/null
}

put_all_but_codec() { # put_all_but_codec ID FOLDER: as in an earlier job
    put_package "$1" settings "settings.json:$2/settings.json"
    put_package "$1" model "model.json:$2/model.json"
    put_package "$1" data "train.safetensors:$2/train.safetensors" "test.safetensors:$2/test.safetensors"
}

# An object that cannot be loaded here, with EM_AARCH64 as the machine in its ELF header: other.so, other.json.
make_foreign() { # make_foreign FOLDER
    cp "$1/codec.so" other.so && chmod 600 other.so
    printf '\xb7\x00' | dd of=other.so bs=1 seek=18 conv=notrunc status=none
    jq -c --arg d "$(digest other.so)" '.sha256 = $d | .architecture = "AArch64"' "$1/codec.json" >other.json
}

@test "an object for another machine: its source is compiled here; without a source it is refused" {
    start_agents 1
    write_mine
    small_job 1 -q --codec mine.c -o out
    local old
    old=agent0/jobs/$(only_job 0)/packages
    make_foreign "$old"
    reserve_by_hand j-foreign1 mine
    [ "$(put_package j-foreign1 codec codec.so:other.so)" -eq 403 ]
    [ "$(put_package j-foreign1 codec codec.so:other.so codec.c:mine.c codec.json:other.json)" -eq 204 ]
    put_all_but_codec j-foreign1 "$old"
    within 60 is_in_state 0 ready
    grep -q 'codec mine (made for AArch64 by .*) is compiled here' agent0/jobs/j-foreign1/run/node.log
    # A source that does not compile fails the node, with the compiler's own messages.
    api 0 POST /v1/jobs/j-foreign1/cancel -H 'Content-Type: application/json' -d '{}' >/dev/null
    within 60 is_in_state 0 cancelled
    printf '#include "codec.h"\nint x = "y"\n' >broken.c
    jq -c --arg d "$(digest broken.c)" '.source_sha256 = $d' other.json >broken.json
    reserve_by_hand j-foreign2 mine
    [ "$(put_package j-foreign2 codec codec.so:other.so codec.c:broken.c codec.json:broken.json)" -eq 204 ]
    put_all_but_codec j-foreign2 "$old"
    within 60 is_in_state 0 failed
    [ "$(api 0 GET /v1/jobs/j-foreign2 | jq -r .reason)" = CodecLoadFailed ]
    grep -q 'codec.c:2:' agent0/jobs/j-foreign2/run/node.log
}

@test "a built-in codec's object for another machine: its source was shipped, and is the agent's own, too" {
    start_agent 0 --codecs builtin
    write_workers 1
    small_job 1 -q --codec fedavg -o out
    cmp "$ROOT/codecs/fedavg.c" out/codec/fedavg.c
    local old
    old=agent0/jobs/$(only_job 0)/packages
    [ -e "$old/codec.so" ]
    make_foreign "$old"
    reserve_by_hand j-foreign1 fedavg
    [ "$(put_package j-foreign1 codec codec.so:other.so)" -eq 403 ]
    [ "$(put_package j-foreign1 codec codec.so:other.so codec.c:"$old/codec.c" codec.json:other.json)" -eq 204 ]
    put_all_but_codec j-foreign1 "$old"
    within 60 is_in_state 0 ready
    grep -q 'codec fedavg (made for AArch64) is compiled here' agent0/jobs/j-foreign1/run/node.log
}

@test "a codec is found by its name among the user's own, in PSGD_CODEC_PATH and in ./codecs" {
    start_agents 1
    mkdir -p codecs elsewhere
    sed 's/"dummy"/"near"/' "$ROOT/codecs/dummy.c" >codecs/near.c
    sed 's/"dummy"/"far"/' "$ROOT/codecs/dummy.c" >elsewhere/far.c
    small_job 1 -q --codec near -o near
    PSGD_CODEC_PATH=/nowhere:$T/elsewhere small_job 1 -q --codec far -o far
    cmp codecs/near.c near/codec/near.c
    cmp elsewhere/far.c far/codec/far.c
    run small_job 1 --codec far -o no
    [ "$status" -eq 6 ]
}

@test "refusals before anything is shipped are reported without the settings" {
    echo '{"Worker":["127.0.0.1:1"]}' >worker.json
    run small_job 1 --codec dummy -o out
    echo "$output"
    [ "$status" -eq 3 ]
    [ "$(wc -l <<<"$output")" -le 6 ]
    run small_job 1 --codec dummy --batch_size 60000 -o out
    [ "$status" -eq 6 ]
    [ "$(wc -l <<<"$output")" -le 4 ]
}
