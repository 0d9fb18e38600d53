//go:build linux

package helper

import (
	"errors"
	"fmt"

	"remshell/helper/rank"
	"remshell/helper/stage"
	"remshell/wire"
)

// A stagedEvent says that all files are staged, or why not.
type stagedEvent struct {
	folder *stage.Folder
	failed *rank.Error
}

var errUnrequestedFiles = errors.New("mpiexec sent files that nobody asked for")

// beginStaging prepares for the files that mpiexec is going to send.
func (s *Session) beginStaging(m *wire.StageFiles) {
	if s.staging != nil || !stage.IsValid(m) {
		s.endDisconnected(errUnrequestedFiles)
		return
	}
	s.staging = stage.New(m, s.sys.Environ, s.conn.Send, func(f *stage.Folder, failed *rank.Error) { s.PostEvent(stagedEvent{f, failed}) })
	if m.InPlace {
		s.conn.Send(&wire.StageResult{})
	}
}

// receivePiece stores a chunk of a staged file.
func (s *Session) receivePiece(m *wire.FileChunk) {
	if !s.staging.TakePiece(m) {
		s.endDisconnected(errUnrequestedFiles)
	}
}

// reportStaged tells mpiexec whether the files are staged.
func (s *Session) reportStaged(e stagedEvent) {
	answer := wire.StageResult{}
	if e.failed != nil {
		answer = wire.StageResult{Code: e.failed.Code, Reason: e.failed.Reason, Hint: e.failed.Hint}
	} else {
		s.staging.SetFolder(e.folder)
	}
	s.conn.Send(&answer)
}

// linkStagedFiles makes the staged files available to ranks that are about to start. A helper inside mpiexec makes
// links to them, which its guard removes if mpiexec is killed.
func (s *Session) linkStagedFiles(g *Group) *rank.Error {
	if s.staging == nil {
		return nil
	}
	if s.staging.NeedsLinks() {
		if s.sys.Guard != nil {
			s.ensureGuard()
		}
		if err := s.staging.Link(s.sys.Environ); err != nil {
			return rank.InternalError(fmt.Sprintf("no folder takes links to the files to stage: %v", err), "")
		}
	}
	for _, r := range g.ranks {
		if r.stagedProgram != "" {
			r.command.Path = s.staging.Path(r.stagedProgram)
			if refused := s.detectPMI(g, r); refused != nil {
				return refused
			}
		}
	}
	s.admitPMIx(g)
	return nil
}
