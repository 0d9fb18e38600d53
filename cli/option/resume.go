package option

import "slices"

// This file is what the line of --resume FILE has to do with that of the job in FILE.

// TransportOptions are the options that say how hosts are reached, by their canonical names: no request has
// them, so a saved job has their words.
var TransportOptions = []string{"launcher", "launcher-exec", "launcher-args", "ssh-config", "ssh-option", "ship-helper", "connect-timeout", "shell-timeout", "retries",
	"fanout", "accept-new-host-keys", "no-autofork", "propagate", "localhost", "lenient"}

// OptionWords are the options of the job, of these, that are in effect, whoever said them, as Parse reads them.
func (l Line) OptionWords(names []string) (words []string) {
	for _, g := range l.given {
		switch {
		case !slices.Contains(names, g.Name):
		case g.valueForm == "none" && !g.preset:
			words = append(words, g.Dashed)
		default:
			words = append(words, g.Dashed+"="+g.Value)
		}
	}
	return words
}

// OptionsOnLine are the options that the line gives, or its -configfile: not what variables and the user's configuration
// say.
func (l Line) OptionsOnLine() (all []GivenOption) {
	for _, g := range l.given {
		if g.precedence < fromEnvironment {
			all = append(all, g)
		}
	}
	for _, s := range l.Apps {
		for _, g := range s.given {
			if g.precedence < fromEnvironment && g.AppNumber == s.Number {
				all = append(all, g)
			}
		}
	}
	return all
}

// WithoutTopic is the line without the options of the job under a heading of help.
func (l Line) WithoutTopic(topic string) Line {
	l.given = slices.DeleteFunc(slices.Clone(l.given), func(g GivenOption) bool { return slices.Contains(g.table.byTopic()[topic], g.Option) })
	l.Job = JobOptions{}
	setFields(l.given, map[Scope]any{PerJob: &l.Job})
	return l
}

// WithSaved is the line with the options of the job that another one has and it does not say itself. What variables
// and the user's configuration say now counts for neither.
func (l Line) WithSaved(saved Line) Line {
	var given []GivenOption
	for _, g := range l.given {
		if g.precedence < fromEnvironment {
			given = append(given, g)
		}
	}
	for _, g := range saved.given {
		if _, said := originOf(l.OptionsOnLine(), g.Name); !said {
			given = append(given, g)
		}
	}
	l.given, l.Job = given, JobOptions{}
	setFields(l.given, map[Scope]any{PerJob: &l.Job})
	return l
}
