package control

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/job"
)

// Options are the command-line options of this feature. The job that --end, --suspend or --resume-job names
// is in option.Line.Query.
type Options struct {
	End     string `name:"--end" after:"status queue" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"end a job, from any host" command:"end" commandhelp:"end a job, or remove a request from the queue" likecommands:"kill cancel terminate abort stop delete del rm"`
	Suspend string `name:"--suspend" after:"end" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"stop all ranks of a job" command:"suspend" likecommands:"hold pause freeze"`
	Resume  string `name:"--resume-job" after:"suspend" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"continue a suspended job" command:"resume" likecommands:"release cont continue unsuspend resume-job"`
}

const texts = `
--end
  mpiexec --end JOB [HOSTS]: sends the ranks of JOB SIGTERM, and SIGKILL after the --kill-grace of the job. The
  mpiexec of the job reports the user who ended it, and exits with 143. HOSTS needs only one node of the job. JOB is
  written as for --status. The command waits until the job uses no CPUs any more. Users may end their own jobs;
  root, and the administrators in the node's /etc/remshell/cluster.toml, may end all jobs. A job that has just begun
  may take a second to reply. If the job still waits, its request is removed from the queue, which its user and root
  may do; its mpiexec reports the user, and exits with 125.

--suspend
  mpiexec --suspend JOB [HOSTS]: stops the ranks of JOB and their children, and also ranks that start later.
  Meanwhile -timeout and the other time limits of the job do not count. The job keeps its CPUs, memory and GPUs, and
  refuses --checkpoint and --migrate. A suspended job can be ended, and ends if its mpiexec dies. The same users as
  for --end may do this. JOB is written as for --status.

--resume-job
  mpiexec --resume-job JOB [HOSTS]: continues a job that --suspend has stopped. To continue a saved job, use mpiexec
  --resume FILE.
`

func init() {
	option.Register[Options](texts)
	option.RegisterRemoved("suspend=free", "use --suspend, which keeps the CPUs of the job, or --migrate, which moves the job off hosts")
	setup.RegisterJobRequest("end", setup.JobRequest{Verb: job.VerbEnd})
	setup.RegisterJobRequest("suspend", setup.JobRequest{Verb: job.VerbSuspend})
	setup.RegisterJobRequest("resume", setup.JobRequest{Verb: job.VerbResume})
}
