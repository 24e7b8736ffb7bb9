#!/usr/bin/env bats
# Text as tokens, for models of language.
load lib

# documented ARGUMENTS: runs a command of docs/data.md.
documented() {
    grep -qxF "    job_submit $*" "$ROOT/docs/data.md"
    run "$SUBMIT" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "the commands about text in docs/data.md run as described" {
    cp "$ROOT/README.md" .
    documented validate --model gpt-xs --dataset tokens --data README.md --batch_size 16
    [[ "$output" == *"windows of 64; 256 different tokens of 1 bytes of text"* ]]
    documented data tokenize --dataset tokens:vocab=1024 --data README.md -o readme.safetensors
    [[ "$output" == *"test tokens of 1024 different ones, "* ]]
    documented validate --model gpt-xs:vocab=1024 --dataset tokens --data readme.safetensors --batch_size 16
    [[ "$output" == *"windows of 64; 1024 different tokens of "* ]]
    documented validate --model gpt-xs --dataset grammar:topics=8 --partition dirichlet:0.1 --node_count 4 --batch_size 16
    [[ "$output" == *"the best model that there can be has the loss "* ]]
    [[ "$output" == *"topic, pieces"* ]]
}

@test "the options of data tokenize are checked" {
    echo "some text" >text
    for how in "" "--data text" "-o out" "--data text -o out --dataset digits" "--data text -o out --dataset tokens:vocab=255" \
        "more --data text -o out"; do
        # shellcheck disable=SC2086
        run "$SUBMIT" data tokenize $how
        echo "$output"
        [ "$status" -ne 0 ]
        [ ! -e out ]
    done
    run "$SUBMIT" data tokenize --data missing -o out
    [[ "$output" == *"missing: No such file"* ]]
}

@test "text and models fit each other, or the job is refused in a sentence" {
    run "$SUBMIT" validate --model gpt-xs --dataset digits
    [[ "$output" == *'model "gpt-xs" is a model of language, and the data set is no text'* ]]
    run "$SUBMIT" validate --model softmax --dataset grammar
    [[ "$output" == *"its samples are windows of text, for models with the loss token_cross_entropy"* ]]
    run "$SUBMIT" validate --model gpt-xs --dataset grammar --partition labels:2 --batch_size 16
    [[ "$output" == *"partition labels:2 divides by topics, and the text has none"* ]]
    run "$SUBMIT" validate --model gpt-xs --dataset grammar --transform standard --batch_size 16
    [[ "$output" == *"standard is for numbers, the data set has tokens"* ]]
    head -c 4000 "$ROOT/README.md" >text
    run "$SUBMIT" validate --model gpt-xs --dataset tokens:vocab=300 --data text --batch_size 2
    [[ "$output" == *'model "gpt-xs" predicts 256 tokens, the data set has 300'*"--model gpt-xs:vocab=300"* ]]
    run "$SUBMIT" validate --model softmax:vocab=300 --dataset tokens:vocab=300 --data text --batch_size 2
    [[ "$output" == *"--model softmax:vocab=300: only models of language have options"* ]]
    run "$SUBMIT" validate --model gpt-xs:vocab=1 --dataset tokens:vocab=300 --data text --batch_size 2
    [[ "$output" == *"--model gpt-xs:vocab=1: /vocab: 1 is not between 2 and 16777216"* ]]
}

# bats test_tags=check
@test "a job on text ends with the same weights on agents, simulated, and resumed, bit for bit" {
    start_agents 2
    "$SUBMIT" data tokenize --dataset tokens:vocab=300,test=0.2 --data "$ROOT/README.md" -o readme.safetensors
    local bytes=(--model gpt-xs --dataset "grammar:train=20000,test=2000,topics=3" --partition dirichlet:0.5)
    local pairs=(--model gpt-xs:vocab=300 --dataset tokens --data readme.safetensors)
    for set in bytes pairs; do
        local -n what=$set
        local job=(-q --codec fedavg:every=5 --node_count 2 "${what[@]}" --batch_size 8 --optimizer adamw --learn_rate 0.003)
        "$SUBMIT" "${job[@]}" --epochs 2 -o "$set-whole"
        "$SUBMIT" simulate "${job[@]}" --epochs 2 -o "$set-simulated"
        "$SUBMIT" "${job[@]}" --epochs 1 --checkpoint-every 1 -o "$set-half"
        "$SUBMIT" -q --resume "$set-half" --epochs 2 -o "$set-rest"
        for run in simulated rest; do
            [ "$(jq -c '[.nodes[].params_sha256]' "$set-whole/run.json")" = "$(jq -c '[.nodes[].params_sha256]' "$set-$run/run.json")" ]
        done
        [ "$(jq .facts.data.window "$set-whole/run.json")" -eq 64 ]
    done
    [ "$(jq '.facts.data.floor > 1' bytes-whole/run.json)" = true ]
    [ "$(jq '.facts.preprocessing.merges | length' pairs-whole/run.json)" -eq 88 ]
}

# bats test_tags=check
@test "agents read a data set where it is, with the results of one that is sent, and no other file" {
    mkdir -p data/below secret
    start_agent 0 --data-folder "$T/data"
    start_agent 1 --data-folder "$T/data"
    write_workers 2
    cp "$ROOT/docs/data.md" .
    "$SUBMIT" data tokenize --dataset tokens:vocab=256 --data data.md -o data/below/set
    local job=(-q --codec allreduce --node_count 2 --model gpt-xs --dataset tokens --batch_size 4 --max-steps 3)
    "$SUBMIT" "${job[@]}" --data data/below/set -o sent
    grep -rqF "$(head -1 data.md)" agent?/blobs
    rm -r agent?/blobs/*
    "$SUBMIT" "${job[@]}" --data-on-agent "$T/data/below/set" -o place
    [ "$(jq -c '[.nodes[].params_sha256]' sent/run.json)" = "$(jq -c '[.nodes[].params_sha256]' place/run.json)" ]
    cmp <(cut -d, -f2-7 sent/records/eval.csv) <(cut -d, -f2-7 place/records/eval.csv)
    if grep -rqF "$(head -1 data.md)" agent?/blobs; then false; fi # of the training half
    cp data/below/set secret/set
    ln -s "$T/secret/set" data/link
    head -c 9000 data/below/set >data/short
    refused() { # refused PATH SENTENCE
        run "$SUBMIT" "${job[@]}" --data-on-agent "$1" --data data/below/set -o "refused-$RANDOM"
        echo "$output"
        [ "$status" -ne 0 ]
        [[ "$output" == *"$2"* ]]
    }
    refused "$T/secret/set" "is in no folder of which this agent lets jobs read data"
    refused "$T/data/link" "is a symbolic link"
    refused "$T/data/../secret/set" "is not an absolute path without"
    refused "$T/data/short" "has 9000 bytes here, and"
    run "$SUBMIT" validate --model softmax --dataset digits --data-on-agent "$T/data/below/set"
    [[ "$output" == *"agents read a tokenized text of --dataset tokens where it is, and $T/data/below/set is none"* ]]
}

@test "predict says test where a tokenized text keeps its halves, and all where a text is predicted as a whole" {
    echo '{"version": 1, "name": "next", "input": [1], "layers": [{"kind": "embedding", "vocab": 300, "units": 4},
        {"kind": "dense", "positionwise": true, "units": 300}], "loss": "token_cross_entropy"}' >next.json
    "$SUBMIT" data tokenize --dataset tokens:vocab=300 --data "$ROOT/README.md" -o readme.safetensors
    "$SUBMIT" simulate -q --model next.json --dataset tokens --data readme.safetensors --batch_size 64 --node_count 1 -o out
    "$SUBMIT" predict out --data readme.safetensors -o halves.csv --json >halves
    "$SUBMIT" predict out --data "$ROOT/README.md" -o whole.csv --json >whole
    [ "$(jq -r .data.split halves)" = test ]
    [ "$(jq -r .data.split whole)" = all ]
    [ "$(jq .data.samples halves)" -lt "$(jq .data.samples whole)" ]
    run "$SUBMIT" predict out --data readme.safetensors -o halves.csv
    [[ "$output" == *"tokens, test: "* ]]
}

@test "generate goes on with a text, also by the model of a running job" {
    start_agents 1
    "$SUBMIT" data tokenize --dataset tokens:vocab=300 --data "$ROOT/README.md" -o readme.safetensors
    "$SUBMIT" -q --node_count 1 --model gpt-xs:vocab=300,context=16 --dataset tokens --data readme.safetensors --batch_size 8 --epochs 100000 \
        --record-every 1000 --detach --no-queue -o out
    within 60 "$SUBMIT" generate --prompt "The agents" --tokens 4
    within 60 is_at_step 0 20
    # The folder names the job that runs, too. The text is longer than the input.
    "$SUBMIT" generate out --prompt "The agents" --tokens 40 --json >live
    jq -e '.data | ((.tokens | length) == 40 or .ended) and .prompt_tokens <= 10 and (.model | endswith("/snapshot.safetensors"))' live
    "$SUBMIT" cancel -q "$(only_job 0)"
    "$SUBMIT" simulate -q --node_count 1 --model gpt-xs:vocab=300,context=16 --dataset tokens --data readme.safetensors --batch_size 8 --max-steps 20 \
        -o out2 >shown
    # Records and results of text: a step has 8 windows of 16 tokens.
    python3 - <<'EOF'
import csv, json, math
run = json.load(open("out2/run.json"))
rows = list(csv.DictReader(open("out2/records/eval.csv")))
assert rows
for row in rows:
    loss = float(row["loss"])
    assert int(row["tokens"]) == int(row["step"]) * 8 * 16
    assert math.isclose(float(row["perplexity"]), math.exp(loss), rel_tol=1e-6)
    assert math.isclose(float(row["bits_per_byte"]), loss / math.log(2) / run["facts"]["data"]["bytes_per_token"], rel_tol=1e-6)
assert all(int(row["tokens"]) == int(row["step"]) * 8 * 16 for row in csv.DictReader(open("out2/records/train.csv")))
assert math.isclose(run["mean_over_workers"]["bits_per_byte"], float(rows[-1]["bits_per_byte"]), rel_tol=1e-6)
assert run["tokens"] == 20 * 8 * 16
EOF
    "$SUBMIT" plot out2 --x tokens --y bits_per_byte --json | jq -e '.data.curves[0].x[-1] == 2560'
    # shellcheck disable=SC2016
    "$SUBMIT" compare out2 --json |
        jq -e '.data.results | map({(.name): .values[0]}) | add | .tokens == 2560 and .tokens_per_s > 0 and .bits_per_byte > 0 and .perplexity > 1'
    [ "$(grep -c '^Text: perplexity .* bits per byte; 2560 tokens, ' shown)" -eq 1 ]
    # A seed repeats a text, to the byte; tokens are any bytes, of which the terminal gets text only, and the file all.
    "$SUBMIT" generate out2 --prompt "The agents" --seed 7 --tokens 300 >one
    "$SUBMIT" generate out2 --prompt "The agents" --seed 7 --tokens 300 >two
    "$SUBMIT" generate out2 --prompt "The agents" --seed 8 --tokens 300 >three
    cmp one two
    run cmp -s one three
    [ "$status" -eq 1 ]
    iconv -f UTF-8 -t UTF-8 one >again
    cmp one again
    [ "$(tr -d '\t\n' <one | LC_ALL=C tr -cd '\000-\037\177' | wc -c)" -eq 0 ]
    "$SUBMIT" generate out2 --prompt "The agents" --seed 7 --tokens 300 -o raw
    "$SUBMIT" generate out2 --prompt "The agents" --seed 7 --tokens 300 -o - >dash
    cmp raw dash
    run iconv -f UTF-8 -t UTF-8 raw
    [ "$status" -eq 1 ]
    [ "$(head -c 10 raw)" = "The agents" ]
    [ "$("$SUBMIT" generate out2 --prompt "The agents" --temperature 0 --tokens 30)" = \
        "$("$SUBMIT" generate out2 --prompt "The agents" --top-k 1 --seed 9 --tokens 30)" ]
    [ "$(grep -c 'job_submit generate' out2/README.txt)" -eq 1 ]
    [ "$(grep -c 'job_submit predict' out2/README.txt)" -eq 0 ]
}

@test "a job shows at each evaluation the text with which its model goes on" {
    start_agents 2
    local job=(-q --node_count 2 --model gpt-xs:context=16 --dataset "grammar:train=20000,test=500" --batch_size 8 --seed 5)
    "$SUBMIT" "${job[@]}" --max-steps 20 --eval-every 10 --sample-prompt "$(printf 'ab\377,"\033[2J%%41 <b>')" -o out
    # Two evaluations, of worker 0; a row is ASCII, with commas between the columns only.
    [ "$(wc -l <out/records/samples.csv)" -eq 3 ]
    [ "$(head -1 out/records/samples.csv)" = time_s,node,epoch,step,prompt,text ]
    [ "$(LC_ALL=C tr -d '\n -~' <out/records/samples.csv | wc -c)" -eq 0 ]
    [ "$(cut -d, -f2,4,5 out/records/samples.csv | sed 1d)" = "$(printf '0,10,ab%%FF%%2C%%22%%1B[2J%%2541 <b>\n0,20,ab%%FF%%2C%%22%%1B[2J%%2541 <b>')" ]
    # The last one is what generate draws by the job's seed.
    "$SUBMIT" generate out --prompt "$(printf 'ab\377,"\033[2J%%41 <b>')" --seed 5 --tokens 200 -o text
    python3 - <<'EOF'
import csv, urllib.parse
last = list(csv.DictReader(open("out/records/samples.csv")))[-1]
text = open("text", "rb").read()
assert urllib.parse.unquote_to_bytes(last["prompt"]) + urllib.parse.unquote_to_bytes(last["text"]) == text, (last, text)
page = open("out/report.html", "rb").read()
assert b"/samples" in page and b"\x1b" not in page and b"\xff" not in page and b"<b>" not in page.split(b'"documents"')[1]
EOF
    # A prompt changes no weight.
    "$SUBMIT" "${job[@]}" --max-steps 20 -o plain
    [ "$(jq -c '[.nodes[].params_sha256]' out/run.json)" = "$(jq -c '[.nodes[].params_sha256]' plain/run.json)" ]
    [ ! -e plain/records/samples.csv ]
    run "$SUBMIT" validate --model softmax --dataset "$FEW" --sample-prompt x
    [[ "$output" == *'--sample-prompt: model "softmax" has the loss softmax_cross_entropy, a model of language token_cross_entropy'* ]]
    run "$SUBMIT" validate --model gpt-xs:context=16 --dataset grammar --batch_size 8 --sample-prompt 12345678901234567
    [[ "$output" == *'--sample-prompt: 17 tokens, and model "gpt-xs:context=16" reads 16'* ]]
}

@test "generate and predict say in a sentence what they cannot apply a model to" {
    local what
    "$SUBMIT" simulate -q --node_count 1 --model gpt-xs --dataset grammar:train=20000,test=2000 --batch_size 8 --max-steps 1 -o text
    "$SUBMIT" simulate -q --node_count 1 --model softmax --dataset "$FEW" --max-steps 1 -o digits
    refuses() { # refuses SENTENCE COMMAND...
        run "$SUBMIT" "${@:2}"
        echo "$output"
        [ "$status" -ne 0 ]
        [[ "$output" == *"$1"* ]]
    }
    refuses 'model "softmax" has the loss softmax_cross_entropy, a model of language token_cross_entropy' generate digits --prompt x
    refuses 'model "gpt-xs" predicts a token behind each of 64 tokens' predict text
    refuses 'the prompt has 65 tokens, and model "gpt-xs" reads 64' generate text --prompt "$(printf '%065d' 1)"
    refuses '--prompt: empty' generate text --prompt ""
    refuses 'generate needs --prompt TEXT' generate text
    refuses 'no job missing was submitted from here' generate missing --prompt x
    for what in '--tokens 0' '--temperature -1' '--top-k -1' '--top-p 0' '--top-p 1.5' '--seed -1'; do
        # shellcheck disable=SC2086
        refuses "${what% *}: " generate text --prompt x $what
    done
    # A file of another program: its tokens are bytes, if it knows 256.
    python3 - <<'EOF'
import json
raw = open("text/model/final.safetensors", "rb").read()
n = int.from_bytes(raw[:8], "little")
head = json.loads(raw[8:8 + n])
del head["__metadata__"]["preprocessing"]
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open("other.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + raw[8 + n:])
EOF
    [ "$("$SUBMIT" generate other.safetensors --prompt x --seed 3)" = "$("$SUBMIT" generate text --prompt x --seed 3)" ]
}
