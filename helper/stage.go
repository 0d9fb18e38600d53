//go:build linux

package helper

import (
	"errors"
	"fmt"

	"remshell/helper/rank"
	"remshell/helper/stage"
	"remshell/wire"
)

// A stagedEvent tells that all files are there, or why not.
type stagedEvent struct {
	folder *stage.Folder
	failed *rank.Error
}

var errStage = errors.New("mpiexec sent files that nobody asked for")

// stage takes in which files there are to be.
func (s *session) stage(m *wire.Stage) {
	if s.staging != nil || !stage.Fit(m) {
		s.lose(errStage)
		return
	}
	s.staging = stage.New(m, s.sys.Environ, s.conn.Send, func(f *stage.Folder, failed *rank.Error) { s.tell(stagedEvent{f, failed}) })
	if m.Here {
		s.conn.Send(&wire.Staged{})
	}
}

// piece takes in a piece of them.
func (s *session) piece(m *wire.Piece) {
	if !s.staging.Take(m) {
		s.lose(errStage)
	}
}

// staged tells mpiexec what came of it.
func (s *session) staged(e stagedEvent) {
	answer := wire.Staged{}
	if e.failed != nil {
		answer = wire.Staged{Code: e.failed.Code, Reason: e.failed.Reason, Hint: e.failed.Hint}
	} else {
		s.staging.Arrived(e.folder)
	}
	s.conn.Send(&answer)
}

// settleStage lets ranks that are about to start find the files. A helper inside mpiexec makes
// links to them, which its guard removes if it is killed.
func (s *session) settleStage(g *group) *rank.Error {
	if s.staging == nil {
		return nil
	}
	if s.staging.Unlinked() {
		if s.sys.Guard != nil {
			s.newGuard()
		}
		if err := s.staging.Link(s.sys.Environ); err != nil {
			return rank.Internal(fmt.Sprintf("no folder takes links to the files to stage: %v", err), "")
		}
	}
	for _, r := range g.ranks {
		if r.staged != "" {
			r.command.Path = s.staging.Path(r.staged)
			if refused := s.offer(g, r); refused != nil {
				return refused
			}
		}
	}
	s.admitPMIx(g)
	return nil
}
