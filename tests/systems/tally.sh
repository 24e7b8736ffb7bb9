# Sourced by this folder's scripts. $T is their temporary folder; the output of a check goes to $T/log.
# shellcheck shell=sh
passed=0
failed=0

check() { # check WHAT COMMAND...: prints a line of result, and the log if it fails
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

end_checks() { # prints the totals; fails if a check failed, or there was none
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
}
