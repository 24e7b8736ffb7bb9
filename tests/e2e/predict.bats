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
    # Another transform gives another loss: the job's own was used above.
    "$SUBMIT" predict out --transform unit >other
    [ "$(awk '$1 == "loss" { print $2 }' other)" != "$(last out loss)" ]
}

@test "predict refuses what is no model, and data that a model does not fit" {
    start_agents 1
    "$SUBMIT" --codec plain --epochs 1 --model softmax -o out
    run "$SUBMIT" predict out --dataset simlin
    [ "$status" -eq 6 ]
    [[ "$output" == *'model softmax and data set simlin: model "softmax" takes 784 values per sample, the data set has 1024'* ]]
    run "$SUBMIT" predict out --dataset digits --data .
    [ "$status" -eq 2 ]
    run "$SUBMIT" predict agent0
    [ "$status" -eq 6 ]
    [[ "$output" == *"agent0 has no model/final.safetensors"* ]]
    run "$SUBMIT" predict out/run.json
    [ "$status" -eq 6 ]
    [[ "$output" == *"out/run.json: not a safetensors file"* ]]
    # What is no earlier table is not replaced.
    run "$SUBMIT" predict out -o out/model/final.safetensors
    [ "$status" -ne 0 ]
    [[ "$output" == *"out/model/final.safetensors is there, and no table of predictions"*"-o FILE"* ]]
    "$SUBMIT" predict out -o table.csv
    "$SUBMIT" predict out -o table.csv
    run "$SUBMIT" predict
    [ "$status" -eq 2 ]
    [ ! -e predictions.csv ]
}
