#compdef mpiexec mpirun mpiexec.remshell mpirun.remshell aprun mpijob
# Completes command lines of mpiexec and of its other names: mpiexec itself says what there is. Made by mpiexec --completion zsh.

_mpiexec() {
	local kind from line
	local -a lines offers open
	lines=("${(@f)$(${~words[1]} --__complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
	kind=${lines[1]%% *} from=${lines[1]##* }
	case $kind in
	files) compset -p $from; _files ;;
	folders) compset -p $from; _files -/ ;;
	program) _alternative 'commands:program:_command_names -e' 'files:program:_files' ;;
	arguments)
		words=("${(@)words[from+2,-1]}")
		((CURRENT -= from + 1))
		_normal
		;;
	words)
		for line in "${(@)lines[2,-1]}"; do
			line=${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}
			line=${line%:}
			if [[ ${line%%:*} == *[=@] || $line == *\\: ]]; then open+=("$line"); else offers+=("$line"); fi
		done
		_describe -t words word offers -- open -S ''
		;;
	esac
}

if [[ ${funcstack[1]} == _mpiexec ]]; then
	_mpiexec "$@"
else
	compdef _mpiexec mpiexec mpirun mpiexec.remshell mpirun.remshell aprun mpijob
fi
