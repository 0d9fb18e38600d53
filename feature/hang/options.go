package hang

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/cli/option"
	"remshell/cli/setup"
)

// Options are the command-line options of this feature: --hang and --hang-action.
type Options struct {
	Hang       *Interval `name:"--hang" after:"timeout" takes:"attached" arg:"TIME" implied:"60" least:"0" topic:"" under:"Life cycle" help:"report if no rank makes progress for TIME (60); 0: never"`
	HangAction string    `name:"--hang-action" after:"timeout" arg:"WHAT" words:"report,end" topic:"" under:"Life cycle" help:"what to do if the job hangs (--hang): report, end"`
}

const texts = `
--hang
  mpiexec reads the stacks of all ranks if, during TIME, no rank has read or written anything, started or ended a
  process, or sent a PMI request. If no rank can continue by itself, mpiexec prints what each rank waits for, and which
  rank seems to keep the others waiting. It prints this again when twice the time has passed. mpiexec reports nothing if a
  rank can continue by itself: if it computes, sleeps for a limited time, or waits for standard input. Without the option,
  mpiexec watches only programs that have called MPI_Init, and only if its standard error is a terminal or the variable CI
  is set. With the option, it watches all programs.

--hang-action
  report: mpiexec only prints the report of --hang. end: mpiexec prints the report, ends the job and exits with 124.
`

// An Interval is a time that --hang accepts: 0, or one second or more.
type Interval time.Duration

// UnmarshalText parses a time as option.Seconds does.
func (i *Interval) UnmarshalText(text []byte) error {
	var s option.Seconds
	if err := s.UnmarshalText(text); err != nil {
		return err
	}
	if d := s.Duration(); d > 0 && d < time.Second {
		return fmt.Errorf("%q is too short; write 0, or at least 1 second", text)
	}
	*i = Interval(s)
	return nil
}

// defaultTime is the time that --hang without a value means.
const defaultTime = time.Minute

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		if w := watchingFor(option.ValuesOf[Options](r.Line), r.OnTerminal || isCI(r.Environ)); w != nil {
			r.OnLaunch(func() error {
				r.Set(w)
				return nil
			})
		}
		return nil
	})
}

// watchingFor returns the settings for watching whether a job makes progress, or nil if the job is not watched. seen
// says whether somebody is expected to read what mpiexec prints. Without --hang and --hang-action,
// the job is watched only if seen is true.
func watchingFor(o Options, seen bool) *Watching {
	w := &Watching{After: defaultTime, Plain: o.Hang != nil, Ends: o.HangAction == "end"}
	if o.Hang != nil {
		w.After = time.Duration(*o.Hang)
	}
	if w.After == 0 || o.Hang == nil && o.HangAction == "" && !seen {
		return nil
	}
	return w
}

// isCI reports whether a continuous integration service has started mpiexec.
func isCI(environ []string) bool {
	return slices.ContainsFunc(environ, func(v string) bool {
		value, is := strings.CutPrefix(v, "CI=")
		return is && value != "" && value != "false" && value != "0"
	})
}
