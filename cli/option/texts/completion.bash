# Completes the options of mpiexec. Made by mpiexec --completion bash.

# Completes the value of an option, named without dashes; fails if it takes none.
_mpiexec_value() {
	case $1 in
%s	*) return 1 ;;
	esac
}

_mpiexec() {
	local line=${COMP_LINE:0:COMP_POINT} state=options cur word dashes i
	local -a words
	read -ra words <<<"$line"
	[[ $line == *[[:blank:]] ]] && words+=("")
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		word=${words[i]}
		if [[ $word == : ]]; then
			state=options
		elif [[ $state != options ]]; then
			state=arguments
		elif [[ $word == -- ]]; then
			state=program
		elif [[ $word != -* ]]; then
			state=arguments
		elif [[ $word != *=* ]]; then
			word=${word#-} cur=${words[i + 1]}
			if _mpiexec_value "${word#-}"; then
				((++i == ${#words[@]} - 1)) && return
			fi
		fi
	done
	cur=${words[${#words[@]} - 1]}
	COMPREPLY=()
	if [[ $state == arguments ]]; then
		compopt -o default 2>/dev/null
	elif [[ $state == program || $cur != -* ]]; then
		COMPREPLY=($(compgen -c -- "$cur"; compgen -f -- "$cur"))
		compopt -o filenames 2>/dev/null
	elif [[ $cur == *=* ]]; then
		word=${cur%%%%=*} cur=${cur#*=} word=${word#-}
		_mpiexec_value "${word#-}"
	elif [[ $cur == - || $cur == -- ]]; then
		COMPREPLY=($(compgen -W %s -- "$cur"))
	else
		dashes=${cur%%%%[!-]*}
		COMPREPLY=($(compgen -P "$dashes" -W %s -- "${cur#"$dashes"}"))
	fi
}
complete -F _mpiexec mpiexec
