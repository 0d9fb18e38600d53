//go:build linux

package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"remshell/helper"
	"remshell/helper/rank"
	"remshell/job"
)

func init() {
	helper.Register(helper.Feature{Name: "stage", Attach: attachHelper,
		RemoveLeftFiles: func(environ []string, _ job.ID) { removeLeftFolders(stagingRoots(environ)) }})
}

// A staging holds the files that mpiexec has sent to this node for the job (--stage). A nil staging has no files.
type staging struct {
	session  *helper.Session
	files    []job.StagedFile
	inPlace  bool      // the files are not copied: mpiexec runs on this machine
	folder   *folder   // nil: not made yet
	receiver *receiver // nil: no file is received
}

var errUnrequestedFiles = errors.New("mpiexec sent files that this host did not request")

// attachHelper makes the session receive files before ranks start, make them available to ranks, and remove them at
// the end of the session.
func attachHelper(s *helper.Session) {
	var t *staging
	helper.Handle(s, func(m *StageFiles) {
		if t != nil || !isValid(m) {
			s.Disconnect(errUnrequestedFiles)
			return
		}
		t = beginStaging(s, m)
	})
	helper.Handle(s, func(m *FileChunk) {
		if t == nil || t.receiver == nil || !t.receiver.takePiece(m) {
			s.Disconnect(errUnrequestedFiles)
		}
	})
	s.Hooks.GroupStarts.Add(func(g *helper.Group) *rank.Error { return t.showTo(g) })
	s.Hooks.GuardEnds.Add(func() { t.unlink() })
	s.Hooks.Closing.Add(func() { t.close() })
}

// isValid reports whether the list of files in m is well formed.
func isValid(m *StageFiles) bool {
	bad := slices.ContainsFunc(m.Files, func(p job.StagedFile) bool {
		return p.Name != filepath.Base(p.Name) || !filepath.IsLocal(p.Name) || p.Size < 0
	})
	return !bad && (m.InPlace || len(m.Sums) == len(m.Files))
}

// beginStaging prepares for the files that mpiexec is going to send. If the files are in place already, mpiexec sends
// none, and beginStaging replies at once.
func beginStaging(s *helper.Session, m *StageFiles) *staging {
	t := &staging{session: s, files: m.Files, inPlace: m.InPlace}
	if m.InPlace {
		s.Send(&StageResult{})
		return t
	}
	t.receiver = newReceiver(m, stagingRoots(s.System().Environ), s.Send, func(f *folder, failed *rank.Error) {
		s.Post(func() { t.reportResult(f, failed) })
	})
	return t
}

// reportResult reports to mpiexec that all files are staged, or why they are not.
func (t *staging) reportResult(f *folder, failed *rank.Error) {
	if failed != nil {
		t.session.Send(&StageResult{Code: failed.Code, Reason: failed.Reason, Hint: failed.Hint})
		return
	}
	t.folder = f
	t.session.Send(&StageResult{})
}

// showTo makes the staged files available to the ranks of a group that are about to start. A helper that runs inside
// mpiexec makes links to the files. The helper's guard, a process beside mpiexec, removes the links if mpiexec is
// killed. showTo returns an error if the ranks cannot use the files.
func (t *staging) showTo(g *helper.Group) *rank.Error {
	if t == nil {
		return nil
	}
	if t.inPlace && t.folder == nil {
		t.session.EnsureGuard()
		if err := t.link(); err != nil {
			return rank.InternalError(fmt.Sprintf("cannot create links to the files of --stage in any folder: %v", err), "")
		}
	}
	if t.folder != nil {
		g.SetVariable("MPIEXEC_STAGE_DIR", t.folder.filesDir())
	}
	for i, app := range g.Prepare.Apps {
		if app.StagedFile == "" || t.folder == nil {
			continue
		}
		if refused := t.session.SetProgram(g, i, t.path(app.StagedFile)); refused != nil {
			return refused
		}
	}
	return nil
}

// link creates a folder with links to the files.
func (t *staging) link() (err error) {
	roots := stagingRoots(t.session.System().Environ)
	removeLeftFolders(roots)
	if t.folder, err = makeFolder(roots, newFolderName(), nil); err != nil {
		return err
	}
	for _, p := range t.files {
		if err := os.Symlink(p.Path, filepath.Join(t.folder.filesDir(), p.Name)); err != nil {
			return err
		}
	}
	return nil
}

// path returns the path of a staged program.
func (t *staging) path(name string) string {
	for _, p := range t.files {
		if p.Name == name && t.inPlace {
			return p.Path
		}
	}
	return filepath.Join(t.folder.filesDir(), name)
}

// unlink removes the links. showTo creates them again for ranks that start later.
func (t *staging) unlink() {
	if t != nil && t.inPlace && t.folder != nil {
		t.folder.removeAll()
		t.folder = nil
	}
}

// close removes the staged files.
func (t *staging) close() {
	if t == nil {
		return
	}
	t.receiver.close()
	t.unlink()
}
