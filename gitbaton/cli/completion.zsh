#compdef git-baton
#description run an approved plan with several workers
# Completion of git-baton and `git baton` in zsh. In ~/.zshrc, after compinit:
#     eval "$(git-baton completion zsh)"
# or written to a file _git-baton in a folder of fpath.

_git-baton() {
    local kind value help
    local -a found
    local place=${opt_args[-C]:+"-C ${opt_args[-C]} "}
    local line="git-baton $place${(j: :)words[2,CURRENT-1]} $PREFIX"
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            word) found+=("${value//:/\\:}${help:+:$help}") ;;
            file) _files ;;
            dir) _files -/ ;;
        esac
    done < <(BATON_JSON=0 git-baton completion zsh --line "$line" 2>/dev/null)
    (( $#found )) && _describe -V 'git-baton' found
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _git-baton "$@"
else
    compdef _git-baton git-baton
fi
