package transport

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

// A HelperBinary is the program that helpers run, which is the one that runs here.
type HelperBinary struct {
	Path  string // as other hosts would see it, links resolved; empty: not shared
	Build string // identity: letters, digits, _ and - only
	Size  int64
	Open  func() (io.ReadCloser, error)

	buildLine    int      // of Build in the file, counting from 1; 0: not within its head
	fileIdentity string   // the file at Path as ls -i --full-time has it, in UTC: number, size, time; "none": it does not tell
	nodeDirs     []string // for everybody on a node; nil: /tmp and /dev/shm
	goos, goarch string   // of the nodes that it is for; empty: as here
	nodePath     string   // where it is on the node; empty: it is looked for there, or sent
	delivery     string   // always: it is sent; never: it is not; else: if it is not there
	stepNames    *stepVariables
	dialBack     *invitedHelper // to call us; nil: it is not, or by a step
	attach       *attach        // the sessions on nodes to a job; nil: they are not
	tracer       StepTracer     // of the way there
	loginShell   string         // the user's login shell here; empty: unknown
}

// A StepTracer is told that a step toward a host begins, from any goroutine, and returns who is to be told of
// its end: nil, or what went wrong. Steps of one host come one after the other: those of sshx.StepTracer, session,
// shell (until /bin/sh there has answered), delivery, helper (until its first byte). A nil Watch is nobody.
type StepTracer func(host, step string) (end func(error))

func (w StepTracer) begin(host, step string) (end func(error)) {
	if w == nil {
		return func(error) {}
	}
	return w(host, step)
}

// forHost is what a connection to a host is watched by.
func (w StepTracer) forHost(host string) sshx.StepTracer {
	if w == nil {
		return nil
	}
	return func(step string) func(error) { return w(host, step) }
}

// WithTracer is the program whose way to hosts is watched.
func (s HelperBinary) WithTracer(w StepTracer) HelperBinary {
	s.tracer = w
	return s
}

// WithLoginShell says which login shell the user has here, and so probably on the hosts.
func (s HelperBinary) WithLoginShell(shell string) HelperBinary {
	s.loginShell = shell
	return s
}

// A stepVariables is how a batch system's step tells its tasks where they are: the names of its variables.
type stepVariables struct {
	host           string // this host, as the batch system spells it
	starterAddress string // the address of the machine where the starter runs; it may be missing there
}

// ForStep is the program for the hosts of a step, which is never sent there: a host that does not have it says so.
func (s HelperBinary) ForStep(host, near string) HelperBinary {
	s.delivery, s.stepNames = "never", &stepVariables{host, near}
	return s
}

// An invitedHelper is a helper that calls us, if it can, and the program by which it is started.
type invitedHelper struct {
	*dialBack
	starter *localCommand
}

// WithDelivery says when the program is sent: always, never, or auto, if a node has none.
func (s HelperBinary) WithDelivery(when string) HelperBinary {
	s.delivery = when
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
func (s HelperBinary) Attaching(by *batch.Attach, job string, apart func(host, why string)) HelperBinary {
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

// AtPath is the program for a node where the user has named its path; empty: he has not.
func (s HelperBinary) AtPath(path string) HelperBinary {
	s.nodePath = path
	return s
}

// CheckSameFile says why a file here is not this program; nil: it is.
func (s HelperBinary) CheckSameFile(file string) error {
	other, err := readBinary(file, file)
	switch {
	case err != nil:
		return innermost(err)
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

// RunningBinary is the identity of the running program: the last part of Go's build ID, a
// hash of its contents that go build has left in the file. A program without one
// is hashed, which takes some milliseconds, and is not found on a shared path.
func RunningBinary() (HelperBinary, error) {
	path, err := os.Executable()
	if err != nil {
		return HelperBinary{}, fmt.Errorf("find own program: %w", err)
	}
	running := path
	if runtime.GOOS == "linux" {
		running = "/proc/self/exe" // stays, also when path is replaced
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return readBinary(path, running)
}

// readBinary reads the identity of the program in file, which others know as path.
func readBinary(path, file string) (HelperBinary, error) {
	s := HelperBinary{Path: path, Open: func() (io.ReadCloser, error) { return os.Open(file) }}
	f, err := os.Open(file)
	if err != nil {
		return HelperBinary{}, fmt.Errorf("read own program: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return HelperBinary{}, fmt.Errorf("read own program: %w", err)
	}
	s.Size, s.fileIdentity = info.Size(), fileIdentity(info)
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return HelperBinary{}, fmt.Errorf("read own program: %w", err)
	}
	if s.Build = buildID(head[:n]); s.Build != "" {
		before, _, _ := bytes.Cut(head, []byte(s.Build))
		s.buildLine = 1 + bytes.Count(before, []byte("\n"))
		return s, nil
	}
	sum := sha256.New()
	sum.Write(head[:n])
	if _, err := io.Copy(sum, f); err != nil {
		return HelperBinary{}, fmt.Errorf("read own program: %w", err)
	}
	s.Build = hex.EncodeToString(sum.Sum(nil))[:40]
	return s, nil
}

// fileIdentity is what no two files on one path have in common, on whatever hosts: number, size and a time to the nanosecond. A
// time without a fraction may have been given to all files of a system, whose numbers are given in their order then.
func fileIdentity(info os.FileInfo) string {
	about, ok := info.Sys().(*syscall.Stat_t)
	if when := info.ModTime().UTC(); ok && when.Nanosecond() != 0 {
		return fmt.Sprintf("%d %d %s", about.Ino, info.Size(), when.Format("2006-01-02 15:04:05.000000000 -0700"))
	}
	return "none"
}

// IsBuildID reports whether a word can be the identity of a program: a hash of that length.
func IsBuildID(word string) bool { return isPlainID([]byte(word)) }

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
		if !isPlainID(id) {
			return ""
		}
		return string(id)
	}
}

// isPlainID says that id can be part of a file name, a shell pattern and an argument,
// and is long enough to mean something.
func isPlainID(id []byte) bool {
	for _, c := range id {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(id) >= 16
}
