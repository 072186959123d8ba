# Completion of git-baton and `git baton` in fish. In ~/.config/fish/config.fish:
#     git-baton completion fish | source

function __git_baton_words
    set -l line (commandline -cp)
    BATON_JSON=0 git-baton completion fish --line "$line" 2>/dev/null | while read -d \t kind value help
        switch $kind
            case word
                printf '%s\t%s\n' $value $help
            case file
                __fish_complete_path (commandline -ct)
            case dir
                __fish_complete_directories (commandline -ct)
        end
    end
end

function __git_baton_after_git
    set -l given (commandline -opc)
    set -e given[1]
    while set -q given[1]
        switch $given[1]
            case baton
                return 0
            case -C -c --git-dir --work-tree --namespace --exec-path
                set -e given[1]
            case '-*'
            case '*'
                return 1
        end
        set -e given[1]
    end
    return 1
end

complete -c git-baton -f -a '(__git_baton_words)'
complete -c git -f -n __git_baton_after_git -a '(__git_baton_words)'
