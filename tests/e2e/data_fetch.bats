#!/usr/bin/env bats
# job_submit data fetch mnist, against a server on this machine.
load lib

serve() { # serve DIR: over HTTP on $PORT
    : >server
    "$TOOLS/limit" "$TEST_LIMIT" python3 -u -m http.server --bind 127.0.0.1 --directory "$1" 0 >server 2>/dev/null 3>&- &
    AGENTS[50]=$! # stopped with the agents
    within 60 grep -q ' port [0-9]* ' server
    PORT=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' server)
}

@test "data fetch downloads the four files, verifies them and skips existing ones" {
    [ -f "$DATA/mnist/train-images-idx3-ubyte.gz" ] || skip "MNIST is not at $DATA/mnist (set PSGD_DATA)"
    serve "$DATA/mnist"
    run "$SUBMIT" data fetch mnist --mirror "http://127.0.0.1:$PORT/" --to d
    [ "$status" -eq 0 ]
    [ "$(find d -type f | wc -l)" -eq 4 ]
    run "$SUBMIT" data fetch mnist --mirror "http://127.0.0.1:1/" --to d
    [ "$status" -eq 0 ]
}

@test "data fetch refuses files that are not MNIST" {
    mkdir fake
    for f in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
        echo nonsense | gzip >fake/$f.gz
    done
    serve fake
    run "$SUBMIT" data fetch mnist --mirror "http://127.0.0.1:$PORT/" --to d
    [ "$status" -ne 0 ]
    [[ "$output" == *"SHA-256"* || "$output" == *"sha256"* ]]
    [ "$(find d -type f | wc -l)" -eq 0 ]
}
