//go:build linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"remshell/config"
	"remshell/job"
)

/*
This file reads and changes the run-time settings of this node.

	lock .state.lock --> read state.toml --> change --> write .state.toml.new, fsync --> rename --> fsync of the folder

The folder is opened once, and all names are relative to it. No name is followed if it is a link.
*/

// ReadState reads the run-time settings of this node. They are zero if file does not exist. It fails if the file is a
// link, does not belong to root, or has an error.
func ReadState(file string) (job.NodeSettings, error) {
	fd, err := unix.Open(file, stateOpenFlags, 0)
	return parseState(fd, err, file)
}

// stateOpenFlags open a StateFile for reading. A link is an error, and a FIFO does not block.
const stateOpenFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// parseState parses the file of an open descriptor, and closes it. err is the error of opening it.
func parseState(fd int, err error, file string) (s job.NodeSettings, _ error) {
	if err == unix.ELOOP {
		return s, fmt.Errorf("%s: is a symbolic link, must be a file", file)
	}
	if err != nil {
		err = &fs.PathError{Op: "open", Path: file, Err: err}
	}
	text, err := readIfRoots(os.NewFile(uintptr(fd), file), err, file, config.MaxStateBytes)
	if text == nil || err != nil {
		return s, err
	}
	s, err = config.LoadState(file, *text)
	s.Drain.Since = s.Drain.Since.Local()
	return s, err
}

// ErrNotRoot is returned if a user who is not root changes the run-time settings.
var ErrNotRoot = errors.New("only root may change them")

// Names of files beside the StateFile. Only root can open the lock, so no other user can hold it.
const (
	stateLock = ".state.lock"
	newState  = ".state.toml.new"
)

// ChangeState changes the run-time settings of this node. It creates the folder of file if it is missing. change gets
// the present settings, and returns the new ones or an error, after which nothing is changed. Changes of several
// processes come one after the other. ctx limits the wait for them. After a crash the file has the old or the new text.
// The file is removed if there is no setting left.
func ChangeState(ctx context.Context, file string, change func(job.NodeSettings) (job.NodeSettings, error)) (job.NodeSettings, error) {
	var none job.NodeSettings
	if os.Geteuid() != 0 {
		return none, ErrNotRoot
	}
	dir, err := openStateDir(filepath.Dir(file))
	if err != nil {
		return none, err
	}
	defer unix.Close(dir)
	unlock, err := lockState(ctx, dir, filepath.Dir(file))
	if err != nil {
		return none, err
	}
	defer unlock()
	name := filepath.Base(file)
	fd, err := unix.Openat(dir, name, stateOpenFlags, 0)
	s, err := parseState(fd, err, file)
	if err == nil {
		s, err = change(s)
	}
	if err != nil {
		return none, err
	}
	if err := replaceState(dir, name, config.FormatState(s)); err != nil {
		return none, fmt.Errorf("%s: cannot be written: %w", file, err)
	}
	return s, nil
}

// openStateDir opens the folder of the StateFile. It must belong to root, and nobody else may write to it.
func openStateDir(path string) (int, error) {
	made := unix.Mkdir(path, 0o755)
	if made != nil && made != unix.EEXIST {
		return -1, &fs.PathError{Op: "mkdir", Path: path, Err: made}
	}
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	err = checkRoots(dir, path, unix.S_IFDIR)
	if err == nil && made == nil {
		err = unix.Fchmod(dir, 0o755) // the umask may have removed the right of users to read the files
	}
	if err != nil {
		unix.Close(dir)
		return -1, err
	}
	return dir, nil
}

// checkRoots returns an error unless an open file has this type (unix.S_IFREG), belongs to root, and only root may
// write to it.
func checkRoots(fd int, path string, kind uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != kind || st.Uid != 0 || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s: must belong to root, and only root may write to it (uid %d, mode %06o)", path, st.Uid, st.Mode)
	}
	return nil
}

// lockState waits until no other process changes the StateFile. unlock ends that.
func lockState(ctx context.Context, dir int, path string) (unlock func(), err error) {
	path = filepath.Join(path, stateLock)
	fd, err := unix.Openat(dir, stateLock, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	err = checkRoots(fd, path, unix.S_IFREG)
	for err == nil {
		if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { unix.Close(fd) }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			err = &fs.PathError{Op: "lock", Path: path, Err: err}
			break
		}
		select {
		case <-time.After(lockPoll):
			err = nil
		case <-ctx.Done():
			err = fmt.Errorf("%s: another process has held it locked too long", path)
		}
	}
	unix.Close(fd)
	return nil, err
}

// lockPoll is the time between two attempts to lock the StateFile.
const lockPoll = 10 * time.Millisecond

// replaceState replaces the file name in dir by one with this text, or removes it if text is empty. The caller holds
// the lock.
func replaceState(dir int, name, text string) error {
	if text == "" {
		if err := unix.Unlinkat(dir, name, 0); err != nil && err != unix.ENOENT {
			return err
		}
		return unix.Fsync(dir)
	}
	if err := unix.Unlinkat(dir, newState, 0); err != nil && err != unix.ENOENT { // left by a process that was killed
		return err
	}
	fd, err := unix.Openat(dir, newState, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), newState)
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = unix.Renameat(dir, newState, dir, name)
	}
	if err != nil {
		unix.Unlinkat(dir, newState, 0)
		return err
	}
	return unix.Fsync(dir)
}
