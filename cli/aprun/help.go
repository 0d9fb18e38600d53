package aprun

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// foldNumbers formats the numbers of a set as ascending ranges, such as "1-3,7".
func foldNumbers(set map[int]bool) string {
	var parts []string
	ids := slices.Sorted(maps.Keys(set))
	for i := 0; i < len(ids); {
		k := i
		for k+1 < len(ids) && ids[k+1] == ids[k]+1 {
			k++
		}
		if part := fmt.Sprint(ids[i]); k == i {
			parts = append(parts, part)
		} else {
			parts = append(parts, fmt.Sprintf("%s-%d", part, ids[k]))
		}
		i = k + 1
	}
	return strings.Join(parts, ",")
}

// withoutRepeats returns words without duplicates. It keeps the first occurrence of each word.
func withoutRepeats(words []string) (unique []string) {
	for _, word := range words {
		if !slices.Contains(unique, word) {
			unique = append(unique, word)
		}
	}
	return unique
}

// Help returns the text of aprun --help.
func Help() string {
	var b strings.Builder
	b.WriteString("aprun [options] program [args] [ : [options] program [args] ]...\n\n")
	for _, r := range letterRows {
		name := "-" + r.letters
		if r.arg != "" {
			name += " " + r.arg
		}
		fmt.Fprintf(&b, "  %-16s  %-20s  %s\n", name, r.long, r.help)
	}
	b.WriteString(`
The second column shows the option of mpiexec. The blank between a letter and
its number can be left out: -n8. aprun also accepts the long options of mpiexec,
which mpiexec -help all lists. aprun uses hosts in the order of their numbers,
unless you give --sort. The program after a ":" starts on a host that no earlier
program uses, unless you give --share-hosts.
`)
	return b.String()
}

// Man returns the manual page in troff.
func Man(version string) string {
	var b strings.Builder
	escape := strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace
	fmt.Fprintf(&b, ".TH APRUN 1 \"\" \"Remshell %s\" \"User commands\"\n.nh\n.ad l\n.SH NAME\naprun \\- start parallel programs, with the options of Cray's aprun\n", escape(version))
	b.WriteString(".SH SYNOPSIS\n.B aprun\n[options] program [args] [ : [options] program [args] ]...\n.br\n.B mpiexec \\-\\-aprun\n[options] ...\n.SH DESCRIPTION\n")
	b.WriteString("If mpiexec is called as aprun (a link with this name), or with \\-\\-aprun as its first argument, it accepts the options\n" +
		"below. Each option stands for an option of\n.BR mpiexec (1),\nwhose manual page describes it. The blank between a letter and its number can be left out: \\-n8. aprun uses hosts in the order of\n" +
		"their numbers. The program after a \":\" starts on a host that no earlier program uses. A program without \\-n has one rank.\n.SH OPTIONS\n")
	for _, r := range letterRows {
		fmt.Fprintf(&b, ".TP\n.B %s\n", escape(strings.TrimSpace("-"+r.letters+" "+r.arg)))
		text := strings.ToUpper(r.help[:1]) + r.help[1:] + "."
		if r.long != "" {
			text += " In mpiexec, this option is " + r.long + "."
		}
		b.WriteString(escape(text) + "\n")
	}
	b.WriteString(".SH SEE ALSO\n.BR mpiexec (1)\n")
	return b.String()
}
