#!/bin/sh
# onednn_probe.sh prints which oneDNN the compiler $CC finds, with $CFLAGS and $LDFLAGS:
#   3.7.2            headers of a version that nn/kernels/onednn_api.h supports, and a library that links
#   none             no headers
#   none: SENTENCE   headers, which psgd cannot use for the reason in SENTENCE
# The program it compiles must not be a string in the Makefile: make 4.4 keeps the backslash of "\#", make 4.3 drops it.
set -u
out=
trap 'rm -f ${out:+"$out"}' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
compile() {
    # shellcheck disable=SC2086 # each is a list of arguments
    ${CC:-cc} ${CFLAGS:-} -x c "$@" 2>/dev/null
}

none() {
    echo "none${1:+: $1}"
    exit 0
}

# Whether the library has the functions dnnl_sgemm and $1. dnnl.h is not included: it may be of another version.
links() {
    out=$(mktemp "${TMPDIR:-/tmp}/psgd-onednn-XXXXXX") || return 1
    # shellcheck disable=SC2086 # a list of arguments
    printf 'int dnnl_sgemm(void), %s(void);\nint main(void) { return dnnl_sgemm() + %s(); }\n' "$1" "$1" |
        compile - -o "$out" ${LDFLAGS:-} -ldnnl
}

seen=$(
    compile -E -P - <<'SOURCE'
#if __has_include(<dnnl.h>)
psgd: there
#include <dnnl.h>
psgd: DNNL_VERSION_MAJOR.DNNL_VERSION_MINOR.DNNL_VERSION_PATCH
#endif
SOURCE
)
# Preprocessors differ in the spaces they put around an expanded macro.
version=$(printf '%s\n' "$seen" | tr -d ' ' | sed -n 's/^psgd:\([0-9][0-9.]*\)$/\1/p')
case $version in
2.*) name=dnnl_memory_desc_init_by_tag ;;
3.*) name=dnnl_memory_desc_create_with_tag ;;
?*) none "psgd supports oneDNN 2 and 3, but dnnl.h is of version $version" ;;
'') case $seen in
    *psgd*) none "dnnl.h does not define the version of oneDNN" ;;
    *) none ;;
    esac ;;
esac
links "$name" || none "dnnl.h is of oneDNN $version, but linking with its library (-ldnnl) fails"
echo "$version"
