package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/job"
	"remshell/nsswitch"
	"remshell/usererr"
	"remshell/userfile"
)

// This file opens the user's files and detects those that another user could have written (rule TRUST-27).
// That matters for files that name programs to run or set environments: the cluster file, the user's
// configuration, and host files that do so. Write access of a group is allowed. Host names are only data,
// whoever writes them.

// maxLinks is the largest number of symbolic links that are followed in one file name. The kernel has the
// same limit.
const maxLinks = 40

// isWorldWritable reports whether every user can replace a file. It returns true if every user can write to the file,
// to a directory above it, or to the target of a symbolic link on the path. It ignores directories with the sticky bit,
// because only owners can replace files in them. links is the number of links followed so far.
func isWorldWritable(name string, links int) bool {
	at, err := filepath.Abs(name)
	if err != nil || links > maxLinks {
		return false
	}
	for {
		info, err := os.Lstat(at)
		switch {
		case err != nil: // a pipe or socket, such as /dev/stdin
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(at)
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			if isWorldWritable(target, links+1) {
				return true
			}
		case info.Mode().Perm()&0o002 != 0 && !(info.IsDir() && info.Mode()&fs.ModeSticky != 0):
			return true
		}
		above := filepath.Dir(at)
		if above == at {
			return false
		}
		at = above
	}
}

// maxTextFile is the largest size in bytes of a user's file that is read as a whole. Even a cluster file with
// 10,000 nodes is much smaller.
const maxTextFile = 128 << 20

// A userFiles opens files that the user names. It checks the owner of a file after opening it. If it checked the
// owner before, the file could be replaced between the check and the opening.
type userFiles struct {
	in        io.Reader        // standard input, named "-"
	environ   []string         // HOME is where copyAdvice puts a copy
	untrusted map[string]error // by name, why a file's content must not be run as code; nil: it may be
}

func newUserFiles(sys System) *userFiles {
	return &userFiles{in: sys.In, environ: sys.Environ, untrusted: make(map[string]error)}
}

// open opens a file. The name "-" means standard input. Reading fails after maxTextFile bytes, so that
// reading an endless file such as /dev/zero ends.
func (u *userFiles) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		if file, ok := u.in.(*os.File); ok {
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
				u.untrusted[name] = u.checkOwner(name, info)
			}
		}
		return io.NopCloser(&limitedReader{in: u.in, left: maxTextFile}), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	u.untrusted[name] = u.checkOwner(name, info)
	return struct {
		io.Reader
		io.Closer
	}{&limitedReader{in: f, left: maxTextFile}, f}, nil
}

// checkTrust returns nil if commands in a file may be run. Otherwise it returns the reason. The caller must have opened
// the file with open, which checks the owner.
func (u *userFiles) checkTrust(name string) error { return u.untrusted[name] }

// checkOwner returns an error if users other than root and the current user could have written the open
// file.
func (u *userFiles) checkOwner(name string, info os.FileInfo) error {
	otherUser := new(userfile.OtherUserError)
	text := ""
	switch _, err := userfile.Resolve(name); {
	case userfile.Owner(info) != os.Geteuid() && userfile.Owner(info) != 0:
		text = fmt.Sprintf("%s belongs to %s", name, nsswitch.UserText(userfile.Owner(info)))
	case errors.As(err, &otherUser):
		text = fmt.Sprintf("%s is a symbolic link that belongs to %s", otherUser.Path, nsswitch.UserText(otherUser.UID))
	case info.Mode()&fs.ModeDevice != 0: // /dev/null
		return nil
	case name != "-" && isWorldWritable(name, 0) || name == "-" && info.Mode().Perm()&0o002 != 0:
		text = name + " is writable by every user"
	default:
		return nil
	}
	return &usererr.Error{Text: text, Remedy: u.copyAdvice(name, info)}
}

// copyAdvice returns a hint that says how to copy a file so that the copy belongs to the current user.
func (u *userFiles) copyAdvice(name string, info os.FileInfo) string {
	dir := job.EnvValue(u.environ, "HOME")
	if !filepath.IsAbs(dir) || isWorldWritable(dir, 0) || name == "-" {
		return "copy the file to a directory that only you can write to, and give the path of the copy"
	}
	file := filepath.Join(dir, filepath.Base(name))
	for n := 2; ; n++ {
		if _, err := os.Lstat(file); err != nil {
			break
		}
		file = fmt.Sprintf("%s-%d", filepath.Join(dir, filepath.Base(name)), n)
	}
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	advice := "cp " + option.ShellQuote(name) + " " + option.ShellQuote(file)
	if info.Mode().Perm()&^os.FileMode(userfile.Umask())&0o002 != 0 {
		advice += " && chmod 600 " + option.ShellQuote(file)
	}
	return fmt.Sprintf("check the contents of the file, copy it (%s), and give the path of the copy", advice)
}

// A limitedReader reads a limited number of bytes. It returns an error if there are more.
type limitedReader struct {
	in   io.Reader
	left int
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.in.Read(p[:min(len(p), l.left+1)])
	if l.left -= n; l.left < 0 {
		return 0, fmt.Errorf("the file is larger than %d MiB", maxTextFile>>20)
	}
	return n, err
}

// optionSources returns the places other than the command line where options can be set: the environment and
// configuration files.
func optionSources(sys System) option.Sources {
	files := newUserFiles(sys)
	read := request.ReadTexts(files.open)
	return option.Sources{Environ: sys.Environ, CheckTrust: files.checkTrust, Read: func(name string) (string, error) {
		text, err := read(name)
		if errors.Is(err, syscall.ENOTDIR) { // HOME=/dev/null
			err = notExist{err}
		}
		return text, err
	}}
}

// A notExist wraps an ENOTDIR error (a part of the path is not a directory), so that errors.Is treats it as
// fs.ErrNotExist.
type notExist struct{ error }

func (notExist) Is(target error) bool { return target == fs.ErrNotExist }
func (e notExist) Unwrap() error      { return e.error }

// openCached returns a function that opens files with open, but reads each file only once. If a file is
// opened again, the function returns the same content.
func openCached(open func(string) (io.ReadCloser, error)) func(string) (io.ReadCloser, error) {
	texts := make(map[string][]byte)
	return func(name string) (io.ReadCloser, error) {
		text, cached := texts[name]
		if !cached {
			f, err := open(name)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			if text, err = io.ReadAll(f); err != nil {
				return nil, err
			}
			texts[name] = text
		}
		return io.NopCloser(bytes.NewReader(text)), nil
	}
}

// checkDistinctFiles returns an error if two of the options would write to the same file.
func checkDistinctFiles(options []option.GivenOption) error {
	of := make(map[string]string)
	for _, g := range options {
		name := g.Value
		if name == "" || name == "-" && g.Name == "json" {
			continue
		}
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			continue // nothing is replaced in a pipe or device
		}
		if target, err := filepath.EvalSymlinks(name); err == nil {
			name = target
		}
		name, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		if other := of[name]; other != "" {
			return &usererr.Error{Text: fmt.Sprintf("%s and %s would both write %s", other, g.Dashed, g.Value), Remedy: "give a different file to each option"}
		}
		of[name] = g.Dashed
	}
	return nil
}
