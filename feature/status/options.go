package status

import (
	"remshell/cli/option"
	"remshell/cli/setup"
)

// Options are the command-line options of this feature. The job that --status names is in
// option.Line.Query.
type Options struct {
	Status    string `name:"--status" after:"queue" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"print the state of a job that runs or waits" command:"status" commandhelp:"print the state of a job, and what its ranks do" commandtakes:"json" likecommands:"info show stat stats stacks"`
	OnTimeout string `name:"--on-timeout" after:"print-all-exitcodes" also:"--get-stack-traces=stacks" arg:"WHAT" words:"kill,stacks" topic:"" under:"Life cycle" help:"at -timeout: kill, or first print stacks"`
}

const texts = `
--status
  mpiexec --status JOB [HOSTS]: of your own jobs also what each rank is doing, as with -timeout (root, and
  administrators of the node: of all jobs). One node of the job is enough as HOSTS. JOB may be
  last (your youngest job that runs or waits), an unambiguous beginning of an ID, or ID@USER. If several users claim one ID, only ID@USER is accepted, unless one of them is you. If the job is too young to answer, or its helper hangs, only what
  the kernel knows of its processes is printed.

--on-timeout
  In both cases a table shows what each rank was doing. stacks first sends SIGQUIT, which makes many
  runtimes (Java, Go) print their stacks, and waits 2 s. For ranks that do not catch SIGQUIT, such as those
  in C, it first prints the output of gdb or eu-stack of the host, or else of the kernel (/proc/PID/wchan,
  syscall, stack), within 4 s for each host.
`

func init() {
	option.Register[Options](texts)
	option.RegisterRemoved("status-signal", "use mpiexec --status JOB")
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
