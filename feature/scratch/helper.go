//go:build linux

package scratch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"remshell/helper"
	"remshell/helper/rank"
	"remshell/job"
	"remshell/wire"
)

func init() {
	helper.Register(helper.Feature{Name: "scratch", Attach: attachHelper,
		RemoveLeftFiles: func(_ []string, killed job.ID) { removeLeftFolders(recordRoots(), killed) }})
}

// A nodeFolder is the folder of a session. The zero value is a session without --scratch.
type nodeFolder struct {
	session *helper.Session
	path    string // chosen when the first group is prepared; empty: no --scratch
	keep    bool
	job     job.ID

	mu     sync.Mutex // guards the fields below
	folder *folder    // nil: not made, or removed
	why    string     // why it could not be removed
}

// attachHelper makes the folder of --scratch before ranks start, and removes it when no process of the job
// is left.
func attachHelper(s *helper.Session) {
	n := &nodeFolder{session: s}
	s.Hooks.GroupPrepares.Add(n.choose)
	s.Hooks.GroupStarts.Add(func(*helper.Group) *rank.Error { return n.make() })
	s.Hooks.GuardEnds.Add(func() { n.remove(n.stays()) })
	s.Hooks.Drained.Add(func() func() {
		stays := n.stays()
		return func() {
			n.remove(stays)
			n.report(stays)
		}
	})
	s.Hooks.Closing.Add(func() { n.remove(n.stays()) }) // in case the job ended without Drained, since mpiexec is gone
}

// choose chooses the path of the folder, and sets the variables of a group's ranks.
func (n *nodeFolder) choose(m *wire.Prepare) *rank.Error {
	if wanted, has := wire.SettingOf[*Folder](m.Settings); has && n.path == "" {
		n.path, n.keep, n.job = filepath.Join(parentDir(wanted.Dir, n.session.System().Environ), newFolderName()), wanted.Keep, m.Job
	}
	if n.path == "" {
		return nil
	}
	m.Apps = slices.Clone(m.Apps)
	for i := range m.Apps {
		env := &m.Apps[i].Env
		env.Set = append(slices.Clip(env.Set), "TMPDIR="+n.path, "MPIEXEC_SCRATCH="+n.path)
	}
	return nil
}

// parentDir returns the directory of a host in which folders are made. environ of a helper inside mpiexec has no TMPDIR,
// but its process has.
func parentDir(configured string, environ []string) string {
	for _, dir := range []string{configured, job.EnvValue(environ, "TMPDIR"), os.Getenv("TMPDIR")} {
		if filepath.IsAbs(dir) {
			return filepath.Clean(dir)
		}
	}
	return "/tmp"
}

// make makes the folder for temporary files, if there is none. A helper inside mpiexec first starts its
// guard, the process that removes the folder if mpiexec is killed.
func (n *nodeFolder) make() *rank.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.path == "" || n.folder != nil {
		return nil
	}
	if !n.keep {
		n.session.EnsureGuard()
	}
	roots := recordRoots()
	removeLeftFolders(roots, "")
	made, err := makeFolder(roots, n.path, n.job, n.keep)
	if err != nil {
		return rank.InternalError(fmt.Sprintf("cannot create the scratch folder in %s: %v", filepath.Dir(n.path), rank.WithoutPath(err)), "choose another folder: --scratch=DIR")
	}
	n.folder, n.why = made, ""
	return nil
}

// stays reports whether the folder is to stay: the user wants it, or processes that use it may stay. Only the goroutine of
// run may call it.
func (n *nodeFolder) stays() bool { return n.keep || n.session.Lifecycle.LeavesProcesses() }

// remove removes the folder. If it is to stay, it removes only the record.
func (n *nodeFolder) remove(stays bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.folder == nil {
		return
	}
	if stays {
		n.folder.forget()
		return
	}
	if err := n.folder.remove(); err != nil {
		n.why = err.Error()
	}
	n.folder = nil
}

// report tells mpiexec that the folder stays, and why.
func (n *nodeFolder) report(stays bool) {
	n.mu.Lock()
	made, why := n.folder != nil, n.why
	n.why = ""
	n.mu.Unlock()
	if made && stays || why != "" {
		n.session.Send(&ScratchLeft{Path: n.path, Why: why})
	}
}
