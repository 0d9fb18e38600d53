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

// A nodeFolder is the folder for temporary files of a session. The zero value is for a session without
// --scratch.
type nodeFolder struct {
	session *helper.Session
	path    string // chosen when the first group is prepared; empty: no --scratch
	keep    bool
	job     job.ID

	mu     sync.Mutex // guards the fields below
	folder *folder    // nil: not made, or removed
	why    string     // why it could not be removed
}

// attachHelper makes the session create the folder of --scratch before ranks start, and remove it when no process of
// the job is left.
func attachHelper(s *helper.Session) {
	n := &nodeFolder{session: s}
	s.Hooks.GroupPrepares.Add(n.choose)
	s.Hooks.GroupStarts.Add(func(*helper.Group) *rank.Error { return n.make() })
	s.Hooks.GuardEnds.Add(func() { n.remove(n.stays()) })
	s.Hooks.Drained.Add(func() func() {
		stays := n.stays()
		return func() {
			n.remove(stays)
			n.reportKept(stays)
		}
	})
	s.Hooks.Closing.Add(func() { n.remove(n.stays()) }) // in case the job ended without Drained, since mpiexec is gone
}

// choose chooses the path of the folder, and sets the environment variables of a group's ranks.
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

// parentDir returns the directory in which this host's folders are made: configured if it is an absolute path, or
// else TMPDIR or /tmp. It takes TMPDIR from environ or, if that has none, from the environment of the process. For a
// helper inside mpiexec, environ never has one.
func parentDir(configured string, environ []string) string {
	for _, dir := range []string{configured, job.EnvValue(environ, "TMPDIR"), os.Getenv("TMPDIR")} {
		if filepath.IsAbs(dir) {
			return filepath.Clean(dir)
		}
	}
	return "/tmp"
}

// make makes the folder for temporary files, unless it exists. A helper that runs inside mpiexec first starts its
// guard, a process that removes the folder if mpiexec is killed. make returns an error if the folder cannot be made.
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

// stays reports whether the folder must be kept, because the user wants to keep it or because processes that use it may
// be left. Only the session's goroutine may call it.
func (n *nodeFolder) stays() bool { return n.keep || n.session.Lifecycle.LeavesProcesses() }

// remove removes the folder and its record. If stays is true, it keeps the folder and removes only the record, so
// that no later helper removes the folder.
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

// reportKept reports to mpiexec that the folder is kept, and why.
func (n *nodeFolder) reportKept(stays bool) {
	n.mu.Lock()
	made, why := n.folder != nil, n.why
	n.why = ""
	n.mu.Unlock()
	if made && stays || why != "" {
		n.session.Send(&ScratchLeft{Path: n.path, Why: why})
	}
}
