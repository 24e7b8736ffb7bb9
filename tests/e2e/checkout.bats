#!/usr/bin/env bats
# bats file_tags=check
# A copy of the source tree, and folders of agents, whose paths have a space and non-ASCII letters.
load lib

# Build outputs are copied with the source and its time stamps, so that make has little to do in the new folder.
copy_of_tree() {
    case $BUILD in */asan | */tsan) skip "this is a sanitizer's build" ;; esac
    TREE="$T/a b é/psgd 日本"
    mkdir -p "$TREE/build/obj/tests"
    (cd "$ROOT" && cp -a Makefile ./*.md LICENSE worker.json.example agent codecs docs examples nn packaging shared sim submit tests "$TREE/")
    (cd "$BUILD" && cp -a ./*.a page.html onednn hardening hardening.cache agent codec_check job_runner job_submit predictor simulator codecs include models "$TREE/build/")
    (cd "$BUILD/obj" && cp -a agent codecs nn shared sim submit "$TREE/build/obj/")
    cd "$TREE" || return
    export -n BUILD # or make and demo.sh would inherit the other one's
}

make_here() {
    run limited env -u MAKEFLAGS -u MAKELEVEL make "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# bats test_tags=long
@test "a checkout whose path has a space or non-ASCII letters builds, installs and trains" {
    copy_of_tree
    # Rebuilds one library of each program, two programs and a codec, and no more than that.
    touch submit/codecs/codec_find.c agent/agent_open.c
    rm build/codecs/fedavg.so
    make_here
    [ "$(grep -c '^  CC ' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^  LINK ' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^  CODEC ' <<<"$output")" -eq 1 ]
    # The same folder by its absolute path; another by a relative one, and by one without a space elsewhere.
    make_here BUILD="$TREE/build"
    [[ "$output" != *'  CC '* ]]
    [[ "$output" != *'  LINK '* ]]
    make_here -C codecs/.. BUILD=other/one other/one/obj/shared/base/err.o
    [ -s other/one/obj/shared/base/err.o ]
    make_here BUILD="$T/elsewhere" "$T/elsewhere/obj/shared/base/err.o"
    [ -s "$T/elsewhere/obj/shared/base/err.o" ]
    run limited env -u MAKEFLAGS -u MAKELEVEL make BUILD="$T/el se"
    [ "$status" -ne 0 ]
    [[ "$output" == *'must not contain a space'* ]]
    make_here -s install DESTDIR="$T/in stalled" PREFIX=/usr
    # Agents in folders with a space.
    mkdir "$T/temp orary"
    run limited env TMPDIR="$T/temp orary" "$T/a b é/psgd 日本/submit/demo.sh" -o "$T/out put"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -s "$T/out put/model/final.safetensors" ]
    [ -z "$(ls "$T/temp orary")" ]
}

@test "agents, a user's codec and its headers in paths with a space" {
    copy_of_tree
    BUILD=$TREE/build
    SUBMIT=$BUILD/job_submit
    T="$T/a b é" # where start_agents has the agents' folders
    start_agents 2
    sed 's/"plain"/"mine"/' codecs/plain.c >"my codec.c"
    run "$SUBMIT" --workers worker.json --codec "./my codec.c" --node_count 2 --epochs 1 --model softmax --dataset digits:train=1280,test=200 -o "res ult"
    stop_agents
    T=${T%/*}
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(jq -r .state "res ult/run.json")" = succeeded ]
}
