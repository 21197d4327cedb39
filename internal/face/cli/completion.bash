
# The words of the command line, also where the package bash-completion is not
# installed. bash breaks words at = and :, which belong to weir's words; those that
# have no blank before them are one.
__weir_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local i word before line=$COMP_LINE
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        before=$line
        if [[ -n $word ]]; then
            before=${line%%"$word"*}
            line=${line#*"$word"}
        fi
        if ((i == 0)) || [[ -n $before ]]; then
            words+=("$word")
        else
            words[${#words[@]}-1]+=$word
        fi
        if ((i == COMP_CWORD)); then
            cword=$((${#words[@]} - 1))
        fi
    done
    cur=${words[cword]}
    prev=
    if ((cword > 0)); then
        prev=${words[cword-1]}
    fi
}
