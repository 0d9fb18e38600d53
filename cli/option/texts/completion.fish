# Completes the options of mpiexec. Made by mpiexec --completion fish.

# Tells where the cursor is: options, value, program, or the words of the program so far.
function __mpiexec_place
    set -l valued %s
    set -l place options
    set -l program
    for word in (commandline -opc)[2..-1]
        if test "$word" = :
            set place options
            set program
        else if test $place = arguments; or test $place = program
            set place arguments
            set -a program $word
        else if test $place = value
            set place options
        else if test "$word" = --
            set place program
        else if not string match -q -- '-*' $word
            set place arguments
            set -a program $word
        else if contains -- (string replace -r -- '^--?' '' $word) $valued
            set place value
        end
    end
    echo $place
    string join \n -- $program
end

function __mpiexec_at
    contains -- (__mpiexec_place)[1] $argv
end

function __mpiexec_arguments
    set -l program (__mpiexec_place)[2..-1]
    complete -C (string join ' ' -- (string escape -- $program) (commandline -ct))
end

complete -c mpiexec -f
complete -c mpiexec -n '__mpiexec_at options program' -a '(__fish_complete_command)'
complete -c mpiexec -n '__mpiexec_at arguments' -a '(__mpiexec_arguments)'
