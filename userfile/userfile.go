/*
Package userfile opens files by names that the user gives, so that no other user decides which file that is. In a
directory such as /tmp everybody may make files and links, and waits there under a name that we are going to use:

	/tmp/report -> /home/me/.profile      a link of another user: not followed
	/tmp/report                           a file or pipe of another user: not written

The rules are those of the kernel's fs.protected_symlinks, fs.protected_regular and fs.protected_fifos (proc_sys_fs(5)). They
hold here also where the kernel's are switched off.
*/
package userfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"remshell/nsswitch"
)

// An OtherUserError is returned when a name leads to what another user has made in a directory that everybody may
// write to.
type OtherUserError struct {
	Path string // the link or file
	Link bool
	UID  int // whose it is
}

func (e *OtherUserError) Error() string {
	if e.Link {
		return fmt.Sprintf("%s is a link of %s, and is not followed", e.Path, nsswitch.UserText(e.UID))
	}
	return fmt.Sprintf("%s belongs to %s, and is not written", e.Path, nsswitch.UserText(e.UID))
}

// Hint is what to do about it.
func (e *OtherUserError) Hint() string { return "name a file in a directory of your own" }

// maxLinks is how many links are followed, as by the kernel.
const maxLinks = 40

// Resolve follows the links of a name, as far as there are files, and returns the name without links.
func Resolve(name string) (string, error) {
	at := ""
	if filepath.IsAbs(name) {
		at = "/"
	}
	parts := strings.Split(name, "/")
	for links := 0; len(parts) > 0; {
		next := filepath.Join(at, parts[0])
		parts = parts[1:]
		info, err := os.Lstat(next)
		switch {
		case next == "":
		case err != nil:
			return strings.Join(append([]string{next}, parts...), "/"), nil
		case info.Mode()&os.ModeSymlink == 0 || inProc(next):
			at = next
		case links == maxLinks:
			return "", &os.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
		case madeByOtherUser(at, info):
			return "", &OtherUserError{Path: next, Link: true, UID: Owner(info)}
		default:
			target, err := os.Readlink(next)
			if err != nil {
				return "", err
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			links, parts = links+1, append(strings.Split(target, "/"), parts...)
		}
	}
	return at, nil
}

// inProc reports whether a path is one of /proc, whose links are no names of files: /dev/stdout leads there.
func inProc(path string) bool { return strings.HasPrefix(path, "/proc/") }

// madeByOtherUser reports whether something in a directory was put there by another user, as everybody can. The owner of the
// directory is trusted.
func madeByOtherUser(dir string, info os.FileInfo) bool {
	if dir == "" {
		dir = "."
	}
	in, err := os.Stat(dir)
	const everybody = os.ModeSticky | 0o002
	if err != nil || in.Mode()&everybody != everybody {
		return false
	}
	return Owner(info) != os.Geteuid() && Owner(info) != Owner(in)
}

// Owner is the user to whom a file belongs.
func Owner(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// ResolveForWriting is the name without links of a file that is to be written, or replaced, under a name.
func ResolveForWriting(name string) (string, error) {
	path, err := Resolve(name)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return path, nil // it is to be made
	}
	return path, checkWritable(path, info)
}

// checkWritable says why a file is not written; nil: it is.
func checkWritable(path string, info os.FileInfo) error {
	if !info.IsDir() && madeByOtherUser(filepath.Dir(path), info) {
		return &OtherUserError{Path: path, UID: Owner(info)}
	}
	return nil
}

// Create opens a file to write, as os.Create does.
func Create(name string) (*os.File, error) {
	return OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file to write as os.OpenFile does, but follows no link of another user, and writes to no file of one.
func OpenFile(name string, flag int, perm os.FileMode) (*os.File, error) {
	path, err := ResolveForWriting(name) // before a pipe is waited for, and a file is emptied
	if err != nil {
		return nil, err
	}
	f, err := openResolved(name, path, flag, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat() // it may have been made since
	if err == nil {
		err = checkWritable(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Open opens a file to read, and follows no link of another user. It waits for no pipe.
func Open(name string) (*os.File, error) {
	path, err := Resolve(name)
	if err != nil {
		return nil, err
	}
	return openResolved(name, path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// openResolved opens what a name leads to.
func openResolved(name, path string, flag int, perm os.FileMode) (*os.File, error) {
	if !inProc(path) {
		flag |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flag, perm)
	var failed *os.PathError
	if errors.As(err, &failed) {
		failed.Path = name
	}
	return f, err
}
