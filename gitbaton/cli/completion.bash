# Completion of git-baton and `git baton` in bash. In ~/.bashrc:
#     eval "$(git-baton completion bash)"

_git_baton() {
    local line=${COMP_LINE:0:COMP_POINT} kind value help
    # readline replaces what follows the last of its word breaks only, an @ included.
    local word=${line##*[[:space:]]}
    local kept=${word%"${word##*[$COMP_WORDBREAKS]}"}
    kept=${kept%@}
    # Called by git's completion, which has bash put no blank behind a word.
    local blank=" "
    [[ ${COMP_WORDS[0]} == *git-baton ]] && blank=
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            word) COMPREPLY+=("${value#"$kept"}$blank") ;;
            file) compopt -o default 2>/dev/null ;;
            dir) compopt -o dirnames 2>/dev/null ;;
        esac
    done < <(BATON_JSON=0 git-baton completion bash --line "$line" 2>/dev/null)
}

# git's own completion calls _git_baton for `git baton`.
complete -o nosort -F _git_baton git-baton 2>/dev/null || complete -F _git_baton git-baton
