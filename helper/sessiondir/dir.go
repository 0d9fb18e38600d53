//go:build linux

// Package sessiondir handles the files that Open MPI keeps while a job runs: the session directory of the job on a
// node, and files elsewhere that ranks register for removal. They are removed when the ranks have ended.
package sessiondir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"remshell/helper/owndir"
	"remshell/job"
)

// A Dir is the session directory of a job on this node, where Open MPI keeps its files (rule PMIX-51). Its
// name is chosen before the directory is created, because ranks are given the name when they start.
type Dir struct {
	Path string
	Keep bool // do not remove the directory (PMIX-56)

	mu   sync.Mutex // guards the fields below
	root *os.Root   // the directory; nil: not made
	lock *os.File   // its lock file
}

// maxDirPath is the maximum length of a session directory's path, in bytes. It is limited because Open MPI creates
// sockets below the directory, and the path of a socket has at most 108 bytes.
const maxDirPath = 60

// NewDir returns a Dir with a newly chosen path. The path is below the TMPDIR of environ, or elsewhere if TMPDIR is
// full or not writable. NewDir does not create the directory.
func NewDir(environ []string) *Dir {
	var random [6]byte
	rand.Read(random[:]) // never fails
	return &Dir{Path: filepath.Join(firstUsable(candidateDirs(environ)), dirPrefix()+hex.EncodeToString(random[:]))}
}

// dirPrefix returns the prefix of the names of this user's session directories.
func dirPrefix() string { return fmt.Sprintf("rs-%d-", os.Geteuid()) }

// randomDigits is how many random digits follow the prefix in the name of a session directory.
const randomDigits = 12

// candidateDirs returns the directories in which session directories may be, the preferred one first.
func candidateDirs(environ []string) []string {
	places := []string{"/tmp", "/var/tmp", "/dev/shm"}
	if temp := job.EnvValue(environ, "TMPDIR"); filepath.IsAbs(temp) && len(temp)+1+len(dirPrefix())+randomDigits <= maxDirPath {
		places = slices.Insert(places, 0, filepath.Clean(temp))
	}
	return places
}

// firstUsable returns the first directory that is writable and has free space. If there is none, it returns
// the directory that Open MPI would use by itself.
func firstUsable(places []string) string {
	for _, place := range places {
		var fs unix.Statfs_t
		if unix.Access(place, unix.W_OK|unix.X_OK) == nil && unix.Statfs(place, &fs) == nil && fs.Bavail > 0 && (fs.Files == 0 || fs.Ffree > 0) {
			return place
		}
	}
	return "/tmp"
}

// create creates the directory, unless an earlier call has done so. Only this user gets access to the directory. It
// first removes directories that killed helpers have left behind. It returns an error if the path already exists.
func (d *Dir) create() error {
	if d.root != nil {
		return nil
	}
	removeLeftDirs([]string{filepath.Dir(d.Path)})
	if err := os.Mkdir(d.Path, 0o700); err != nil {
		return withoutPath(err)
	}
	root, err := owndir.Open(d.Path)
	if err != nil {
		return withoutPath(err)
	}
	lock, err := takeLock(root)
	if err == nil && d.Keep {
		err = root.WriteFile(keepName, nil, 0o600)
	}
	if err != nil {
		owndir.Remove(root, d.Path)
		lock.Close()
		root.Close()
		return withoutPath(err)
	}
	d.root, d.lock = root, lock
	return nil
}

// AddNamespace creates the directories of a PMIx namespace and of its ranks.
func (d *Dir) AddNamespace(namespace string, ranks []int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.create(); err != nil {
		return err
	}
	for _, rank := range ranks {
		if err := d.root.MkdirAll(filepath.Join(namespace, strconv.Itoa(rank)), 0o700); err != nil {
			return withoutPath(err)
		}
	}
	return nil
}

// RemoveNamespace removes the directory of a PMIx namespace whose ranks have ended.
func (d *Dir) RemoveNamespace(namespace string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil || d.Keep {
		return nil
	}
	return d.root.RemoveAll(namespace)
}

// Remove removes the session directory with all its contents. If Keep is set, the directory stays, and kept is its
// path.
func (d *Dir) Remove() (kept string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		return "", nil
	}
	if kept = d.Path; !d.Keep {
		kept, err = "", owndir.Remove(d.root, d.Path)
	}
	d.lock.Close()
	d.root.Close()
	d.root, d.lock = nil, nil
	return kept, err
}

// withoutPath returns the cause of an error without the file name.
func withoutPath(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
