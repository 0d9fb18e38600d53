package stage

import (
	"errors"
	"io"
	"slices"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/job"
	"remshell/wire"
)

// Options are the command-line options of this feature: --stage.
type Options struct {
	Stage      []string `name:"--stage" after:"exclude" arg:"FILE" topic:"" under:"Environment" help:"copy FILE to the hosts for this job; may be repeated"`
	StageFiles []string `name:"--preload-files" after:"stage" arg:"A,B" topic:"" under:"Environment" help:"stage several files, as with Open MPI"`
	StageProg  bool     `name:"--stage-program" after:"preload-files" also:"-preload-binary --bcast" topic:"" under:"Environment" help:"copy the program of each app context, as --stage does"`
}

const texts = `
--stage
  If the command line or a spawn request starts FILE as a program, mpiexec starts the copy instead. The program
  may also be given by its name without a folder: with --stage bin/prog, prog is enough. Ranks find other
  files in the folder $MPIEXEC_STAGE_DIR. This folder is on a disk of the host, and mpiexec removes it at the
  end of the job. mpiexec does not copy FILE to a host that already has it, at the same path or from another
  job. On this machine, mpiexec creates links instead of copies.
`

// A Contents holds the contents of the files that the request stages, in the order of the request.
type Contents struct{ Files []Content }

// A Content is the content of a staged file.
type Content interface {
	io.ReaderAt
	Checksum() (string, error) // its SHA-256
}

// Fields implements wire.Setting. It sends nothing with Prepare: mpiexec sends the files to the nodes in
// messages of their own.
func (*Contents) Fields(*wire.Codec) {}

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		r.OnRequest(func() error { return openFiles(r) })
		return nil
	})
	wire.RegisterSetting[Contents](20, new(Contents))
}

// openFiles opens the files to stage, which the command line or the saved job names, and adds them to the
// request. The files stay open until the run ends.
func openFiles(r *setup.Run) (err error) {
	var h fileSet
	switch {
	case r.Line.Job.Resume != "":
		err = h.openSaved(r.Request)
	default:
		err = h.openGiven(r)
	}
	r.OnEnd(func(error) error {
		h.closeAll()
		return nil
	})
	if err != nil || len(h.staged) == 0 {
		return err
	}
	r.Set(&Contents{h.contents})
	r.OnLaunch(func() error {
		if slices.ContainsFunc(r.Request.Nodes, func(n job.NodeDef) bool { return !n.Local }) {
			go h.hashAll()
		}
		return nil
	})
	return nil
}

// openSaved opens the files that a saved job stages.
func (h *fileSet) openSaved(req *job.Request) error {
	var faults []error
	for _, p := range req.StagedFiles {
		faults = append(faults, h.addFile(p.Path, ""))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	req.StagedFiles = h.staged
	return nil
}
