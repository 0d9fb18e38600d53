package gang

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/usererr"
)

// Options are the options of the feature.
type Options struct {
	Gang bool `name:"--gang" after:"exclusive" resume:"saved" excludes:"exclusive=yes overbook=yes overbook=share" topic:"" help:"share CPUs with other such jobs, in turns"`
}

const texts = `
--gang
  Free CPUs are taken first. If there are too few, the job shares CPUs with other jobs that were started with
  --gang. They run in turns of 10 s, whole jobs at a time, so that the ranks of a job never wait for each other.
  Two jobs run half of the time each. A job that shares with nobody is never stopped. -timeout and other times
  of the job stand still while it is stopped. Memory is not shared in turns: all jobs must fit (--mem-per-rank).
  The administrator of a host sets the length of a turn (slice) and how many jobs may share a CPU (parties):
  [gang] in /etc/remshell/cluster.toml.
`

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		if !option.ValuesOf[Options](r.Line).Gang {
			return nil
		}
		r.Set(&Turns{})
		r.OnRequest(func() error {
			if r.Request.Exclusive || r.Request.Overbook {
				return &usererr.Error{Text: "--gang shares CPUs, but PSI_EXCLUSIVE or PSI_OVERBOOK asks for idle hosts", Remedy: "unset the variable, or leave out --gang"}
			}
			r.Request.Gang, r.Request.LocalOnly = true, false
			return nil
		})
		return nil
	})
}
