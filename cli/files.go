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

// This file opens the user's files, and finds code that somebody else could have written (TRUST-27): a cluster file, the user's
// configuration, and a host file that says which program runs on a host or what is in its environment. What a group may write is no fault, and
// names of hosts are data wherever they are.

// maxLinks is how many links in a row are followed, as by the kernel.
const maxLinks = 40

// isWorldWritable reports whether everybody can write to a file, or to a folder above it, or what
// a link on the way leads to, and so put another file in its place. In a folder with the
// sticky bit nobody can.
func isWorldWritable(name string, links int) bool {
	at, err := filepath.Abs(name)
	if err != nil || links > maxLinks {
		return false
	}
	for {
		info, err := os.Lstat(at)
		switch {
		case err != nil: // a stream, as /dev/stdin may be
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

// maxTextFile is how long a file of the user's may be that is read as a whole, in bytes: far more
// than a cluster of 10,000 nodes takes.
const maxTextFile = 128 << 20

// userFiles opens files that the user names, and judges each as it is opened: a name may lead elsewhere later.
type userFiles struct {
	in        io.Reader        // standard input, which has the name "-"
	environ   []string         // says where a copy of a file would be the user's own
	untrusted map[string]error // by name, why what a file says may not be obeyed as code; nil: it may
}

func newUserFiles(sys System) *userFiles {
	return &userFiles{in: sys.In, environ: sys.Environ, untrusted: make(map[string]error)}
}

// open opens a file. What has no end, as /dev/zero, is not read for ever.
func (u *userFiles) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		if file, is := u.in.(*os.File); is {
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

// checkTrust says why what a file says that was opened may not be obeyed as code; nil: it may.
func (u *userFiles) checkTrust(name string) error { return u.untrusted[name] }

// checkOwner says who else decides what is in a file that was opened; nil: nobody does.
func (u *userFiles) checkOwner(name string, info os.FileInfo) error {
	foreign := new(userfile.OtherUserError)
	text := ""
	switch _, err := userfile.Resolve(name); {
	case userfile.Owner(info) != os.Geteuid() && userfile.Owner(info) != 0:
		text = fmt.Sprintf("%s belongs to %s", name, nsswitch.UserText(userfile.Owner(info)))
	case errors.As(err, &foreign):
		text = fmt.Sprintf("%s is a link of %s", foreign.Path, nsswitch.UserText(foreign.UID))
	case info.Mode()&fs.ModeDevice != 0: // /dev/null
		return nil
	case name != "-" && isWorldWritable(name, 0) || name == "-" && info.Mode().Perm()&0o002 != 0:
		text = name + " can be written by everybody"
	default:
		return nil
	}
	return &usererr.Error{Text: text, Remedy: u.copyAdvice(name, info)}
}

// copyAdvice is how the user gets a copy of a file that is his own.
func (u *userFiles) copyAdvice(name string, info os.FileInfo) string {
	dir := job.EnvValue(u.environ, "HOME")
	if !filepath.IsAbs(dir) || isWorldWritable(dir, 0) || name == "-" {
		return "copy it to a directory that only you can write to, and name the copy"
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
	words := "cp " + option.ShellQuote(name) + " " + option.ShellQuote(file)
	if info.Mode().Perm()&^os.FileMode(readUmask())&0o002 != 0 {
		words += " && chmod 600 " + option.ShellQuote(file)
	}
	return fmt.Sprintf("read it, and if it is right: %s, and name the copy", words)
}

// A limitedReader reads so many bytes, and fails where there are more.
type limitedReader struct {
	in   io.Reader
	left int
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.in.Read(p[:min(len(p), l.left+1)])
	if l.left -= n; l.left < 0 {
		return 0, fmt.Errorf("more than %d MiB", maxTextFile>>20)
	}
	return n, err
}

// optionSources are where options may stand beside the command line.
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

// A notExist file cannot be there, since what should be its folder is none.
type notExist struct{ error }

func (notExist) Is(target error) bool { return target == fs.ErrNotExist }
func (e notExist) Unwrap() error      { return e.error }

// openCached opens each file once, and what it held then again later.
func openCached(open func(string) (io.ReadCloser, error)) func(string) (io.ReadCloser, error) {
	texts := make(map[string][]byte)
	return func(name string) (io.ReadCloser, error) {
		text, known := texts[name]
		if !known {
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

// writeFile makes a file.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := userfile.Create(name)
	if err == nil {
		err = write(f)
	}
	if err == nil {
		err = f.Close()
	}
	return err
}
