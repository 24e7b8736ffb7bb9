#!/usr/bin/env bats
# job_submit browse and report: which clients are served, and which data of running and ended jobs; page.bats tests the page in a browser.
load lib

# start_page [ARGUMENT...]: serves the page; URL has its token, PAGE its address. The jar gets the cookie.
start_page() {
    "$SUBMIT" browse --no-open "$@" >page.out 2>page.err 3>&- &
    PAGE_PID=$!
    HOLDERS+=("$PAGE_PID")
    within 60 grep -q token= page.out || { cat page.err && return 1; }
    URL=$(<page.out)
    PAGE=${URL%/?token=*}
}

enter() { curl -s -o /dev/null -c jar "$URL"; }

get() { # get PATH [curl options]
    local path=$1
    shift
    curl -s -b jar "$@" "$PAGE$path"
}

status_at() { # status_at PATH [curl options]
    local path=$1
    shift
    get "$path" -o answer -w '%{http_code}' "$@"
}

all_are() { # all_are STATUS PATH...
    local path urls=() wanted=$1
    shift
    for path; do urls+=(-o /dev/null "$PAGE$path"); done
    [ "$(curl -s -b jar --path-as-is -w '%{http_code}\n' "${urls[@]}" | sort | uniq -c | tr -d ' ')" = "$#$wanted" ]
}

has_state() { [ "$(get "/api/jobs/$1" | jq -r .job.state)" = "$2" ]; } # has_state ID STATE
knows_epochs() { get "/api/jobs/$1" | jq -e '.settings.epochs == 100000'; }
has_rows() { [ "$(get "/api/jobs/$1/series?points=10" | jq .rows)" -gt "$2" ]; }
is_unreachable() { [ "$(get /api/jobs | jq -r ".agents[$1].state")" = unreachable ]; }

queued_names() { get /api/jobs | jq -r '[.jobs[] | select(.state == "queued") | "\(.name) \(.can_cancel)"] | sort | join(", ")'; }
are_queued() { [ "$(queued_names)" = "$1" ]; }

@test "jobs that wait in the queue are listed, this user's can be cancelled on the page, and those of others are there to be seen" {
    start_agents 1
    "$SUBMIT" agents drain "127.0.0.1:${PORTS[0]}"
    local detached=(-q --codec fedavg --node_count 1 --epochs 1 --model softmax --dataset "digits:train=640,test=100" --detach) own
    own=$("$SUBMIT" "${detached[@]}" --name own -o runs/own)
    "$SUBMIT" "${detached[@]}" --name second -o runs/second
    USER=ann XDG_STATE_HOME=$T/state-ann "$SUBMIT" "${detached[@]}" --name of-ann --token-file agent0/token -o ann
    start_page runs
    enter
    within 60 are_queued 'of-ann false, own true, second true'
    within 60 says_place "$own" 'place 1 of 2: 0 of 1 agents that it may use are free, it needs 1; 127.0.0.1:'
    [[ "$(get /api/jobs | jq -r '.jobs[] | select(.name == "of-ann").message')" == 'waits in the queue of ann' ]]
    [ "$(status_at "/api/jobs/$(get /api/jobs | jq -r '.jobs[] | select(.name == "of-ann").id')/cancel" -X POST -H 'X-Psgd: 1')" = 409 ]
    [ "$(status_at "/api/jobs/$own/cancel" -X POST -H 'X-Psgd: 1')" = 202 ]
    within 60 are_queued 'of-ann false, second true'
    [ "$("$SUBMIT" list --json | jq -r --arg id "$own" '.data.jobs[] | select(.id == $id).state')" = cancelled ]
    [ ! -e runs/own/run.json ]
}
says_place() { [[ "$(get /api/jobs | jq -r --arg id "$1" '.jobs[] | select(.id == $id).message')" == "$2"* ]]; }

@test "the page is for the browser that opened its address, and shows an ended job and a running one" {
    start_agents 2
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 1 --dataset digits:train=2560,test=200 --name first -o runs/ended
    start_page runs
    # A client without the token gets nothing; the token works once, the cookie from then on.
    [ "$(curl -s -o answer -w '%{http_code}' "$PAGE/")" = 403 ]
    [ "$(jq -r .title answer)" = Refused ]
    [ "$(curl -s -o answer -w '%{http_code}' "$PAGE/api/jobs")" = 403 ]
    [ "$(curl -s -o answer -w '%{http_code}' "$PAGE/?token=wrong")" = 403 ]
    enter
    grep -q '#HttpOnly_127.0.0.1.*psgd-' jar
    [ "$(curl -s -o answer -w '%{http_code}' "$URL")" = 403 ]
    grep -q 'works once' answer
    [ "$(status_at /)" = 200 ]
    grep -qF 'id="psgd-data">{"mode":"browse"}</script>' answer
    # A request that another site triggers in this browser is refused, too.
    [ "$(status_at /api/jobs -H 'Host: evil.example')" = 403 ]
    [ "$(status_at /api/jobs -H 'Origin: http://evil.example')" = 403 ]
    [ "$(status_at /api/jobs -H 'Sec-Fetch-Site: cross-site')" = 403 ]
    get / -D head -o /dev/null
    local heads
    heads=$(cat head)
    for header in "content-security-policy: default-src 'none'; script-src 'sha256-" 'x-content-type-options: nosniff' \
        'x-frame-options: deny' 'referrer-policy: no-referrer' 'cache-control: no-store'; do
        [[ ${heads,,} == *$'\n'"$header"* ]]
    done
    # Every document of the ended job.
    within 60 test "$(get /api/jobs | jq '.jobs | length')" -eq 1
    read -r id shown < <(get /api/jobs | jq -r '.jobs[0] | "\(.id) \(.state) \(.folder) \(.name) \(.can_cancel)"')
    [ "$shown" = 'succeeded runs/ended first false' ]
    get "/api/jobs/$id" >answer
    jq -e '.settings.codec == "fedavg" and (.nodes | length) == 2 and (.codec_source.text | contains("CODEC_PLUGIN"))
        and (.files[] | select(.path == "report.html").bytes > 1000)' answer
    [ "$(get "/api/jobs/$id/series" | jq .rows)" -eq 40 ]
    [ "$(get "/api/jobs/$id/series?file=eval&x=bytes&names=accuracy" | jq '.mean.accuracy | length')" -eq 1 ]
    [ "$(get "/api/jobs/$id/series?points=10&from=10&to=19" | jq '.nodes[0].rows')" -eq 10 ]
    [ "$(get "/api/jobs/$id/peers" | jq -c '[.nodes, (.sent[0][1] > 0)]')" = '[[0,1],true]' ]
    [ "$(get "/api/jobs/$id/log?node=0&q=FEDAVG" | jq '.lines | length')" -eq 1 ]
    [ "$(get "/api/jobs/$id/log?limit=1" | jq -r .next)" = submit:1 ]
    get "/api/jobs/$id/files/run.json" -D head | cmp - runs/ended/run.json
    grep -qi '^content-disposition: attachment; filename="run.json"' head
    # And nothing else.
    all_are 404 "/api/jobs/$id/"{histogram?name=staleness,confusion,nonsense,files/../../worker.json,files/%2e%2e/%2e%2e/worker.json,files/none} \
        /api/jobs/j-none /api/nonsense
    [ "$(status_at "/api/jobs/$id/series?x=hours")" = 400 ]
    grep -q 'there are: step, epoch, time, bytes' answer
    [ "$(status_at /api/jobs -X POST -H 'X-Psgd: 1')" = 405 ]
    [ "$(status_at "/api/jobs/$id/cancel" -X POST -H 'X-Psgd: 1')" = 409 ]

    # Its user labels, hides and deletes it, and undoes that.
    [ "$(status_at "/api/jobs/$id/label?note=seen" -X POST)" = 403 ]
    [ "$(status_at "/api/jobs/$id/label?note=seen+by+ann&tags=a,%20b%20c,," -X POST -H 'X-Psgd: 1')" = 200 ]
    [ "$(jq -c '[.facts.note, .facts.tags]' runs/ended/run.json)" = '["seen by ann",["a","b c"]]' ]
    [ "$(status_at "/api/jobs/$id/label?note=" -X POST -H 'X-Psgd: 1')" = 200 ]
    [ "$(jq -c '[.facts.note, .facts.tags]' runs/ended/run.json)" = '[null,["a","b c"]]' ]
    [ "$(status_at "/api/jobs/$id/label?note=$(printf 'x%.0s' {1..300})" -X POST -H 'X-Psgd: 1')" = 400 ]
    [ "$(status_at "/api/jobs/$id/undelete" -X POST -H 'X-Psgd: 1')" = 404 ]
    [ "$(status_at "/api/jobs/$id/hide" -X POST -H 'X-Psgd: 1')" = 200 ]
    within 60 is_hidden "$id" true
    [ "$(status_at "/api/jobs/$id/unhide" -X POST -H 'X-Psgd: 1')" = 200 ]
    within 60 is_hidden "$id" null
    [ "$(status_at "/api/jobs/$id/delete" -X POST -H 'X-Psgd: 1')" = 200 ]
    [ -d runs/.deleted/ended ]
    within 60 has_no_job
    [ "$(status_at "/api/jobs/$id/undelete" -X POST -H 'X-Psgd: 1')" = 200 ]
    within 60 is_hidden "$id" null

    # A running job: its curves grow, events say so, and it can be cancelled. What was recorded of it here comes later than what
    # its agents say.
    cp -r state later
    paced plain
    XDG_STATE_HOME=$T/later "$SUBMIT" --codec gated.c --round-timeout "$TEST_LIMIT" --node_count 2 --epochs 100000 \
        --dataset digits:train=2560,test=200 -o runs/live >/dev/null 2>live.err &
    HOLDERS+=("$!")
    job=$!
    within 60 test_live
    live=$(get /api/jobs | jq -r '.jobs[] | select(.can_cancel) | .id')
    within 60 has_rows "$live" 0
    rows=$(get "/api/jobs/$live/series?points=10" | jq .rows)
    get "/api/jobs/$live" | jq -e '.settings.epochs == null'
    mv "later/psgd/jobs/$live.json" state/psgd/jobs/
    within 60 knows_epochs "$live"
    command curl -sN -b jar --max-time 60 "$PAGE/api/events" >events 3>&- &
    HOLDERS+=("$!")
    within 60 grep -qF "{\"id\":\"$live\",\"rows\":" events
    grep -q '^event: recorded' events
    grep -q '^event: jobs' events
    within 60 has_rows "$live" "$rows"
    [ "$(get "/api/jobs/$live" | jq '.nodes | length')" -eq 2 ]
    get "/api/jobs/$live/log?node=1" | jq -e '.lines[0].node == 1'
    [ "$(status_at "/api/jobs/$live/cancel" -X POST)" = 403 ]
    [ "$(status_at "/api/jobs/$live/delete" -X POST -H 'X-Psgd: 1')" = 409 ]
    [ "$(status_at "/api/jobs/$live/cancel" -X POST -H 'X-Psgd: 1' -H 'Origin: http://evil.example')" = 403 ]
    [ "$(status_at "/api/jobs/$live/cancel" -X POST -H 'X-Psgd: 1' -H "Origin: $PAGE")" = 202 ]
    wait "$job" || true
    within 60 has_state "$live" cancelled
    [ "$(get /api/jobs | jq '[.jobs[] | select(.id == "'"$live"'")] | length')" -eq 1 ]

    # Both side by side.
    get "/api/compare?ids=$id,$live&target=0.5" >answer
    jq -e --arg id "$id" --arg live "$live" '[.runs[].id] == [$id, $live] and [.runs[].folder] == [null, null]
        and (.settings[] | select(.name == "epochs").values == [1, 100000])
        and (.results[] | select(.name == "time_to_target_s").values[0] > 0)' answer
    [ "$(status_at "/api/compare?ids=$id,j-none")" = 404 ]
    [ "$(status_at "/api/compare?ids=$id&target=high")" = 400 ]

    # An agent that dies is named with the reason; jobs are shown as before. Ctrl-C ends the page.
    kill_agent 1
    within 60 is_unreachable 1
    get /api/jobs | jq -e '(.agents[1].message | contains("'"${PORTS[1]}"' does not answer")) and (.jobs | length) == 2'
    kill -INT "$PAGE_PID"
    wait "$PAGE_PID"
}

has_no_job() { [ "$(get /api/jobs | jq '.jobs | length')" -eq 0 ]; }
is_hidden() { [ "$(get /api/jobs | jq -r --arg id "$1" '.jobs[] | select(.id == $id) | .hidden')" = "$2" ]; }
test_live() { [ "$(get /api/jobs | jq '[.jobs[] | select(.can_cancel and .state == "running")] | length')" -eq 1 ]; }

@test "a job of a million rows and 32 nodes is a document of bounded size, made in bounded memory" {
    mkdir -p big/records
    awk 'BEGIN {
        print "time_s,node,epoch,batch,batches,step,loss,accuracy,sent_bytes,recv_bytes"
        for (i = 1; i <= 31250; i++)
            row[i] = sprintf(",%d,%d,1000,%d,%.6f,0.5,100,100", i / 1000 + 1, i % 1000, i, 1 / i)
        for (node = 0; node < 32; node++)
            for (i = 1; i <= 31250; i++)
                print int(i / 100) ".5," node row[i]
    }' >big/records/train.csv
    echo '{"id": "j-million", "name": "million", "state": "pending", "settings": {}, "nodes": [], "files": []}' >big/run.json
    start_page big
    enter
    get /api/jobs | jq -e '.jobs[0].message == "the last recorded state: no agent of worker.json has the job"'
    get '/api/jobs/j-million/series?points=1000' >answer
    jq -e '.rows == 1000000 and (.nodes | length) == 32 and ([.nodes[].x | length] | max <= 1000 and min >= 500)
        and .nodes[3].loss_max[0] == 1' answer
    [ "$(wc -c <answer)" -lt 4000000 ]
    get '/api/jobs/j-million/series?x=bytes&from=0&to=2000' | jq -e '.nodes[31].x[9] == 2000'
    case $BUILD in */asan | */tsan) ;; *) [ "$(awk '/VmHWM/ { print $2 }' "/proc/$PAGE_PID/status")" -lt 100000 ] ;; esac
    kill -INT "$PAGE_PID"
    wait "$PAGE_PID"
    "$SUBMIT" report big
    [ "$(wc -c <big/report.html)" -lt 4000000 ]
    jq -e '.files[] | select(.name == "report.html")' big/run.json
}

@test "a result folder with hostile contents cannot harm the page" {
    mkdir -p evil/records evil/logs evil/codec
    cat >evil/run.json <<'EOT'
{"id": "j-evil", "name": "</script><script>alert(1)</script>", "state": "<b>", "settings": {"codec": 7, "epochs": 1e999},
 "nodes": [{"node": 1e99}], "files": [{"name": "../../etc/passwd"}]}
EOT
    sed -i 's/1e999/1e99/' evil/run.json
    mkfifo evil/records/train.csv
    ln -s /etc/passwd evil/logs/worker-0.log
    ln -s "$T" evil/up
    echo '/* </script><script>alert(1)</script> */' >evil/codec/evil.c
    start_page evil
    enter
    get /api/jobs/j-evil >answer
    jq -r .codec_source.text answer | grep -qF '</script>'
    [ "$(get /api/jobs/j-evil/series | jq .rows)" -eq 0 ]
    [ "$(get /api/jobs/j-evil/log | jq .total)" -eq 0 ]
    all_are 404 /api/jobs/j-evil/files/{records/train.csv,logs/worker-0.log,up/worker.json,../jar}
    kill -INT "$PAGE_PID"
    wait "$PAGE_PID"
    "$SUBMIT" report evil
    [ "$(grep -cF 'alert(1)</script>' evil/report.html)" -eq 0 ]
}

@test "the results of several folders are listed together, with the metrics of the user's own; many are read once" {
    mkdir -p a/one/records b
    echo '{"id": "j-one", "state": "succeeded"}' >a/one/run.json
    printf 'time_s,node,epoch,step,metric,value\n1,0,1,1,f1,0.5\n2,0,1,2,f1,0.75\n' >a/one/records/metrics.csv
    python3 -c '
import os
for i in range(250):
    os.makedirs(f"b/{i}")
    print("{\"id\": \"j-many%d\", \"state\": \"succeeded\"}" % i, file=open(f"b/{i}/run.json", "w"))'
    for round in 1 2; do
        start_page a b/
        enter
        [ "$(get /api/jobs | jq '.jobs | length')" -eq $((252 - round)) ]
        get /api/jobs | jq -e '.jobs[] | select(.id == "j-one") | .folder == "a/one" and .values == {"f1": 0.75}'
        [ "$(get /api/jobs | jq -r '.jobs[] | select(.id == "j-many1") | "\(.folder) \(.state)"')" = "b/1 $([ $round = 1 ] && echo succeeded || echo failed)" ]
        kill -INT "$PAGE_PID"
        wait "$PAGE_PID"
        # The next process reads only what has changed: of what is as it was not even the contents.
        sed -i 's/succeeded/failed/' b/1/run.json
        rm -rf b/2
        touch -r b/3/run.json stamp
        sed 's/many3/XXXXX/' b/3/run.json >text && cat text >b/3/run.json && touch -r stamp b/3/run.json
    done
    [ "$(get_cached | grep -c '"j-many3"')" -eq 1 ]
}
get_cached() { cat "$XDG_CACHE_HOME"/psgd/results/*; }

@test "browse names the fault of a folder, of a list of agents, or of a port" {
    run "$SUBMIT" browse --no-open nowhere
    [ "$status" -eq 1 ] || [ "$status" -eq 6 ]
    [[ "$output" == *"nowhere: No such file or directory"* ]]
    echo '{"Worker": 3}' >worker.json
    run "$SUBMIT" browse --no-open
    [ "$status" -eq 6 ]
    [[ "$output" == *worker.json* ]]
    rm worker.json
    start_page # no logs/, no worker.json: nothing to show
    within 60 grep -q 'There are no results in logs yet' page.err
    enter
    [ "$(get /api/jobs | jq -c '[.jobs, .agents]')" = '[[],[]]' ]
    run "$SUBMIT" browse --no-open --port "${PAGE##*:}"
    [ "$status" -ne 0 ]
    [[ "$output" == *"Address already in use"* ]]
    kill -INT "$PAGE_PID"
    wait "$PAGE_PID"
    run "$SUBMIT" report nowhere
    [ "$status" -ne 0 ]
    [[ "$output" == *nowhere* ]]
}
