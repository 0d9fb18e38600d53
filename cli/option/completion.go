package option

import (
	"fmt"
	"slices"
	"strings"
)

// Completion is what makes a shell complete our options, made of the option table. All
// three find the program first: what follows it is its own affair.
func Completion(shell string) string {
	switch t := newTable(); shell {
	case "bash":
		return t.bash()
	case "zsh":
		return t.zsh()
	default:
		return t.fish()
	}
}

// kind is what the value of an option looks like to a shell.
func (o *Option) kind() string {
	switch {
	case len(o.Words) > 0:
		return "words"
	case strings.HasPrefix(o.Arg, "FILE"):
		return "file"
	case strings.HasPrefix(o.Arg, "DIR"):
		return "folder"
	case o.list && strings.Contains(o.field.Type.String(), "HostExpr"):
		return "host"
	}
	return "other"
}

// valued reports whether the next word belongs to a spelling of the option.
func (o *Option) valued(s Spelling) bool { return o.Arg != "" && o.takes != "attached" && !s.Preset }

// each calls f for every spelling of every option.
func (t *table) each(f func(o *Option, s Spelling)) {
	for _, o := range t.options {
		f(o, Spelling{Dashed: o.Dashed})
		for _, s := range o.Also {
			f(o, s)
		}
	}
}

// names lists all spellings without their dashes, and the names as we write them.
func (t *table) spellings() (all, ours []string) {
	t.each(func(o *Option, s Spelling) { all = append(all, strings.TrimLeft(s.Dashed, "-")) })
	for _, o := range t.options {
		ours = append(ours, o.Dashed)
	}
	return all, ours
}

// branches lists, for a case of sh, the names of the options that take the next word, and
// what completes it, by what do makes of an option.
func (t *table) branches(do func(o *Option) string) string {
	var order []string
	names := make(map[string][]string)
	t.each(func(o *Option, s Spelling) {
		if !o.valued(s) {
			return
		}
		action := do(o)
		if names[action] == nil {
			order = append(order, action)
		}
		names[action] = append(names[action], strings.TrimLeft(s.Dashed, "-"))
	})
	var b strings.Builder
	for _, action := range order {
		fmt.Fprintf(&b, "\t%s) %s ;;\n", strings.Join(slices.Compact(names[action]), "|"), action)
	}
	return b.String()
}

// bash gives up the words that bash makes, which break at = and :, and splits the line at
// blanks.
func (t *table) bash() string {
	all, ours := t.spellings()
	actions := map[string]string{
		"file": `COMPREPLY=($(compgen -f -- "$cur")); compopt -o filenames 2>/dev/null`, "folder": `COMPREPLY=($(compgen -d -- "$cur")); compopt -o filenames 2>/dev/null`,
		"host": `COMPREPLY=($(compgen -A hostname -- "$cur"))`, "other": "COMPREPLY=()",
	}
	branches := t.branches(func(o *Option) string {
		if o.kind() == "words" {
			return fmt.Sprintf(`COMPREPLY=($(compgen -W %s -- "$cur"))`, Quote(strings.Join(o.Words, " ")))
		}
		return actions[o.kind()]
	})
	return fmt.Sprintf(`# Completes the options of mpiexec. Made by mpiexec --completion bash.

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
`, branches, Quote(strings.Join(ours, " ")), Quote(strings.Join(all, " ")))
}

// valuedNames are the names without dashes of all options that take the next word.
func (t *table) valuedNames() []string {
	var names []string
	t.each(func(o *Option, s Spelling) {
		if o.valued(s) {
			names = append(names, strings.TrimLeft(s.Dashed, "-"))
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// zsh can be sourced, or be a file _mpiexec in the function path.
func (t *table) zsh() string {
	var options strings.Builder
	t.each(func(o *Option, s Spelling) {
		fmt.Fprintf(&options, "\t\t%s\n", Quote(s.Dashed+":"+o.Help()))
	})
	actions := map[string]string{"file": "_files", "folder": "_files -/", "host": "_hosts", "other": "_message value"}
	branches := t.branches(func(o *Option) string {
		if o.kind() == "words" {
			return "compadd -- " + strings.Join(o.Words, " ")
		}
		return actions[o.kind()]
	})
	return fmt.Sprintf(`#compdef mpiexec
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
`, branches, strings.Join(t.valuedNames(), "|"), options.String())
}

// fish knows options with one dash and long names by itself, but not where the program is.
func (t *table) fish() string {
	var b strings.Builder
	fmt.Fprintf(&b, fishFunctions, strings.Join(t.valuedNames(), " "))
	actions := map[string]string{"file": " -rF", "folder": ` -xa '(__fish_complete_directories)'`, "host": ` -xa '(__fish_print_hostnames)'`, "other": " -x"}
	t.each(func(o *Option, s Spelling) {
		name := strings.TrimLeft(s.Dashed, "-")
		flag := "-o " + name + " -l " + name // one dash or two
		if len(name) == 1 {
			flag = "-s " + name
		}
		line := "complete -c mpiexec -n '__mpiexec_at options value' " + flag + " -d " + fishQuote(o.Help())
		switch {
		case !o.valued(s):
		case o.kind() == "words":
			line += " -xa " + Quote(strings.Join(o.Words, " "))
		default:
			line += actions[o.kind()]
		}
		fmt.Fprintln(&b, line)
	})
	return b.String()
}

// fishFunctions are what fish needs to know where the cursor is. %s is the options with a value.
const fishFunctions = `# Completes the options of mpiexec. Made by mpiexec --completion fish.

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
`

// fishQuote quotes a word for fish, where a backslash counts between single quotes too.
func fishQuote(word string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(word) + "'"
}
