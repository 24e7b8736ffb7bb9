#!/usr/bin/env bats
# job_submit predict: a trained model on data.
load lib

# last RESULT COLUMN: of the last evaluation of node 0.
last() {
    awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) { if ($i == name) c = i; if ($i == "node") n = i } }
                          $n == 0 { v = $c } END { print v }' "$1/records/eval.csv"
}

@test "predict computes loss and accuracy of the job's last evaluation to the digit, and a row per sample" {
    start_agents 2
    "$SUBMIT" --codec allreduce --node_count 2 --epochs 1 --transform standard --seed 3 --batch_size 100 -o out
    "$SUBMIT" predict out >shown
    [ "$(awk '$1 == "loss" { print $2 }' shown)" = "$(last out loss)" ]
    [ "$(awk '$1 == "accuracy" { print $2 }' shown)" = "$(last out accuracy)" ]
    # The table has the same accuracy, and probabilities of the largest of ten outputs.
    [ "$(awk -F, 'NR > 1 { n++; right += $2 == $3 } END { printf "%.9g", right / n }' predictions.csv)" = "$(last out accuracy)" ]
    [ "$(wc -l <predictions.csv)" -eq 4001 ]
    awk -F, 'NR > 1 && !($1 == NR - 2 && $4 > 0.1 && $4 <= 1) { exit 1 }' predictions.csv
    # The training half has other samples; the best model is found beside the final one, with the same options.
    "$SUBMIT" predict out/model/best.safetensors --split train -o train.csv --json >facts
    [ "$(jq '.data.samples' facts)" -eq 24000 ]
    [ "$(wc -l <train.csv)" -eq 24001 ]
    # The transform is the model's, with its means.
    run "$SUBMIT" predict out --transform unit
    [ "$status" -eq 6 ]
    [[ "$output" == *"--transform unit: the model was trained with standard"* ]]
    "$SUBMIT" predict out --transform standard >other
    [ "$(awk '$1 == "loss" { print $2 }' other)" = "$(last out loss)" ]
}

@test "predict refuses a file that is not a model, and data that the model does not fit" {
    start_agents 1
    "$SUBMIT" --codec plain --epochs 1 --model softmax -o out
    run "$SUBMIT" predict out --dataset simlin
    [ "$status" -eq 6 ]
    [[ "$output" == *'simlin: the model takes 784 values per sample, the data set has 1024'* ]]
    run "$SUBMIT" predict out --dataset digits --data .
    [ "$status" -eq 2 ]
    run "$SUBMIT" predict agent0
    [ "$status" -eq 6 ]
    [[ "$output" == *"agent0 has no model/final.safetensors"* ]]
    run "$SUBMIT" predict out/run.json
    [ "$status" -eq 6 ]
    [[ "$output" == *"out/run.json: not a safetensors file"* ]]
    # A file that is not an earlier table is not replaced.
    run "$SUBMIT" predict out -o out/model/final.safetensors
    [ "$status" -ne 0 ]
    [[ "$output" == *"out/model/final.safetensors exists and is no table of predictions"*"-o FILE"* ]]
    "$SUBMIT" predict out -o table.csv
    "$SUBMIT" predict out -o table.csv
    run "$SUBMIT" predict
    [ "$status" -eq 2 ]
    [ ! -e predictions.csv ]
}

# of RESULT ROWS COLUMN: that column of a table, one value a line.
of() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next } { print $c }' "$1"; }

@test "new texts have the words and classes of the model, from its file alone" {
    for d in train new; do mkdir "$d"; done
    # Telling words at other places of the new texts' order of frequency, and one class with a few lines only.
    for i in $(seq 120); do
        echo "awful film$((i % 7)) this" >>train/neg
        echo "lovely film$((i % 7)) this" >>train/pos
        echo "lovely lovely unheard$i" >>new/pos
    done
    echo "this is awful" >new/neg
    printf '%s' '{"version":1,"name":"t","input":[6],"layers":[{"kind":"embedding","vocab":200,"units":8},{"kind":"mean_over_time"},{"kind":"dense","units":2}],"loss":"softmax_cross_entropy"}' >m.json
    "$SUBMIT" simulate -q --dataset text:length=6 --data train --model m.json --batch_size 20 --codec plain --epochs 8 \
        --gradient-descent adam --lr 0.05 -o out
    "$SUBMIT" predict out -o half.csv >shown # the test half, as the job evaluated it
    [ "$(awk '$1 == "loss" { print $2 }' shown)" = "$(last out loss)" ]
    mkdir elsewhere
    cp out/model/final.safetensors elsewhere/
    cd elsewhere
    "$SUBMIT" predict final.safetensors --data ../new >shown
    grep -qx 'accuracy   1' shown
    [ "$(wc -l <predictions.csv)" -eq 122 ]
    # The same lines in one file are unlabelled: the same predictions, and no metrics.
    cat ../new/neg ../new/pos >lines
    "$SUBMIT" predict final.safetensors --data lines -o plain.csv >shown
    ! grep -E '^(loss|accuracy)' shown || false
    [ "$(head -1 plain.csv)" = index,predicted,probability,predicted_name ]
    [ "$(of plain.csv probability)" = "$(of predictions.csv probability)" ]
    [ "$(of plain.csv predicted_name)" = "$(of predictions.csv predicted_name)" ]
    run "$SUBMIT" predict final.safetensors --data lines --dataset text:length=7 -o plain.csv
    [ "$status" -eq 6 ]
    [[ "$output" == *"length=7: the model was trained with length=6"* ]]
    run "$SUBMIT" predict final.safetensors --data lines --transform centre -o plain.csv
    [ "$status" -eq 6 ]
    [[ "$output" == *"--transform centre: the model was trained with unit"* ]]
}

@test "rows of a new table have the columns, classes and means of the model, on agents as in the simulator" {
    start_agents 2
    awk 'BEGIN { srand(1); print "a,b,kind,c"; for (i = 0; i < 240; i++) { k = i % 3
        printf "%g,%g,%s,%g\n", 100 * (k == 0) + rand(), rand() - 3 * (k == 1), substr("antbeecow", 3 * k + 1, 3), 1e4 + rand() } }' >train.csv
    printf '%s' '{"version":1,"name":"s","input":[3],"layers":[{"kind":"dense","units":3}],"loss":"softmax_cross_entropy"}' >m.json
    opt=(--dataset csv:label=kind --data train.csv --model m.json --batch_size 16 --codec allreduce --node_count 2
        --transform standard --epochs 10 --lr 0.5)
    "$SUBMIT" "${opt[@]}" -o out
    "$SUBMIT" simulate -q "${opt[@]}" -o sim
    # No ant, other means, another order, a column more and none with the label.
    awk -F, 'NR == 1 || NR % 3 != 2 { print $4 "," NR "," $2 "," $1 }' train.csv | sed '1s/.*/c,id,b,a/' >new.csv
    for model in out/model/final.safetensors sim; do
        "$SUBMIT" predict "$model" --data new.csv -o new.out.csv >shown 2>warned
        [ "$(wc -l <new.out.csv)" -eq 161 ]
        [ "$(of new.out.csv predicted_name | sort | uniq -c | tr -s ' \n' ' ')" = " 80 bee 80 cow " ]
        grep -q 'column "id" is left out' warned
        "$SUBMIT" predict "$model" --data train.csv -o all.csv | grep -qx 'accuracy   1'
        [ "$(paste -d, <(sed 1d train.csv | cut -d, -f3) <(of all.csv predicted_name) | awk -F, '$1 != $2' | wc -l)" -eq 0 ]
    done
    # The outputs on the test half are those of the job's own evaluation.
    "$SUBMIT" predict out -o half.csv >shown
    [ "$(awk '$1 == "loss" { print $2 }' shown)" = "$(last out loss)" ]
    sed -i '1s/b/d/' new.csv
    run "$SUBMIT" predict out --data new.csv -o new.out.csv
    [ "$status" -eq 6 ]
    [[ "$output" == *'no column is called "b"'* ]]
    sed 's/cow/dog/' train.csv >dog.csv
    run "$SUBMIT" predict out --data dog.csv -o new.out.csv
    [ "$status" -eq 6 ]
    [[ "$output" == *"the label \"dog\" is none of the model's 3 classes (ant, bee, cow)"* ]]
    # A file without the record causes a warning, and is used as before.
    "$SUBMIT" model inspect out/model/final.safetensors | grep -q preprocessing
    # The means are the same doubles in the model and in run.json.
    python3 - <<'PY'
import json, struct
with open("out/model/final.safetensors", "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
record = json.loads(header["__metadata__"]["preprocessing"])
assert record == json.load(open("out/run.json"))["facts"]["preprocessing"]
assert any(len(repr(m)) > 16 for m in record["mean"])
PY
}

@test "a job that starts from weights or resumes reads its data by their record" {
    start_agents 1
    for d in one two; do mkdir "$d"; done
    for i in $(seq 60); do
        echo "awful film$((i % 7))" >>one/neg
        echo "lovely film$((i % 7)) this" >>one/pos
        echo "lovely lovely this" >>two/pos
        echo "unheard$i awful" >>two/neg
    done
    printf '%s' '{"version":1,"name":"t","input":[4],"layers":[{"kind":"embedding","vocab":50,"units":4},{"kind":"mean_over_time"},{"kind":"dense","units":2}],"loss":"softmax_cross_entropy"}' >m.json
    opt=(--model m.json --batch_size 20 --codec plain --gradient-descent adam --lr 0.05)
    "$SUBMIT" "${opt[@]}" --dataset text:length=4,vocab=20 --data one --epochs 8 --checkpoint-every 8 -o out
    # Words keep their numbers, so that nothing is left to learn; the length is the weights', too.
    "$SUBMIT" "${opt[@]}" --init-from out/model/final.safetensors --dataset text --data two --epochs 1 --lr 1e-9 -o more
    [ "$(last more accuracy)" = 1 ]
    "$SUBMIT" --resume out --epochs 9 -o longer
    for run in more longer; do
        diff <(jq -c '.facts.preprocessing | del(.dataset)' out/run.json) <(jq -c '.facts.preprocessing | del(.dataset)' $run/run.json)
    done
    [ "$(jq '.facts.preprocessing.words | split(" ") | length' out/run.json)" -eq 10 ]
    mv two/neg two/dog
    run "$SUBMIT" validate "${opt[@]}" --init-from out/model/final.safetensors --dataset text --data two
    [ "$status" -eq 6 ]
    [[ "$output" == *'out/model/final.safetensors: text: sample '*': the label "dog" is none of the model'"'s 2 classes (neg, pos)"*write_safetensors* ]]
    mv two/dog two/neg
    run "$SUBMIT" validate "${opt[@]}" --init-from out/model/final.safetensors --dataset text:vocab=30 --data two
    [ "$status" -eq 6 ]
    [[ "$output" == *"vocab=30: the model was trained with vocab=20"* ]]
}

@test "a file named - is standard output where a verb writes one file, and refused elsewhere" {
    "$SUBMIT" simulate -q --model softmax --dataset "$FEW" --codec plain --node_count 2 --max-steps 4 -o out
    "$SUBMIT" predict out -o table.csv
    "$SUBMIT" predict out -o - 2>said | cmp - table.csv
    grep -qx 'table      standard output' said
    "$SUBMIT" predict out -o - 2>/dev/null | head -1 | cmp - <(head -1 table.csv)
    "$SUBMIT" model convert out/model/final.safetensors --to npz -o m.npz
    "$SUBMIT" model convert out/model/final.safetensors --to npz -o - 2>said | cmp - m.npz
    [ "$(cat said)" = "standard output" ]
    "$SUBMIT" model convert out/model/final.safetensors --to onnx -o m.onnx
    "$SUBMIT" model convert out/model/final.safetensors --to onnx -o - | cmp - m.onnx
    if command -v gnuplot; then "$SUBMIT" plot out --svg - | grep -q '</svg>'; fi
    refused() { # refused SENTENCE ARGUMENT...
        run "$SUBMIT" "${@:2}"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$1"* ]]
    }
    refused "--output -: a folder is needed" simulate --dataset "$FEW" -o -
    refused "--output -: a folder is needed" export out --to tensorboard -o -
    refused "--mlflow -: a folder is needed" fetch --mlflow -
    refused "--trace -: standard output has the job's results" fetch --trace -
    refused "--data -: nothing is read from standard input" predict out --data -
    refused "--init-from -: nothing is read from standard input" --init-from -
    refused "--json, and - as the file to write: only one" predict out -o - --json
    run "$SUBMIT" predict missing -o -
    [[ "$output" == *"missing: No such file"* ]]
    [ ! -e - ]
}
