# documents.bash -- the code blocks of documents, and their commands, as a reader runs them.
# shellcheck shell=bash

# blocks LANGUAGE FILE [N]: the blocks of a document that begin with ```LANGUAGE, in order, or only the N-th.
blocks() { awk -v lang="$1" -v n="${3:-0}" '$0 == "```" lang { on = ++k == n || !n; next } /^```/ { on = 0 } on' "$ROOT/$2"; }

# follow WORD [COMMAND...]: runs those of ```sh WORD of docs/clusters.md, under the command, as a user who has psgd's programs in PATH.
follow() {
    blocks "sh $1" docs/clusters.md >commands.sh
    [ -s commands.sh ]
    PATH=$BUILD:$PATH limited "${@:2}" bash -e commands.sh
    [ "$(jq -r .state job/results/run.json)" = succeeded ]
}
