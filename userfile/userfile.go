/*
Package userfile opens files whose names the user gives, and prevents other users from redirecting these names.
In a directory such as /tmp, every user may create files and links under a name that this program is about
to use:

	/tmp/report -> /home/me/.profile      a link of another user: not followed
	/tmp/report                           a file or pipe of another user: not written

The rules are those of the kernel's fs.protected_symlinks, fs.protected_regular and fs.protected_fifos
(proc_sys_fs(5)). They apply even if they are switched off in the kernel.
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

// An OtherUserError is returned if another user may control which file a name leads to. The name leads to a link or
// file that another user has created in a directory such as /tmp, to which every user may write.
type OtherUserError struct {
	Path string // the link or file
	Link bool
	UID  int // owner of the link or file
}

func (e *OtherUserError) Error() string {
	if e.Link {
		return fmt.Sprintf("%s is a symbolic link that belongs to %s, and is not followed", e.Path, nsswitch.UserText(e.UID))
	}
	return fmt.Sprintf("%s belongs to %s, so mpiexec does not write to it", e.Path, nsswitch.UserText(e.UID))
}

// Hint returns what the user can do about the error.
func (e *OtherUserError) Hint() string { return "give a file in a directory of your own" }

// maxLinks is the maximum number of links that are followed in one name. The kernel has the same limit.
const maxLinks = 40

// Resolve follows the links in a name and returns the name without links. Parts that do not exist stay as they are. If
// another user has created one of the links in a directory such as /tmp, Resolve returns an *OtherUserError.
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

// inProc reports whether path is below /proc, to which /dev/stdout leads. Links below /proc do not contain file
// names.
func inProc(path string) bool { return strings.HasPrefix(path, "/proc/") }

// madeByOtherUser reports whether another user has created a directory entry, in a directory in which every user
// may create entries. The owner of the directory is trusted.
func madeByOtherUser(dir string, info os.FileInfo) bool {
	if dir == "" {
		dir = "."
	}
	in, err := os.Stat(dir)
	const worldWritable = os.ModeSticky | 0o002
	if err != nil || in.Mode()&worldWritable != worldWritable {
		return false
	}
	return Owner(info) != os.Geteuid() && Owner(info) != Owner(in)
}

// Owner returns the user ID of a file's owner.
func Owner(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// ResolveForWriting returns the name of a file to write or replace, with links followed. It returns an *OtherUserError
// if another user has created the file.
func ResolveForWriting(name string) (string, error) {
	path, err := Resolve(name)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return path, nil // it does not exist yet
	}
	return path, checkCreator(path, info)
}

// checkCreator returns an error if another user has created the file, since this program must not write to such a
// file.
func checkCreator(path string, info os.FileInfo) error {
	if !info.IsDir() && madeByOtherUser(filepath.Dir(path), info) {
		return &OtherUserError{Path: path, UID: Owner(info)}
	}
	return nil
}

// Create opens a file for writing as os.Create does, but follows the rules of this package.
func Create(name string) (*os.File, error) {
	return OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file for writing as os.OpenFile does. It does not follow a link of another user, and does not
// write to a file of another user.
func OpenFile(name string, flag int, perm os.FileMode) (*os.File, error) {
	path, err := ResolveForWriting(name) // before opening, which would wait for a pipe and truncate a file
	if err != nil {
		return nil, err
	}
	f, err := openResolved(name, path, flag, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat() // the file may have been created since
	if err == nil {
		err = checkCreator(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Open opens a file for reading. It does not follow a link of another user, and does not wait until a named pipe
// has a writer.
func Open(name string) (*os.File, error) {
	path, err := Resolve(name)
	if err != nil {
		return nil, err
	}
	return openResolved(name, path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// openResolved opens the file at path, in which links have been resolved. Errors contain name instead of path.
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
