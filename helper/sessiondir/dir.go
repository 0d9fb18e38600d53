//go:build linux

// Package scratch is what Open MPI keeps in files while a job runs: the directory of the job on a
// node, and the files that ranks name as theirs. It is all gone when the ranks are.
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

// A Dir is the directory of a job on this node where Open MPI keeps its files (PMIX-51).
// Its name is known before it is made, as ranks are told of it when they start.
type Dir struct {
	Path string
	Keep bool // nobody of us removes it (PMIX-56)

	mu   sync.Mutex // guards the rest
	root *os.Root   // the directory when it was made; nil: it was not
	lock *os.File   // in it
}

// maxDirPath is how long its path may be: Open MPI puts sockets below it, whose names have 108
// bytes at most.
const maxDirPath = 60

// NewDir names a directory in the TMPDIR of an environment, or elsewhere if that is full or cannot be
// written.
func NewDir(environ []string) *Dir {
	var random [6]byte
	rand.Read(random[:]) // never fails
	return &Dir{Path: filepath.Join(firstUsable(candidateDirs(environ)), dirPrefix()+hex.EncodeToString(random[:]))}
}

// dirPrefix is with what the names of our directories begin.
func dirPrefix() string { return fmt.Sprintf("rs-%d-", os.Geteuid()) }

// randomDigits are behind that.
const randomDigits = 12

// candidateDirs are the directories in which ours may be, the best one first.
func candidateDirs(environ []string) []string {
	places := []string{"/tmp", "/var/tmp", "/dev/shm"}
	if temp := job.EnvValue(environ, "TMPDIR"); filepath.IsAbs(temp) && len(temp)+1+len(dirPrefix())+randomDigits <= maxDirPath {
		places = slices.Insert(places, 0, filepath.Clean(temp))
	}
	return places
}

// firstUsable is the first place that can be written and has room; if none has, it is the one of which ranks
// would make use without us.
func firstUsable(places []string) string {
	for _, place := range places {
		var fs unix.Statfs_t
		if unix.Access(place, unix.W_OK|unix.X_OK) == nil && unix.Statfs(place, &fs) == nil && fs.Bavail > 0 && (fs.Files == 0 || fs.Ffree > 0) {
			return place
		}
	}
	return "/tmp"
}

// create makes the directory, unless it is there: for us alone, and where nobody has put anything
// else. What killed helpers have left goes first.
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

// AddNamespace makes the directories of a namespace and of its ranks below.
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

// RemoveNamespace removes the directory of a namespace of which no rank is left.
func (d *Dir) RemoveNamespace(namespace string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil || d.Keep {
		return nil
	}
	return d.root.RemoveAll(namespace)
}

// Remove removes the directory and all that is in it, if it was made and is not to stay; then, left is its path.
func (d *Dir) Remove() (left string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		return "", nil
	}
	if left = d.Path; !d.Keep {
		left, err = "", owndir.Remove(d.root, d.Path)
	}
	d.lock.Close()
	d.root.Close()
	d.root, d.lock = nil, nil
	return left, err
}

// withoutPath is why a call failed, without its file.
func withoutPath(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
