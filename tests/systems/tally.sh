# To be sourced: checks of this folder's scripts. $T is their temporary folder; stdout and stderr of a check go to $T/log.
# shellcheck shell=sh
passed=0
failed=0

check() { # check WHAT COMMAND...: its line of result; the log of one that fails
    what=$1
    shift
    if "$@" >"$T/log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        echo "ok     $what"
    else
        failed=$((failed + 1))
        echo "FAILED $what"
        sed 's/^/    /' "$T/log"
    fi
}

end_checks() { # the closing line; fails where a check did, or there was none
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
}
