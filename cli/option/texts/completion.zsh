#compdef mpiexec
# Completes the options of mpiexec. Made by mpiexec --completion zsh.

# Completes the value of an option, named without dashes.
_mpiexec_value() {
	case $1 in
%s	esac
}

_mpiexec() {
	local state=options word name i from
	local -a options
	for ((i = 2; i < CURRENT; i++)); do
		word=${words[i]} name=${${words[i]#-}#-}
		if [[ $word == : ]]; then
			state=options
		elif [[ $state == program || $state == options && $word != -* ]]; then
			state=arguments from=$i
		elif [[ $state == options && $word == -- ]]; then
			state=program
		elif [[ $state == options && $name == (%s) ]]; then
			if ((++i == CURRENT)); then
				_mpiexec_value $name
				return
			fi
		fi
	done
	if [[ $state == arguments ]]; then
		words=("${(@)words[from,-1]}")
		((CURRENT -= from - 1))
		_normal
	elif [[ $state == options && $PREFIX == -*=* ]]; then
		name=${${${PREFIX%%%%=*}#-}#-}
		compset -P '*='
		_mpiexec_value $name
	elif [[ $state == options && $PREFIX == -* ]]; then
		options=(
%s		)
		[[ $PREFIX == --* ]] && options=("--"${^${(@)${(@)options#-}#-}})
		_describe -o option options
	else
		_alternative 'commands:program:_command_names -e' 'files:program:_files'
	fi
}

if [[ ${funcstack[1]} == _mpiexec ]]; then
	_mpiexec "$@"
else
	compdef _mpiexec mpiexec
fi
