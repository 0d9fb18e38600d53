# Completes command lines of mpiexec and of its other names: mpiexec itself says what there is. Made by mpiexec --completion bash.

_mpiexec() {
	local line=${COMP_LINE:0:COMP_POINT} IFS=$' \t\n' kind from word help cur strip
	local -a words
	read -ra words <<<"$line"
	[[ $line == *[[:blank:]] ]] && words+=("")
	cur=${words[${#words[@]} - 1]}
	strip=${cur%"$2"} # the part of the word in front of the last = or :, which bash keeps
	COMPREPLY=()
	{
		read -r kind from
		while IFS=$'\t' read -r word help; do COMPREPLY+=("${word#"$strip"}"); done
	} < <("${1/#\~/$HOME}" --__complete "${words[@]:1}" 2>/dev/null)
	IFS=$'\n'
	case $kind in
	words) [[ ${#COMPREPLY[@]} == 1 && $COMPREPLY == *[=:@] ]] && compopt -o nospace 2>/dev/null ;;
	files) COMPREPLY=($(compgen -f -- "${cur:from}")); compopt -o filenames 2>/dev/null ;;
	folders) COMPREPLY=($(compgen -d -- "${cur:from}")); compopt -o filenames 2>/dev/null ;;
	program) COMPREPLY=($(compgen -c -- "$cur"; compgen -f -- "$cur")); compopt -o filenames 2>/dev/null ;;
	arguments) compopt -o default 2>/dev/null ;;
	esac
}
complete -F _mpiexec mpiexec mpirun mpiexec.remshell mpirun.remshell aprun mpijob
