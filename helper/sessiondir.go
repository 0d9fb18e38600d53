//go:build linux

package helper

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

// A sessionDir is the directory of a job on this node where Open MPI keeps its files (PMIX-51).
// Its name is known before it is made, as ranks are told of it when they start.
type sessionDir struct {
	path string

	mu   sync.Mutex // guards made
	made bool
}

// maxSessionDir is how long its path may be: Open MPI puts sockets below it, whose names have 108
// bytes at most.
const maxSessionDir = 60

// newSessionDir names a directory in the TMPDIR of an environment, if it can be used, else in
// /tmp.
func newSessionDir(environ []string) *sessionDir {
	var random [6]byte
	rand.Read(random[:]) // never fails
	name := fmt.Sprintf("rs-%d-%s", os.Geteuid(), hex.EncodeToString(random[:]))
	if temp := job.Value(environ, "TMPDIR"); filepath.IsAbs(temp) && len(temp)+1+len(name) <= maxSessionDir && unix.Access(temp, unix.W_OK|unix.X_OK) == nil {
		return &sessionDir{path: filepath.Join(temp, name)}
	}
	return &sessionDir{path: filepath.Join("/tmp", name)}
}

// make makes the directory, unless it is there: for us alone, and where nobody has put anything
// else.
func (d *sessionDir) make() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made {
		return nil
	}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		return reason(err)
	}
	d.made = true
	return nil
}

// add makes the directories of a namespace and of its ranks below.
func (d *sessionDir) add(namespace string, ranks []*process) error {
	if err := d.make(); err != nil {
		return err
	}
	for _, r := range ranks {
		if err := os.MkdirAll(filepath.Join(d.path, namespace, strconv.Itoa(r.plan.Rank)), 0o700); err != nil {
			return reason(err)
		}
	}
	return nil
}

// remove removes the directory and all that is in it, if it was made.
func (d *sessionDir) remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.made {
		return nil
	}
	d.made = false
	return os.RemoveAll(d.path)
}

// reason is why a call failed, without its file.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
