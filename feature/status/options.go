package status

import "remshell/cli/option"

// Options are the command-line options of this feature. The job that --status names is in
// option.Line.Query.
type Options struct {
	Status string `name:"--status" after:"queue" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"print the state of a job that runs or waits" command:"status" commandhelp:"print the state of a job, and what its ranks do" commandtakes:"json stacks" likecommands:"info show stat stats stacks"`
}

const texts = `
--status
  mpiexec --status JOB [HOSTS]: of your own jobs also what each rank is doing, as with -timeout (root, and
  administrators of the node: of all jobs). One node of the job is enough as HOSTS. JOB may be
  last (your youngest job that runs or waits), an unambiguous beginning of an ID, or ID@USER. If several users claim one ID, only ID@USER is accepted, unless one of them is you. If the job is too young to answer, or its helper hangs, only what
  the kernel knows of its processes is printed.
`

func init() {
	option.Register[Options](texts)
	option.RegisterRemoved("status-signal", "use mpiexec --status JOB")
}
