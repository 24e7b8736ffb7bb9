#!/usr/bin/env bats
# bats file_tags=check
# The checker of I1 to I12 (docs/reliability.md), and the loops of `make soak`, each with few kills.
# Takes about 2 minutes.
load lib

@test "the history checker finds each invariant that is broken on purpose" {
    limited python3 "$ROOT/tests/soak/test_check_history.py"
}

@test "the history of a job has no violation, and one byte less of a file that was seen is one" {
    start_agents 2
    "$SUBMIT" -q --codec plain --node_count 2 --model softmax --epochs 1 --checkpoint-every 1 --dataset "$FEW" -o out
    local rows sum
    rows=agent0/jobs/$(only_job 0)/run/train.csv
    sum=$(sha256sum <"$rows")
    jq -nc --arg job "$(only_job 0)" --arg sum "${sum%% *}" --argjson n "$(stat -c %s "$rows")" \
        '{seen:"rows",agent:"agent0",job:$job,file:"train.csv",bytes:$n,sha256:$sum}' >seen.jsonl
    python3 "$ROOT/tests/tool/check_history.py" "$T"
    truncate -s -1 "$rows"
    run python3 "$ROOT/tests/tool/check_history.py" "$T"
    [ "$status" -eq 1 ]
    [[ "$output" == *"I1: seen.jsonl:1: the first "* ]]
}

# kills ROLE N: N kills of that program, after each of which nothing is lost or left.
kills() {
    BUILD=$BUILD limited python3 "$ROOT/tests/soak/kills.py" "$1" "$2" "$T/report.json" || {
        cat report.json
        return 1
    }
    [ "$(jq .kills report.json)" -ge "$2" ]
    echo "# $1: $(jq -r '"\(.kills) kills, \(.rows) rows acknowledged, \(.compared) jobs compared"' report.json)" >&3
}

# bats test_tags=long
@test "an agent is killed: everything that it acknowledged is there after its restart, and running jobs continue" { kills agent 5; }

# bats test_tags=long
@test "an agent is killed at each write of its journal around the start: a job that runs on all nodes continues" {
    PSGD_POINTS=$(printf 'fdatasync/journal.jsonl@after:%d ' 11 12 13 13 13 14) kills agent 6
}

@test "a runner is killed while it trains: its job is resumed to the same bits, and no file is left" {
    local n=2
    ! is_long || n=4
    kills runner $n
}
# bats test_tags=long
@test "a runner is killed before its first steps: its job fails with the reason of one that trains" { kills starting 10; }

# bats test_tags=long
@test "a server is killed: its job is resumed to the same bits, and no file is left" { kills server 4; }

# bats test_tags=long
@test "the submitter is killed: its job continues or ends, and no file or slot is left" { kills submitter 5; }

@test "queued jobs of two users, while agents restart and processes of the queue are killed: none is lost, none runs twice" {
    BUILD=$BUILD TMPDIR=$T PYTHONDONTWRITEBYTECODE=1 limited python3 "$ROOT/tests/soak/queue" 4 1 6
}

@test "a training program, its runner or its monitor is killed or stopped: a sentence says so, and nothing is left" {
    local n=5
    ! is_long || n=22
    BUILD=$BUILD limited python3 "$ROOT/tests/soak/strikes.py" $n "$T/report.json" || {
        cat report.json
        return 1
    }
    [ "$(jq .strikes report.json)" -ge $n ]
    echo "# $(jq -r '"\(.strikes) strikes, slowest \(.slowest_s)"' report.json)" >&3
}

# bats test_tags=long
@test "the power fails: an agent that is started on the files that are left has everything that it acknowledged" {
    mkdir power
    limited python3 "$ROOT/tests/soak/power.py" "$BUILD" "$T/power" "$T/report.json" --sample 40
    [ "$(jq .moments report.json)" -eq 40 ]
    [ "$(jq '.violations | length' report.json)" -eq 0 ]
}

@test "calls of an agent, of a runner and of job_submit fail: nothing acknowledged is lost, and no program hangs" {
    local seconds=5 # for those that are drawn first
    ! is_long || seconds=25
    mkdir faults
    limited python3 "$ROOT/tests/soak/faults.py" "$BUILD" "$T/faults" "$T/report.json" --every 100 --seconds $seconds \
        --calls write,sync,rename,open,accept,fork,pipe,connect
    [ "$(jq .cases report.json)" -ge 1 ]
    [ "$(jq '.violations | length' report.json)" -eq 0 ]
}

@test "the tests that docs/reliability.md and docs/ancestors.md name exist" {
    local doc name file n tests
    tests=$(cd "$ROOT/tests" && grep -oE '^@test ".*" \{|^TEST\(.*\)$' e2e/*.bats unit/*/*.c suite/*.c | sed 's|^.*/||')
    for doc in reliability ancestors; do
        n=0
        while read -r file name; do
            n=$((n + 1))
            case $file in
            *.bats:) [[ $tests == *"$file@test \"$name"* ]] ;;
            *) [[ $tests == *"${file%:}.c:TEST($name)"* ]] ;;
            esac || { echo "docs/$doc.md: no test $file $name" && false; }
        done < <(grep -oE '`(test_[a-z_]+|[a-z_]+\.bats): [^`]+`' "$ROOT/docs/$doc.md" | tr -d '`')
        [ $n -gt 30 ]
    done
}

@test "docs/reliability.md has the executions of each fuzz target, and their sum" {
    diff <(cd "$ROOT/tests/fuzz" && printf '%s\n' fuzz_*.c | sed 's/\.c$//') <(sed -n 's/^| `\(fuzz_[a-z_]*\)` .*/\1/p' "$ROOT/docs/reliability.md")
    run awk -F'[|]' '/^\| `fuzz_/ { gsub(",", "", $3); n += $3; findings += $4 }
                     /^\| all / { gsub(",", "", $3); print (n == $3 + 0 && findings == $4 + 0), NR }' "$ROOT/docs/reliability.md"
    echo "$output"
    [[ "$output" == '1 '* ]]
}
