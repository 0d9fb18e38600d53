//go:build linux

// Package scratch is what Open MPI keeps in files while a job runs: the directory of the job on a
// node, and the files that ranks name as theirs. It is all gone when the ranks are.
package scratch

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

	"remshell/job"
)

// A Dir is the directory of a job on this node where Open MPI keeps its files (PMIX-51).
// Its name is known before it is made, as ranks are told of it when they start.
type Dir struct {
	Path  string
	Stays bool // nobody of us removes it (PMIX-56)

	mu   sync.Mutex // guards the rest
	lock *os.File   // of the directory when it was made; nil: it was not
}

// maxDir is how long its path may be: Open MPI puts sockets below it, whose names have 108
// bytes at most.
const maxDir = 60

// NewDir names a directory in the TMPDIR of an environment, or elsewhere if that is full or cannot be
// written.
func NewDir(environ []string) *Dir {
	var random [6]byte
	rand.Read(random[:]) // never fails
	return &Dir{Path: filepath.Join(usable(placesOf(environ)), prefix()+hex.EncodeToString(random[:]))}
}

// prefix is with what the names of our directories begin.
func prefix() string { return fmt.Sprintf("rs-%d-", os.Geteuid()) }

// randomDigits are behind that.
const randomDigits = 12

// placesOf are the directories in which ours may be, the best one first.
func placesOf(environ []string) []string {
	places := []string{"/tmp", "/var/tmp", "/dev/shm"}
	if temp := job.Value(environ, "TMPDIR"); filepath.IsAbs(temp) && len(temp)+1+len(prefix())+randomDigits <= maxDir {
		places = slices.Insert(places, 0, filepath.Clean(temp))
	}
	return places
}

// usable is the first place that can be written and has room; if none has, it is the one of which ranks
// would make use without us.
func usable(places []string) string {
	for _, place := range places {
		var fs unix.Statfs_t
		if unix.Access(place, unix.W_OK|unix.X_OK) == nil && unix.Statfs(place, &fs) == nil && fs.Bavail > 0 && (fs.Files == 0 || fs.Ffree > 0) {
			return place
		}
	}
	return "/tmp"
}

// make makes the directory, unless it is there: for us alone, and where nobody has put anything
// else. What killed helpers have left goes first.
func (d *Dir) make() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock != nil {
		return nil
	}
	sweep([]string{filepath.Dir(d.Path)})
	if err := os.Mkdir(d.Path, 0o700); err != nil {
		return reason(err)
	}
	lock, err := takeLock(d.Path)
	if err == nil && d.Stays {
		err = os.WriteFile(filepath.Join(d.Path, staysName), nil, 0o600)
	}
	if err != nil {
		os.RemoveAll(d.Path)
		return reason(err)
	}
	d.lock = lock
	return nil
}

// Add makes the directories of a namespace and of its ranks below.
func (d *Dir) Add(namespace string, ranks []int) error {
	if err := d.make(); err != nil {
		return err
	}
	for _, rank := range ranks {
		if err := os.MkdirAll(filepath.Join(d.Path, namespace, strconv.Itoa(rank)), 0o700); err != nil {
			return reason(err)
		}
	}
	return nil
}

// RemoveSpace removes the directory of a namespace of which no rank is left.
func (d *Dir) RemoveSpace(namespace string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil || d.Stays {
		return nil
	}
	return os.RemoveAll(filepath.Join(d.Path, namespace))
}

// Remove removes the directory and all that is in it, if it was made and is not to stay; then, left is its path.
func (d *Dir) Remove() (left string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return "", nil
	}
	if left = d.Path; !d.Stays {
		left, err = "", os.RemoveAll(d.Path)
	}
	d.lock.Close()
	d.lock = nil
	return left, err
}

// reason is why a call failed, without its file.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
