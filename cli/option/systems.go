package option

import (
	"slices"
	"strings"
	"sync"

	"remshell/batch"
	"remshell/pin"
)

// This file inserts names from tables of other packages into options and help: the batch systems of package batch, the
// policies of --map-by of package pin.

// withRows replaces placeholders such as {systems} in a help text by names from a table, such as the names of batch
// systems.
func withRows(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	return rowWords().Replace(text)
}

var rowWords = sync.OnceValue(func() *strings.Replacer {
	var systems, titles, launchers []string
	for _, s := range batch.Systems {
		systems, titles = append(systems, s.Name), append(titles, s.Title)
		launchers = append(launchers, s.LauncherWords()...)
	}
	return strings.NewReplacer(
		"{systems}", strings.Join(systems, ","), // words of -rmk
		"{titles}", strings.Join(titles, ", "),
		"{launchers}", strings.Join(launchers, ","), // words of -launcher
		"{groups}", batch.GroupOwners("or"), // systems with --het-group
		"{identities}", strings.Join(compatSystems(), ", "), // words of --env-compat
		"{mappings}", pin.MappingHelp(), // policies of --map-by
	)
})

// compatSystems returns the batch systems whose variables --env-compat can set.
func compatSystems() (names []string) {
	for _, s := range batch.Systems {
		if s.Identity != (batch.Identity{}) {
			names = append(names, s.Name)
		}
	}
	return names
}

// launcherInsteadOf returns the value of -launcher to use in place of a remote shell program that does not
// pass on standard input. For other programs it returns "".
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

// launcherForComponent returns the value of -launcher that corresponds to a component of Open MPI for
// starting daemons (plm). It returns "" if there is none.
func launcherForComponent(plm string) string {
	for _, s := range batch.Systems {
		if s.OpenMPI != "" && s.OpenMPI == plm {
			return s.Name
		}
	}
	return ""
}
