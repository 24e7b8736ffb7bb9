# slurm.bash -- a Slurm cluster of four virtual hosts, for all tests of a script: tests/lib/slurm_cluster. Without root, network
# namespaces and Slurm the tests are skipped.
# shellcheck shell=bash

CLUSTER=$ROOT/tests/lib/slurm_cluster

setup_file() {
    "$CLUSTER" missing >"$BATS_FILE_TMPDIR/missing" || return 0
    "$CLUSTER" up "$BATS_FILE_TMPDIR/cluster" 4 8 3>&- || { "$CLUSTER" down "$BATS_FILE_TMPDIR/cluster" && return 1; }
}

teardown_file() {
    "$CLUSTER" down "$BATS_FILE_TMPDIR/cluster"
}

needs_slurm() {
    [ ! -s "$BATS_FILE_TMPDIR/missing" ] || skip "a cluster of virtual hosts needs $(cat "$BATS_FILE_TMPDIR/missing")"
}

# on_login COMMAND...: on the cluster's login host, with psgd's programs in PATH.
on_login() { limited env PATH="$BUILD:$PATH" "$CLUSTER" in "$BATS_FILE_TMPDIR/cluster" "$@" 3>&-; }
