#!/usr/bin/env bats
# The page in headless Chromium, driven through chromedriver by tests/lib/webdriver.py: real jobs, real clicks.
bats_require_minimum_version 1.5.0
load lib.bash

# in_browser SCENARIO ARGUMENT...: of page.py; skips where there is no browser.
in_browser() {
    run limited python3 "$ROOT/tests/e2e/page.py" "$T/browser" "$@"
    [ "$status" -ne 77 ] || skip "$output"
    if [ "$status" -ne 0 ]; then
        echo "$output"
        return 1
    fi
}

has_browser() {
    command -v chromedriver >/dev/null || skip "chromedriver is not installed"
}

# serve DIR: URL is the page's address; BROWSE its process.
serve() {
    "$SUBMIT" browse --no-open "$1" >url 3>&- &
    HOLDERS+=($!)
    within 60 test -s url
    URL=$(head -1 url)
}

made() { python3 "$ROOT/tests/e2e/page.py" - "$@"; }

@test "jobs are listed live, searched, compared and cancelled" {
    has_browser
    start_agents 2
    local common="--node_count 2 --dataset digits --model mlp-tutorial"
    # shellcheck disable=SC2086
    for lr in 0.05 0.1; do
        $SUBMIT $common --epochs 1 --codec fedavg --learn_rate $lr --name "run-$lr" -o "logs/$lr" >out.txt 2>&1
    done
    # shellcheck disable=SC2086
    $SUBMIT $common --epochs 10000 --codec fedavg --name endless -o logs/endless >endless.txt 2>&1 3>&- &
    local endless=$!
    HOLDERS+=("$endless")
    serve logs
    in_browser live "$URL" run-0.05 run-0.1 endless
    local status=0
    wait "$endless" || status=$?
    [ "$status" -eq 8 ]
}

@test "every view passes axe in light and dark, can be used by keys, and shows hostile names as text" {
    has_browser
    made results logs/hostile j-hostile0001 j-other00001
    serve logs
    in_browser views "$URL" j-hostile0001 j-other00001
}

@test "a million rows of 32 nodes open, and a part of them" {
    has_browser
    made many-results logs/many j-many000001
    serve logs
    in_browser many "$URL" j-many000001
}

@test "report.html shows a job from its file, and asks nobody" {
    has_browser
    made results hostile j-hostile0001 j-other00001
    "$SUBMIT" report hostile
    in_browser report "$PWD/hostile/report.html"
}

@test "an agent's own page shows its jobs, and asks for a token" {
    has_browser
    start_agents 2
    "$SUBMIT" --node_count 2 --dataset digits --model mlp-tutorial --epochs 1 --codec fedavg --name ended -o ended >out.txt 2>&1
    in_browser agent "http://127.0.0.1:${PORTS[0]}/" ended "$(cat "$T/agent0/token")"
}
