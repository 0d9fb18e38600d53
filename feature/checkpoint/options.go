package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/job"
	"remshell/usererr"
	"remshell/userfile"
	"remshell/wire"
)

// Options are the command-line options about checkpoints. The job that --checkpoint names is in option.Line.Query.
type Options struct {
	Checkpoint string `name:"--checkpoint" after:"resume-job queue" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"request a checkpoint from a job" command:"checkpoint" likecommands:"ckpt"`

	Signal    option.NodeSignal `name:"--ckpt-signal" after:"again" env:"-" arg:"SIG" topic:"" under:"Life cycle" default:"USR1 beside --ckpt-every and --ckpt-before" help:"signal that requests a checkpoint from the ranks"`
	Command   string            `name:"--ckpt-cmd" after:"ckpt-signal" excludes:"ckpt-signal" takes:"any" arg:"CMD" topic:"" under:"Life cycle" help:"shell command that requests a checkpoint; mpiexec runs it"`
	Every     option.Seconds    `name:"--ckpt-every" after:"ckpt-cmd" arg:"TIME" topic:"" under:"Life cycle" help:"request a checkpoint every TIME"`
	BeforeEnd option.Seconds    `name:"--ckpt-before" after:"ckpt-every" arg:"TIME" topic:"" under:"Life cycle" help:"request a checkpoint TIME before the job must end"`
	DoneFile  string            `name:"--ckpt-done" after:"ckpt-before" needs:"ckpt-signal ckpt-cmd ckpt-every ckpt-before" arg:"FILE" topic:"" under:"Life cycle" help:"file that the program writes when a checkpoint is complete"`
	Grace     option.Seconds    `name:"--ckpt-grace" after:"ckpt-done" default:"5min" arg:"TIME" topic:"" under:"Life cycle" help:"wait at most TIME for a checkpoint"`
	Required  bool              `name:"--ckpt-required" after:"ckpt-grace" needs:"ckpt-signal ckpt-cmd ckpt-every ckpt-before" topic:"" under:"Life cycle" help:"refuse --migrate if its checkpoint fails"`
	Dir       string            `name:"--ckpt-dir" after:"ckpt-required" env:"-" arg:"DIR" topic:"" under:"Life cycle" help:"folder for checkpoints; mpiexec creates it"`
}

const texts = `
--checkpoint
  mpiexec --checkpoint JOB [HOSTS]: requests a checkpoint from JOB, as --ckpt-every does. JOB must have been
  started with --ckpt-signal, --ckpt-cmd, --ckpt-every or --ckpt-before. If JOB uses --ckpt-cmd or
  --ckpt-done, the command waits until the checkpoint is complete.

--ckpt-required
  If the checkpoint before a move fails or takes too long, mpiexec refuses the move and the job continues on
  its hosts. Without this option, the job moves with its previous checkpoint. With --ckpt-signal alone, a
  checkpoint counts as complete only if each rank exits with 0, or with 85 (checkpoint written).

--ckpt-signal
  mpiexec sends the signal to each rank and to all processes in the process group of the rank. With
  --signal-leader-only, it sends the signal only to the rank itself. The program must handle the signal; if it
  does not, the signal kills it.
  mpiexec sends the signal only at the requested times, or when a user requests a checkpoint. Ranks find the
  number of the signal in MPIEXEC_CKPT_SIGNAL.

--ckpt-cmd
  mpiexec runs CMD once for each checkpoint, on this machine. CMD finds MPIEXEC_JOBID, MPIEXEC_CKPT_DIR and
  MPIEXEC_ATTEMPT in its environment. The checkpoint is complete when CMD exits with 0.

--ckpt-every
  mpiexec requests no checkpoint while the job is suspended or while the previous checkpoint is incomplete.

--ckpt-before
  The job must end when -timeout or --limit walltime expires, or when the batch system ends it, whichever
  comes first. If an attempt begins with less than TIME left, it gets no such request. A rank may exit with 85 to
  report that it has written a checkpoint. mpiexec then waits for the other ranks to exit, but no longer than
  --ckpt-grace. With --restart-on code:85, the job then starts again.

--ckpt-done
  FILE is on this machine. A checkpoint is complete when FILE is newer than the request. mpiexec checks FILE
  every second. Without --ckpt-done and --ckpt-cmd, mpiexec cannot know when a checkpoint is complete.

--ckpt-dir
  Ranks find the path of the folder in MPIEXEC_CKPT_DIR.
`

// Commands says how to run the commands that write checkpoints. A job without such a command does not have this
// setting.
type Commands struct {
	Environ []string // mpiexec's environment
}

// Fields implements wire.Setting. It sends nothing, because helpers take no part in checkpoints.
func (*Commands) Fields(*wire.Codec) {}

func init() {
	option.Register[Options](texts)
	option.RegisterForeign("ckpt-tool", 1, "mpiexec cannot save the processes of a job; let the program write checkpoints, and request them with --ckpt-signal")
	setup.RegisterJobRequest("checkpoint", setup.JobRequest{Verb: job.VerbCheckpoint, Needs: "start the job with --ckpt-signal SIG or --ckpt-cmd CMD"})
	setup.Register(func(r *setup.Run) error {
		policy := policyOf(option.ValuesOf[Options](r.Line), r.Dir)
		if policy.BeforeEnd > 0 {
			r.NeedsEnd = "--ckpt-before"
		}
		r.OnRequest(func() error {
			if r.Line.Job.Resume == "" { // a saved job has its policy in the request
				r.Request.Checkpoint = policy
				r.Request.GlobalEnv = append(r.Request.GlobalEnv, rankVariables(policy)...)
			}
			return nil
		})
		r.OnLaunch(func() error {
			if r.Request.Checkpoint.Command != "" {
				r.Set(&Commands{r.Environ})
			}
			return prepareFiles(r.Request.Checkpoint)
		})
		return nil
	})
	wire.RegisterSetting[Commands](31, new(Commands))
}

// policyOf returns the checkpoint policy of the options (survive.md 2, 4). dir is the working directory.
func policyOf(o Options, dir string) job.CheckpointPolicy {
	c := job.CheckpointPolicy{Signal: job.Signal(o.Signal), Command: o.Command, Every: o.Every.Duration(), BeforeEnd: o.BeforeEnd.Duration(),
		DoneFile: absolutePath(o.DoneFile, dir), Grace: job.DefaultCheckpointGrace, Dir: absolutePath(o.Dir, dir), Required: o.Required}
	if o.Grace > 0 {
		c.Grace = o.Grace.Duration()
	}
	timed := c.Every > 0 || c.BeforeEnd > 0
	switch {
	case !c.CanRequest() && timed: // only then a default: it kills programs that do not handle it (SV-13)
		c.Signal = job.SIGUSR1
	case !c.CanRequest() && c.Dir == "":
		return job.CheckpointPolicy{}
	}
	return c
}

// absolutePath returns name as an absolute path, taken relative to dir. An empty name stays empty.
func absolutePath(name, dir string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// rankVariables returns the environment variables by which ranks find out how to write checkpoints (rule
// SV-10).
func rankVariables(c job.CheckpointPolicy) (vars []string) {
	if c.Dir != "" {
		vars = append(vars, "MPIEXEC_CKPT_DIR="+c.Dir)
	}
	if c.Signal != 0 {
		name := strings.TrimPrefix(c.Signal.String(), "SIG") // as for kill and trap
		vars = append(vars, "MPIEXEC_CKPT_SIGNAL="+strings.TrimPrefix(name, "signal "))
	}
	return vars
}

// prepareFiles creates the directory of --ckpt-dir on this machine if it is missing. It returns an error for
// a --ckpt-done file that isWritten would not accept.
func prepareFiles(c job.CheckpointPolicy) error {
	if _, err := userfile.ResolveForWriting(c.DoneFile); err != nil {
		return &usererr.Error{Text: fmt.Sprintf("--ckpt-done: %v", err), Remedy: usererr.Hint(err)}
	}
	if c.Dir == "" {
		return nil
	}
	dir, err := userfile.Resolve(c.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err != nil {
		return &usererr.Error{Text: fmt.Sprintf("--ckpt-dir: %v", err), Remedy: usererr.Hint(err)}
	}
	return nil
}
