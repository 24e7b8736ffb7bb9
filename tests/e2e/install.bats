#!/usr/bin/env bats
# bats file_tags=check
# Files that make install and the package put into a system work from any folder, and are removed again.
# shellcheck disable=SC2030,SC2031,SC2164 # subshells have the trees; a failed cd ends a test
load lib

# An installed tree in $1, with its programs in PATH and nothing else of psgd. The functions of lib.bash,
# which need a build, take the tree's folder of programs for it.
enter_tree() {
    PATH=$T/$1/usr/bin:/usr/bin:/bin
    BUILD=$T/$1/usr/lib/psgd
    mkdir "$T/empty-$1"
    cd "$T/empty-$1"
}

# A job of two nodes by a built-in codec, and one by a codec that is compiled.
run_jobs() {
    psgd submit -q --codec fedavg --node_count 2 --epochs 1 --model softmax --dataset digits:train=2560,test=400 -o built-in
    printf '#include "codec.h"\nstatic const struct codec_combine mine = {.when = CODEC_EACH_ROUND};\n%s\n' \
        'CODEC_PLUGIN(.name = "mine", .source = "test", .combine = &mine)' >mine.c
    job_submit -q --codec mine.c --node_count 2 --epochs 1 --model softmax --dataset digits:train=2560,test=400 -o mine
    [ "$(jq -r .state built-in/run.json mine/run.json | sort -u)" = succeeded ]
}

here() { # here GOAL... [NAME=VALUE...]
    (cd "$ROOT" && make -s BUILD="$BUILD" "$@")
}

# As make uninstall, which is tried once, but without looking whether something is to be made.
remove_from() { (cd "$ROOT" && BUILD=$BUILD DESTDIR=$1 PREFIX=$2 packaging/install --remove); }

setup_file() {
    # Made once: here, where nothing else makes in the same folder.
    (cd "$BATS_TEST_DIRNAME/../.." && make -s BUILD="${BUILD:-build}" manual)
}

@test "an installed tree runs jobs from an empty folder, and nothing of it is left when it is removed" {
    command -v cc >/dev/null || skip "no C compiler"
    local from=$BUILD
    here install DESTDIR="$T/tree" PREFIX=/usr
    (
        enter_tree tree
        [ "$(psgd-agent --help | head -1)" = "usage: psgd-agent [--port N] [--bind ADDRESS] [--dir DIR] [options]" ]
        [ "$(psgd agent --version)" = "$(psgd-agent --version)" ]
        local version
        version=$(job_submit --version | cut -d ' ' -f 2)
        [ "$(psgd --version)" = "psgd $version" ]
        [ "$(psgd version)" = "psgd $version" ]
        # The module for Python, in a folder of the system's python3, finds job_submit in its own tree.
        local module
        module=$(cd "$T/tree" && find . -path '*/psgd/__init__.py')
        module=${module#.}
        ! [ -x /usr/bin/python3 ] || [[ " $(/usr/bin/python3 -I -c 'import site; print(*site.getsitepackages())') " == *" ${module%/psgd/*} "* ]]
        export PYTHONPATH=$T/tree${module%/psgd/*}
        PATH=/nowhere run "$(command -v python3)" -m psgd --version
        [ "$output" = "psgd $version
job_submit $version at $T/tree/usr/bin/job_submit" ]
        [ "$(python3 -m psgd help version)" = "$(psgd help version)" ]
        [ "$(python3 -m psgd codecs show none-such 2>&1 || echo "status $?")" = "$(psgd codecs show none-such 2>&1 || echo "status $?")" ]
        psgd --help >help # the verbs, then the options of submit
        [ "$(grep -nx 'Train:' help | cut -d : -f 1)" -lt "$(grep -nx 'The job:' help | cut -d : -f 1)" ]
        start_agent 0
        start_agent 1
        write_workers 2
        run_jobs
        psgd simulate -q --codec fedavg --node_count 3 --epochs 1 --gradients 10 -o simulated # each helper is found
        psgd codecs test mine.c --check ends
        psgd predict built-in -q -o predictions.csv
        stop_agents
    )
    # An example, whose agents run no codec of a user's without isolation, and the headers for a compiler.
    (
        isolation_needs
        [ ${#UNISOLATED[@]} -eq 0 ] || exit 0
        unset BUILD
        PATH=$T/tree/usr/bin:/usr/bin:/bin limited "$T/tree/usr/share/doc/psgd/examples/zeromq-easgd/run" >example
    )
    if command -v pkg-config >/dev/null; then
        printf '#include "codec.h"\n' >includes.c
        # shellcheck disable=SC2046 # options
        cc -fsyntax-only $(PKG_CONFIG_SYSROOT_DIR=$T/tree PKG_CONFIG_PATH=$T/tree/usr/share/pkgconfig \
            PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 pkg-config --cflags psgd-codec) includes.c
    fi
    case $from in */asan | */tsan) local is_plain= ;; *) local is_plain=1 ;; esac # the library needs the sanitizer's, too
    if [ -n "$is_plain" ] && command -v pkg-config >/dev/null; then
        # shellcheck disable=SC2046 # options
        cc "$T/tree/usr/share/doc/psgd/examples/trainers/linear.c" -o linear \
            $(PKG_CONFIG_SYSROOT_DIR=$T/tree PKG_CONFIG_PATH=$T/tree/usr/share/pkgconfig \
                PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs psgd-trainer)
        [[ "$(limited ./linear)" == 'w '* ]]
    fi
    BUILD=$from
    touch "$T/tree/usr/lib/psgd/codecs/own.so" # somebody's own
    remove_from "$T/tree" /usr 2>said
    [[ "$(<said)" == *"$T/tree/usr/lib/psgd is not psgd's alone, and stays"* ]]
    [ "$(find "$T/tree" ! -type d)" = "$T/tree/usr/lib/psgd/codecs/own.so" ]
    rm "$T/tree/usr/lib/psgd/codecs/own.so"
    remove_from "$T/tree" /usr
    [ -z "$(find "$T/tree" ! -type d -o -name '*psgd*')" ]
}

@test "folders are chosen one by one, and names may have spaces" {
    here install DESTDIR="$T/a b" PREFIX="/opt/p s" LIBDIR="/opt/p s/lib64/multi" MANDIR=/man
    [ -e "$T/a b/man/man1/psgd.1" ]
    [ "$(readlink -f "$T/a b/opt/p s/bin/job_submit")" = "$T/a b/opt/p s/lib64/multi/psgd/job_submit" ]
    "$T/a b/opt/p s/bin/psgd" codecs show fedavg >shown
    [ -r "$T/a b/opt/p s/lib64/multi/psgd/include/codec.h" ] # found beside the programs
    here uninstall DESTDIR="$T/a b" PREFIX="/opt/p s" LIBDIR="/opt/p s/lib64/multi" MANDIR=/man
    [ -z "$(find "$T/a b" ! -type d)" ]
}

# bats test_tags=long
@test "the package, unpacked, runs jobs too" {
    command -v dpkg-shlibdeps >/dev/null || skip "dpkg-dev is not installed"
    local package
    package=$(DEBEMAIL=psgd@debian.org here deb)
    dpkg-deb -x "$package" deb
    [ "$(dpkg-deb -f "$package" Version)" = "$("$BUILD/job_submit" version | cut -d ' ' -f 2)" ]
    [[ "$(dpkg-deb -f "$package" Depends)" == *libmicrohttpd*libopenblas* ]]
    local object
    for object in deb/usr/lib/psgd/codecs/fedavg.so deb/usr/lib/psgd/transports/*.so; do
        [ ! -e "$object" ] || [ "$(readelf -S --wide "$object" | grep -c '\.symtab')" -eq 0 ]
    done
    [ -r deb/usr/lib/python3/dist-packages/psgd/__init__.py ]
    cmp deb/etc/default/psgd-agent "$ROOT/packaging/psgd-agent.default"
    # The package's scripts need root, so that only their syntax is checked.
    dpkg-deb -e "$package" control
    local script
    for script in postinst prerm postrm; do sh -n "control/$script"; done
    [ "$(<control/conffiles)" = /etc/default/psgd-agent ]
    if command -v lintian >/dev/null; then
        TMPDIR=$T lintian --allow-root "$package" >complaints || true
        cat complaints
        [ ! -s complaints ]
    fi
    rm "$package"
    enter_tree deb
    start_agent 0
    start_agent 1
    write_workers 2
    run_jobs
    stop_agents
}

@test "the service has the permissions that an agent and its nodes need, and few others" {
    command -v systemd-analyze >/dev/null || skip "no systemd"
    local unit=$T/psgd-agent.service
    sed "s|@BINDIR@|$BUILD|; s|psgd-agent --dir|agent --dir|; s|@DOCDIR@|/usr/share/doc/psgd|; /^Documentation/d" \
        "$ROOT/packaging/psgd-agent.service.in" >"$unit"
    systemd-analyze verify "$unit" 2>said || true
    ! grep -F psgd-agent.service said || false # only of this unit: the system's own may have faults
    # The package's file for /etc/default/psgd-agent has options that the agent accepts.
    grep -qx 'EnvironmentFile=-/etc/default/psgd-agent' "$unit"
    # shellcheck disable=SC1091,SC2086 # made by this project; a list of options
    (. "$ROOT/packaging/psgd-agent.default" && [ -n "$PSGD_AGENT_OPTIONS" ] && "$BUILD/agent" $PSGD_AGENT_OPTIONS --version)
    systemd-analyze security --help | grep -q -- --offline || skip "this systemd analyses running services only"
    systemd-analyze security --offline=true --threshold=20 "$unit" >shown || { tail -1 shown && false; }
}

@test "manual pages and completions have no fault" {
    local page shown
    cd "$BUILD/manual/man"
    for page in */*; do
        if command -v groff >/dev/null; then
            shown=$(groff -man -ww -Tutf8 -z "$page" 2>&1)
            [ -z "$shown" ] || { echo "$page: $shown" && false; }
        fi
    done
    cd "$T"
    grep -q 'PSGD_WORKERS' "$BUILD/manual/man/man1/job_submit.1"
    bash -n "$BUILD/manual/bash/job_submit"
    ! command -v zsh >/dev/null || zsh -n "$BUILD/manual/zsh/_job_submit"
    ! command -v fish >/dev/null || fish --no-execute "$BUILD/manual/fish/job_submit.fish"
}

# completes EXPECTED WORD...: bash offers that for the last word.
completes() {
    local expected=$1
    shift
    run bash -c '. "$1"; shift
        compopt() { :; }
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        function_of=$(complete -p "$1" | sed "s/.*-F \([^ ]*\) .*/\1/")
        $function_of "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[*]}"' - "$BUILD/manual/bash/job_submit" "$@"
    [ "$output" = "$expected" ] || { echo "$*: $output" && false; }
}

@test "bash completes verbs, options, their values, and jobs" {
    completes 'submit simulate sweep status snapshot' job_submit s
    completes 'agent agents' psgd ag
    completes '--node_count' job_submit --node-c
    completes '--follow' job_submit logs --fo
    completes 'adam adamw adagrad adadelta' job_submit --gradient-descent ad
    completes 'fedprox' job_submit submit --codec = fedpr
    completes 'fedavg,diloco' job_submit sweep --set codec = fedavg,dil
    completes 'list show test new' job_submit codecs ''
    completes 'predict' job_submit help pre
    completes 'softmax' job_submit --model softm
    completes 'topk' job_submit --compress to
    completes 'accuracy' job_submit plot --y acc
    completes '--require-isolation' psgd agent --requ
    completes 'token' psgd-agent t
    completes '--expires' psgd-agent token add ann --ex
    mkdir -p "$XDG_STATE_HOME/psgd/jobs"
    touch "$XDG_STATE_HOME/psgd/jobs/j-1aaa.json" "$XDG_STATE_HOME/psgd/jobs/j-2bbb.json"
    completes 'j-2bbb' job_submit status j-2
    touch weights.safetensors
    completes 'weights.safetensors' job_submit predict wei
    # The TAB key, in a terminal.
    python3 - "$BUILD/manual/bash/job_submit" <<'PY'
import os, pty, select, signal, sys, time

shell, terminal = pty.fork()
if shell == 0:
    os.environ.update(TERM="dumb", PS1="> ", HISTFILE="")
    os.execlp("bash", "bash", "--norc", "--noprofile", "-i")
seen = b""

def wait_for(text):
    global seen
    end = time.monotonic() + 60
    while text not in seen:
        assert time.monotonic() < end and select.select([terminal], [], [], 60)[0], seen
        seen += os.read(terminal, 4096)

os.write(terminal, b". '%s'; echo rea''dy\n" % os.fsencode(sys.argv[1]))
wait_for(b"ready\r")
os.write(terminal, b"psgd simu\t--stra\t")
wait_for(b"psgd simulate --straggler")
os.kill(shell, signal.SIGKILL)
os.waitpid(shell, 0)
PY
}

@test "the newest version in CHANGELOG.md is the programs'" {
    [ "$(sed -n 's/^## \([0-9][0-9.]*\)$/\1/p' "$ROOT/CHANGELOG.md" | head -1)" = "$("$BUILD/job_submit" version | cut -d ' ' -f 2)" ]
}

@test "the container is built where there is a builder and its base" {
    local builder
    builder=$(command -v podman || command -v buildah) || skip "neither podman nor buildah is installed"
    "$builder" images -q docker.io/library/debian:12-slim 2>/dev/null | grep -q . || skip "debian:12-slim is not here, and tests fetch nothing"
    "$builder" build --pull=never -f "$ROOT/packaging/Containerfile" "$ROOT"
}
