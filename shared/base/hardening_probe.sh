#!/bin/sh
# hardening_probe.sh CACHE prints the hardening options that the compiler $CC accepts without a warning beside $CFLAGS,
# $SANITIZE and $LDFLAGS: those of compilation, then those of linking (-Wl... and -pie). Each is tried by use, as
# versions of gcc and clang know different ones. The answer is kept in the file CACHE, for this compiler and these options.
set -u
cache=$1
key="$(${CC:-cc} --version 2>/dev/null | head -n 1)|${CC:-cc}|${CFLAGS:-}|${SANITIZE:-}|${LDFLAGS:-}"
if [ -r "$cache" ]; then
    { IFS= read -r known && IFS= read -r answer; } <"$cache"
    [ "$known" = "$key" ] && echo "$answer" && exit 0
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/psgd-hardening-XXXXXX") || exit 0
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
cat >"$dir/probe.c" <<'SOURCE'
#include <stdio.h>
#include <string.h>
#if defined _FORTIFY_SOURCE && !defined __OPTIMIZE__
#error the checks need an optimizing compiler
#endif

int main(int argc, char **argv)
{
    char text[64];

    strncpy(text, argv[argc - 1], sizeof text - 1);
    text[sizeof text - 1] = '\0';
    return puts(text) < 0;
}
SOURCE

# Whether it compiles and links with these options before the user's, which win.
accepts() {
    # shellcheck disable=SC2086 # lists of arguments
    ${CC:-cc} -Werror "$@" ${CFLAGS:-} ${SANITIZE:-} -c "$dir/probe.c" -o "$dir/probe.o" </dev/null >/dev/null 2>&1
}
links() {
    # shellcheck disable=SC2086 # lists of arguments
    ${CC:-cc} -Werror ${CFLAGS:-} ${SANITIZE:-} "$@" ${LDFLAGS:-} "$dir/probe.o" -o "$dir/probe" </dev/null >/dev/null 2>&1
}

options=
add() { options="${options:+$options }$*"; }

for option in -fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard -ftrivial-auto-var-init=zero; do
    accepts "$option" && add "$option"
done
# A sanitizer checks the plain functions, not their fortified forms. -U: distributions' compilers define it, too.
case " ${CFLAGS:-} ${SANITIZE:-} " in
*' -fsanitize='*) ;;
*) for level in 3 2; do
    accepts -U_FORTIFY_SOURCE "-D_FORTIFY_SOURCE=$level" && add -U_FORTIFY_SOURCE "-D_FORTIFY_SOURCE=$level" && break
done ;;
esac
if accepts -fPIC; then
    for option in -Wl,-z,relro,-z,now -Wl,-z,noexecstack -pie; do
        links "$option" && add "$option"
    done
fi
mkdir -p "$(dirname "$cache")" && printf '%s\n' "$key" "$options" >"$cache"
echo "$options"
