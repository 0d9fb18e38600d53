package request

import (
	"path/filepath"
	"strings"

	"remshell/cli/option"
	"remshell/job"
)

// checkpointRequest returns the checkpoint policy of the options (survive.md 2, 4).
func (w Inputs) checkpointRequest(j option.JobOptions) job.CheckpointPolicy {
	c := job.CheckpointPolicy{Signal: job.Signal(j.CkptSignal), Command: j.CkptCmd, Every: j.CkptEvery.Duration(), BeforeEnd: j.CkptBefore.Duration(),
		DoneFile: w.absolutePath(j.CkptDone), Grace: job.DefaultCheckpointGrace, Dir: w.absolutePath(j.CkptDir), Required: j.CkptRequired}
	if j.CkptGrace > 0 {
		c.Grace = j.CkptGrace.Duration()
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

// absolutePath returns name relative to the working directory as an absolute path; an empty name stays empty.
func (w Inputs) absolutePath(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.Local.Dir, name)
}

// checkpointVariables returns the variables that tell ranks about checkpoints (SV-10).
func checkpointVariables(c job.CheckpointPolicy) (vars []string) {
	if c.Dir != "" {
		vars = append(vars, "MPIEXEC_CKPT_DIR="+c.Dir)
	}
	if c.Signal != 0 {
		name := strings.TrimPrefix(c.Signal.String(), "SIG") // as for kill and trap
		vars = append(vars, "MPIEXEC_CKPT_SIGNAL="+strings.TrimPrefix(name, "signal "))
	}
	return vars
}
