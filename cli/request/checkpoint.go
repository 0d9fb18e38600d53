package request

import (
	"path/filepath"
	"strings"

	"remshell/cli/option"
	"remshell/fault"
	"remshell/job"
)

// checkpoints are what a line says of the checkpoints that its program writes (survive.md 2, 4).
func (w World) checkpoints(j option.Job) (job.Checkpoint, error) {
	c := job.Checkpoint{Signal: job.Signal(j.CkptSignal), Command: j.CkptCmd, Every: j.CkptEvery.Duration(), Before: j.CkptBefore.Duration(),
		Done: w.fromHere(j.CkptDone), Grace: job.DefaultCheckpointGrace, Dir: w.fromHere(j.CkptDir), Required: j.CkptRequired}
	if j.CkptGrace > 0 {
		c.Grace = j.CkptGrace.Duration()
	}
	timed := c.Every > 0 || c.Before > 0
	switch {
	case c.Command != "" && c.Signal != 0:
		return c, &fault.Error{Text: "--ckpt-cmd contradicts --ckpt-signal: it has the ranks told instead", Remedy: "keep one"}
	case !c.Asks() && timed: // a signal that kills programs that do not expect it is nobody's default otherwise (SV-13)
		c.Signal = job.SIGUSR1
	case !c.Asks() && c.Done != "":
		return c, &fault.Error{Text: "--ckpt-done has a meaning only beside --ckpt-signal, --ckpt-cmd, --ckpt-every or --ckpt-before", Remedy: "add one, or leave it out"}
	case !c.Asks() && c.Required:
		return c, &fault.Error{Text: "--ckpt-required has a meaning only beside --ckpt-signal, --ckpt-cmd, --ckpt-every or --ckpt-before", Remedy: "add one, or leave it out"}
	case !c.Asks() && c.Dir == "":
		return job.Checkpoint{}, nil
	}
	return c, nil
}

// fromHere is a file as any process may call it.
func (w World) fromHere(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.Local.Dir, name)
}

// toldOfCheckpoints are the variables by which ranks know of them (SV-10).
func toldOfCheckpoints(c job.Checkpoint) (vars []string) {
	if c.Dir != "" {
		vars = append(vars, "MPIEXEC_CKPT_DIR="+c.Dir)
	}
	if c.Signal != 0 {
		name := strings.TrimPrefix(c.Signal.String(), "SIG") // as kill and trap have it
		vars = append(vars, "MPIEXEC_CKPT_SIGNAL="+strings.TrimPrefix(name, "signal "))
	}
	return vars
}
