#!/usr/bin/env bats
# bats file_tags=check
# The documents are right: README's commands run, in README's order, and its codec behaves as stated.
load lib
load documents

@test "README's session works as written" {
    ln -s "$BUILD" build
    ln -s "$ROOT/docs" "$ROOT/examples" .
    # A command to be typed is in a block, where this test runs it. `browse` runs until Ctrl-C: browse.bats.
    # shellcheck disable=SC2016 # a pattern
    grep -oE '`build/[^`]+`' "$ROOT/README.md" >inline
    diff inline - <<<'`build/job_submit browse`'
    blocks c README.md 1 >average.c
    blocks c README.md 2 >outer.c
    [ "$(wc -l <average.c)" -le 5 ]
    [ "$(wc -l <outer.c)" -lt 45 ]
    PORTS=("$(free_port)" "$(free_port)")
    isolation_needs
    {
        echo 'set -em'
        # shellcheck disable=SC2016 # expanded by the session
        echo 'up() { until curl -sf -o /dev/null "http://127.0.0.1:$1/healthz"; do sleep 0.05; done; }'
        blocks sh README.md | sed "s/15387/${PORTS[0]}/g; s/15388/${PORTS[1]}/g
            s/^\(build\/agent --port \([0-9]*\) .*\) &\$/\1 ${UNISOLATED[*]} 2>>agents.log \& up \2/"
    } >session.sh
    grep -q -- '--codec average.c' session.sh
    grep -q -- '--codec outer.c' session.sh
    run limited bash session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [ -s result/run.json ]
    grep -qx 'psgd [1-9][0-9]*' words/output/node-*.txt
    local job
    for job in average outer; do
        [ "$(jq -r .state $job/run.json)" = succeeded ]
        [ "$(tail -1 $job/records/eval.csv | cut -d, -f7 | cut -c1-3)" = 0.9 ] # no agent is left: `limited` checks that for each command
    done
    # The comparison answers the question above it: outer reaches 95 % with far fewer bytes.
    "$SUBMIT" compare average outer --target 0.95 --json >answer
    jq -e '.data.results[] | select(.name == "bytes_to_target").values | .[1] < 0.7 * .[0]' answer
    # Changes bear loss without a word of the rule.
    for job in topk fp16; do
        "$SUBMIT" simulate -q --codec outer.c:every=20 --compress $job --node_count 2 --max-steps 40 --model softmax --dataset "$FEW" -o $job
        jq -e '.state == "succeeded" and ([.nodes[].params_sha256] | unique | length == 1)' $job/run.json
    done
}

@test "each block of commands of docs/clusters.md has a word, by which a test follows it" {
    local word
    run grep -nx '```sh' "$ROOT/docs/clusters.md"
    [ "$status" -eq 1 ]
    while read -r word; do
        grep -qE "follow '?${word}|blocks ['\"]sh ${word}['\"] docs/clusters.md" "$ROOT"/tests/e2e/{clusters,mpi,slurm}.bats || { echo "$word" && return 1; }
    done < <(sed -n 's/^```sh //p' "$ROOT/docs/clusters.md")
}

@test "docs/monitoring.md, its board and its rules name the metrics of an agent" {
    local name out
    ln -s "$BUILD" build
    PORTS=("$(free_port)")
    start_agent 0
    mv agent0 state0 && ln -s state0 agent0
    blocks sh docs/monitoring.md | sed "s/15387/${PORTS[0]}/" >session.sh
    out=$(limited bash -e session.sh 3>&-)
    curl -sf -o /dev/null -H "Authorization: Bearer $(cat prometheus.token)" "http://127.0.0.1:${PORTS[0]}/v1/jobs"
    while read -r name; do
        [[ $out == *"# TYPE $name "* ]] || { echo "$name is not exported" && return 1; }
    done < <(cd "$ROOT/docs" && grep -ohE '(psgd|process)_[a-z_]*[a-z]' grafana/* monitoring.md | sed 's/_bucket$//')
    while read -r name; do
        grep -q "\`$name\`" "$ROOT/docs/monitoring.md" || { echo "docs/monitoring.md has no $name" && return 1; }
    done < <(sed -n 's/^# TYPE \(psgd_[a-z_]*\) .*/\1/p' <<<"$out")
    command -v promtool >/dev/null || skip "promtool is not installed: Prometheus' own check was not run"
    [ -z "$(promtool check metrics <<<"$out" 2>&1)" ]
    promtool check rules "$ROOT/docs/grafana/alerts.yml"
}

@test "the network in docs/training.md trains as described" {
    ln -s "$BUILD" build
    start_agents 2
    blocks sh docs/training.md >session.sh
    grep -q -- '--model mine.json' session.sh
    run limited bash -e session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"0  conv2d  "* ]]
    [[ "$output" == *",top5,0.9"* ]]
    [ "$(awk -F, 'NR > 1 && $1 == 0 { n += $6 } END { print n }' mine/records/confusion.csv)" = 4000 ]
}

@test "the codec in codecs/README.md runs as described" {
    build_with_few_digits
    start_agents 2
    blocks c codecs/README.md 1 >smooth.c
    blocks c codecs/README.md 2 >part.c
    blocks c codecs/README.md 3 >plateau.c
    cmp plateau.c "$ROOT/tests/codecs/plateau.c"
    blocks c codecs/README.md 4 >damped.c
    blocks sh codecs/README.md >session.sh
    grep -q -- '--codec smooth.c:beta=0.5' session.sh
    run limited bash -e session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"mine: all checks passed"* ]]
    [[ "$output" == *"part: all checks passed"* ]]
    [[ "$output" == *"damped: all checks passed"* ]]
    # The server has recorded each gradient.
    [ "$(awk -F, '$5 == "staleness"' damped/records/codec.csv | wc -l)" -eq "$(($(jq .settings.steps_per_epoch damped/run.json) * 4))" ]
    [ "$(jq -r .state mine/run.json)" = succeeded ]
    [[ "$output" == *"beta "*"float"*"0.9"*"0 to 1"* ]]
    [ "$(jq .models_agree smooth/run.json)" = true ]
    jq -e '.models_agree and .warnings == []' part/run.json
    [ "$(jq .models_agree plateau/run.json)" = true ]
}

@test "the jobs in docs/compression.md run as described" {
    build_with_few_digits
    start_agents 2
    blocks sh docs/compression.md >session.sh
    grep -q -- "--compress-down 'tern:" session.sh
    run limited bash -e session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    jq -e '.state == "succeeded" and .nodes[0].comm.compression_ratio > 80 and .nodes[2].comm.compression_ratio > 20' \
        squeezed/run.json
}

@test "the runs in docs/compare.md are compared as described" {
    build_with_few_digits
    blocks sh docs/compare.md >session.sh
    grep -q 'compare fedavg diloco' session.sh
    run limited bash -e session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"The job is valid; no agent was contacted."* ]]
    [[ "$output" == *"codec "*"accuracy "*"bytes to 0."* ]]
    [[ "$output" == *" fedavg "*" diloco:lr=0.7,mu=0.9 "* ]]
    cmp first/model/final.safetensors again/model/final.safetensors
    [ "$(jq -c '[.nodes[].params_sha256]' first/run.json)" = "$(jq -c '[.nodes[].params_sha256]' again/run.json)" ]
    local command
    while read -r command; do # for whoever gets the folder
        # shellcheck disable=SC2086 # words
        (cd first && "$SUBMIT" ${command/OTHER/../again}) </dev/null
    done < <(sed -n '/job_submit browse/d; s/^job_submit \(.*[^ ]\)   *.*/\1/p' first/README.txt)
    jq -e '.nodes[0].params_sha256 | test("^[0-9a-f]{64}$")' first/run.json
}

@test "the commands in docs/executors.md, failures.md, models.md and browse.md run as written" {
    build_with_few_digits
    ln -s "$ROOT/examples" .
    start_agents 2
    build/job_submit -q --codec fedavg --node_count 2 --epochs 1 --model softmax --dataset digits:train=1280,test=200 -o out
    {
        blocks sh docs/executors.md
        blocks sh docs/failures.md | sed "s/JOB/$(jq -r .id out/run.json)/"
        # Without commands on files of the reader, and without comments at the end of a line.
        grep -hE '^    job_submit (model|predict out($| )|report)' "$ROOT"/docs/{models,browse}.md |
            grep -v -e '--data ' | sed 's|^ *|build/|; s|   .*||; s|FILE|out/model/final.safetensors|'
    } >session.sh
    [ "$(grep -cE 'job_submit (run --exec|why|rerun|model|predict|report)' session.sh)" -ge 11 ]
    run limited bash -e session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *499500* ]]
    [ -s m.npz ] && [ -s m.onnx ] && [ -s train.csv ] && [ -s logs/latest/report.html ]
}

@test "the trace in docs/dataplane.md is made as described" {
    build_with_few_digits
    start_agents 2
    blocks sh docs/dataplane.md >session.sh
    grep -q -- '--trace trace.json' session.sh
    limited bash -e session.sh 3>&-
    # One for each row of the records, of which the first line has the columns.
    jq -e --argjson lines "$(wc -l <traced/records/train.csv)" '[.traceEvents[] | select(.name == "step")] | length == $lines - 1' trace.json
    # The phases are those of the records.
    # shellcheck disable=SC2013 # words, not lines
    for phase in $(awk -F'`' '/^## Where a step/ {on = 1} /^The test set/ {on = 0} on && /^\| `/ {print $2}' "$ROOT/docs/dataplane.md"); do
        head -1 traced/records/train.csv | grep -qE "(^|,)${phase}_s(,|\$)"
    done
}

@test "README's first command shows results and leaves nothing running" {
    run limited env BUILD="$BUILD" TMPDIR="$T" "$ROOT/submit/demo.sh"
    echo "$output"
    [ "$status" -eq 0 ] # and no process is left
    [[ "$output" == *"accuracy"* ]]
    [[ "$output" == *"model/final.safetensors"*"logs/latest/report.html "*"job_submit browse "* ]]
    [ "$(ls)" = logs ]
}

# At any time of the signal: while an agent is started, when a child is still the shell, during the job, at the end.
@test "the demo ends on a signal at any time, and leaves no process and no folder" {
    local pid delay s
    for delay in 0 0.01 0.03 0.06 0.1 0.2 0.3 0.5 1; do
        : >printed # a child that is still the shell ends before it creates it
        "$TOOLS/limit" "$PROGRAM_LIMIT" env BUILD="$BUILD" TMPDIR="$T" "$ROOT/submit/demo.sh" -q --epochs 1 --dataset digits:train=1280,test=200 >>printed 2>&1 3>&- &
        pid=$!
        sleep $delay
        kill $pid 2>/dev/null || true # the script only, and once
        s=0
        wait $pid || s=$?
        echo "after $delay s: status $s"
        cat printed
        [ $s -eq 143 ] || [ $s -eq 0 ]
        [ -z "$(pgrep -f "$T/psgd-demo-")" ]
        rm -rf logs printed
        [ -z "$(ls)" ]
    done
}

@test "the lists in docs/worker-json.md are read" {
    local n
    make_token three.token
    for n in 1 2 3; do
        blocks json docs/worker-json.md $n >list.json
        [ -s list.json ]
        "$SUBMIT" validate -q --workers list.json --node_count 2 >shown
    done
    blocks json docs/worker-json.md 1 | jq '.Workers = .Worker' >list.json
    run "$SUBMIT" validate -q --workers list.json
    [ "$status" -eq 6 ]
    [[ "$output" == *'Workers'*'did you mean "Worker"?'* ]]
}

@test "files and headings that README, the docs and the READMEs of folders name exist" {
    ROOT=$ROOT python3 - <<'END'
import glob, os, re
os.chdir(os.environ["ROOT"])
read = lambda path: open(path, encoding="utf-8").read()
known = {}

def anchors(path):
    """The names that GitHub gives the headings of a document, for links to them."""
    if path not in known:
        heads = re.findall(r"^#+ (.*)", read(path), re.M)
        plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h.replace("`", "")).lower() for h in heads)
        known[path] = {re.sub(r"[^\w -]", "", h).replace(" ", "-") for h in plain}
    return known[path]

links = names = 0
for doc in ["README.md", "CONTRIBUTING.md", "codecs/README.md", *glob.glob("docs/**/*.md", recursive=True), *glob.glob("examples/**/*.md", recursive=True)]:
    for link in re.findall(r"\]\(([^)]*)\)", read(doc)):
        if link.startswith("http"):
            continue
        links += 1
        file, _, heading = link.partition("#")
        file = os.path.join(os.path.dirname(doc), file) if file else doc
        assert os.path.exists(file), f"{doc}: {link}"
        assert not heading or heading in anchors(file), f"{doc}: {link}: no such heading"
    for name in re.findall(r"`([a-z]+/[a-z_/]*\.[a-z]*)`", read(doc)):
        names += 1
        assert os.path.exists(name) or name.startswith(("records/", "model/", "mean/", "opt/", "build/")), f"{doc}: {name}"
for folder in "agent", "conform", "nn", "page", "runner", "shared", "sim", "submit":
    for doc in glob.glob(f"{folder}/**/README.md", recursive=True):
        for name in re.findall(r"`([a-z_0-9./]+\.[ch])`", read(doc)):
            names += 1
            assert os.path.exists(f"{os.path.dirname(doc)}/{name}") or os.path.exists(name), f"{doc}: {name}"
assert links > 200 and names > 200
END
}
