#!/usr/bin/env bats
# bats file_tags=check
# setup.sh on other systems: a PATH on which apt, the compilers and the rest are one script, pretend, which knows the
# available packages and their contents.
load lib

# A machine with only a shell and its tools: pretend_machine MANAGER...
pretend_machine() {
    mkdir bin
    : >has
    echo 0 >uid
    for p in sh awk cat cut dirname env grep ln mktemp rm sed tr; do ln -s "$(type -P $p)" bin/; done
    cat >bin/pretend <<'PRETEND'
#!/bin/sh
# One of the programs of a machine, chosen by its name. In $M: packages (apt's packages, and the contents of each), has
# (installed contents), uid, log.
name=${0##*/}
brings() { awk -v p="$1" '$1 == p { $1 = ""; print; found = 1 } END { exit !found }' "$M/packages"; }
here() { grep -qxF "$1" "$M/has"; }
case $name in
id) cat "$M/uid" ;;
sudo)
    echo "sudo $*" >>"$M/log"
    echo 0 >"$M/uid"
    "$@"
    rc=$?
    echo 1000 >"$M/uid"
    exit $rc
    ;;
apt-cache)
    [ -e "$M/lists" ] || exit 0
    case $1 in
    policy) brings "$2" >/dev/null && printf '%s:\n  Installed: (none)\n  Candidate: 1.0-1\n' "$2" ;;
    depends) printf 'clang\n  Depends: clang-%s\n' "$(cat "$M/clang")" ;;
    esac
    ;;
apt-get)
    echo "apt-get $*" >>"$M/log"
    [ "$(cat "$M/uid")" = 0 ] || exit 100
    [ "$DEBIAN_FRONTEND" = noninteractive ] || exit 100
    for word in "$@"; do
        case $word in
        -* | DPkg*) continue ;;
        update) : >"$M/lists" ;;
        install) ;;
        *)
            brought=$(brings "$word") || { echo "E: Unable to locate package $word" >&2; exit 100; }
            for thing in $brought; do
                echo "$thing" >>"$M/has"
                case $thing in *.h | rt | numpy | onnx | pandas | jsonschema) ;; *) ln -s pretend "$M/bin/$thing" ;; esac
            done
            ;;
        esac
    done
    ;;
mpicc.*) echo "psgd: ${name#mpicc.}" ;;
cc | clang)
    case " $* " in
    *' -E '*) cat "$M/clang" && exit ;;
    *-fsanitize=*) here rt || exit 1 ;;
    esac
    for header in $(sed -n 's/^#include <\(.*\)>$/\1/p'); do here "$header" || exit 1; done
    ;;
python3) here "${2#import }" ;;
esac
PRETEND
    chmod +x bin/pretend
    for p in id "$@"; do ln -s pretend "bin/$p"; done
}

# Packages of every system with apt, then those that differ: packages CLANG [LINE...]
packages() {
    echo "$1" >clang
    shift
    {
        cat <<'PACKAGES'
gcc cc
libc6-dev stdio.h stdarg.h stddef.h stdint.h setjmp.h
make make
curl curl
libmicrohttpd-dev microhttpd.h
libcurl4-openssl-dev curl/curl.h
libjansson-dev jansson.h
libopenblas-dev cblas.h
libgnutls28-dev gnutls/gnutls.h
nettle-dev nettle/curve25519.h
libseccomp-dev seccomp.h
zlib1g-dev zlib.h
bats bats
binutils readelf
clang clang
dpkg-dev dpkg-shlibdeps
gnutls-bin certtool
groff-base groff
iproute2 ip
jq jq
libcmocka-dev cmocka.h
nftables nft
openmpi-bin mpirun.openmpi
libopenmpi-dev mpicc.openmpi
mpich mpirun.mpich
libmpich-dev mpicc.mpich
munge munged
procps pgrep
python3 python3
python3-numpy numpy
shellcheck shellcheck
slurm-wlm slurmctld
strace strace
valgrind valgrind
PACKAGES
        printf '%s\n' "$@"
    } >packages
}

# PYTHONHOME: the modules of this machine's python3, which setup.sh asks second, are none of the other's.
setup_sh() { run env -i M="$T" PATH="$T/bin" PYTHONHOME=/nowhere TMPDIR="$T" "$T/bin/sh" "$ROOT/setup.sh" "$@"; echo "$output"; }

@test "setup.sh asks apt which of a package's names exists, and is done when everything works" {
    # Debian 11, 12 and 13, and a system without oneDNN.
    for system in '11|libclang-common-11-dev rt|libcurl4-gnutls-dev curl/curl.h|libdnnl-dev dnnl.h|python3-onnx onnx|python3-pandas pandas' \
        '14|libclang-rt-14-dev rt|libclang-common-14-dev|libcurl4-gnutls-dev curl/curl.h|libdnnl-dev dnnl.h|python3-onnx onnx|python3-pandas pandas|python3-jsonschema jsonschema|gnuplot-nox gnuplot|chromium-driver chromedriver|chromium chromium|lld ld.lld|clang-format-14 clang-format-14' \
        '19|libclang-rt-19-dev rt|libclang-common-19-dev|libcurl4-gnutls-dev curl/curl.h|libdnnl-dev dnnl.h|python3-onnx onnx|python3-pandas pandas' \
        '18|libclang-rt-18-dev rt|libclang-common-18-dev'; do
        rm -rf bin has lists log
        pretend_machine apt-get apt-cache
        IFS='|' read -ra words <<<"$system"
        packages "${words[@]}"
        setup_sh test
        [ "$status" -eq 0 ]
        [ "$(grep -c . log)" -eq 2 ]
        # The second time, nothing is requested.
        setup_sh test
        [ "$status" -eq 0 ]
        [ "$(grep -c . log)" -eq 2 ]
        installed=$(sed -n 's/^apt-get .* --no-install-recommends //p' log)
        case $system in
        11*)
            [[ "$installed" == *'clang libclang-common-11-dev'* ]]
            [[ "$output" == *'optional, not installed: '*'clang-format-14'* ]]
            ;;
        14*)
            [[ "$installed" == *'clang libclang-rt-14-dev gnutls-bin iproute2'* ]]
            [[ "$installed" == *' clang-format-14 '* ]]
            [ -z "$output" ]
            ;;
        19*)
            [[ "$installed" == *'clang libclang-rt-19-dev gnutls-bin iproute2'* ]]
            [[ "$installed" != *'clang-format-14'* ]]
            [[ "$installed" == *'libcurl4-gnutls-dev'* ]]
            ;;
        18*)
            [[ "$installed" == *'libcurl4-openssl-dev'* ]]
            [[ "$installed" != *'libdnnl-dev'* ]]
            [[ "$output" == *'optional, not installed: dnnl.h '* ]]
            ;;
        esac
    done
}

@test "setup.sh installs for building only, as root and by sudo, and only what is missing" {
    pretend_machine apt-get apt-cache sudo
    packages 14 'libdnnl-dev dnnl.h'
    echo 1000 >uid
    for thing in stdio.h microhttpd.h curl/curl.h cblas.h zlib.h; do echo $thing >>has; done
    ln -s pretend bin/cc
    setup_sh
    [ "$status" -eq 0 ]
    [ "$(grep -c '^sudo env DEBIAN_FRONTEND=noninteractive apt-get ' log)" -eq 2 ]
    [ "$(sed -n 's/^apt-get .* --no-install-recommends //p' log)" = 'make curl libjansson-dev libgnutls28-dev nettle-dev libseccomp-dev libdnnl-dev' ]
}

@test "without root and sudo setup.sh prints root's command, and fails only if something is missing" {
    pretend_machine apt-get apt-cache
    packages 14 'libdnnl-dev dnnl.h'
    : >lists
    echo 1000 >uid
    setup_sh
    [ "$status" -eq 1 ]
    [[ "$output" == *'As root: apt-get install gcc libc6-dev make curl libmicrohttpd-dev libcurl4-openssl-dev libjansson-dev libopenblas-dev libgnutls28-dev nettle-dev libseccomp-dev zlib1g-dev libdnnl-dev'* ]]
    [ ! -e log ]
    for thing in stdio.h microhttpd.h curl/curl.h jansson.h cblas.h gnutls/gnutls.h nettle/curve25519.h seccomp.h zlib.h; do echo $thing >>has; done
    ln -s pretend bin/cc
    ln -s pretend bin/make
    ln -s pretend bin/curl
    setup_sh
    [ "$status" -eq 0 ]
    [ ! -e log ]
}

@test "a name unknown to apt is a failure of apt and of setup.sh" {
    pretend_machine apt-get apt-cache
    packages 14
    sed -i '/^zlib1g-dev/d' packages
    setup_sh
    [ "$status" -ne 0 ]
    [[ "$output" == *'Unable to locate package zlib1g-dev'* ]]
    [[ "$output" == *'that failed. As root: apt-get install gcc '*' zlib1g-dev'* ]]
    [[ "$output" == *'still missing: '*'zlib.h'* ]]
}

@test "without apt setup.sh prints the command for dnf, zypper, pacman and apk, and succeeds if everything is installed" {
    while IFS='|' read -r manager line; do
        rm -rf bin has log
        pretend_machine "$manager"
        setup_sh
        [ "$status" -eq 1 ]
        grep -qxF "    $line" <<<"$output"
        # A name unknown to a system fails the whole command: optional packages have one of their own.
        [ "$manager" = apk ] || grep -qE "^    ${line%% gcc*} onednn.* # optional$" <<<"$output"
        echo 1000 >uid
        for thing in stdio.h microhttpd.h curl/curl.h jansson.h cblas.h gnutls/gnutls.h nettle/curve25519.h seccomp.h; do echo $thing >>has; done
        ln -s pretend bin/cc
        ln -s pretend bin/make
        ln -s pretend bin/curl
        setup_sh
        [ "$status" -eq 1 ]
        grep -qE "^    sudo ${manager} [^ ]* .*zlib" <<<"$output"
        [[ "$output" != *jansson* ]]
        echo zlib.h >>has
        setup_sh
        [ "$status" -eq 0 ]
        echo dnnl.h >>has
        setup_sh
        [ "$status" -eq 0 ]
        [ -z "$output" ]
        [ ! -e log ]
    done <<'LINES'
dnf|dnf install gcc make curl libmicrohttpd-devel libcurl-devel jansson-devel openblas-devel gnutls-devel nettle-devel libseccomp-devel zlib-devel
zypper|zypper install gcc make curl libmicrohttpd-devel libcurl-devel libjansson-devel openblas-devel libgnutls-devel libnettle-devel libseccomp-devel zlib-devel
pacman|pacman -S --needed gcc make curl libmicrohttpd jansson openblas gnutls nettle libseccomp zlib
apk|apk add gcc musl-dev linux-headers make curl libmicrohttpd-dev curl-dev jansson-dev openblas-dev gnutls-dev nettle-dev libseccomp-dev zlib-dev
LINES
}

@test "setup.sh on an unknown system prints what is missing" {
    pretend_machine
    setup_sh
    [ "$status" -eq 1 ]
    [[ "$output" == *'still missing: stdio.h make curl microhttpd.h'* ]]
    setup_sh all
    [ "$status" -eq 2 ]
}

@test "docs/install.md names every package that setup.sh requests" {
    local doc name n=0
    doc=$(<"$ROOT/docs/install.md")
    # shellcheck disable=SC2013 # words, not lines
    for name in $(sed -n "/^to_build=/,/^case/p" "$ROOT/setup.sh" | grep '|' | grep -v '^#' | cut -d '|' -f 2- | tr '|/' '  '); do
        [[ $doc == *"\`$name\`"* ]]
        n=$((n + 1))
    done
    [ "$n" -gt 100 ]
}
