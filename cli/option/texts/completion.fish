# Completes command lines of mpiexec and of its other names: mpiexec itself says what there is. Made by mpiexec --completion fish.

function __mpiexec_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -l lines ($program --__complete $words[2..-1] "$word" 2>/dev/null)
    set -l answer (string split ' ' -- $lines[1])
    set -l from (math 0$answer[2] + 1)
    switch "$answer[1]"
        case words
            string join \n -- $lines[2..-1]
        case files folders
            set -l before (string sub -l (math $from - 1) -- "$word")
            set -l ask __fish_complete_path
            test $answer[1] = folders; and set ask __fish_complete_directories
            for found in ($ask (string sub -s $from -- "$word"))
                echo $before$found
            end
        case program
            __fish_complete_command
        case arguments
            complete -C (string join ' ' -- (string escape -- $words[(math $from + 1)..-1]) "$word")
    end
end

for name in mpiexec mpirun mpiexec.remshell mpirun.remshell aprun mpijob
    complete -c $name -f -a '(__mpiexec_complete)'
end
