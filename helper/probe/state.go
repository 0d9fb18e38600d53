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

// ReadState reads the settings of this node that root can change at run time. They are zero if the file does
// not exist. It returns an error if the file is a link, does not belong to root, or is faulty.
func ReadState(file string) (job.NodeSettings, error) {
	fd, err := unix.Open(file, stateOpenFlags, 0)
	return parseState(fd, err, file)
}

// stateOpenFlags are the flags for opening a StateFile for reading. With these flags, opening a link fails, and opening
// a FIFO does not block.
const stateOpenFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// parseState reads and parses the file with descriptor fd, closes it, and returns the settings in it. err is the error
// of opening the file.
func parseState(fd int, err error, file string) (s job.NodeSettings, _ error) {
	if err == unix.ELOOP {
		return s, fmt.Errorf("%s: must be a regular file, not a symbolic link", file)
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

// ErrNotRoot is returned if a user other than root tries to change the settings of a node.
var ErrNotRoot = errors.New("only root may change the settings of a host")

// These are the names of files beside the StateFile. Only root can open the lock file, so no other user can
// hold the lock.
const (
	stateLock = ".state.lock"
	newState  = ".state.toml.new"
)

// ChangeState changes the run-time settings of this node. It creates the folder of file if it is missing. It calls
// change with the current settings, and returns the settings that change has returned. If change returns an error,
// nothing is changed. If several processes change settings, they do so one after the other; ctx limits the wait for the
// others. After a crash, the file contains either the old or the new settings. If no setting is left, the file is
// removed.
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
		return none, fmt.Errorf("%s: cannot write the file: %w", file, err)
	}
	return s, nil
}

// openStateDir opens the folder that contains the StateFile, and returns its descriptor. It creates the folder if it is
// missing. The folder must belong to root, and no other user may have permission to write to it.
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

// checkRoots returns an error unless an open file has the given type (such as unix.S_IFREG), belongs to root,
// and can be written only by root.
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

// lockState waits until no other process is changing the StateFile. From then on no other process can change
// it, until unlock is called.
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
			err = fmt.Errorf("%s: another process has locked the file for too long", path)
		}
	}
	unix.Close(fd)
	return nil, err
}

// lockPoll is the time between two attempts to lock the StateFile.
const lockPoll = 10 * time.Millisecond

// replaceState replaces the file called name in the directory dir with one that contains text, or removes it if text is
// empty. The caller must hold the lock.
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
