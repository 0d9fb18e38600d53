package gang

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/usererr"
)

// Options are the command-line options of this feature: --gang.
type Options struct {
	Gang bool `name:"--gang" after:"exclusive" resume:"saved" excludes:"exclusive=yes overbook=yes overbook=share cluster-state" topic:"" help:"share CPUs with other --gang jobs, in turns"`
}

const texts = `
--gang
  The job takes free CPUs first. If there are too few, it shares CPUs with other jobs that were started with
  --gang. Such jobs run in turns of 10 s. All ranks of a job run at the same time, so they never wait for
  each other. Two jobs that share CPUs run half of the time each. A job that shares no CPUs is never
  stopped. While a job is stopped, -timeout and its other time limits do not count. --dry-run and --ps show
  which jobs share CPUs, and --usage shows how long the job was stopped. A stopped job stays in memory, so the
  host needs memory for all jobs that share its CPUs (--mem-per-rank). The administrator of a host sets the
  length of a turn (slice) and the number of jobs that may share a CPU (parties) in [gang] of
  /etc/remshell/cluster.toml.
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
