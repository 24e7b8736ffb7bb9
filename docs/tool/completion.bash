# bash completion of job_submit, psgd and psgd-agent, made by docs/tool/manuals: _psgd_table has their verbs and options as
# PROGRAM|VERB|OPTIONS|VALUES.

# _psgd_rows PROGRAM VERB: its rows; without VERB those of all verbs, without options.
_psgd_rows()
{
    local program verb options values
    while IFS='|' read -r program verb options values; do
        [[ $program == "$1" ]] || continue
        if [[ -z $2 ]]; then
            [[ -n $options ]] || echo "$verb"
        elif [[ $verb == "$2" ]]; then
            echo "$options|$values"
        fi
    done <<<"${_psgd_table:-}"
}

# _psgd_offer WORD...: those that begin as $cur does; '_' and '-' are the same in an option.
_psgd_offer()
{
    local word begin=${cur//_/-} # $list: what of a list of values is there before $cur
    for word in "$@"; do
        if [[ $word == FILE ]]; then
            compopt -o filenames
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -P "$list" -- "$cur")
        elif [[ ${word//_/-} == "$begin"* ]]; then
            COMPREPLY+=("$list$word")
        fi
    done
}

_psgd_jobs()
{
    local file folder=${XDG_STATE_HOME:-$HOME/.local/state}/psgd/jobs
    for file in "$folder"/j-*.json; do
        file=${file##*/}
        [[ $file == 'j-*.json' ]] || _psgd_offer "${file%.json}"
    done
}

_psgd()
{
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local program=${1##*/} first=1 list='' verb options values words
    COMPREPLY=()
    # bash divides --codec=fed into three words.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    # The value in --set KEY=VALUE,VALUE is one of --KEY.
    if [[ $COMP_CWORD -gt 3 && " ${COMP_WORDS[*]:COMP_CWORD-3:2} " == *' --set '* && $before != -* ]]; then
        before=--$before list=${cur%"${cur##*,}"} cur=${cur##*,}
    fi
    if [[ $program == psgd && ${COMP_WORDS[1]} == agent && $COMP_CWORD -gt 1 ]]; then
        program=psgd-agent
        first=2
    elif [[ $program == psgd ]]; then
        [[ $COMP_CWORD -gt 1 ]] || _psgd_offer agent
        program=job_submit
    fi
    if [[ $COMP_CWORD -eq $first && $cur != -* ]]; then
        mapfile -t words < <(_psgd_rows "$program" '')
        _psgd_offer "${words[@]}"
        return
    fi
    verb=${COMP_WORDS[first]}
    if [[ $verb == -* || $COMP_CWORD -eq $first ]]; then
        verb=submit
        [[ $program == job_submit ]] || verb=run
    fi
    while IFS='|' read -r options values; do
        if [[ " ${options//_/-} " == *" ${before//_/-} "* && $before == -* && $values != - ]]; then
            # shellcheck disable=SC2086 # a list of words
            _psgd_offer $values
            return
        elif [[ $cur == -* ]]; then
            # shellcheck disable=SC2086
            _psgd_offer $options
        elif [[ -z $options && $values == JOB ]]; then
            _psgd_jobs
        elif [[ -z $options && -n $values && $COMP_CWORD -eq $((first + 1)) ]]; then
            # shellcheck disable=SC2086
            _psgd_offer $values
            return
        fi
    done < <(_psgd_rows "$program" "$verb")
    [[ ${#COMPREPLY[@]} -gt 0 || $cur == -* ]] || _psgd_offer FILE
}

complete -F _psgd job_submit psgd psgd-agent
