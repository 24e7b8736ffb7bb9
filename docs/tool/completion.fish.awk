# fish's completion from the table of docs/tool/completion.c: a line for each verb, and for each option of the same verbs.
function quoted(text) {
    gsub(/\\/, "\\\\", text)
    gsub(/'/, "\\'", text)
    return "'" text "'"
}
function says(command, condition, rest) { print "complete -c " command " -n " quoted(condition) " " rest }
# Without a verb, options are those of submit, and of the agent.
function seen(list, all) {
    return (all == "" ? "" : "not __fish_seen_subcommand_from " all "; or ") "__fish_seen_subcommand_from" list
}
function says_verb(program, verb, kind, help) {
    if (program == "psgd-agent") {
        says("psgd-agent", "not __fish_seen_subcommand_from token", "-f -a " verb " -d " help)
        says("psgd", "__fish_seen_subcommand_from agent; and not __fish_seen_subcommand_from token", "-f -a " verb " -d " help)
        return
    }
    says("job_submit", "not __fish_seen_subcommand_from $__psgd_verbs", "-f -a " verb " -d " help)
    says("psgd", "not __fish_seen_subcommand_from agent $__psgd_verbs", "-f -a " verb " -d " help)
    if (kind == "JOB") {
        says("job_submit", seen(" " verb), "-f -a '(__psgd_jobs)'")
        says("psgd", seen(" " verb), "-f -a '(__psgd_jobs)'")
    } else if (kind != "") {
        says("job_submit", seen(" " verb) (verb == "help" ? "" : "; and not __fish_seen_subcommand_from " kind), "-f -a " quoted(kind))
        says("psgd", seen(" " verb) (verb == "help" ? "" : "; and not __fish_seen_subcommand_from " kind), "-f -a " quoted(kind))
    }
}
function says_option(program, list, option) {
    if (program == "psgd-agent") {
        says("psgd-agent", list ~ / run( |$)/ ? seen(" token", "token") : seen(list), option)
        says("psgd", "__fish_seen_subcommand_from agent" (list ~ / run( |$)/ ? "" : "; and __fish_seen_subcommand_from token"), option)
    } else {
        says("job_submit", seen(list, list ~ / submit( |$)/ ? "$__psgd_verbs" : ""), option)
        says("psgd", seen(list, list ~ / submit( |$)/ ? "agent $__psgd_verbs" : ""), option)
    }
}
function as_fish(names, values, help,    n, i, name, text, words) {
    n = split(names, name, " ")
    for (i = 1; i <= n; i++)
        text = text (name[i] ~ /^--/ ? "-l " substr(name[i], 3) : "-s " substr(name[i], 2)) " "
    words = values
    sub(/ ?FILE$/, "", words)
    if (values != "-")
        text = text (values ~ /FILE$/ ? "-r " : "-x ") (words == "" ? "" : "-a " quoted(words) " ")
    return text "-d " quoted(help)
}
BEGIN { print "# fish completion of job_submit, psgd and psgd-agent, made by docs/tool/manuals." }
$3 == "" {
    n_verbs++
    program[n_verbs] = $1; verb[n_verbs] = $2; kind[n_verbs] = $4; help_of[n_verbs] = $5
    if ($1 == "job_submit") all = all " " $2
    next
}
{
    key = $1 SUBSEP $3 SUBSEP $4 SUBSEP $5
    if (!(key in list)) order[++n_options] = key
    list[key] = list[key] " " $2
}
END {
    print "set -g __psgd_verbs" all
    for (i = 1; i <= n_verbs; i++)
        says_verb(program[i], verb[i], kind[i], quoted(help_of[i]))
    print "complete -c psgd -n 'not __fish_seen_subcommand_from agent $__psgd_verbs' -f -a agent -d psgd-agent"
    for (i = 1; i <= n_options; i++) {
        split(order[i], c, SUBSEP)
        says_option(c[1], list[order[i]], as_fish(c[2], c[3], c[4]))
    }
    print "function __psgd_jobs"
    print "    set -l state $HOME/.local/state"
    print "    set -q XDG_STATE_HOME; and set state $XDG_STATE_HOME"
    print "    for file in $state/psgd/jobs/j-*.json"
    print "        string replace -r '.*/(.*)\\.json$' '$1' $file"
    print "    end"
    print "end"
}
