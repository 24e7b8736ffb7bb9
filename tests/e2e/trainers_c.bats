#!/usr/bin/env bats
# Training programs in C, started by hand: alone, as workers of no job.
load lib

@test "a program in C needs psgd_trainer.c, any C11 compiler and libc, and trains alone" {
    local cc found=0
    for cc in gcc clang; do
        command -v $cc >/dev/null || continue
        found=1
        $cc -std=c11 -O1 -Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
            -I"$ROOT/shared/trainer" "$ROOT/examples/trainers/linear.c" "$ROOT/shared/trainer/psgd_trainer.c" -o linear
        limited ./linear >said 2>why
        [ "$(<why)" = "the program has no more data" ]
        read -r -a w < <(tr -d w,b <said)
        awk 'BEGIN { for (k = 1; k <= 5; k++) { d = ARGV[k] - (k < 5 ? k : 0.5); if (d * d > 1e-4) exit 1 } }' "${w[@]}"
    done
    [ $found = 1 ] || skip "no C compiler"
}

@test "a program in C++ includes psgd_trainer.h" {
    command -v c++ >/dev/null || skip "no C++ compiler"
    printf '#include "psgd_trainer.h"\nint main() { psgd *p; psgd_tensor t = {"W", 1, {3}, false}; return psgd_open(&p, &t, 1); }\n' >program.cc
    cc -c -I"$ROOT/shared/trainer" "$ROOT/shared/trainer/psgd_trainer.c" -o library.o
    c++ -Wall -Wextra -Werror -I"$ROOT/shared/trainer" program.cc library.o -o program
    ./program
}

@test "a program that links nn/ computes what the built-in worker computes, to the bit" {
    start_agents 1
    "$SUBMIT" --workers worker.json --node_count 1 --codec plain --epochs 2 --model mlp-tutorial --dataset "$FEW" -q -o built-in
    mkdir packages
    cp -L agent0/jobs/*/packages/* packages
    mv packages/train.safetensors packages/train-0.safetensors
    limited "$BUILD/tests/trainers/mlp_nn" packages >said
    [ "$(<said)" = "$(tail -1 built-in/records/eval.csv | awk -F, '{ print "loss " $6 ", accuracy " $7 }')" ]
}
