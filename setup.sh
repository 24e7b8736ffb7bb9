#!/bin/sh
# Installs psgd's missing dependencies with apt; on other systems prints the command that installs them.
#   ./setup.sh         to build and run
#   ./setup.sh test    and to test
# Works as root, or as a user with sudo. A dependency is detected by a trial use, whatever package it is from.
set -eu

# Test | package of apt | dnf | zypper | pacman | apk
# Of names separated by '/' the first one that apt has is used; N is the version of clang. A line that begins with '?' is an
# optional dependency.
to_build='
library stdio.h                   | gcc libc6-dev        | gcc                 | gcc                 | gcc           | gcc musl-dev linux-headers
program make                      | make                 | make                | make                | make          | make
program curl                      | curl                 | curl                | curl                | curl          | curl
library microhttpd.h -lmicrohttpd | libmicrohttpd-dev    | libmicrohttpd-devel | libmicrohttpd-devel | libmicrohttpd | libmicrohttpd-dev
library curl/curl.h -lcurl        | libcurl4-gnutls-dev/libcurl4-openssl-dev | libcurl-devel | libcurl-devel | curl  | curl-dev
library jansson.h -ljansson       | libjansson-dev       | jansson-devel       | libjansson-devel    | jansson       | jansson-dev
library cblas.h -lopenblas        | libopenblas-dev      | openblas-devel      | openblas-devel      | openblas      | openblas-dev
library gnutls/gnutls.h -lgnutls  | libgnutls28-dev      | gnutls-devel        | libgnutls-devel     | gnutls        | gnutls-dev
library nettle/curve25519.h -lhogweed | nettle-dev      | nettle-devel        | libnettle-devel     | nettle        | nettle-dev
library seccomp.h -lseccomp       | libseccomp-dev       | libseccomp-devel    | libseccomp-devel    | libseccomp    | libseccomp-dev
library zlib.h -lz                | zlib1g-dev           | zlib-devel          | zlib-devel          | zlib          | zlib-dev
? library dnnl.h -ldnnl           | libdnnl-dev          | onednn-devel        | onednn-devel        | onednn        |
'
to_test='
program bats                      | bats                 | bats                | bats                | bats          | bats
program readelf                   | binutils             | binutils            | binutils            | binutils      | binutils
program clang                     | clang                | clang               | clang               | clang         | clang
sanitizers                        | clang libclang-rt-N-dev/libclang-common-N-dev | compiler-rt | clang | compiler-rt | compiler-rt
program certtool                  | gnutls-bin           | gnutls-utils        | gnutls              | gnutls        | gnutls-utils
program ip                        | iproute2             | iproute             | iproute2            | iproute2      | iproute2
program jq                        | jq                   | jq                  | jq                  | jq            | jq
library_of_tests cmocka.h -lcmocka | libcmocka-dev       | libcmocka-devel     | libcmocka-devel     | cmocka        | cmocka-dev
program nft                       | nftables             | nftables            | nftables            | nftables      | nftables
program pgrep                     | procps               | procps-ng           | procps              | procps-ng     | procps-ng
program python3                   | python3              | python3             | python3             | python        | python3
python numpy                      | python3-numpy        | python3-numpy       | python3-numpy       | python-numpy  | py3-numpy
program shellcheck                | shellcheck           | ShellCheck          | ShellCheck          | shellcheck    | shellcheck
program valgrind                  | valgrind             | valgrind            | valgrind            | valgrind      | valgrind
? program ld.lld                  | lld                  | lld                 | lld                 | lld           | lld
? mpi openmpi                      | openmpi-bin libopenmpi-dev | openmpi-devel  | openmpi-devel       | openmpi       | openmpi-dev openmpi
? mpi mpich                        | mpich libmpich-dev   | mpich-devel         | mpich-devel         |               |
? program slurmctld                | slurm-wlm munge      | slurm-slurmctld slurm-slurmd slurm munge | slurm slurm-node munge | |
? program strace                   | strace               | strace              | strace              | strace        | strace
? python onnx                     | python3-onnx         | python3-onnx        |                     |               |
? program gnuplot                 | gnuplot-nox          | gnuplot             | gnuplot             | gnuplot       | gnuplot
? program dpkg-shlibdeps          | dpkg-dev             |                     |                     |               |
? program groff                   | groff-base           | groff-base          | groff               | groff         | groff
? python jsonschema               | python3-jsonschema   | python3-jsonschema   | python3-jsonschema  | python-jsonschema | py3-jsonschema
? python pandas                   | python3-pandas       | python3-pandas      | python3-pandas      | python-pandas | py3-pandas
? program clang-format-14         | clang-format-14      |                     |                     |               |
? program chromedriver            | chromium-driver      | chromedriver        | chromedriver        | chromium      | chromium-chromedriver
? program chromium                | chromium             | chromium            | chromium            | chromium      | chromium
'

case ${1:-} in
'') wanted=$to_build ;;
test) wanted=$to_build$to_test ;;
*)
    echo "usage: $0 [test]" >&2
    exit 2
    ;;
esac

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# has KIND WHAT...: whether the dependency works.
has() {
    case $1 in
    program) command -v "$2" ;;
    mpi) "$(dirname "$0")/tests/lib/mpirun_of" "$2" ;;
    # A python3 installed by the user may lack a module that the system's has.
    python) python3 -c "import $2" || /usr/bin/python3 -c "import $2" ;;
    sanitizers) echo 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c - -o "$tmp/probe" ;;
    # cmocka.h needs these headers before it.
    library_of_tests) printf '#include <%s>\n' stdarg.h stddef.h stdint.h setjmp.h "$2" | links "$3" ;;
    library) printf '#include <%s>\n' "$2" | links "${3:-}" ;;
    esac >/dev/null 2>&1
}

# The folder of cblas.h on some systems, as in the Makefile.
links() {
    { cat && echo 'int main(void) { return 0; }'; } |
        ${CC:-cc} -idirafter /usr/include/openblas -x c - -o "$tmp/probe" ${1:+"$1"}
}

# Prints the lines of table $1 whose dependency is missing.
missing() {
    printf '%s\n' "$1" | grep . | while IFS= read -r line; do
        what=${line%%|*}
        # shellcheck disable=SC2086 # a list of arguments
        has ${what#\?} || printf '%s\n' "$line"
    done
}
needed() { printf '%s\n' "$1" | grep -v '^?' || true; }
optional() { printf '%s\n' "$1" | grep '^?' || true; }
# Prints the names in column $2 of the lines $1 on one line, without duplicates.
packages() { printf '%s\n' "$1" | cut -d '|' -f "$2" | tr -s ' ' '\n' | awk 'NF && !seen[$0]++ { printf "%s%s", sep, $0; sep = " " }'; }
# Prints the dependencies of the lines $1, without kinds and options: "curl/curl.h" of "library curl/curl.h -lcurl".
things() { printf '%s\n' "$1" | sed 's/^? //; s/ *|.*//; s/ -l.*//; s/.* //' | tr '\n' ' '; }

is_known() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

# The installed version, else the one that apt would install.
clang_version() {
    if command -v clang >/dev/null; then
        echo __clang_major__ | clang -E -P -x c -
    else
        LC_ALL=C apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p'
    fi
}

# The apt packages of the table's lines $1, without optional ones that apt does not know.
apt_names() { apt_each "$1" | tr '\n' ' ' | sed 's/ $//'; }
apt_each() {
    version=$(clang_version)
    for choice in $(packages "$(needed "$1")" 2); do
        first=
        for name in $(echo "$choice" | sed "s/-N-/-$version-/g; s|/| |g"); do
            first=${first:-$name}
            is_known "$name" && first=$name && break
        done
        echo "$first"
    done
    for name in $(packages "$(optional "$1")" 2); do
        ! is_known "$name" || echo "$name"
    done
}

lacking=$(missing "$wanted")
[ -n "$lacking" ] || exit 0

as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo

by_apt() {
    if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
        echo "setup.sh: this user is not root and sudo is not installed. As root: apt-get install $(apt_names "$lacking")" >&2
        return
    fi
    # Waits for other package managers, such as automatic updates after boot.
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300"
    # The package lists are not fetched for optional dependencies, which some systems never have.
    if [ -n "$(needed "$lacking")" ]; then
        $apt update </dev/null || echo "setup.sh: apt-get update failed; continuing with the present package lists" >&2
    fi
    names=$(apt_names "$lacking")
    if [ -n "$names" ]; then
        echo "setup.sh: installing $names"
        # shellcheck disable=SC2086 # a list of packages
        $apt install -y --no-install-recommends $names </dev/null >/dev/null ||
            echo "setup.sh: that failed. As root: apt-get install $names" >&2
        lacking=$(missing "$wanted")
    fi
}

# by_line COMMAND LINES COLUMN [REMARK]: optional packages have a separate line, because an unknown package makes the whole
# command fail.
by_line() {
    names=$(packages "$2" "$3")
    [ -z "$names" ] || echo "    ${as_root:+$as_root }$1 $names${4:-}"
}

# Uses columns 3 and following.
by_hand() {
    n=3
    for line in 'dnf install' 'zypper install' 'pacman -S --needed' 'apk add'; do
        if command -v "${line%% *}" >/dev/null; then
            echo "setup.sh: this installs what is missing (psgd was not tried on this system):"
            by_line "$line" "$(needed "$lacking")" $n
            by_line "$line" "$(optional "$lacking")" $n '     # optional'
        fi
        n=$((n + 1))
    done
}

if command -v apt-get >/dev/null; then by_apt; else by_hand; fi
left=$(optional "$lacking")
[ -z "$left" ] || echo "setup.sh: optional, not installed: $(things "$left")"
left=$(needed "$lacking")
[ -n "$left" ] || exit 0
echo "setup.sh: still missing: $(things "$left")" >&2
exit 1
