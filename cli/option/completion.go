package option

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// The scripts, with %s for what the table says: bash and zsh wrap it, for fish it follows.
var (
	//go:embed texts/completion.bash
	bashScript string
	//go:embed texts/completion.zsh
	zshScript string
	//go:embed texts/completion.fish
	fishScript string
)

// Completion is what makes a shell complete our options, made of the option table. All
// three find the program first: what follows it is its own affair.
func (t *Table) Completion(shell string) string {
	switch shell {
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
	case o.list && strings.Contains(o.field.Type.String(), "HostExpr"), strings.HasSuffix(o.field.Type.String(), "HostNames"):
		return "host"
	}
	return "other"
}

// valued reports whether the next word belongs to a spelling of the option.
func (o *Option) valued(s Spelling) bool { return o.Arg != "" && o.takes != "attached" && !s.Preset }

// each calls f for every spelling of every option.
func (t *Table) each(f func(o *Option, s Spelling)) {
	for _, o := range t.options {
		f(o, Spelling{Dashed: o.Dashed})
		for _, s := range o.Also {
			f(o, s)
		}
	}
}

// spellings lists all of them without their dashes, and the names as we write them.
func (t *Table) spellings() (all, ours []string) {
	t.each(func(o *Option, s Spelling) { all = append(all, strings.TrimLeft(s.Dashed, "-")) })
	for _, o := range t.options {
		ours = append(ours, o.Dashed)
	}
	return all, ours
}

// branches lists, for a case of sh, the names of the options that take the next word, and
// what completes it, by what do makes of an option.
func (t *Table) branches(do func(o *Option) string) string {
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
func (t *Table) bash() string {
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
	return fmt.Sprintf(bashScript, branches, Quote(strings.Join(ours, " ")), Quote(strings.Join(all, " ")))
}

// valuedNames are the names without dashes of all options that take the next word.
func (t *Table) valuedNames() []string {
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
func (t *Table) zsh() string {
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
	return fmt.Sprintf(zshScript, branches, strings.Join(t.valuedNames(), "|"), options.String())
}

// fish knows options with one dash and long names by itself, but not where the program is.
func (t *Table) fish() string {
	var b strings.Builder
	fmt.Fprintf(&b, fishScript, strings.Join(t.valuedNames(), " "))
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

// fishQuote quotes a word for fish, where a backslash counts between single quotes too.
func fishQuote(word string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(word) + "'"
}
