#!/bin/sh
# Runs one complete job with every runner under valgrind and fails on errors or leaks. Agents and job_submit run without it,
# because Debian 12's valgrind does not support pidfd_open; `make sanitize` finds their leaks. Without oneDNN, whose
# generated code loads vectors beyond the ends of its buffers.
set -eu
cd "$(dirname "$0")/.."
BUILD=$(cd "${BUILD:-build}" && pwd)
T=$(mktemp -d "${TMPDIR:-/tmp}/psgd-valgrind-XXXXXX")
export XDG_STATE_HOME="$T/state"
. submit/local_agents.sh

# shellcheck disable=SC2317 # called by the trap
finish() {
    end_all
    rm -rf "$T"
}
trap finish EXIT
trap 'exit 143' INT TERM HUP

# The agent starts job_runner from its own folder: a script of that name there runs the real one under valgrind.
mkdir "$T/bin"
cp -r "$BUILD/codecs" "$BUILD/models" "$T/bin/"
cp "$BUILD/agent" "$BUILD/job_submit" "$T/bin/"
cp "$BUILD/job_runner" "$T/bin/runner"
valgrind="valgrind -q --vgdb=no --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=99"
printf '#!/bin/sh\nexec /usr/bin/%s "--log-file=%s/runner.%%p" "%s/bin/runner"\n' "$valgrind" "$T" "$T" >"$T/bin/job_runner"
chmod +x "$T/bin/job_runner"

set --
for n in 0 1 2; do
    start_agent "$T/agent$n.log" "$T/bin/agent" --port 0 --dir "$T/a$n"
    set -- "$@" "$address"
done
cd "$T"
echo "{\"PS\":\"$1\",\"Worker\":[\"$2\",\"$3\"]}" >worker.json
# Ten steps of each node suffice. The files are in MNIST's format, with N times 256 images, all of one class.
mkdir data
images() { printf '\0\0\10\3\0\0%b\0\0\0\0\34\0\0\0\34' "\\0$1" && yes psgd | head -c $(($1 * 256 * 28 * 28)); }
labels() { printf '\0\0\10\1\0\0%b\0' "\\0$1" && head -c $(($1 * 256)) /dev/zero; }
images 5 >data/train-images-idx3-ubyte
labels 5 >data/train-labels-idx1-ubyte
images 1 >data/t10k-images-idx3-ubyte
labels 1 >data/t10k-labels-idx1-ubyte
bin/job_submit -q --codec fedavg --node_count 2 --model softmax --dataset mnist --data data --epochs 1 --agent-timeout 60 \
    --math openblas -o out
agents=$pids
end_all
for pid in $agents; do wait "$pid"; done # fails unless its status is 0
bad=0
for log in runner.*; do
    # Debian 12's valgrind has no pidfd_open, without which a node's monitor ends, and neither Landlock nor seccomp.
    sed -i -E '/WARNING: unhandled .* syscall: (434|444|317)$/,/valgrind.org\/support\/bug_reports.html.$/d' "$log"
    if [ -s "$log" ]; then
        echo "== $log"
        cat "$log"
        bad=1
    fi
done
[ $bad -eq 0 ] && echo "valgrind: 3 runners are clean"
exit $bad
