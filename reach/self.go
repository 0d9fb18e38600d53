package reach

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"remshell/batch"
	"remshell/sshx"
)

// A Self is the program that helpers run, which is the one that runs here.
type Self struct {
	Path  string // as other hosts would see it, links resolved; empty: not shared
	Build string // identity: letters, digits, _ and - only
	Size  int64
	Open  func() (io.ReadCloser, error)

	line         int      // of Build in the file, counting from 1; 0: not within its head
	same         string   // the file at Path as ls -i --full-time has it, in UTC: number, size, time; "none": it does not tell
	folders      []string // for everybody on a node; nil: /tmp and /dev/shm
	goos, goarch string   // of the nodes that it is for; empty: as here
	told         string   // where it is on the node; empty: it is looked for there, or sent
	ship         string   // always: it is sent; never: it is not; else: if it is not there
	step         *stepNames
	invited      *invited // to call us; nil: it is not, or by a step
	attach       *attach  // the sessions on nodes to a job; nil: they are not
	watch        Watch    // of the way there
	login        string   // the user's login shell here; empty: unknown
}

// A Watch is told that a step toward a host begins, from any goroutine, and returns who is to be told of
// its end: nil, or what went wrong. Steps of one host come one after the other: those of sshx.Watch, session,
// shell (until /bin/sh there has answered), delivery, helper (until its first byte). A nil Watch is nobody.
type Watch func(host, step string) (end func(error))

func (w Watch) begin(host, step string) (end func(error)) {
	if w == nil {
		return func(error) {}
	}
	return w(host, step)
}

// of is what a connection to a host is watched by.
func (w Watch) of(host string) sshx.Watch {
	if w == nil {
		return nil
	}
	return func(step string) func(error) { return w(host, step) }
}

// Watched is the program whose way to hosts is watched.
func (s Self) Watched(w Watch) Self {
	s.watch = w
	return s
}

// LoginShell says which login shell the user has here, and so probably on the hosts.
func (s Self) LoginShell(shell string) Self {
	s.login = shell
	return s
}

// A stepNames is how a batch system's step tells its tasks where they are: the names of its variables.
type stepNames struct {
	host string // this host, as the batch system spells it
	near string // the address of the machine where the starter runs; it may be missing there
}

// InStep is the program for the hosts of a step, which is never sent there: a host that does not have it says so.
func (s Self) InStep(host, near string) Self {
	s.ship, s.step = "never", &stepNames{host, near}
	return s
}

// An invited is a helper that calls us, if it can, and the program by which it is started.
type invited struct {
	*callBack
	by *localCommand
}

// Ship says when the program is sent: always, never, or auto, if a node has none.
func (s Self) Ship(when string) Self {
	s.ship = when
	return s
}

// An attach is how the shell on each node makes its session one of a batch system's job, before it starts the helper.
type attach struct {
	*batch.Attach
	job   string
	apart func(host, why string) // is told of nodes where that was not done
}

// Attaching has the shell on each node make its session one of a batch system's job before it starts the helper. apart is
// told of a node, from any goroutine, where it is not one, and why: missing, failed, or whatever the node says.
func (s Self) Attaching(by *batch.Attach, job string, apart func(host, why string)) Self {
	s.attach = &attach{by, job, apart}
	return s
}

// fill lists what stands in the script for the words of the call, and for the variable.
func (a *attach) fill() []string {
	if a == nil {
		return []string{"@JOIN@", ":", "@ATTACH@", ":", "@JOBFLAG@", "", "@JOB@", "''", "@PROCESSFLAG@", "", "@VARIABLE@", "_rs_x"}
	}
	return []string{"@JOIN@", "_rs_join", "@ATTACH@", quote(a.Program), "@JOBFLAG@", quote(a.JobFlag), "@JOB@", quote(a.job),
		"@PROCESSFLAG@", quote(a.ProcessFlag), "@VARIABLE@", a.Variable}
}

// At is the program for a node where the user has named its path; empty: he has not.
func (s Self) At(path string) Self {
	s.told = path
	return s
}

// Same says why a file here is not this program; nil: it is.
func (s Self) Same(file string) error {
	other, err := selfOf(file, file)
	switch {
	case err != nil:
		return cause(err)
	case other.Build != s.Build:
		return errors.New(otherBuild)
	}
	return nil
}

// otherBuild is what the script says, too.
const otherBuild = "it is not the same build as this mpiexec"

// headSize is how much of a program is looked at for its build ID. Go's linker puts
// the note right behind the ELF header, within 4096 bytes (cmd/link/internal/ld,
// ELFRESERVE).
const headSize = 4096

// This is the identity of the running program: the last part of Go's build ID, a
// hash of its contents that go build has left in the file. A program without one
// is hashed, which takes some milliseconds, and is not found on a shared path.
func This() (Self, error) {
	path, err := os.Executable()
	if err != nil {
		return Self{}, fmt.Errorf("find own program: %w", err)
	}
	running := path
	if runtime.GOOS == "linux" {
		running = "/proc/self/exe" // stays, also when path is replaced
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return selfOf(path, running)
}

// selfOf reads the identity of the program in file, which others know as path.
func selfOf(path, file string) (Self, error) {
	s := Self{Path: path, Open: func() (io.ReadCloser, error) { return os.Open(file) }}
	f, err := os.Open(file)
	if err != nil {
		return Self{}, fmt.Errorf("read own program: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Self{}, fmt.Errorf("read own program: %w", err)
	}
	s.Size, s.same = info.Size(), sameFile(info)
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Self{}, fmt.Errorf("read own program: %w", err)
	}
	if s.Build = buildID(head[:n]); s.Build != "" {
		before, _, _ := bytes.Cut(head, []byte(s.Build))
		s.line = 1 + bytes.Count(before, []byte("\n"))
		return s, nil
	}
	sum := sha256.New()
	sum.Write(head[:n])
	if _, err := io.Copy(sum, f); err != nil {
		return Self{}, fmt.Errorf("read own program: %w", err)
	}
	s.Build = hex.EncodeToString(sum.Sum(nil))[:40]
	return s, nil
}

// sameFile is what no two files on one path have in common, on whatever hosts: number, size and a time to the nanosecond. A
// time without a fraction may have been given to all files of a system, whose numbers are given in their order then.
func sameFile(info os.FileInfo) string {
	about, ok := info.Sys().(*syscall.Stat_t)
	if when := info.ModTime().UTC(); ok && when.Nanosecond() != 0 {
		return fmt.Sprintf("%d %d %s", about.Ino, info.Size(), when.Format("2006-01-02 15:04:05.000000000 -0700"))
	}
	return "none"
}

// IsBuild reports whether a word can be the identity of a program: a hash of that length.
func IsBuild(word string) bool { return plain([]byte(word)) }

// buildID finds the ELF note of Go's linker (name Go, type 4) in the first bytes of
// a program and returns the last of the four parts of its text, or "".
func buildID(head []byte) string {
	const name = "Go\x00\x00"
	for at := 0; ; at++ {
		i := bytes.Index(head[at:], []byte(name))
		if i < 0 {
			return ""
		}
		at += i
		if at < 12 || binary.NativeEndian.Uint32(head[at-12:]) != 4 || binary.NativeEndian.Uint32(head[at-4:]) != 4 {
			continue
		}
		text := head[at+len(name):]
		size := binary.NativeEndian.Uint32(head[at-8:])
		if int64(size) > int64(len(text)) {
			return ""
		}
		id := text[:size]
		id = id[bytes.LastIndexByte(id, '/')+1:]
		if !plain(id) {
			return ""
		}
		return string(id)
	}
}

// plain says that id can be part of a file name, a shell pattern and an argument,
// and is long enough to mean something.
func plain(id []byte) bool {
	for _, c := range id {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(id) >= 16
}
