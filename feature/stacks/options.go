package stacks

import (
	"remshell/cli/option"
	"remshell/cli/setup"
)

// Options are the command-line options of this feature.
type Options struct {
	Stacks    string `name:"--stacks" after:"status queue" takes:"attached" arg:"RANKS" implied:"all" needs:"status" env:"-" topic:"" help:"with --status: print stacks of ranks, as a tree"`
	OnTimeout string `name:"--on-timeout" after:"print-all-exitcodes" also:"--get-stack-traces=stacks" arg:"WHAT" words:"kill,stacks" topic:"" under:"Life cycle" help:"what to do when -timeout expires: kill, stacks"`
}

const texts = `
--stacks
  mpijob status JOB --stacks prints the call stacks of all ranks. --stacks=0-3 prints only these ranks.
  mpiexec stops each rank for a moment to read the stacks of its threads. It prints equal stacks once, with
  their ranks, and names ranks for which other ranks seem to wait. It prints source lines only if the
  program has debug information (-g). Only the user of the job and root may see stacks.

--on-timeout
  kill: mpiexec prints a table of what each rank was doing, and ends the job. stacks: before that, mpiexec
  prints the stacks of all ranks as a tree, as mpijob status JOB --stacks does. Then it sends SIGQUIT to the
  ranks, which makes many runtimes (Java, Go) print their stacks, and waits 2 s.
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
