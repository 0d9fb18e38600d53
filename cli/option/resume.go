package option

import "slices"

// This file merges the command line of --resume FILE with the options saved in FILE.

// TransportOptions are the options that say how to reach hosts. A job.Request does not contain their values, so a saved
// job contains the options themselves.
var TransportOptions = []string{"launcher", "launcher-exec", "launcher-args", "ssh-config", "ssh-option", "ship-helper", "connect-timeout", "shell-timeout", "retries",
	"fanout", "accept-new-host-keys", "no-autofork", "propagate", "localhost", "lenient"}

// IsSaved reports whether a saved job (--save-job) contains the option itself, because a job.Request does not
// contain its value.
func (o *Option) IsSaved() bool { return o.field.Tag.Get("resume") == "saved" }

// MayChange reports whether the option's tag says that it may be used together with --resume. Package request
// has a list of further allowed options.
func (o *Option) MayChange() bool { return o.field.Tag.Get("resume") == "allowed" }

// IsTransport reports whether the option says how to reach hosts.
func (o *Option) IsTransport() bool { return slices.Contains(TransportOptions, o.Name) }

// OptionWords returns the job options in effect for which match returns true, as words that Parse accepts.
// The options may come from the command line, files or variables.
func (l Line) OptionWords(match func(*Option) bool) (words []string) {
	for _, g := range l.given {
		switch {
		case !match(g.Option):
		case g.valueForm == "none" && !g.preset:
			words = append(words, g.Dashed)
		default:
			words = append(words, g.Dashed+"="+g.Value)
		}
	}
	return words
}

// OptionsOnLine returns the options of the line and its -configfile, but not options that variables or the
// user's configuration set.
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

// WithoutTopic returns the line without the job options that help lists under the heading topic.
func (l Line) WithoutTopic(topic string) Line {
	l.given = slices.DeleteFunc(slices.Clone(l.given), func(g GivenOption) bool { return slices.Contains(g.table.byTopic()[topic], g.Option) })
	l.Job = JobOptions{}
	setFields(l.given, &l.Job)
	return l
}

// WithSaved returns the line with the job options of savedLine added, except those that are already on the command line.
// It drops the options of l that come from environment variables or from the user's configuration.
func (l Line) WithSaved(savedLine Line) Line {
	var merged []GivenOption
	for _, g := range l.given {
		if g.precedence < fromEnvironment {
			merged = append(merged, g)
		}
	}
	for _, g := range savedLine.given {
		if _, given := originOf(l.OptionsOnLine(), g.Name); !given {
			merged = append(merged, g)
		}
	}
	l.given, l.Job = merged, JobOptions{}
	setFields(l.given, &l.Job)
	return l
}
