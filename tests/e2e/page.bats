#!/usr/bin/env bats
# bats file_tags=check
# The page in headless Chromium, driven through chromedriver by tests/lib/webdriver.py: real jobs, real clicks.
bats_require_minimum_version 1.5.0
load lib.bash

# in_browser SCENARIO ARGUMENT...: of page.py; skips where there is no browser.
in_browser() {
    run limited python3 "$ROOT/tests/e2e/page.py" "$T/browser" "$@"
    [ "$status" -ne 77 ] || { end_pages && skip "$output"; }
    if [ "$status" -ne 0 ]; then
        echo "$output"
        return 1
    fi
}

has_browser() {
    command -v chromedriver >/dev/null || skip "chromedriver is not installed"
}

# serve DIR: URL is the page's address.
serve() {
    "$SUBMIT" browse --no-open "$1" >url 3>&- &
    HOLDERS+=($!)
    within 60 test -s url
    URL=$(head -1 url)
    rm url
}

# In place of kill -9 by the test's end, or of end_process, whose second SIGTERM ends job_submit at once: after either the
# folder for temporary files would be left.
end_pages() {
    local pid
    for pid in "${HOLDERS[@]}"; do kill "$pid" 2>/dev/null && { wait "$pid" || true; }; done
    HOLDERS=()
}

made() { python3 "$ROOT/tests/e2e/page.py" - "$@"; }

@test "jobs are listed live, searched, compared and cancelled; an agent's own page shows its jobs, and asks for a token" {
    has_browser
    start_agents 2
    local common="--node_count 2 --dataset digits:train=1280,test=200 --model mlp-tutorial"
    # shellcheck disable=SC2086
    for lr in 0.05 0.1; do
        $SUBMIT $common --epochs 1 --codec fedavg --learn_rate $lr --name "run-$lr" -o "logs/$lr" >out.txt 2>&1
    done
    paced fedavg # the browser needs the processors
    # shellcheck disable=SC2086
    $SUBMIT $common --epochs 100000 --codec gated.c --round-timeout "$TEST_LIMIT" --name endless -o logs/endless >endless.txt 2>&1 3>&- &
    local endless=$!
    HOLDERS+=("$endless")
    within 60 is_in_state 0 running
    # shellcheck disable=SC2086
    $SUBMIT -q $common --epochs 1 --codec fedavg --name patient -o logs/patient --detach >patient.txt 2>&1
    serve logs
    in_browser queued "$URL" patient -- live "$URL" run-0.05 run-0.1 endless -- agent "http://127.0.0.1:${PORTS[0]}/" run-0.1 "$(cat "$T/agent0/token")"
    local status=0
    wait "$endless" || status=$?
    [ "$status" -eq 8 ]
    end_pages
}

@test "a sweep: its best combinations, filtered, sorted and compared; runs are grouped, hidden, deleted, and have notes" {
    has_browser
    "$SUBMIT" sweep -q --simulate --set codec=fedavg,allreduce --set lr=0.2,0.5 --repeat 2 --best-of lr --node_count 2 --epochs 1 \
        --dataset digits:train=1280,test=200 --model softmax --eval-every 5 -o logs/rates >/dev/null 2>&1
    "$SUBMIT" sweep -q --simulate --search halving --set codec=fedavg,allreduce --set lr=0.1,0.2,0.5 --best-of lr --node_count 2 --epochs 2 \
        --dataset digits:train=1280,test=200 --model softmax --eval-every 5 -o logs/halved >/dev/null 2>&1
    serve logs
    in_browser sweep "$URL" rates "$PWD/logs/rates/sweep.csv" -- halved "${URL%\?*}" halved "$PWD/logs/halved/sweep.csv" -- lived "${URL%\?*}" "$PWD/logs/rates/runs"
    end_pages
}

@test "every view passes axe in light and dark, can be used by keys, shows hostile names as text; report.html sends no request" {
    has_browser
    made results logs/hostile j-hostile0001 j-other00001
    (cd logs && "$SUBMIT" report hostile)
    made many-results many/rows j-many000001
    serve many
    local many=$URL
    serve logs
    in_browser many "$many" j-many000001 -- report "$PWD/logs/hostile/report.html" -- views "$URL" j-hostile0001 j-other00001
    end_pages
}
