#!/bin/sh
# Installs the Debian packages that psgd needs and this machine lacks, and nothing else.
#   ./setup.sh         to build and run
#   ./setup.sh test    and to test
# Works as root, or as a user with sudo.
set -eu

BUILD_PACKAGES="gcc make libc6-dev libmicrohttpd-dev libcurl4-gnutls-dev libjansson-dev libopenblas-dev libdnnl-dev zlib1g-dev libgnutls28-dev"
TEST_PACKAGES="bats binutils clang clang-format curl git iproute2 jq libclang-rt-14-dev libcmocka-dev nftables procps python3 python3-numpy python3-onnx shellcheck valgrind"

wanted=$BUILD_PACKAGES
case ${1:-} in
'') ;;
test) wanted="$BUILD_PACKAGES $TEST_PACKAGES" ;;
*)
    echo "usage: $0 [test]" >&2
    exit 2
    ;;
esac

is_installed() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'
}

missing=
for p in $wanted; do
    # Either flavour of curl's headers will do.
    if [ "$p" = libcurl4-gnutls-dev ] && is_installed libcurl4-openssl-dev; then
        continue
    fi
    is_installed "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    echo "setup.sh: these packages are missing and neither root nor sudo is at hand:$missing" >&2
    exit 1
fi

echo "setup.sh: installing$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
