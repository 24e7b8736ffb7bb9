#compdef job_submit psgd psgd-agent
# zsh completion of job_submit, psgd and psgd-agent, made by docs/tool/manuals: _psgd_table has their verbs and options, with tabs
# between PROGRAM, VERB, OPTIONS, VALUES and HELP.

_psgd_jobs() {
    local -a jobs
    jobs=(${XDG_STATE_HOME:-$HOME/.local/state}/psgd/jobs/j-*.json(N:t:r))
    _describe job jobs
}

_psgd() {
    local program=$service row verb option names values help action
    local -a verbs arguments column
    if [[ $program == psgd && ${words[2]} == agent && $CURRENT -gt 2 ]]; then
        shift words
        ((CURRENT--))
        program=psgd-agent
    elif [[ $program == psgd ]]; then
        verbs=('agent:psgd-agent')
        program=job_submit
    fi
    verb=${words[2]}
    if [[ $CURRENT -gt 2 && $verb != -* ]]; then
        shift words
        ((CURRENT--))
    elif [[ $program == job_submit ]]; then
        [[ $verb == -* ]] && verb=submit || verb=
    else
        [[ $verb == -* ]] && verb=run || verb=
    fi
    for row in ${(f)_psgd_table}; do
        column=("${(@ps:\t:)row}")
        [[ $column[1] == $program ]] || continue
        help=${column[5]//(#m)[\[\]:\\]/\\$MATCH}
        if [[ -z $column[3] ]]; then
            verbs+=("$column[2]:$help")
            [[ $column[2] == $verb && $column[4] == JOB ]] && arguments+=('*:job:_psgd_jobs')
            [[ $column[2] == $verb && -n $column[4] && $column[4] != JOB ]] && arguments+=("1:what:($column[4])" '*:file:_files')
            continue
        fi
        [[ $column[2] == $verb ]] || continue
        case $column[4] in
        -) action= ;;
        '') action=:value: ;;
        *FILE) action=:value:_files ;;
        *) action=":value:($column[4])" ;;
        esac
        for option in ${=column[3]}; do
            [[ $option == --* && -n $action ]] && option+==
            arguments+=("$option""[$help]$action")
        done
    done
    if [[ -z $verb ]]; then
        _describe verb verbs
    else
        (($#arguments)) && [[ ${arguments[(r)\*:*]} ]] || arguments+=('*:file:_files')
        _arguments -s : $arguments
    fi
}
