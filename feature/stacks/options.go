package stacks

import (
	"remshell/cli/option"
	"remshell/cli/setup"
)

// Options are the options of the feature.
type Options struct {
	Stacks    string `name:"--stacks" after:"status queue" takes:"attached" arg:"RANKS" implied:"all" needs:"status" env:"-" topic:"" help:"with --status: stacks of ranks, as a tree"`
	OnTimeout string `name:"--on-timeout" after:"print-all-exitcodes" also:"--get-stack-traces=stacks" arg:"WHAT" words:"kill,stacks" topic:"" under:"Life cycle" help:"at -timeout: kill, or first print stacks"`
}

const texts = `
--stacks
  mpijob status JOB --stacks prints the call stacks of all ranks, and --stacks=0-3 of some. Each rank is stopped for a
  moment to read where its threads are. Equal stacks are printed once with their ranks, and a line names the ranks that
  seem to keep the others waiting. Source lines appear only if the program has debug information (-g). Only the user of
  the job and root may see stacks.

--on-timeout
  In both cases a table shows what each rank was doing. stacks first prints the stacks of all ranks as a tree,
  as mpijob status JOB --stacks does. Then it sends SIGQUIT, which makes many runtimes (Java, Go) print their stacks, and
  waits 2 s.
`

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		if option.ValuesOf[Options](r.Line).OnTimeout == "stacks" {
			r.OnRequest(func() error {
				r.Request.EndPolicy.StacksOnTimeout = true
				return nil
			})
		}
		return nil
	})
}
