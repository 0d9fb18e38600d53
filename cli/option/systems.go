package option

import (
	"slices"
	"strings"
	"sync"

	"remshell/batch"
)

// This file makes of the rows of the batch systems what options say of them.

// withSystems puts words of the batch systems in the place of names in braces.
func withSystems(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	return systemWords().Replace(text)
}

var systemWords = sync.OnceValue(func() *strings.Replacer {
	var systems, titles, launchers, groups []string
	for _, s := range batch.Systems {
		systems, titles = append(systems, s.Name), append(titles, s.Title)
		launchers = append(launchers, s.LauncherWords()...)
		if s.Groups {
			groups = append(groups, s.Title+"'s")
		}
	}
	return strings.NewReplacer(
		"{systems}", strings.Join(systems, ","), // words of -rmk
		"{titles}", strings.Join(titles, ", "),
		"{launchers}", strings.Join(launchers, ","), // words of -launcher
		"{groups}", strings.Join(groups, " or "), // whose jobs --het-group is for
		"{identities}", strings.Join(compatSystems(), ", "), // words of --env-compat
	)
})

// compatSystems lists the systems whose variables --env-compat sets.
func compatSystems() (names []string) {
	for _, s := range batch.Systems {
		if s.Identity != (batch.Identity{}) {
			names = append(names, s.Name)
		}
	}
	return names
}

// launcherInsteadOf is the word of -launcher to use in the place of a program that gives what it starts no input; empty: it is no such program.
func launcherInsteadOf(program string) string {
	for _, s := range batch.Systems {
		switch {
		case !slices.Contains(s.NoInput, program):
		case s.LauncherWords() != nil:
			return s.Name
		default:
			return "ssh"
		}
	}
	return ""
}

// launcherForComponent is the word of -launcher for a component of Open MPI's that starts daemons; empty: there is none.
func launcherForComponent(plm string) string {
	for _, s := range batch.Systems {
		if s.OpenMPI != "" && s.OpenMPI == plm {
			return s.Name
		}
	}
	return ""
}
