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
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// A Dir is the directory of a job on this node where Open MPI keeps its files (PMIX-51).
// Its name is known before it is made, as ranks are told of it when they start.
type Dir struct {
	Path string

	mu   sync.Mutex // guards made
	made bool
}

// maxDir is how long its path may be: Open MPI puts sockets below it, whose names have 108
// bytes at most.
const maxDir = 60

// NewDir names a directory in the TMPDIR of an environment, if it can be used, else in
// /tmp.
func NewDir(environ []string) *Dir {
	var random [6]byte
	rand.Read(random[:]) // never fails
	name := fmt.Sprintf("rs-%d-%s", os.Geteuid(), hex.EncodeToString(random[:]))
	if temp := job.Value(environ, "TMPDIR"); filepath.IsAbs(temp) && len(temp)+1+len(name) <= maxDir && unix.Access(temp, unix.W_OK|unix.X_OK) == nil {
		return &Dir{Path: filepath.Join(temp, name)}
	}
	return &Dir{Path: filepath.Join("/tmp", name)}
}

// make makes the directory, unless it is there: for us alone, and where nobody has put anything
// else.
func (d *Dir) make() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made {
		return nil
	}
	if err := os.Mkdir(d.Path, 0o700); err != nil {
		return reason(err)
	}
	d.made = true
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

// Remove removes the directory and all that is in it, if it was made.
func (d *Dir) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.made {
		return nil
	}
	d.made = false
	return os.RemoveAll(d.Path)
}

// reason is why a call failed, without its file.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
