package option

import "slices"

// This file is what the line of --resume FILE has to do with that of the job in FILE.

// Reaching are the options that say how hosts are reached, by their canonical names: no request has
// them, so a saved job has their words.
var Reaching = []string{"launcher", "launcher-exec", "launcher-args", "ssh-config", "ssh-option", "ship-helper", "connect-timeout", "shell-timeout", "retries",
	"fanout", "accept-new-host-keys", "no-autofork", "propagate", "localhost", "lenient"}

// Words are the options of the job, of these, that are in effect, whoever said them, as Parse reads them.
func (l Line) Words(names []string) (words []string) {
	for _, g := range l.given {
		switch {
		case !slices.Contains(names, g.Name):
		case g.takes == "none" && !g.preset:
			words = append(words, g.Dashed)
		default:
			words = append(words, g.Dashed+"="+g.Value)
		}
	}
	return words
}

// Said are the options that the line gives, or its -configfile: not what variables and the user's configuration
// say.
func (l Line) Said() (all []Given) {
	for _, g := range l.given {
		if g.level < environment {
			all = append(all, g)
		}
	}
	for _, s := range l.Sections {
		for _, g := range s.given {
			if g.level < environment && g.Section == s.Number {
				all = append(all, g)
			}
		}
	}
	return all
}

// Without is the line without the options of the job under a heading of help.
func (l Line) Without(topic string) Line {
	l.given = slices.DeleteFunc(slices.Clone(l.given), func(g Given) bool { return slices.Contains(g.table.byTopic()[topic], g.Option) })
	l.Job = Job{}
	fill(l.given, map[Scope]any{PerJob: &l.Job})
	return l
}

// Over is the line with the options of the job that another one has and it does not say itself. What variables
// and the user's configuration say now counts for neither.
func (l Line) Over(saved Line) Line {
	var given []Given
	for _, g := range l.given {
		if g.level < environment {
			given = append(given, g)
		}
	}
	for _, g := range saved.given {
		if _, said := origin(l.Said(), g.Name); !said {
			given = append(given, g)
		}
	}
	l.given, l.Job = given, Job{}
	fill(l.given, map[Scope]any{PerJob: &l.Job})
	return l
}
