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
  mpiexec --end JOB [HOSTS]: sends SIGTERM to the ranks of JOB, and SIGKILL after the --kill-grace of the
  job. The mpiexec of the job reports the user who ended it, and exits with 143. HOSTS must include at
  least one node of the job. For the form of JOB, see --status. The command waits until the job uses no CPUs.
  Users may end their own jobs. Root and the administrators in /etc/remshell/cluster.toml of the node may
  end all jobs. A job that has just begun may take a second to reply. If the job waits in the queue, the
  command removes its request. Only the user of the job and root may do that. The mpiexec of that job then
  reports the user, and exits with 125.

--suspend
  mpiexec --suspend JOB [HOSTS]: stops the ranks of JOB and their child processes, and also ranks that start
  later. While the job is suspended, -timeout and its other time limits do not count. The job keeps its
  CPUs, memory and GPUs, and refuses --checkpoint and --migrate. A suspended job can be ended. It also ends
  if its mpiexec dies. Users who may end the job may also suspend it. For the form of JOB, see --status.

--resume-job
  mpiexec --resume-job JOB [HOSTS]: continues a job that --suspend has stopped. To continue a saved job, use
  mpiexec --resume FILE.
`

func init() {
	option.Register[Options](texts)
	option.RegisterRemoved("suspend=free", "use --suspend, which keeps the CPUs of the job, or --migrate, which moves the job off hosts")
	setup.RegisterJobRequest("end", setup.JobRequest{Verb: job.VerbEnd})
	setup.RegisterJobRequest("suspend", setup.JobRequest{Verb: job.VerbSuspend})
	setup.RegisterJobRequest("resume", setup.JobRequest{Verb: job.VerbResume})
}
