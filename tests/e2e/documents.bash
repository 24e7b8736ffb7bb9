# documents.bash -- the commands of docs/clusters.md, as a reader runs them.
# shellcheck shell=bash

# block WORD: the commands of the block ```sh WORD of docs/clusters.md.
block() { awk -v "head=\`\`\`sh $1" '$0 == head { on = 1; next } /^```/ { on = 0 } on' "$ROOT/docs/clusters.md"; }

# follow WORD [COMMAND...]: runs them, under the command, as a user who has psgd's programs in PATH.
follow() {
    block "$1" >commands.sh
    [ -s commands.sh ]
    PATH=$BUILD:$PATH limited "${@:2}" bash -e commands.sh
    [ "$(jq -r .state job/results/run.json)" = succeeded ]
}
