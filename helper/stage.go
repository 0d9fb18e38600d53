//go:build linux

package helper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"remshell/helper/rank"
	"remshell/job"
	"remshell/wire"
)

// A staging is the files that the ranks of this node are to find (--stage).
type staging struct {
	parcels []job.Parcel
	here    bool         // they are where they were: this is the launching machine
	folder  *stageFolder // nil: not yet
	stager  *stager      // nil: nothing has to come
}

// A stagedEvent tells that all files are there, or why not.
type stagedEvent struct {
	folder *stageFolder
	failed *rank.Error
}

var errStage = errors.New("mpiexec sent files that nobody asked for")

// stage takes in which files there are to be.
func (s *session) stage(m *wire.Stage) {
	bad := slices.ContainsFunc(m.Parcels, func(p job.Parcel) bool {
		return p.Name != filepath.Base(p.Name) || !filepath.IsLocal(p.Name) || p.Size < 0
	})
	if s.staging != nil || bad || !m.Here && len(m.Sums) != len(m.Parcels) {
		s.lose(errStage)
		return
	}
	s.staging = &staging{parcels: m.Parcels, here: m.Here}
	if m.Here {
		s.conn.Send(&wire.Staged{})
		return
	}
	s.staging.stager = newStager(m, stageRoots(s.sys.Environ), s.conn.Send,
		func(f *stageFolder, failed *rank.Error) { s.tell(stagedEvent{f, failed}) })
}

// piece takes in a piece of them.
func (s *session) piece(m *wire.Piece) {
	if s.staging == nil || s.staging.stager == nil || !s.staging.stager.take(m) {
		s.lose(errStage)
	}
}

// staged tells mpiexec what came of it.
func (s *session) staged(e stagedEvent) {
	answer := wire.Staged{}
	if e.failed != nil {
		answer = wire.Staged{Code: e.failed.Code, Reason: e.failed.Reason, Hint: e.failed.Hint}
	} else {
		s.staging.folder = e.folder
	}
	s.conn.Send(&answer)
}

// settleStage lets ranks that are about to start find the files. On the launching machine
// they stay where they are, and links lead to them; a helper inside mpiexec makes these when
// there is a guard, which removes them if it is killed.
func (s *session) settleStage(g *group) *rank.Error {
	t := s.staging
	if t == nil {
		return nil
	}
	if t.here && t.folder == nil {
		if s.sys.Guard != nil {
			s.newGuard()
		}
		if err := t.link(stageRoots(s.sys.Environ)); err != nil {
			return rank.Internal(fmt.Sprintf("no folder takes links to the files to stage: %v", err), "")
		}
	}
	for _, r := range g.ranks {
		if r.staged != "" {
			r.command.Path = t.path(r.staged)
		}
	}
	return nil
}

// link makes a folder of links to where the files are.
func (t *staging) link(roots []string) (err error) {
	sweepStages(roots)
	if t.folder, err = makeStageFolder(roots, newStageName(), nil); err != nil {
		return err
	}
	for _, p := range t.parcels {
		if err := os.Symlink(p.Path, filepath.Join(t.folder.files(), p.Name)); err != nil {
			return err
		}
	}
	return nil
}

// path is where a program is.
func (t *staging) path(name string) string {
	for _, p := range t.parcels {
		if p.Name == name && t.here {
			return p.Path
		}
	}
	return filepath.Join(t.folder.files(), name)
}

// dir is what ranks are told of it; empty: nothing.
func (t *staging) dir() string {
	if t == nil || t.folder == nil {
		return ""
	}
	return t.folder.files()
}

// close removes the files.
func (t *staging) close() {
	switch {
	case t == nil:
	case t.stager != nil:
		t.stager.close()
	default:
		t.unlink()
	}
}

// unlink removes the links. They are made again for ranks that start later.
func (t *staging) unlink() {
	if t != nil && t.here && t.folder != nil {
		t.folder.remove()
		t.folder = nil
	}
}
